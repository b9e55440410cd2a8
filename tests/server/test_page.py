"""The page in Debian's chromium: what a person does with it, and what axe and the network say."""
import re
import time
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = Path("/usr/bin/chromium")
QUESTION, ANSWER = "What is a lighthouse?", "a tower with a light"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM.exists(), reason="no chromium")]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        running = p.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield running
        running.close()


@pytest.fixture
def page(browser, server):
    """A fresh profile on the page; nothing may fail in it, and no request may leave for another host."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    problems, hosts = [], set()
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" and "Failed to load resource" not in message.text else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: hosts.add(request.url.split("/")[2] if request.url.startswith("http") else request.url[:5]))
    opened.goto(server.url)
    until(opened, "document.querySelector('#model').textContent === 'demo'")
    settings(opened, temperature="0")
    yield opened
    assert not problems
    assert hosts <= {f"127.0.0.1:{server.port}", "data:", "blob:"}
    context.close()


def until(page, condition, seconds=60):
    """Playwright's own waiting evaluates text in the page, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def settings(page, **values):
    page.click("#open-settings")
    for name, value in values.items():
        if name == "thinking":
            page.select_option("#set-thinking", value)
        else:
            page.fill("#set-" + name, value)
    page.click("text=Save")


def ask(page, text=QUESTION):
    page.fill("#question", text)
    page.keyboard.press("Enter")


def answered(page):
    page.wait_for_selector("#send:visible", timeout=60000)


def answer(page):
    return page.inner_text("article.assistant:last-of-type > .body")


def violations(page):
    from axe_playwright_python.sync_playwright import Axe
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_ask_read_and_reload(page):
    assert page.evaluate("document.activeElement.id") == "question"
    ask(page)
    answered(page)
    assert answer(page).startswith(ANSWER)
    assert page.input_value("#question") == ""
    thought = page.locator("details.thought")
    assert re.match(r"Thought for [\d.]+ s, \d+ tokens", thought.locator("summary").inner_text())
    assert thought.get_attribute("open") is None
    thought.locator("summary").click()
    assert thought.locator(".body").inner_text() == "The word is lighthouse."
    assert re.search(r"[\d.]+ tokens/s · \d+ tokens · first after [\d.]+ s", page.inner_text("article.assistant .figures"))
    assert ANSWER in page.inner_text("#spoken")
    page.reload()
    assert answer(page).startswith(ANSWER) and page.inner_text("article.user .body") == QUESTION
    assert page.inner_text("#list button.open") == QUESTION
    ask(page, "What is a telescope?")
    answered(page)
    assert page.locator("article.assistant").count() == 2
    assert "cached" in page.inner_text("article.assistant:last-of-type .figures")


def test_stop_regenerate_and_edit(page, server):
    settings(page, thinking="off")
    page.route("**/v1/chat/completions", lambda route: route.continue_(post_data=route.request.post_data.replace('"stream":true', '"stream":true,"ignore_eos":true')))
    ask(page)
    until(page, "document.querySelector('article.assistant > .body')?.textContent.length > 20")
    page.keyboard.press("Escape")
    answered(page)
    assert page.inner_text("#status-text") == "Stopped."
    cut = answer(page)
    assert cut.startswith(ANSWER[:10])
    for _ in range(100):
        if server.metric("flashnext_requests_running") == 0:
            break
    assert server.metric("flashnext_requests_running") == 0
    page.unroute("**/v1/chat/completions")
    page.click("text=Regenerate")
    answered(page)
    assert answer(page) == "a tower with a light that gives warning of shoals to passing ships"
    page.click("article.user >> text=Edit")
    page.fill('textarea[aria-label="Edit your message"]', "What is a telescope?")
    page.keyboard.press("Enter")
    answered(page)
    assert page.locator("article").count() == 2 and page.inner_text("article.user .body") == "What is a telescope?"
    page.keyboard.press("ArrowUp")
    assert page.input_value('textarea[aria-label="Edit your message"]') == "What is a telescope?"
    page.keyboard.press("Escape")
    assert page.inner_text("article.user .body") == "What is a telescope?"


def test_conversations(page):
    for question in (QUESTION, "What is a telescope?"):
        page.keyboard.press("Control+Shift+O")
        ask(page, question)
        answered(page)
    assert page.locator("#list button.open").all_inner_texts() == ["What is a telescope?", QUESTION]
    page.fill("#search", "lighthouse")
    assert page.locator("#list button.open").count() == 1
    page.click("#list button.open")
    assert page.inner_text("article.user .body") == QUESTION
    page.fill("#search", "")
    page.on("dialog", lambda dialog: dialog.accept("Towers" if dialog.type == "prompt" else None))
    page.click(f'[aria-label="Rename {QUESTION}"]')
    assert "Towers" in page.locator("#list button.open").all_inner_texts()
    with page.expect_download() as download:
        page.click("#export")
    page.set_input_files("#file", download.value.path())
    until(page, "document.querySelectorAll('#list li').length === 4")
    page.locator('[aria-label="Delete Towers"]').first.click()
    until(page, "document.querySelectorAll('#list li').length === 3")


