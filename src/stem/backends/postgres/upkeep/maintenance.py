"""Diagnose, prune and close a Postgres store, and read its clock."""

from time import monotonic

from psycopg import sql

from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.upkeep.background_pruning import BackgroundPruner
from stem.contracts.store import Diagnosis, Upkeep

_LONG_SECONDS = 60.0  # for a transaction to be open


class PostgresUpkeep(Upkeep):
    def __init__(self, namespace: PostgresNamespace, pruner: BackgroundPruner) -> None:
        self._namespace = namespace
        self._pruner = pruner

    def now(self) -> float:
        return float(self._namespace.query("now")[0][0])

    def diagnose(self) -> Diagnosis:
        begun = monotonic()
        self.now()
        latency = monotonic() - begun
        version, fsync, synchronous, autovacuum, lag, snapshot, strays = self._namespace.query("diagnose")[0]
        warnings = []
        if fsync != "on":
            warnings.append("fsync is off, so a crash of the server can lose tasks; set fsync = on.")
        if synchronous == "off":
            warnings.append(
                "synchronous_commit is off, so a crash can lose the last tasks; set synchronous_commit = on."
            )
        if autovacuum != "on":
            warnings.append("autovacuum is off, so tables will bloat and slow down; set autovacuum = on.")
        if lag is not None and lag > _LONG_SECONDS:
            warnings.append(
                f"A transaction has been open for {lag:.0f} s, so event readers may lag behind it; end it (see pg_stat_activity "
                "and pg_prepared_xacts)."
            )
        elif snapshot is not None and snapshot > _LONG_SECONDS:
            warnings.append(
                f"A transaction has been reading for {snapshot:.0f} s, so nothing that ended since can be vacuumed and claims "
                "slow down; end it (see pg_stat_activity)."
            )
        if strays:
            warnings.append(
                "The event log comes from another server (a restored dump) and its readers would wait for long; "
                f"empty it: TRUNCATE {sql.Identifier(self._namespace.schema, 'events').as_string(None)}."
            )
        return Diagnosis(backend="postgres", server=f"PostgreSQL {version}", latency_seconds=latency, warnings=warnings)

    def prune(self) -> int:
        return self._pruner.prune()

    def close(self) -> None:
        namespace = self._namespace
        if namespace.client.is_closed:
            return
        namespace.notifier.close()
        namespace.listeners.close()
        self._pruner.close()
        namespace.client.close()
