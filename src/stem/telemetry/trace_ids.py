"""The trace that a call belongs to, read from its envelope without OpenTelemetry. Anybody may have written the header."""

import re

import msgspec

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

_NAMED = f'"{TRACEPARENT}"'.encode()
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def trace_id_of(body: bytes) -> str:
    """Return the trace id of a stored envelope; empty if it has none."""
    if _NAMED not in body:
        return ""
    try:
        found = _TRACEPARENT.fullmatch(_headers.decode(body).headers.get(TRACEPARENT, ""))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    return found[1] if found is not None else ""


def checked_trace_id(text: str) -> str:
    """Return the text if it is a trace id, else an empty one."""
    return text if _TRACE_ID.fullmatch(text) else ""


class _TracedHeaders(msgspec.Struct):
    headers: dict[str, str] = {}


_headers = msgspec.json.Decoder(_TracedHeaders)