MARKDOWN = r"""# Title

Some **bold**, *slanted*, ~~gone~~ and `code <b>` with a [link](https://example.org/a?b=c), <img src=x onerror=alert(1)>,
[bad](javascript:alert(1)) and ![picture](https://example.org/x.png).

- one
- two
  1. inner
  2. second

| a | b |
|---|--:|
| 1 | 2 |

> quoted

```python
def f(x):  # comment
    return "text" + 42
```

---
last <script>alert(1)</script> 2 * 3 * 4 snake_case_name"""


def test_markdown_becomes_safe_nodes(page):
    html = page.evaluate("text => { const box = document.createElement('div'); render_markdown(box, text); return box.innerHTML; }", MARKDOWN)
    for piece in ("<h3>Title</h3>", "<strong>bold</strong>", "<em>slanted</em>", "<del>gone</del>", "<code>code &lt;b&gt;</code>", "<ol><li>inner</li><li>second</li></ol>",
                  "<th ", "<blockquote><p>quoted</p></blockquote>", '<span class="k">def</span>', '<span class="c"># comment</span>', '<span class="s">"text"</span>',
                  '<span class="n">42</span>', "<hr>", "2 * 3 * 4 snake_case_name", 'rel="noopener noreferrer nofollow"'):
        assert piece in html, (piece, html)
    for piece in ("<img", "<script", "javascript:", "onerror=\""):
        assert piece not in html.replace("&lt;", "_"), piece
    # rendered in pieces it is the same, and what stands is left alone
    grown = page.evaluate("""text => { const box = document.createElement('div'); let first = null;
        for (let n = 1; n <= text.length; n++) { render_markdown(box, text.slice(0, n)); if (n === 60) first = box.firstChild; }
        return [box.innerHTML, first === box.firstChild]; }""", MARKDOWN)
    assert grown == [html, True]


def test_markdown_of_anything_ends(page):
    import random
    chance = random.Random(3)
    for _ in range(300):
        text = "".join(chance.choice(["*", "**", "_", "`", "```", "\n", "\n\n", "- ", "1. ", "> ", "|", "---", "[", "](", ")", "!", "#", " ", "  ", "a", "b c", "~~", "\\", "<", "$$"])
                       for _ in range(chance.randrange(60)))
        page.evaluate("text => render_markdown(document.createElement('div'), text)", text)
    took = page.evaluate("text => { const t = performance.now(); render_markdown(document.createElement('div'), text); return performance.now() - t; }", "**a _b `c " * 5000)
    assert took < 5000


def test_code_can_be_copied(page, browser):
    page.evaluate("text => { chat.messages = [{role: 'user', content: 'x'}, {role: 'assistant', content: text}]; show_chat(); }", "```sh\necho hi\n```")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(".code .bar button")
    until(page, "document.querySelector('.code .bar button').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == "echo hi"


@pytest.mark.parametrize("scheme,width", [("light", 1200), ("dark", 1200), ("dark", 380)])
def test_no_barriers_and_a_picture(scheme, width, browser, server, tmp_path_factory):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(server.url)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    until(page, "document.querySelector('#model').textContent === 'demo'")
    violations(page)
    page.evaluate("text => { chat.title = 'Towers'; chat.messages = [{role: 'user', content: 'What is a lighthouse?'}, {role: 'assistant', content: text, reasoning_content: 'Let me think.'}];"
                  " save_chat(); show_chat(); document.querySelector('details.thought').open = true; }", MARKDOWN)
    violations(page)
    picture = Path("build/results") if Path("build/results").is_dir() else tmp_path_factory.mktemp("page")
    page.screenshot(path=str(picture / f"page-{scheme}-{width}.png"))
    page.click("#open-settings")
    violations(page)
    page.keyboard.press("Escape")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    context.close()


def test_a_key_is_asked_for_and_kept(browser, flashnext):
    from serving import serving
    with serving(flashnext, "--api-key", "secret") as server:
        page = browser.new_page()
        page.goto(server.url)
        ask(page)
        page.wait_for_selector("#settings[open]")
        assert "API key" in page.inner_text("#settings-note")
        page.fill("#set-key", "secret")
        page.click("text=Save")
        page.click("text=Regenerate")
        answered(page)
        assert answer(page)
        page.close()


def test_progress_and_failures_are_told(page):
    page.evaluate("show_progress({total: 25000, cache: 1000, processed: 13000, time_ms: 120000})")
    assert page.inner_text("#status-text") == "Reading 13,000 of 25,000 tokens, 120 s left"
    assert page.is_visible("#reading")
    page.route("**/v1/chat/completions", lambda route: route.abort())
    ask(page)
    page.wait_for_selector(".failure")
    assert page.inner_text(".failure") == "The server cannot be reached."
    page.unroute("**/v1/chat/completions")
    page.click("text=Regenerate")
    answered(page)
    assert page.locator(".failure").count() == 0
