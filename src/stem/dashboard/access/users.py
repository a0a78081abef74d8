"""Users of the dashboard and their roles."""

import re
from dataclasses import dataclass, field
from typing import Literal

from stem.core.errors import ConfigError

Role = Literal["viewer", "operator"]

_NAME = re.compile(r"[A-Za-z0-9_.@+\-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class User:
    """`via` says how we know: `password`, `token`, `proxy`, or `loopback` where there is no login. `mark` stands
    for the password that was given: when it is changed, the mark of the user is another."""

    name: str
    role: Role
    via: str
    mark: str = field(default="", repr=False)

    @property
    def is_operator(self) -> bool:
        return self.role == "operator"


def check_user_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"User name {name!r} is not 1 to 128 of letters, digits, '_', '.', '@', '+' and '-'.")
    return name


def is_user_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
