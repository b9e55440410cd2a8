"""Who may ask: keys, the Host header, other web sites, addresses, certificates."""
import ssl
import subprocess

import httpx2 as httpx
import pytest

from conftest import ROOT
from serving import Server, serving


def test_keys(flashnext, tmp_path):
    (tmp_path / "keys").write_text("# of the lab\nsecond-key\n\nthird-key\n")
    with serving(flashnext, "--api-key", "first-key", "--api-key-file", tmp_path / "keys") as server:
        for path in ("/health", "/v1/health", "/"):
            assert server.get(path).status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer first-ke"}, {"Authorization": "first-key"}, {"X-Api-Key": ""},
                        {"Authorization": "Bearer # of the lab"}):
            for path in ("/v1/models", "/metrics", "/props"):
                reply = server.get(path, **headers)
                assert reply.status_code == 401 and reply.json()["error"]["code"] == "invalid_api_key", headers
                assert reply.headers["WWW-Authenticate"] == "Bearer"
        for headers in ({"Authorization": "Bearer first-key"}, {"authorization": "bearer second-key"}, {"X-Api-Key": "third-key"}):
            assert server.get("/v1/models", **headers).status_code == 200
        assert server.post("/v1/chat/completions", {"messages": []}).status_code == 401
        assert "first-key" not in server.read_log()
    with serving(flashnext, FLASHNEXT_API_KEY="from-outside") as server:
        assert server.get("/v1/models").status_code == 401
        assert server.get("/v1/models", Authorization="Bearer from-outside").status_code == 200


def test_only_loopback_without_a_key(flashnext):
    done = flashnext.run("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2 and "--api-key" in done.stderr
    with serving(flashnext, "--host", "0.0.0.0", "--insecure") as server:
        assert server.get("/health").status_code == 200


@pytest.mark.parametrize("arguments,code,text", [
    (["--tls-cert", "x.pem"], 2, "belong together"), (["--api-key", ""], 2, "--api-key"), (["--host", "no.such.host.invalid", "--insecure"], 1, "no.such.host.invalid"),
    (["--cors-origin", "foo"], 2, "--cors-origin: expected * or a site"), (["--cors-origin", "https://example.org/"], 2, "found 'https://example.org/'"),
    (["--cors-origin", "*", "--cors-origin", ""], 2, "--cors-origin"), (["--model-name", ""], 2, "--model-name: expected a name, found nothing"),
    (["--host", ""], 2, "--host: expected an address, found nothing"), (["--cache-dir", ""], 2, "--cache-dir"), (["--host", "127.evil.example"], 2, "--api-key"),
    (["--api-key-file", "/does/not/exist"], 1, "/does/not/exist"), (["--tls-cert", "/no.pem", "--tls-key", "/no.key"], 1, "/no.pem"),
    (["--model-dir", "/does/not/exist"], 3, "/does/not/exist"), (["--port", "70000"], 2, "--port"), (["--context", "1000000"], 2, "context")])
def test_what_cannot_start_says_why(arguments, code, text, flashnext):
    done = flashnext.run("serve", "--port", "0", *arguments)
    assert done.returncode == code and text in done.stderr, done.stderr


def test_a_port_that_is_taken(server, flashnext):
    done = flashnext.run("serve", "--port", str(server.port))
    assert done.returncode == 1 and str(server.port) in done.stderr


def test_foreign_names_of_this_host_are_refused(server):
    for host in ("evil.example", "evil.example:80", "127.evil.example", "localhost.evil.example", "[::2]"):
        reply = server.get("/v1/models", Host=host)
        assert reply.status_code == 403 and reply.json()["error"]["code"] == "wrong_host", host
    for host in ("localhost", f"localhost:{server.port}", "127.0.0.1", "127.9.9.9:1", "[::1]:8080", "LOCALHOST"):
        assert server.get("/v1/models", Host=host).status_code == 200, host


def test_foreign_pages_are_refused(server):
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", f"http://127.0.0.1:{server.port}.evil.example"):
        reply = server.post("/v1/chat/completions", body, Origin=origin)
        assert reply.status_code == 403 and "Access-Control-Allow-Origin" not in reply.headers, origin
        assert "--cors-origin " in reply.json()["error"]["message"]
        with server.client() as client:
            assert client.options("/v1/chat/completions", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}).status_code == 403
    assert server.post("/v1/chat/completions", body, Origin=server.url).status_code == 200


