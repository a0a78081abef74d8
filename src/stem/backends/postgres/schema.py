"""Make or migrate the schema: once, however many processes start at the same time."""

from importlib.resources import files
from time import monotonic

import psycopg
from psycopg import sql

from stem.backends.postgres.link import Link, Timed
from stem.backends.postgres.statements import OLDEST_SERVER, VERSION, ask, text
from stem.core.errors import StoreRefused

_TABLES = (
    "version", "now", "messages", "records", "dead", "events", "uniques", "locks", "heartbeats", "revokes", "mail", "upkeep",
    "buckets", "places", "stage_jobs", "rollups", "seats", "watch", "lost",
)  # fmt: skip
_SINCE = {
    "buckets": 3,
    "places": 3,
    "stage_jobs": 9,
    "rollups": 7,
    "seats": 11,
    "watch": 12,
    "lost": 12,
}  # the version that brought a table, for those that version 1 did not have
_RETIRED = ("lease",)  # functions that earlier versions had
_INLINED = frozenset({"cells", "stage_table"})  # touches no table, and is inlined only while it has no settings
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
_MIGRATION_SECONDS = 60.0  # 50 processes may wait for one another here


def ensure(link: Link) -> None:
    """Raises StoreRefused for a server too old or set up unfit, a schema that is not ours or newer or that others could
    have laid a trap in, or one we may not make."""
    conn = link.dedicated()
    try:
        conn.deadline = monotonic() + link.timeout_seconds
        _check_server(conn, link)
        _check_owners(conn, link)  # before anything of it is read: a view can run its owner's code
        if _found_version(conn, link) != VERSION:
            conn.deadline = monotonic() + _MIGRATION_SECONDS
            with conn.transaction():
                _migrate(conn, link)
    except psycopg.Error as error:
        raise link.translated(error) from error
    finally:
        conn.close()


def _check_server(conn: Timed, link: Link) -> None:
    version = conn.info.server_version
    if version < OLDEST_SERVER:
        raise StoreRefused(
            f"Postgres at {link.address.name} is version {version // 10000} and Stem needs 13 or later; upgrade the server."
        )
    query = "SELECT current_setting('server_encoding'), current_setting('default_transaction_isolation'), current_user"
    ((encoding, isolation, role),) = conn.execute(query).fetchall()
    if encoding != "UTF8":
        raise StoreRefused(
            f"The database at {link.address.name} is encoded in {encoding}, which cannot hold every text; "
            "use one made with ENCODING 'UTF8'."
        )
    if isolation != "read committed":  # the verbs look again at what others have committed meanwhile
        change = sql.SQL("ALTER ROLE {} SET default_transaction_isolation = 'read committed'")
        raise StoreRefused(
            f"Transactions at {link.address.name} are {isolation} by default and Stem needs them read committed; "
            f"say so: {change.format(sql.Identifier(role)).as_string(None)}."
        )


def _check_owners(conn: Timed, link: Link) -> None:
    where = link.address
    given = {"schema": where.schema, "owners": ",".join(where.owners)}
    row = conn.execute(ask("strangers", where.schema), given).fetchone()
    if row is None:
        return
    what, name, owner, is_everybody = row
    if is_everybody:
        raise StoreRefused(
            f"Everybody may add functions to schema {name!r} at {where.name}, which Stem would execute; choose another with "
            f"?schema=name, or: REVOKE CREATE ON SCHEMA {sql.Identifier(name).as_string(None)} FROM PUBLIC."
        )
    raise StoreRefused(
        f"The {what} {name!r} at {where.name} is role {owner!r}'s, whose code Stem would execute; remove it, choose another "
        "schema with ?schema=name, or name the role in STEM_POSTGRES_OWNERS if you trust it."
    )


def _found_version(conn: Timed, link: Link) -> int:
    """0: no schema, or an empty one."""
    schema = link.address.schema
    found = conn.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        [schema],
    ).fetchall()
    tables = {name for (name,) in found}
    if not tables:
        return 0
    if not {"version", "messages", "records"} <= tables:
        raise StoreRefused(
            f"Schema {schema!r} at {link.address.name} holds tables that are not Stem's; choose another with ?schema=name."
        )
    row = conn.execute(sql.SQL("SELECT version FROM {}.version").format(sql.Identifier(schema))).fetchone()
    if row is None:
        raise StoreRefused(
            f"Schema {schema!r} at {link.address.name} has lost the row of its table version; restore the schema, "
            "or choose another with ?schema=name."
        )
    version = int(row[0])
    if version > VERSION:
        raise StoreRefused(
            f"Schema {schema!r} at {link.address.name} has version {version} and this Stem knows up to {VERSION}; upgrade Stem."
        )
    return version


def _migrate(conn: Timed, link: Link) -> None:
    schema = link.address.schema
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('stem.schema/' || %s, 0))", [schema])
    version = _found_version(conn, link)  # another process may have been first
    if version == VERSION:
        return
    if conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone() is None:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    conn.execute(sql.SQL("SET LOCAL search_path = {}, pg_temp").format(sql.Identifier(schema)))
    for table in _TABLES:
        if version < _SINCE.get(table, 1):
            conn.execute(text(f"tables/{table}.sql"))
            if version > 0:
                _let_in(conn, table)
    conn.execute("DROP SEQUENCE IF EXISTS fence_seq")  # of versions up to 7
    if version == 0:
        conn.execute("INSERT INTO version (version) VALUES (%s)", [VERSION])
    _make_verbs(conn)
    conn.execute("UPDATE version SET version = %s", [VERSION])
    _check_owners(conn, link)  # somebody may have made the schema just before us


def _let_in(conn: Timed, table: str) -> None:
    """Whoever may use our tables, besides their owner, may use one that is new among them."""
    found = conn.execute(
        "SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END"
        " FROM pg_class c, aclexplode(c.relacl) WHERE c.oid = 'messages'::regclass AND grantee <> c.relowner"
    ).fetchall()
    for (role,) in found:
        conn.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}".encode())


def _make_verbs(conn: Timed) -> None:
    folder = files(__package__) / "sql" / "verbs"
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
        conn.execute(text(f"verbs/{name}.sql"))
    for name in names:
        if name not in _INLINED:
            settings = sql.SQL(" ").join(sql.SQL("SET ") + sql.SQL(setting) for setting in _SETTINGS)
            conn.execute(sql.SQL("ALTER FUNCTION {} ").format(sql.Identifier(name)) + settings)
