"""Load the Lua scripts of `../lua`, each with the shared pieces that its first line names.

Lua 5.1 has no constants: as local variables they would be captured by every function at every call, which costs more than the
rest of a small script. So loading substitutes their values, once.
"""

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

_CONSTANTS = re.compile(rb"^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)(?= --|$)", re.MULTILINE)
_NAME = re.compile(rb"\b[A-Z_]+\b")


class Script(NamedTuple):
    source: bytes
    digest: bytes  # by which a server knows it


@cache
def script(name: str) -> Script:
    folder = Path(__file__).parents[1] / "lua"
    own = (folder / f"{name}.lua").read_bytes()
    needs = own.splitlines()[0].removeprefix(b"-- needs: ").decode().split()
    source = b"\n".join([*((folder / "shared" / f"{piece}.lua").read_bytes() for piece in needs), own])
    source = _inlined(source)
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _inlined(source: bytes) -> bytes:
    """Replace each constant (a name in capitals that is set to a whole number) by its value."""
    values: dict[bytes, bytes] = {}
    for names, numbers in _CONSTANTS.findall(source):
        values |= zip(names.split(b", "), numbers.split(b", "), strict=True)
    return _NAME.sub(lambda name: values.get(name[0], name[0]), _CONSTANTS.sub(b"", source))
