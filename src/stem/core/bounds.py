"""Bounds of the numbers in a call. The decoder also checks them, because anyone may have written a stored envelope."""

from typing import Annotated

import msgspec

MAX_RETRIES = 1_000_000
MAX_SECONDS = 100 * 365 * 86400.0
MAX_ATTEMPT = 10**9
MOST_PRIORITY = 9

# JSON has no NaN, and a number too long for a float is refused by msgspec itself; so what is within bounds is finite.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=MOST_PRIORITY)]
Attempt = Annotated[int, msgspec.Meta(ge=0, le=MAX_ATTEMPT)]
Retries = Annotated[int, msgspec.Meta(ge=0, le=MAX_RETRIES)]
Version = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
