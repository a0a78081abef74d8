"""How people are let in."""

from dataclasses import dataclass
from pathlib import Path

from stem.core.errors import ConfigError
from stem.core.text.loopback import is_loopback

LOOPBACK = ("127.0.0.1", "::1")
LEAST_TOKEN = 16  # characters, as the control endpoint asks for


@dataclass(frozen=True, slots=True)
class Access:
    """Without a password file, token or trusted header there is no login, and only this machine is served.

    `trusted_header` names the header in which a proxy says who the user is; it counts only in requests that come from
    `trusted_proxies`. `allowed_hosts` are the names under which browsers reach the dashboard, besides localhost and
    addresses. `read_only` makes everybody a viewer.
    """

    password_file: Path | None = None
    token: str | None = None
    trusted_header: str | None = None
    trusted_proxies: tuple[str, ...] = LOOPBACK
    allowed_hosts: tuple[str, ...] = ()
    read_only: bool = False
    session_seconds: float = 12 * 3600.0

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ConfigError(f"The dashboard's token is shorter than {LEAST_TOKEN} characters; choose a longer one.")

    @property
    def has_login(self) -> bool:
        return self.password_file is not None or self.token is not None or self.trusted_header is not None

    @property
    def has_form(self) -> bool:
        """Whether people log in on a page of ours."""
        return self.password_file is not None or self.token is not None


def check_address(host: str, access: Access) -> None:
    """Refuse to listen where other machines could come in without a login. Raises ConfigError."""
    if not access.has_login and not is_loopback(host):
        raise ConfigError(
            f"Other machines could reach {host} and nobody would have to log in; add --password-file, --token or "
            "--trusted-header, or leave out --host."
        )
