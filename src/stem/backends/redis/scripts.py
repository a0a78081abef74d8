"""The Lua scripts of this folder, each with the shared pieces that its first line names."""

from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    source: bytes
    digest: bytes  # by which a server knows it


@cache
def script(name: str) -> Script:
    folder = files(__package__) / "lua"
    own = (folder / f"{name}.lua").read_bytes()
    needs = own.splitlines()[0].removeprefix(b"-- needs: ").decode().split()
    source = b"\n".join([*((folder / "shared" / f"{piece}.lua").read_bytes() for piece in needs), own])
    return Script(source, sha1(source, usedforsecurity=False).hexdigest().encode())
