"""Store everything in the memory of this process: the reference for the other stores, and for tests."""

from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from stem.backends.memory.events import MemoryEvents
from stem.backends.memory.heartbeats import MemoryHeartbeats
from stem.backends.memory.history import MemoryHistory
from stem.backends.memory.limiter import MemoryLimiter
from stem.backends.memory.locks import MemoryLocks
from stem.backends.memory.mail import MemoryMail
from stem.backends.memory.maintenance import MemoryUpkeep
from stem.backends.memory.results import MemoryResults
from stem.backends.memory.revokes import MemoryRevokes
from stem.backends.memory.rollups import MemoryRollups
from stem.backends.memory.schedules import MemorySchedules
from stem.backends.memory.staging import MemoryStaging
from stem.backends.memory.state import MemoryState, StoreHandle
from stem.backends.memory.task_logs import MemoryTaskLogs
from stem.backends.memory.tasks.broker import MemoryBroker
from stem.backends.memory.tasks.deadletters import MemoryDeadLetters
from stem.backends.memory.tasks.steps import MemorySteps
from stem.contracts.store import Capabilities, Store
from stem.core.settings.app import Settings
from stem.runtime.clock import Clock, system_clock

CAPABILITIES = Capabilities(is_durable=False, crosses_processes=False, crosses_machines=False, joins_transactions=False)

_states: WeakValueDictionary[tuple[str, str], MemoryState] = WeakValueDictionary()


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> Store:
    """All stores of one URL and namespace in this process are the same one, as long as any of them lives."""
    key = (urlsplit(url).netloc + urlsplit(url).path, settings.namespace)
    state = _states.get(key)
    if state is None:
        state = _states[key] = MemoryState(settings.retention, clock)
    handle = StoreHandle()
    broker = MemoryBroker(state, handle)
    return Store(
        url=url,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=broker,
        deadletters=MemoryDeadLetters(state),
        results=MemoryResults(state, handle),
        events=MemoryEvents(state, handle),
        history=MemoryHistory(state),
        revokes=MemoryRevokes(state),
        locks=MemoryLocks(state),
        limiter=MemoryLimiter(state),
        heartbeats=MemoryHeartbeats(state),
        mail=MemoryMail(state, handle),
        staging=MemoryStaging(state, broker),
        rollups=MemoryRollups(state),
        schedules=MemorySchedules(state, handle, broker),
        task_logs=MemoryTaskLogs(state),
        steps=MemorySteps(state),
        upkeep=MemoryUpkeep(state, handle),
    )
