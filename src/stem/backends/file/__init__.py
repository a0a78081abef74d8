"""Revokes in a plain file of lines: for one machine, with no server to run and nothing but a text editor to read it."""

from stem.backends.file.address import address
from stem.backends.file.journal import Journal
from stem.backends.file.revokes import FileRevokes
from stem.core.config import Settings
from stem.runtime.clock import Clock, system_clock


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> FileRevokes:
    """Make the file if it is not there. Raises ConfigError, StoreRefused, StoreUnavailable."""
    journal = Journal(address(url), settings.timeout_seconds)
    journal.prepare()
    return FileRevokes(journal, settings.namespace, clock)
