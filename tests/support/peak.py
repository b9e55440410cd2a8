"""How much memory a program takes at most, and how long."""
import subprocess
import sys
import time

MEASURE = """if True:
    import os, sys
    child = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
    _, status, usage = os.wait4(child, 0)
    print(usage.ru_maxrss * 1024, file=sys.stderr)
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def measured(flashnext, *arguments):
    """Standard output, seconds, peak resident bytes: of a small process's child, for a child begins with its parent's peak."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, flashnext.path, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, time.monotonic() - started, int(done.stderr.split()[-1])
