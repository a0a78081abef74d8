"""Make or migrate the schema: once, however many processes start at the same time."""

from importlib.resources import files
from time import monotonic

import psycopg
from psycopg import sql

from stem.backends.postgres.connection.connections import PostgresClient
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection
from stem.backends.postgres.statements import OLDEST_SERVER, VERSION, query_text, text
from stem.core.errors import StoreRefused

_TABLES = (
    "version", "now", "messages", "records", "dead", "events", "uniques", "locks", "heartbeats", "revokes", "mail", "upkeep",
    "buckets", "places", "stage_jobs", "rollups", "handoffs", "watch", "lost", "schedules",
    "revivable", "cascades", "steps", "task_logs",
)  # fmt: skip
_SINCE = {
    "buckets": 3,
    "places": 3,
    "stage_jobs": 9,
    "rollups": 7,
    "handoffs": 15,
    "watch": 12,
    "lost": 12,
    "schedules": 17,  # 16 had it without an index
    "revivable": 17,
    "cascades": 17,
    "steps": 17,
    "task_logs": 18,
}  # the version that brought a table, for those that version 1 did not have
_RETIRED = (  # functions that earlier versions had
    "lease", "stand", "stage_attach", "stage_drop", "stage_fold", "stage_note", "stage_overlap", "stage_repeats", "stage_seal",
    "stage_slot", "stage_slots",
)  # fmt: skip
_INLINED = frozenset(
    {"cells", "event_data", "stage_table"}
)  # touch no table, and are inlined only while they have no settings
# The verbs look rows up by index whatever the statistics say: a plan made for an empty table must not scan a full one.
_SETTINGS = (
    "search_path FROM CURRENT",
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_nestloop = off",
    "enable_mergejoin = off",
    "jit = off",  # before 18 what is switched off counts as a huge cost, for which every call would be compiled
)
_MIGRATION_SECONDS = 600.0  # it may copy millions of rows, while 50 processes wait for the one that does


def ensure(client: PostgresClient) -> None:
    """Raises StoreRefused for a server too old or set up unfit, a schema that is not ours or newer or that others could
    have laid a trap in, or one we may not make."""
    conn = client.dedicated()
    try:
        conn.deadline = monotonic() + client.timeout_seconds
        _check_server(conn, client)
        _check_owners(conn, client)  # before anything of it is read: a view can run its owner's code
        if _found_version(conn, client) != VERSION:
            conn.deadline = monotonic() + _MIGRATION_SECONDS
            with conn.transaction():
                _migrate(conn, client)
    except psycopg.Error as error:
        raise client.translated(error) from error
    finally:
        conn.close()


def _check_server(conn: DeadlineConnection, client: PostgresClient) -> None:
    version = conn.info.server_version
    if version < OLDEST_SERVER:
        raise StoreRefused(
            f"Postgres at {client.address.name} is version {version // 10000} and Stem needs 13 or later; upgrade the server."
        )
    query = "SELECT current_setting('server_encoding'), current_setting('default_transaction_isolation'), current_user"
    ((encoding, isolation, role),) = conn.execute(query).fetchall()
    if encoding != "UTF8":
        raise StoreRefused(
            f"The database at {client.address.name} is encoded in {encoding}, which cannot hold every text; "
            "use one made with ENCODING 'UTF8'."
        )
    if isolation != "read committed":  # the verbs look again at what others have committed meanwhile
        change = sql.SQL("ALTER ROLE {} SET default_transaction_isolation = 'read committed'")
        raise StoreRefused(
            f"Transactions at {client.address.name} are {isolation} by default and Stem needs them read committed; "
            f"say so: {change.format(sql.Identifier(role)).as_string(None)}."
        )


