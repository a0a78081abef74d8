"""A Postgres store whose tasks and events lie in several tables, as they do after large writes: of what is pushed or logged a
third stays where it is, and with each commit the rest moves into tables below."""

import psycopg
from psycopg import sql

from stem.backends import connect
from stem.core.config import Settings
from support.builders import pushes
from support.servers import PostgresServer

_SCHEMA = "stem_below"
_MOVE = """
    CREATE TABLE {s}.{low} (LIKE {s}.{table} INCLUDING ALL);
    ALTER TABLE {s}.{low} INHERIT {s}.{table};
    CREATE FUNCTION {s}.{low}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WITH moved AS (DELETE FROM ONLY {s}.{table} t WHERE t.{key} = NEW.{key} AND t.ns = NEW.ns RETURNING t.*)
        INSERT INTO {s}.{low} SELECT * FROM moved;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER {low} AFTER INSERT ON {s}.{table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (abs(hashtext(NEW.{key}::text)) % 3 = {third}) EXECUTE FUNCTION {s}.{low}();
"""


def url_below(server: PostgresServer) -> str:
    """Of the server's store of this kind, made when it is first asked for."""
    url = f"{server.url}&schema={_SCHEMA}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        if conn.execute("SELECT to_regclass(%s)", [f"{_SCHEMA}.messages_low1"]).fetchone() == (None,):
            store = connect(url, Settings(namespace="kept"))
            for table, key in (("messages", "id"), ("events", "n")):
                for third in (1, 2):
                    conn.execute(sql.SQL(_MOVE).format(**_names(table, key, third)))
            store.broker.push(pushes(*map(str, range(50))))  # a table of which nothing is left would be dropped
            store.upkeep.close()
    return url


def _names(table: str, key: str, third: int) -> dict[str, sql.Composable]:
    names = {"s": _SCHEMA, "table": table, "low": f"{table}_low{third}", "key": key}
    return {**{name: sql.Identifier(value) for name, value in names.items()}, "third": sql.Literal(third)}
