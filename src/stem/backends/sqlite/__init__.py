"""Store everything in one SQLite file: durable, for all processes of one machine, without a server."""

from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.connection.address import address
from stem.backends.sqlite.connection.database import Database, check_library, check_place, make_private
from stem.backends.sqlite.connection.doorbell import Doorbell
from stem.backends.sqlite.deadletters import SqliteDeadLetters
from stem.backends.sqlite.heartbeats import SqliteHeartbeats
from stem.backends.sqlite.limiter import SqliteLimiter
from stem.backends.sqlite.locks import SqliteLocks
from stem.backends.sqlite.log.events import SqliteEvents
from stem.backends.sqlite.log.history import SqliteHistory
from stem.backends.sqlite.log.task_logs import SqliteTaskLogs
from stem.backends.sqlite.mail import SqliteMail
from stem.backends.sqlite.maintenance import SqliteUpkeep
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.pruning import Pruner
from stem.backends.sqlite.results import SqliteResults
from stem.backends.sqlite.revokes import SqliteRevokes
from stem.backends.sqlite.rollups import SqliteRollups
from stem.backends.sqlite.schedules import SqliteSchedules
from stem.backends.sqlite.schema import prepare
from stem.backends.sqlite.staging import SqliteStaging
from stem.backends.sqlite.tasks.steps import SqliteSteps
from stem.contracts.store import Capabilities, Store
from stem.core.settings.app import Settings
from stem.runtime.clock import Clock, system_clock

CAPABILITIES = Capabilities(is_durable=True, crosses_processes=True, crosses_machines=False, joins_transactions=True)


def connect(url: str, settings: Settings, *, clock: Clock = system_clock) -> Store:
    """Open the file, or make it, beside tables of your own if it has some. Raises ConfigError, StoreRefused, StoreUnavailable."""
    place = address(url)
    check_library()
    check_place(place)
    make_private(place.path)
    database = Database(place, settings.timeout_seconds)
    try:
        ns = prepare(database, settings.namespace, settings.timeout_seconds)
        database.pin()
    except BaseException:
        database.close()
        raise
    namespace = SqliteNamespace(database, ns, clock, Doorbell(place.path), settings.retention)
    pruner = Pruner(namespace)
    broker = SqliteBroker(namespace, pruner)
    return Store(
        url=url,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=broker,
        deadletters=SqliteDeadLetters(namespace),
        results=SqliteResults(namespace),
        events=SqliteEvents(namespace),
        history=SqliteHistory(namespace),
        revokes=SqliteRevokes(namespace),
        locks=SqliteLocks(namespace),
        limiter=SqliteLimiter(namespace),
        heartbeats=SqliteHeartbeats(namespace),
        mail=SqliteMail(namespace),
        staging=SqliteStaging(namespace, broker.push_in),
        rollups=SqliteRollups(namespace),
        schedules=SqliteSchedules(namespace, broker),
        steps=SqliteSteps(namespace),
        task_logs=SqliteTaskLogs(namespace),
        upkeep=SqliteUpkeep(namespace, pruner),
    )
