"""Fingerprints of errors: equal for messages that differ only in numbers, ids, paths and quoted text. Quoted names of code
stay: `KeyError('country')` and `KeyError('price')` are two errors."""

import hashlib
import re

# What is looked at: as much of a message as the event log keeps, so that an event and its dead letter agree.
SEEN_CHARACTERS = 500
KEPT_CHARACTERS = 200
DIGITS = 12

# A word without digits that is the whole message, as a KeyError's is, or that follows one of these words.
_NAME = r"[A-Za-z_][A-Za-z_.]{0,60}"
_IS_NAME_IN_CODE = rf"^'{_NAME}'$|(?<=attribute )'{_NAME}'|(?<=argument )'{_NAME}'"

# Applied in order.
RULES: tuple[tuple[str, str], ...] = (
    (r"[A-Za-z][A-Za-z0-9+.-]*://[^ \t\r\n'\"<>`]+", "<url>"),
    (r'"[^"]*"', "<text>"),
    (r"`[^`]*`", "<text>"),
    (rf"(?!{_IS_NAME_IN_CODE})(?<![0-9A-Za-z])'[^']*'", "<text>"),
    (r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}", "<id>"),
    (r"(?<![0-9A-Za-z])0x[0-9A-Fa-f]+", "<id>"),
    (r"(?<![0-9A-Za-z])(?=[0-9A-Fa-f]*[0-9])(?=[0-9A-Fa-f]*[A-Fa-f])[0-9A-Fa-f]{8,}(?![0-9A-Za-z])", "<id>"),
    (r"(?<![0-9A-Za-z])[A-Za-z]:[/\\][^ \t\r\n'\":;,)]+", "<path>"),
    (r"(?<![0-9A-Za-z<])(?:~|[.]{1,2})?(?:/[0-9A-Za-z._~@%+=-]+){2,}/?", "<path>"),
    (r"(?:(?<![0-9A-Za-z>])[+-])?[0-9]+(?:[.,:][0-9]+)*(?:[eE][+-]?[0-9]+)?", "<n>"),
    (r"[ \t\r\n]+", " "),
)
_RULES = tuple((re.compile(pattern, re.ASCII), name) for pattern, name in RULES)


def fingerprint(error_type: str, message: str) -> str:
    """Return the fingerprint of an error."""
    return hashlib.sha256(f"{error_type}\n{normalised(message)}".encode(errors="replace")).hexdigest()[:DIGITS]


def normalised(message: str) -> str:
    """Return the message with placeholders for everything that varies; the fingerprint covers this text."""
    text = message[:SEEN_CHARACTERS]
    for pattern, name in _RULES:
        text = pattern.sub(name, text)
    return text.strip(" ")[:KEPT_CHARACTERS]
