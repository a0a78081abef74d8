"""Translate errors of the server and the network into one sentence and a remedy."""

from redis import exceptions

from stem.core.errors import StemError, StoreRefused, StoreUnavailable

# Looked for in the server's own words, which scripts wrap in theirs and the client library may shorten; the first that fits.
_ANSWERS: tuple[tuple[tuple[str, ...], type[StemError], str], ...] = (
    (
        ("WRONGPASS", "invalid username-password", "invalid password"),
        StoreRefused,
        "refuses the user name or password; correct them in the URL",
    ),
    (
        ("NOAUTH", "Authentication required"),
        StoreRefused,
        "asks for a password; put one into the URL, as redis://:password@host",
    ),
    (
        ("without any password", "no password is set"),
        StoreRefused,
        "has no password set, but the URL brings one; remove it from the URL",
    ),
    (
        ("NOPERM", "no permissions", "can't run this command", "can't access"),
        StoreRefused,
        "does not permit this user a command, key or channel that Stem needs; extend the user's ACL",
    ),
    (
        ("READONLY", "read only replica"),
        StoreUnavailable,
        "is a read-only replica; try again if a failover is under way, else point the URL at the primary",
    ),
    (("OOM ", "> 'maxmemory'"), StoreRefused, "is full; raise its maxmemory or purge what is not needed"),
    (("MISCONF",), StoreRefused, "cannot write to its disk and takes no changes; free space or repair the disk"),
    (("NOREPLICAS",), StoreUnavailable, "has too few replicas to take changes; bring them back"),
    (("LOADING", "loading the dataset"), StoreUnavailable, "is still loading its data; try again shortly"),
    (
        ("MASTERDOWN", "Link with MASTER"),
        StoreUnavailable,
        "has lost its primary; bring it back or promote the replica",
    ),
    (("CLUSTERDOWN", "cluster is down"), StoreUnavailable, "belongs to a cluster that is down; bring its nodes back"),
    (("BUSY ",), StoreUnavailable, "is busy with a long script; try again when it has ended"),
    (("max number of clients",), StoreUnavailable, "has no connection left; raise its maxclients"),
    (("index is out of range",), StoreRefused, "has no such database; correct the number at the end of the URL"),
    (
        ("SELECT is not allowed",),
        StoreRefused,
        "is a cluster, which has only database 0; remove the number from the URL",
    ),
    (
        ("WRONGTYPE",),
        StoreRefused,
        "holds keys in this namespace that are not Stem's; choose another STEM_NAMESPACE",
    ),
    (("unknown command",), StoreRefused, "lacks a command that Stem needs; use Redis 6.2 or later"),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        StoreRefused,
        "shows a certificate that is not trusted; set STEM_TLS_CA_CERT to its authority's",
    ),
    (("WRONG_VERSION_NUMBER",), StoreRefused, "does not speak TLS on this port; use redis:// or its TLS port"),
    (("SSL", "_ssl.c"), StoreRefused, "ended the TLS handshake; check the STEM_TLS_ settings against the server's"),
)


def is_lost(error: Exception) -> bool:
    """Whether the connection failed, rather than the command."""
    return is_late(error) or isinstance(error, exceptions.ConnectionError | OSError)


def is_late(error: Exception) -> bool:
    return isinstance(error, exceptions.TimeoutError | TimeoutError)


def is_demoted(error: exceptions.ResponseError) -> bool:
    """Whether a replica refused a change, or a read that it may not answer; a script says so in words of its own."""
    text = str(error)
    return (
        isinstance(error, exceptions.ReadOnlyError | exceptions.MasterDownError)
        or "READONLY" in text
        or "MASTERDOWN" in text
    )


def explain(error: Exception, place: str, timeout_seconds: float) -> StemError:
    """`place` is the URL without its password."""
    text = str(error)
    if isinstance(error, exceptions.AskError | exceptions.TryAgainError):
        # We never follow an ASK: while a namespace moves, its keys lie on two nodes, and no script would see them all.
        return StoreUnavailable(f"Redis at {place} is moving the namespace to another node; try again shortly.")
    for tokens, kind, sentence in _ANSWERS:
        if any(token in text for token in tokens):
            return kind(f"Redis at {place} {sentence}.")
    if is_late(error):
        doubt = "speaks TLS on this port, or " if place.startswith("rediss:") else ""
        return StoreUnavailable(
            f"Redis at {place} did not answer within {timeout_seconds:g} s; see whether it {doubt}is overloaded or frozen."
        )
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreUnavailable(f"Redis at {place} cannot be reached ({text}); see that it runs and the URL is right.")
    return StoreRefused(f"Redis at {place} refused a command ({text}); report this if the server is a plain Redis.")