def test_cors_where_it_is_asked_for(flashnext):
    with serving(flashnext, "--cors-origin", "https://good.example") as server:
        with server.client() as client:
            reply = client.options("/v1/chat/completions", headers={"Origin": "https://good.example", "Access-Control-Request-Method": "POST"})
        assert reply.status_code == 204 and reply.headers["Access-Control-Allow-Origin"] == "https://good.example"
        assert "Authorization" in reply.headers["Access-Control-Allow-Headers"]
        assert server.get("/v1/models", Origin="https://good.example").headers["Access-Control-Allow-Origin"] == "https://good.example"
        assert server.get("/v1/models", Origin="https://evil.example").status_code == 403


def test_https(flashnext, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                           "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate], capture_output=True)
    if made.returncode != 0:
        pytest.skip("no openssl program")
    with serving(flashnext, "--tls-cert", certificate, "--tls-key", key) as server:
        context = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=f"https://localhost:{server.port}", verify=context, timeout=60) as client:
            body = {"messages": [{"role": "user", "content": "What is a lighthouse?"}], "temperature": 0}
            whole = client.post("/v1/chat/completions", json=body).json()
            with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as reply:
                assert reply.read().endswith(b"data: [DONE]\n\n")
            assert whole["choices"][0]["message"]["content"].startswith("a tower")
        with context.wrap_socket(server.socket(), server_hostname="localhost") as s:  # what is no request, over TLS
            s.sendall(b"BREW / HTTP/1.1\r\n\r\n")
            got = b"".join(iter(lambda: s.recv(65536), b""))
            assert got.startswith(b"HTTP/1.1 501 ") and got.count(b'{"error":') == 1 and b"HTML" not in got
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{server.port}/health")  # not in clear


