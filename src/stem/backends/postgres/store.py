"""Open the whole store: every seam, over one pool of connections."""

from stem.backends.postgres import schema
from stem.backends.postgres.address import address
from stem.backends.postgres.bell import Bell, channel_of
from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.deadletters import PostgresDeadLetters
from stem.backends.postgres.events import PostgresEvents
from stem.backends.postgres.heartbeats import PostgresHeartbeats
from stem.backends.postgres.history import PostgresHistory
from stem.backends.postgres.housekeeping import Housekeeper
from stem.backends.postgres.limiter import PostgresLimiter
from stem.backends.postgres.link import Link
from stem.backends.postgres.listener import Listeners
from stem.backends.postgres.locks import PostgresLocks
from stem.backends.postgres.mail import PostgresMail
from stem.backends.postgres.results import PostgresResults
from stem.backends.postgres.revokes import PostgresRevokes
from stem.backends.postgres.rollups import PostgresRollups
from stem.backends.postgres.space import CAPABILITIES, Space
from stem.backends.postgres.staging import PostgresStaging
from stem.backends.postgres.upkeep import PostgresUpkeep
from stem.contracts.store import Store
from stem.core.config import Settings


def connect(url: str, settings: Settings) -> Store:
    """Open the database that the URL names, its schema made or migrated. `?schema=name` chooses another than `stem`;
    all other parameters are libpq's."""
    where = address(url, settings)
    link = Link(where, settings.timeout_seconds)
    schema.ensure(link)
    channel = channel_of(where.schema, settings.namespace)
    housekeeper = Housekeeper(link, settings.namespace, settings.retention)
    space = Space(link, settings.namespace, Bell(link, channel), Listeners.of(link, channel), settings.retention)
    return Store(
        url=where.name,
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=PostgresBroker(space, housekeeper),
        deadletters=PostgresDeadLetters(space),
        results=PostgresResults(space),
        events=PostgresEvents(space),
        history=PostgresHistory(space),
        revokes=PostgresRevokes(space),
        locks=PostgresLocks(space),
        limiter=PostgresLimiter(space),
        heartbeats=PostgresHeartbeats(space),
        mail=PostgresMail(space),
        staging=PostgresStaging(space),
        rollups=PostgresRollups(space),
        upkeep=PostgresUpkeep(space, housekeeper),
    )
