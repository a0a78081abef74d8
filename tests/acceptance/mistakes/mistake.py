"""One row of the table."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """`run` is a shell command, typed in an empty folder that holds `files`. It prints `says` (any part of its output, on
    either stream), ends with `exit_code`, and shows no traceback."""

    name: str
    run: str
    says: str
    exit_code: int
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