def test_certificates_that_cannot_be_used(flashnext, tmp_path):
    """One line that names the option, the file and what was expected; exit code 1, before the model is loaded."""
    for name in ("one", "two"):
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                               "-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.pem"], capture_output=True)
        if made.returncode != 0:
            pytest.skip("no openssl program")
    subprocess.run(["openssl", "ec", "-in", tmp_path / "one.key", "-aes256", "-passout", "pass:secret", "-out", tmp_path / "locked.key"], check=True, capture_output=True)
    subprocess.run(["openssl", "genrsa", "-out", tmp_path / "rsa.key", "2048"], check=True, capture_output=True)
    (tmp_path / "empty").write_text("")
    (tmp_path / "text").write_text("hello\n")
    whole = (tmp_path / "one.pem").read_text()
    (tmp_path / "half.pem").write_text(whole[:len(whole) // 2])
    cases = [("none.pem", "one.key", "--tls-cert", "none.pem", "No such file"), ("one.pem", "none.key", "--tls-key", "none.key", "No such file"),
             (".", "one.key", "--tls-cert", "", "Is a directory"), ("empty", "one.key", "--tls-cert", "empty", "a certificate in PEM form"),
             ("text", "one.key", "--tls-cert", "text", "a certificate in PEM form"), ("half.pem", "one.key", "--tls-cert", "half.pem", "a certificate in PEM form"),
             ("one.key", "one.key", "--tls-cert", "one.key", "a certificate in PEM form"), ("one.pem", "text", "--tls-key", "text", "a private key in PEM form"),
             ("one.pem", "one.pem", "--tls-key", "one.pem", "a private key in PEM form"), ("one.pem", "two.key", "--tls-key", "two.key", "the private key of --tls-cert"),
             ("one.pem", "rsa.key", "--tls-key", "rsa.key", "the private key of --tls-cert"), ("one.pem", "locked.key", "--tls-key", "locked.key", "without a passphrase")]
    for certificate, key, option, file, expected in cases:
        done = flashnext.run("serve", "--port", "0", "--tls-cert", tmp_path / certificate, "--tls-key", tmp_path / key)
        assert done.returncode == 1, (certificate, key, done.stderr)
        assert len(done.stderr.strip().split("\n")) == 1 and f"{option} {tmp_path / file}" in done.stderr and expected in done.stderr, done.stderr
        assert "error:0" not in done.stderr


def test_unknown_paths_and_methods(server):
    for path in ("/nothing", "/v1", "/v1/embeddings", "/v1/models/", "/../etc/passwd", "/v1/chat/completions/x"):
        reply = server.get(path)
        assert reply.status_code == 404 and reply.json()["error"]["type"] == "not_found_error", path
    with server.client() as client:
        for method, path in (("PUT", "/v1/models"), ("GET", "/v1/chat/completions"), ("DELETE", "/"), ("POST", "/health")):
            reply = client.request(method, path)
            assert reply.status_code == 405 and reply.headers["Allow"], (method, path)
        assert client.head("/").status_code == client.head("/health").status_code == 200
        assert client.post("/v1/chat/completions?beta=true", json={"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}).status_code == 200


def test_request_ids(server):
    assert server.get("/health", **{"X-Request-Id": "abc-1"}).headers["X-Request-Id"] == "abc-1"
    ours = server.get("/health").headers["X-Request-Id"]
    assert len(ours) == 24 and ours != server.get("/health").headers["X-Request-Id"]
    assert server.get("/health", **{"X-Request-Id": "x" * 500}).headers["X-Request-Id"] != "x" * 500


def test_the_page_and_its_policy(server):
    reply = server.get("/")
    assert reply.status_code == 200 and reply.headers["Content-Type"].startswith("text/html") and len(reply.content) <= 150_000
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy
    assert server.get("/", **{"If-None-Match": reply.headers["ETag"]}).status_code == 304
    plain = server.get("/", **{"Accept-Encoding": "identity"})
    assert reply.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert plain.content == reply.content == (ROOT / "apps" / "web" / "chat.html").read_bytes()
    assert int(reply.headers["Content-Length"]) < len(plain.content) / 3 and plain.headers["ETag"] != reply.headers["ETag"]
    assert all(each.headers["Vary"] == "Accept-Encoding" for each in (reply, plain))
    import base64, hashlib, re
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", reply.text, re.S).group(1)
        assert f"{directive} 'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'" in policy
    assert not re.search(r"https?://(?!\\)", re.sub(r"<script>.*</script>", "", reply.text, flags=re.S))  # nothing from elsewhere
    assert "innerHTML" not in reply.text and "insertAdjacentHTML" not in reply.text


def test_a_log_of_json_has_one_object_a_request(flashnext):
    import json
    with serving(flashnext, "--log-format", "json") as server:
        server.chat("What is a lighthouse? secret-word", max_tokens=3)
        server.get("/nothing")
    lines = [json.loads(line) for line in server.seen.strip().split("\n")]
    asked = [line for line in lines if "path" in line]
    assert [(line["path"], line["status"]) for line in asked] == [("/v1/chat/completions", 200), ("/nothing", 404)]
    assert asked[0]["completion_tokens"] == 3 and asked[0]["finish_reason"] == "length" and asked[0]["prompt_tokens"] > 5
    assert "secret-word" not in server.seen
    quiet = Server(flashnext.path, "-q").ready()
    quiet.get("/nothing")
    quiet.stop()
    assert "/nothing" not in quiet.seen
