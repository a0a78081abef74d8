"""Keep revokes in a plain file of lines: for one machine, without a server, readable with a text editor."""

from stem.backends.file.address import address
from stem.backends.file.journal import Journal
from stem.backends.file.revokes import FileRevokes
from stem.core.settings.app import Settings
from stem.runtime.clock import Clock, system_clock


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> FileRevokes:
    """Make the file if it is not there. Raises ConfigError, StoreRefused, StoreUnavailable."""
    journal = Journal(address(url), settings.timeout_seconds)
    journal.prepare()
    return FileRevokes(journal, settings.namespace, clock)