def _check_owners(conn: DeadlineConnection, client: PostgresClient) -> None:
    where = client.address
    given = {"schema": where.schema, "owners": ",".join(where.owners)}
    row = conn.execute(query_text("untrusted_owners", where.schema), given).fetchone()
    if row is None:
        return
    what, name, owner = row
    if what == "right to create":
        who, grantee, trust = "Everybody", "PUBLIC", ""
        if owner is not None:
            who, grantee = f"Role {owner!r}", sql.Identifier(owner).as_string(None)
            trust = ", name the role in STEM_POSTGRES_OWNERS if you trust it"
        raise StoreRefused(
            f"{who} may add functions to schema {name!r} at {where.name}, which Stem would execute; choose another with "
            f"?schema=name{trust}, or: REVOKE CREATE ON SCHEMA {sql.Identifier(name).as_string(None)} FROM {grantee}."
        )
    raise StoreRefused(
        f"The {what} {name!r} at {where.name} is role {owner!r}'s, whose code Stem would execute; remove it, choose another "
        "schema with ?schema=name, or name the role in STEM_POSTGRES_OWNERS if you trust it."
    )


def _found_version(conn: DeadlineConnection, client: PostgresClient) -> int:
    """0: no schema, or an empty one."""
    schema = client.address.schema
    tables = _found_tables(conn, schema)
    if not tables:
        return 0
    if not {"version", "messages", "records"} <= tables:
        raise StoreRefused(
            f"Schema {schema!r} at {client.address.name} holds tables that are not Stem's; choose another with ?schema=name."
        )
    row = conn.execute(sql.SQL("SELECT version FROM {}.version").format(sql.Identifier(schema))).fetchone()
    if row is None:
        raise StoreRefused(
            f"Schema {schema!r} at {client.address.name} has lost the row of its table version; restore the schema, "
            "or choose another with ?schema=name."
        )
    version = int(row[0])
    if version > VERSION:
        raise StoreRefused(
            f"Schema {schema!r} at {client.address.name} has version {version} and this Stem knows up to {VERSION}; upgrade Stem."
        )
    return version


def _found_tables(conn: DeadlineConnection, schema: str) -> set[str]:
    found = conn.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        [schema],
    ).fetchall()
    return {name for (name,) in found}


def _migrate(conn: DeadlineConnection, client: PostgresClient) -> None:
    schema = client.address.schema
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('stem.schema/' || %s, 0))", [schema])
    version = _found_version(conn, client)  # another process may have been first
    if version == VERSION:
        return
    if conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone() is None:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    conn.execute(sql.SQL("SET LOCAL search_path = {}, pg_temp").format(sql.Identifier(schema)))
    before = _found_tables(conn, schema)
    for table in _TABLES:
        if version < _SINCE.get(table, 1):
            conn.execute(text(f"tables/{table}.sql"))
    _create_functions(conn)
    if version == 0:
        conn.execute("INSERT INTO version (version) VALUES (%s)", [VERSION])
    else:
        conn.execute("DROP SEQUENCE IF EXISTS fence_seq")  # of versions up to 7
        conn.execute("DROP TABLE IF EXISTS seats")  # of versions 11 to 14
        if version < 14:
            conn.execute(text("migrations/14.sql"))
            before.discard("holders")  # which earlier migrations gave to nobody but its owner
        if version < 17:
            conn.execute(text("migrations/17.sql"))
        _grant_new_tables(conn, schema, _found_tables(conn, schema) - before)
    conn.execute("UPDATE version SET version = %s", [VERSION])
    _check_owners(conn, client)  # somebody may have made the schema just before us


def _grant_new_tables(conn: DeadlineConnection, schema: str, tables: set[str]) -> None:
    """Roles that may use our other tables may use the new ones."""
    for (grant,) in conn.execute(query_text("missing_grants", schema), {"tables": sorted(tables)}).fetchall():
        conn.execute(grant.encode())


def _create_functions(conn: DeadlineConnection) -> None:
    folder = files("stem.backends.postgres") / "sql" / "functions"
    names = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
    # An older one with other parameters would stay beside the new one.
    older = conn.execute(
        "SELECT format('DROP FUNCTION %%s', oid::regprocedure) FROM pg_proc"
        " WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (%s)",
        [[*names, *_RETIRED]],
    ).fetchall()
    for (drop,) in older:
        conn.execute(drop.encode())
    conn.execute("SET LOCAL check_function_bodies = off")  # they call one another
    for name in names:
        conn.execute(text(f"functions/{name}.sql"))
    for name in names:
        if name not in _INLINED:
            settings = sql.SQL(" ").join(sql.SQL("SET ") + sql.SQL(setting) for setting in _SETTINGS)
            conn.execute(sql.SQL("ALTER FUNCTION {} ").format(sql.Identifier(name)) + settings)
