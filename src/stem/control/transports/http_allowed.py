"""Which endpoints may be sent a command, and with it the operator's token.

A worker tells its endpoint in its heartbeat, which is a row in a store: whoever can write there could name a host of
their own and be sent the token. So an endpoint counts only if it is on this machine, if an authority of our own vouches
for it, or if the operator has named it.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from stem.core.errors import StoreUnavailable
from stem.core.text.loopback import is_loopback


@dataclass(frozen=True, slots=True)
class Endpoint:
    is_tls: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class AllowedEndpoints:
    """`hosts` as `STEM_CONTROL_HTTP_ALLOW` has them: a host, `*.` and a domain, each perhaps with a port. Named, they are
    all that is allowed. `has_authority`: `STEM_CONTROL_CA` is set, and certificates are checked against it."""

    hosts: tuple[str, ...] = ()
    has_authority: bool = False

    def endpoint(self, url: str) -> Endpoint:
        """Raises StoreUnavailable for a URL that nothing may be sent to."""
        found = _read(url)
        reason = None if found is None else self._refusal(found)
        if found is None:
            reason = "it is not an http or https URL"
        if found is None or reason is not None:
            raise StoreUnavailable(f"nothing is sent to {url[:200]!r}: {reason}")
        return found

    def _refusal(self, found: Endpoint) -> str | None:
        if not found.is_tls and self.has_authority:
            return "it is plain http, and STEM_CONTROL_CA asks for TLS"
        if not found.is_tls and not is_loopback(found.host):
            return "it is plain http beyond this machine; give the worker STEM_CONTROL_CERT and STEM_CONTROL_KEY"
        if self.hosts and not any(_matches(each, found) for each in self.hosts):
            return "STEM_CONTROL_HTTP_ALLOW does not name it"
        if not self.hosts and not self.has_authority and not is_loopback(found.host):
            return "nothing vouches for it; set STEM_CONTROL_CA, or name it in STEM_CONTROL_HTTP_ALLOW"
        return None


def _read(url: str) -> Endpoint | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    is_tls = parts.scheme == "https"
    return Endpoint(is_tls, host, port or (443 if is_tls else 80))


def _matches(allowed: str, found: Endpoint) -> bool:
    host, _, port = allowed.rpartition(":")
    if not host or not port.isdecimal() or (":" in host and not host.endswith("]")):
        host, port = allowed, ""  # no port, or an IPv6 address without one
    host = host.strip("[]").lower()
    is_host = found.host.endswith(host[1:]) if host.startswith("*.") else found.host == host
    return is_host and (not port or int(port) == found.port)
