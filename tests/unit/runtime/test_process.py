"""A process that inherits the orphans of others buries them, and leaves its own child to whoever waits for it."""

import subprocess
import sys

_INHERITS = """
import ctypes, os, subprocess, sys, time
from stem.runtime.process import reap_orphans

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here, as to PID 1
own = subprocess.Popen([sys.executable, "-c", "pass"])
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
parent = os.fork()
if parent == 0:
    if os.fork() == 0:
        os._exit(0)
    os._exit(0)
os.waitpid(parent, 0)
buried, end = 0, time.monotonic() + 10
while not buried and time.monotonic() < end:
    buried = reap_orphans(None if own.returncode is not None else own.pid)
    if not buried and own.returncode is None:
        own.wait()
print(buried, own.returncode)
"""


def test_orphans_are_buried_and_an_own_child_is_left_to_whoever_waits_for_it() -> None:
    ran = subprocess.run([sys.executable, "-c", _INHERITS], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.split() == ["1", "0"]
