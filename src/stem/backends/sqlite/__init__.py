"""The store in one SQLite file: durable, for all processes of one machine, with no server to run."""

from stem.backends.sqlite.address import address
from stem.backends.sqlite.bell import Bell
from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.deadletters import SqliteDeadLetters
from stem.backends.sqlite.events import SqliteEvents
from stem.backends.sqlite.file import File, check_library, check_place, make_private
from stem.backends.sqlite.heartbeats import SqliteHeartbeats
from stem.backends.sqlite.history import SqliteHistory
from stem.backends.sqlite.limiter import SqliteLimiter
from stem.backends.sqlite.locks import SqliteLocks
from stem.backends.sqlite.mail import SqliteMail
from stem.backends.sqlite.pruning import Pruner
from stem.backends.sqlite.results import SqliteResults
from stem.backends.sqlite.revokes import SqliteRevokes
from stem.backends.sqlite.rollups import SqliteRollups
from stem.backends.sqlite.schema import prepare
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.staging import SqliteStaging
from stem.backends.sqlite.upkeep import SqliteUpkeep
from stem.contracts.store import Capabilities, Store
from stem.core.config import Settings
from stem.runtime.clock import Clock, system_clock

CAPABILITIES = Capabilities(is_durable=True, crosses_processes=True, crosses_machines=False, joins_transactions=True)


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> Store:
    """Open the file, or make it, beside tables of your own if it has some. Raises ConfigError, StoreRefused, StoreUnavailable."""
    place = address(url)
    check_library()
    check_place(place)
    make_private(place.path)
    file = File(place, settings.timeout_seconds)
    try:
        ns = prepare(file, settings.namespace, settings.timeout_seconds)
        file.pin()
    except BaseException:
        file.close()
        raise
    space = Space(file, ns, clock, Bell(place.path), settings.retention)
    pruner = Pruner(space)
    return Store(
        url=url,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=SqliteBroker(space, pruner),
        deadletters=SqliteDeadLetters(space),
        results=SqliteResults(space),
        events=SqliteEvents(space),
        history=SqliteHistory(space),
        revokes=SqliteRevokes(space),
        locks=SqliteLocks(space),
        limiter=SqliteLimiter(space),
        heartbeats=SqliteHeartbeats(space),
        mail=SqliteMail(space),
        staging=SqliteStaging(space),
        rollups=SqliteRollups(space),
        upkeep=SqliteUpkeep(space, pruner),
    )
