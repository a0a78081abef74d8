"""A control group with little memory, where the machine lets us make one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.until import until

_ROOT = Path("/sys/fs/cgroup")


@contextmanager
def narrow(limit_bytes: int) -> Iterator[Path]:
    """The group's folder. Skips the test where there is none to be had: that takes root, or a group that is ours."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    ours = {controllers: path.lstrip("/") for _, controllers, path in lines}
    folder, limit = (
        (_ROOT / "memory" / ours["memory"], "memory.limit_in_bytes")
        if "memory" in ours
        else (_ROOT / ours.get("", ""), "memory.max")
    )
    group = folder / f"stem-{os.urandom(4).hex()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(limit_bytes))
        for file, most in (("memory.memsw.limit_in_bytes", limit_bytes), ("memory.swap.max", 0)):
            if (group / file).exists():
                (group / file).write_text(str(most))
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def move(group: Path, *pids: int) -> None:
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
