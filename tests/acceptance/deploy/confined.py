"""Runs a command as a container would: not as root, without rights, on a file system that it can only read."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

UID = 10001
# The working directory is a folder of the test; /tmp is empty and its own, and nothing in it can be executed. The user is a
# number without a name, and has no capabilities because it is not 0. (To the kernel outside it is still root, which may own
# the interpreter; but what can only be read can also be written by nobody.)
_SCRIPT = f"""
set -e
mount --bind "$1" /mnt
mount -o remount,bind,ro /mnt
mount -t tmpfs -o noexec,nosuid,nodev tmpfs /tmp
mount -o remount,bind,ro /
cd /mnt
shift
exec unshare --user --map-user={UID} --map-group={UID} setpriv --no-new-privs "$@"
"""


def around(folder: Path) -> list[str]:
    """The words before a command that confine it; none where this machine does not permit it."""
    return ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(folder)] if is_possible() else []


@cache
def is_possible() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return False
    trial = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", "/usr", "true"]
    return subprocess.run(trial, capture_output=True, timeout=30).returncode == 0
