"""Translate errors of Postgres and the network into one sentence and a remedy."""

from psycopg.errors import ConnectionTimeout, DataError, Error, OperationalError

from stem.core.errors import StemError, StoreRefused, StoreUnavailable, UsageError

_TOO_MUCH = "54000"  # program_limit_exceeded
_PASSING = ("starting up", "shutting down", "too many clients", "connection slots", "in recovery mode")

_TLS = ("SSL", "TLS", "certificate")

_BY_STATE: dict[str, tuple[type[StemError], str]] = {
    "25006": (StoreRefused, "is read-only; point the URL at the primary server"),
    "3D000": (StoreRefused, "has no such database; create it or correct the URL"),
    "3F000": (StoreRefused, "has lost the Stem schema; restart the process to make it anew"),
    "42P01": (StoreRefused, "has lost a Stem table; restart the process to make it anew, or restore the schema"),
    "42883": (StoreRefused, "has lost a Stem function; restart the process to make it anew, or restore the schema"),
    "42501": (StoreRefused, "denies permission; grant the role CREATE on the database or USAGE on the Stem schema"),
    "53100": (StoreRefused, "has no room left on its disk; free some space"),
    "53200": (StoreUnavailable, "is out of memory; lower its load or raise its memory"),
    "53300": (StoreUnavailable, "has too many connections; raise max_connections or put a pooler in front"),
    "57014": (StoreUnavailable, "did not finish in time; see what it is busy with, or raise STEM_STORE_TIMEOUT"),
}
_BY_CLASS: dict[str, tuple[type[StemError], str]] = {
    "08": (StoreUnavailable, "lost the connection; check the network and the server"),
    "22": (UsageError, "cannot store such a value; remove NUL characters and numbers out of range"),
    "28": (StoreRefused, "refused the login; check user, password and pg_hba.conf"),
    "40": (StoreUnavailable, "saw too many conflicting transactions; try again"),
    "53": (StoreUnavailable, "is out of resources; lower its load"),
    "55": (StoreUnavailable, "could not lock what it needed; try again"),
    "57": (StoreUnavailable, "is shutting down or restarting; try again when it is up"),
    "58": (StoreUnavailable, "has a system error; see its log"),
    "XX": (StoreUnavailable, "has an internal error; see its log"),
}


class DeadlinePassed(OperationalError):
    """The server took a statement and has not answered by the deadline."""


def is_passing(error: Error) -> bool:
    """The server is away, restarts or is full at the moment, as opposed to one that does not want us."""
    return error.sqlstate is None and ("FATAL" not in str(error) or any(text in str(error) for text in _PASSING))


def is_notify_queue_full(refusal: StemError) -> bool:
    """The server keeps notifications until every listener has received them; a listener that reads nothing fills the queue."""
    cause = refusal.__cause__
    return isinstance(cause, Error) and cause.sqlstate == _TOO_MUCH and "NOTIFY" in str(cause)


def translated(error: Error, name: str, timeout_seconds: float) -> StemError:
    """The error that callers see, from the one that the driver raised."""
    who = f"Postgres at {name}"
    if isinstance(error, DeadlinePassed | ConnectionTimeout):
        return StoreUnavailable(
            f"{who} did not answer within {timeout_seconds:g} s; check that it runs and can be reached."
        )
    state = error.sqlstate
    if state is not None:
        kind, text = _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or (StoreRefused, "refused; see its log")
        return kind(f"{who} {text} ({_first_line(error)}).")
    if isinstance(error, DataError):
        return UsageError(f"{who} cannot store such a value ({_first_line(error)}); remove NUL characters.")
    if _is_about_tls(error):
        return StoreRefused(
            f"{who} cannot be reached safely ({_first_line(error)}); set STEM_TLS_CA_CERT to the authority that its "
            "certificate is from, or, if you trust the network in between, add ?sslmode=disable to the URL."
        )
    if not is_passing(error):
        return StoreRefused(
            f"{who} refused the connection ({_first_line(error)}); check user, password and database in the URL."
        )
    return StoreUnavailable(
        f"{who} cannot be reached ({_first_line(error)}); check that it runs and that the URL is right."
    )


def _is_about_tls(error: Error) -> bool:
    """Of the handshake: it refuses us each time, whereas a connection that breaks later may come back."""
    text = str(error)
    return any(word in text for word in _TLS) and any(
        phrase in text for phrase in ("was required", "verify failed", "does not match", "root certificate file")
    )


def unstorable(error: UnicodeEncodeError) -> UsageError:
    character = error.object[error.start]
    return UsageError(
        f"A text holds {character!r}, half of a character, which cannot be stored; remove it or decode with errors='replace'."
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
