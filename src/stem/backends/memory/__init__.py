"""The store in this process's memory: the reference that the others are held to, and the one for tests."""

from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from stem.backends.memory.broker import MemoryBroker
from stem.backends.memory.deadletters import MemoryDeadLetters
from stem.backends.memory.events import MemoryEvents
from stem.backends.memory.heartbeats import MemoryHeartbeats
from stem.backends.memory.history import MemoryHistory
from stem.backends.memory.limiter import MemoryLimiter
from stem.backends.memory.locks import MemoryLocks
from stem.backends.memory.mail import MemoryMail
from stem.backends.memory.results import MemoryResults
from stem.backends.memory.revokes import MemoryRevokes
from stem.backends.memory.rollups import MemoryRollups
from stem.backends.memory.space import Door, Space
from stem.backends.memory.staging import MemoryStaging
from stem.backends.memory.upkeep import MemoryUpkeep
from stem.contracts.store import Capabilities, Store
from stem.core.config import Settings
from stem.runtime.clock import Clock, system_clock

CAPABILITIES = Capabilities(is_durable=False, crosses_processes=False, crosses_machines=False, joins_transactions=False)

_spaces: WeakValueDictionary[tuple[str, str], Space] = WeakValueDictionary()


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> Store:
    """All stores of one URL and namespace in this process are the same one, as long as any of them lives."""
    key = (urlsplit(url).netloc + urlsplit(url).path, settings.namespace)
    space = _spaces.get(key)
    if space is None:
        space = _spaces[key] = Space(settings.retention, clock)
    door = Door()
    broker = MemoryBroker(space, door)
    return Store(
        url=url,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=broker,
        deadletters=MemoryDeadLetters(space),
        results=MemoryResults(space, door),
        events=MemoryEvents(space, door),
        history=MemoryHistory(space),
        revokes=MemoryRevokes(space),
        locks=MemoryLocks(space),
        limiter=MemoryLimiter(space),
        heartbeats=MemoryHeartbeats(space),
        mail=MemoryMail(space, door),
        staging=MemoryStaging(space, broker),
        rollups=MemoryRollups(space),
        upkeep=MemoryUpkeep(space, door),
    )
