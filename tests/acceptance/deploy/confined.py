"""Runs a command as a container would: not as root, without rights, on a file system that it can only read."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

UID = 10001
ROOT = Path(__file__).parents[3]
# The checkout stays where it is, also if that is below /tmp. The working directory is a folder of the test; /tmp is empty and
# its own, and nothing in it can be executed. The user is a number without a name, and has no capabilities because it is not 0.
# (To the kernel outside it is still root, which may own the interpreter; but what can only be read can also be written by
# nobody.)
_SCRIPT = f"""
set -e
mount --bind "$1" /mnt
mount -o remount,bind,ro /mnt
mount --bind "$2" /srv
mount -t tmpfs -o noexec,nosuid,nodev tmpfs /tmp
mkdir -p "$2"
mount --bind /srv "$2"
mount -o remount,bind,ro "$2"
mount -o remount,bind,ro /
cd /mnt
shift 2
exec unshare --user --map-user={UID} --map-group={UID} setpriv --no-new-privs "$@"
"""


def around(folder: Path) -> list[str]:
    """The words before a command that confine it; none where this machine does not permit it."""
    return ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(folder), str(ROOT)] if is_possible() else []


@cache
def is_possible() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return False
    trial = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", "/usr", str(ROOT), "true"]
    return subprocess.run(trial, capture_output=True, timeout=30).returncode == 0
