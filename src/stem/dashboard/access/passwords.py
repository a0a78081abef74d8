"""The password file: one `name:role:hash` per line, hashed with Argon2 and readable by its owner only."""

import hashlib
import os
import stat
from pathlib import Path
from threading import Lock
from typing import Literal

from stem.core.errors import ConfigError
from stem.dashboard.access.users import Role, check_user_name
from stem.runtime.files import reading

OPEN_BITS = stat.S_IRWXG | stat.S_IRWXO
LEAST_CHARACTERS = 10
_ROLES: dict[str, Role] = {"viewer": "viewer", "operator": "operator"}


class PasswordFile:
    """Read again when it has changed. Safe from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if it cannot be used."""
        from argon2 import PasswordHasher

        self._path = path
        self._hasher = PasswordHasher()
        self._nobody = self._hasher.hash(os.urandom(16))
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._users: dict[str, tuple[Role, str]] = {}
        self.role_of("")

    def role_of(self, name: str) -> Role | None:
        """None: there is no such user, or no more. Raises ConfigError."""
        found = self._read().get(name)
        return None if found is None else found[0]

    def mark_of(self, name: str) -> str:
        """What stands for the user's password as it is now; another password has another. Raises ConfigError."""
        _, stored = self._read().get(name, (None, ""))
        return hashlib.sha256(stored.encode()).hexdigest()

    def check(self, name: str, password: str) -> Role | None:
        """Return the role of a user who gives the right password. An unknown name takes as long as a wrong password."""
        from argon2.exceptions import Argon2Error, InvalidHashError

        role, stored = self._read().get(name, (None, self._nobody))
        with self._lock:  # one at a time: each takes 64 MiB
            try:
                self._hasher.verify(stored, password)
            except (Argon2Error, InvalidHashError):
                return None
        return role

    def _read(self) -> dict[str, tuple[Role, str]]:
        try:
            with reading(self._path) as (descriptor, found):
                if found.st_mode & OPEN_BITS or found.st_uid not in (0, os.geteuid()):
                    raise ConfigError(
                        f"Other users may read the password file {self._path}; run: chmod 600 {self._path}"
                    )
                version = (found.st_mtime_ns, found.st_ino)
                if version != self._seen:
                    with os.fdopen(os.dup(descriptor), encoding="utf-8") as file:
                        self._users = _parsed(file.read(), self._path)
                    self._seen = version
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(
                f"The password file {self._path} cannot be read ({why}); "
                f"write one with: stem dashboard password NAME --file {self._path}"
            ) from error
        return self._users


def write_password(path: Path, name: str, role: Literal["viewer", "operator"], password: str) -> None:
    """Add a user to the file, or replace one. Created with mode 0600, and replaced whole. Raises ConfigError."""
    from argon2 import PasswordHasher

    check_user_name(name)
    if len(password) < LEAST_CHARACTERS:
        raise ConfigError(f"The password is shorter than {LEAST_CHARACTERS} characters; choose a longer one.")
    users: dict[str, tuple[Role, str]] = PasswordFile(path)._read() if path.exists() else {}
    lines = {**users, name: (_ROLES[role], PasswordHasher().hash(password))}
    text = "".join(f"{user}:{its_role}:{hashed}\n" for user, (its_role, hashed) in sorted(lines.items()))
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}); name another file.") from error


def _parsed(text: str, path: Path) -> dict[str, tuple[Role, str]]:
    users: dict[str, tuple[Role, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, role, hashed = (*line.split(":", 2), "", "")[:3]
        if role not in _ROLES or not hashed.startswith("$argon2"):
            raise ConfigError(f"Line {number} of {path} is not name:role:hash; write it with: stem dashboard password")
        users[name] = (_ROLES[role], hashed.strip())
    return users
