"""A store for commands that ask a little and are over: straight through libpq, so that most of the driver is not imported.

Whatever else is asked of it opens the whole store.
"""

from typing import Any

from psycopg.errors import Error

from stem.backends.postgres.address import address
from stem.backends.postgres.bell import Bell, channel_of
from stem.backends.postgres.brieflink import BriefLink
from stem.backends.postgres.heartbeats import PostgresHeartbeats
from stem.backends.postgres.listener import Listeners
from stem.backends.postgres.mail import PostgresMail
from stem.backends.postgres.space import CAPABILITIES, Corner
from stem.backends.postgres.statements import OLDEST_SERVER, VERSION
from stem.contracts.store import Diagnosis, Store, Upkeep
from stem.core.config import Settings
from stem.core.errors import StemError

_PATIENCE_SECONDS = 1.0  # a server that is there answers sooner


def connect(url: str, settings: Settings) -> Store:
    """As the whole store's. Raises ConfigError, StoreUnavailable, StoreRefused."""
    whole = Whole(url, settings)
    where = address(url, settings)
    link = BriefLink(where, settings.timeout_seconds)
    channel = channel_of(where.schema, settings.namespace)
    corner = Corner(link, settings.namespace, Bell(link, channel), Listeners.of(link, channel))
    if _is_fit(corner, link):
        return BriefStore(corner, whole)
    BriefUpkeep(corner, whole).close()
    return whole.opened()


def _is_fit(corner: Corner, link: BriefLink) -> bool:
    """If not, the whole store makes it so, or says what is wrong; it also has the patience, and tries every address."""
    try:
        version = link.server_version(timeout_seconds=_PATIENCE_SECONDS)
        if version < OLDEST_SERVER:
            return False
        where = link.address
        owners = ",".join(where.owners)
        if corner.ask("strangers", schema=where.schema, owners=owners, timeout_seconds=_PATIENCE_SECONDS):
            return False
        return corner.ask("fit", version=VERSION, timeout_seconds=_PATIENCE_SECONDS) == [(True,)]
    except (StemError, Error):
        return False


class Whole:
    """The whole store, from when it is first needed."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._store: Store | None = None

    def opened(self) -> Store:
        if self._store is None:
            from stem.backends.postgres.store import connect as connect_whole

            self._store = connect_whole(self._url, self._settings)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.upkeep.close()


class BriefStore(Store):
    """The seams that it has not are those of the whole store."""

    __slots__ = ("_whole",)

    def __init__(self, corner: Corner, whole: Whole) -> None:
        seams: dict[str, Any] = {
            "_whole": whole,
            "url": corner.link.address.name,
            "namespace": corner.namespace,
            "capabilities": CAPABILITIES,
            "heartbeats": PostgresHeartbeats(corner),
            "mail": PostgresMail(corner),
            "upkeep": BriefUpkeep(corner, whole),
        }
        for name, seam in seams.items():
            object.__setattr__(self, name, seam)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole.opened(), name)


class BriefUpkeep(Upkeep):
    def __init__(self, corner: Corner, whole: Whole) -> None:
        self._corner = corner
        self._whole = whole

    def now(self) -> float:
        return float(self._corner.ask("now")[0][0])

    def diagnose(self) -> Diagnosis:
        return self._whole.opened().upkeep.diagnose()

    def prune(self) -> int:
        return self._whole.opened().upkeep.prune()

    def close(self) -> None:
        corner = self._corner
        corner.bell.close()
        corner.listeners.close()
        corner.link.close()
        self._whole.close()
