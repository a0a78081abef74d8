"""Open the Postgres store: every contract, over one pool of connections."""

from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.connection.address import address
from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.deadletters import PostgresDeadLetters
from stem.backends.postgres.events import PostgresEvents
from stem.backends.postgres.heartbeats import PostgresHeartbeats
from stem.backends.postgres.history import PostgresHistory
from stem.backends.postgres.limiter import PostgresLimiter
from stem.backends.postgres.locks import PostgresLocks
from stem.backends.postgres.mail import PostgresMail
from stem.backends.postgres.namespace import CAPABILITIES, PostgresNamespace
from stem.backends.postgres.notify.listener import Listeners
from stem.backends.postgres.notify.notifier import Notifier, channel_of
from stem.backends.postgres.results import PostgresResults
from stem.backends.postgres.revokes import PostgresRevokes
from stem.backends.postgres.rollups import PostgresRollups
from stem.backends.postgres.schedules import PostgresSchedules
from stem.backends.postgres.staging.staging import PostgresStaging
from stem.backends.postgres.steps import PostgresSteps
from stem.backends.postgres.task_logs import PostgresTaskLogs
from stem.backends.postgres.upkeep import schema
from stem.backends.postgres.upkeep.background_pruning import BackgroundPruner
from stem.backends.postgres.upkeep.maintenance import PostgresUpkeep
from stem.contracts.store import Store
from stem.core.settings.app import Settings


def connect(url: str, settings: Settings) -> Store:
    """Open the database that the URL names, its schema made or migrated. `?schema=name` chooses another than `stem`;
    all other parameters are libpq's."""
    where = address(url, settings)
    client = PostgresClient(where, settings.timeout_seconds)
    schema.ensure(client)
    channel = channel_of(where.schema, settings.namespace)
    pruner = BackgroundPruner(client, settings.namespace, settings.retention)
    namespace = PostgresNamespace(
        client, settings.namespace, Notifier(client, channel), Listeners.of(client, channel), settings.retention
    )
    return Store(
        url=where.name,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=PostgresBroker(namespace, pruner),
        deadletters=PostgresDeadLetters(namespace),
        results=PostgresResults(namespace),
        events=PostgresEvents(namespace),
        history=PostgresHistory(namespace),
        revokes=PostgresRevokes(namespace),
        locks=PostgresLocks(namespace),
        limiter=PostgresLimiter(namespace),
        heartbeats=PostgresHeartbeats(namespace),
        mail=PostgresMail(namespace),
        staging=PostgresStaging(namespace),
        rollups=PostgresRollups(namespace),
        schedules=PostgresSchedules(namespace),
        steps=PostgresSteps(namespace),
        task_logs=PostgresTaskLogs(namespace),
        upkeep=PostgresUpkeep(namespace, pruner),
    )
