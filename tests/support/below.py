"""A Postgres store whose tasks and events lie in several tables, as after large writes of Spark: of what is pushed or logged a
third stays where it is, and at each commit the rest moves into tables below."""

import psycopg
from psycopg import sql

from stem.backends import connect
from stem.core.config import Settings
from support.servers import PostgresServer

_SCHEMA = "stem_below"
_MOVES = """
    CREATE TABLE {s}.{table}_low{n} (LIKE {s}.{table} INCLUDING ALL);
    ALTER TABLE {s}.{table}_low{n} INHERIT {s}.{table};
    CREATE FUNCTION {s}.{table}_move{n}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WITH moved AS (DELETE FROM ONLY {s}.{table} t WHERE t.{key} = NEW.{key} AND t.ns = NEW.ns RETURNING t.*)
        INSERT INTO {s}.{table}_low{n} SELECT * FROM moved;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER {table}_move{n} AFTER INSERT ON {s}.{table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (abs(hashtext(NEW.{key}::text)) % 3 = {n}) EXECUTE FUNCTION {s}.{table}_move{n}();
"""


def url_below(server: PostgresServer) -> str:
    """Of the server's store of this kind, made when it is first asked for."""
    url = f"{server.url}&schema={_SCHEMA}"
    with psycopg.connect(server.url, autocommit=True) as conn:
        if conn.execute("SELECT to_regclass(%s)", [f"{_SCHEMA}.messages_low1"]).fetchone() == (None,):
            kept = connect(url, Settings(namespace="kept"))  # a table of which nothing is left would be dropped
            for table, key in (("messages", "id"), ("events", "n")):
                for n in (1, 2):
                    names = {"s": sql.Identifier(_SCHEMA), "key": sql.Identifier(key), "n": sql.Literal(n)}
                    conn.execute(sql.SQL(_MOVES.replace("{table}", table).replace("{n}", str(n))).format(**names))
            from support.builders import pushes

            kept.broker.push(pushes(*(f"kept{number}" for number in range(20))))
            kept.upkeep.close()
    return url
