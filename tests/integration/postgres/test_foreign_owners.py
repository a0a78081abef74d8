"""Another role of the same server plants a schema, tables, functions or operators, so that Stem runs them with its rights."""

from collections.abc import Iterator

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres.connection.address import address
from stem.core.errors import StoreRefused
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import PostgresServer

OURS = Settings(namespace="strangers", timeout_seconds=30.0)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A database in which both roles may make schemas, and in which each of them may add to `public`, as before 15."""
    server = PostgresServer(listens=True)
    with psycopg.connect(server.url, autocommit=True) as admin:
        for role in ("ours", "eve", "dba"):
            admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}-password'".encode())
        admin.execute("CREATE DATABASE shared")
        admin.execute("GRANT CREATE ON DATABASE shared TO ours, eve, dba")
        admin.execute("CREATE TABLE spoils (who text)")
    with psycopg.connect(url(server, "postgres"), autocommit=True) as admin:
        admin.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        admin.execute("CREATE TABLE public.spoils (who name)")
        admin.execute("GRANT ALL ON public.spoils TO PUBLIC")
    yield server
    server.close()


def url(server: PostgresServer, role: str, schema: str = "") -> str:
    if role == "postgres":
        return server.url.replace("/postgres?", "/shared?")
    return server.tcp_url(role, f"{role}-password", "shared") + (f"?schema={schema}" if schema else "")


def as_role(server: PostgresServer, role: str, *statements: str) -> None:
    with psycopg.connect(url(server, role), autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def spoils(server: PostgresServer) -> list[str]:
    with psycopg.connect(url(server, "postgres"), autocommit=True) as admin:
        return [who for (who,) in admin.execute("SELECT who FROM public.spoils").fetchall()]


TRAP = """
    CREATE FUNCTION {s}.trap() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.spoils VALUES (current_user); RETURN 11; END $$
"""


def test_a_schema_that_another_role_has_made_ready_for_us_is_refused_unread(server: PostgresServer) -> None:
    as_role(
        server, "eve",
        "CREATE SCHEMA bait",
        "GRANT ALL ON SCHEMA bait TO ours",
        TRAP.format(s="bait"),
        "CREATE TABLE bait.messages (x int)", "CREATE TABLE bait.records (x int)",
        "CREATE VIEW bait.version AS SELECT bait.trap() AS version",
        "GRANT ALL ON ALL TABLES IN SCHEMA bait TO ours",
    )  # fmt: skip
    with pytest.raises(StoreRefused, match="is role 'eve''s, whose code Stem would execute"):
        connect(url(server, "ours", "bait"), OURS)
    assert "ours" not in spoils(server)


def test_a_superuser_does_not_trust_everybody(server: PostgresServer) -> None:
    as_role(server, "eve", "CREATE SCHEMA for_root")
    with pytest.raises(StoreRefused, match=r"The schema 'for_root' .* is role 'eve''s"):
        connect(url(server, "postgres") + "&schema=for_root", OURS)


def test_a_function_planted_among_ours_is_refused(server: PostgresServer) -> None:
    store = connect(url(server, "ours", "garden"), OURS)
    store.broker.push([a_push("before")])
    store.upkeep.close()
    as_role(server, "ours", "GRANT ALL ON SCHEMA garden TO eve")
    as_role(server, "eve", TRAP.format(s="garden"))
    with pytest.raises(StoreRefused, match=r"The function 'trap' .* is role 'eve''s"):
        connect(url(server, "ours", "garden"), OURS)


def test_a_role_that_may_add_to_our_schema_is_refused_before_it_does(server: PostgresServer) -> None:
    connect(url(server, "ours", "open"), OURS).upkeep.close()
    as_role(server, "ours", "GRANT CREATE ON SCHEMA open TO eve")
    told = r"Role 'eve' may add functions to schema 'open' .* REVOKE CREATE ON SCHEMA \"open\" FROM \"eve\""
    with pytest.raises(StoreRefused, match=told):
        connect(url(server, "ours", "open"), OURS)
    trusting = Settings(namespace="strangers", timeout_seconds=30.0, postgres_owners=("eve",))
    connect(url(server, "ours", "open"), trusting).upkeep.close()
    as_role(server, "ours", 'REVOKE CREATE ON SCHEMA "open" FROM "eve"')
    connect(url(server, "ours", "open"), OURS).upkeep.close()


def test_a_trigger_that_runs_a_stranger_s_function_is_refused(server: PostgresServer) -> None:
    connect(url(server, "ours", "sprung"), OURS).upkeep.close()
    as_role(server, "ours", "GRANT USAGE ON SCHEMA sprung TO eve", "GRANT TRIGGER ON sprung.messages TO eve")
    as_role(
        server, "eve",
        "CREATE SCHEMA eves",
        "GRANT USAGE ON SCHEMA eves TO PUBLIC",
        "CREATE FUNCTION eves.spring() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.spoils VALUES (current_user); RETURN NEW; END $$",
        "CREATE TRIGGER spring BEFORE INSERT ON sprung.messages FOR EACH ROW EXECUTE FUNCTION eves.spring()",
    )  # fmt: skip
    with pytest.raises(StoreRefused, match=r"The trigger 'spring' .* is role 'eve''s, whose code Stem would execute"):
        connect(url(server, "ours", "sprung"), OURS)


def test_an_object_that_shadows_a_built_in_on_the_search_path_is_refused(server: PostgresServer) -> None:
    """Postgres prefers one that fits better to one that is built in, and runs it with our rights."""
    connect(url(server, "ours", "path"), OURS).upkeep.close()
    for plant, remove, told in (
        (
            "CREATE FUNCTION public.round(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION public.round(int)",
            "The function 'round'",
        ),
        (
            "CREATE OPERATOR public.* (LEFTARG = float8, RIGHTARG = int, FUNCTION = float8larger)",
            "DROP OPERATOR public.* (float8, int)",
            r"The operator '\*'",
        ),
    ):
        if "OPERATOR" in plant:
            as_role(
                server, "eve",
                "CREATE FUNCTION public.float8larger(float8, int) RETURNS float8 LANGUAGE sql AS 'SELECT 1.0::float8'",
                plant.replace("float8larger", "public.float8larger"),
                "ALTER FUNCTION public.float8larger(float8, int) RENAME TO eves_own",
            )  # fmt: skip
        else:
            as_role(server, "eve", plant)
        with pytest.raises(StoreRefused, match=told):
            connect(url(server, "ours", "path"), OURS)
        as_role(server, "eve", remove)
    connect(url(server, "ours", "path"), OURS).upkeep.close()


def test_a_schema_that_everybody_may_add_to_is_refused(server: PostgresServer) -> None:
    with pytest.raises(StoreRefused, match='REVOKE CREATE ON SCHEMA "public" FROM PUBLIC'):
        connect(url(server, "ours", "public"), OURS)


def test_roles_that_we_belong_to_or_name_are_trusted(server: PostgresServer) -> None:
    connect(url(server, "dba", "kept"), OURS).upkeep.close()
    grants = [f"GRANT ALL ON ALL {kind} IN SCHEMA kept TO ours" for kind in ("TABLES", "FUNCTIONS", "SEQUENCES")]
    as_role(server, "dba", "GRANT USAGE ON SCHEMA kept TO ours", *grants)
    with pytest.raises(StoreRefused, match="name the role in STEM_POSTGRES_OWNERS"):
        connect(url(server, "ours", "kept"), OURS)
    named = Settings(namespace="strangers", timeout_seconds=30.0, postgres_owners=("eve", "dba"))
    store = connect(url(server, "ours", "kept"), named)
    assert store.broker.push([a_push("named")])[0].created
    store.upkeep.close()
    as_role(server, "postgres", "GRANT dba TO ours")
    connect(url(server, "ours", "kept"), OURS).upkeep.close()
    as_role(server, "postgres", "REVOKE dba FROM ours")


@pytest.mark.parametrize(
    ("where", "mode"),
    [
        ("postgresql://db.example.org/x", "sslmode=verify-full"),
        ("postgresql://10.0.0.7/x", "sslmode=verify-full"),
        ("postgresql://127.0.0.1,db.example.org/x", "sslmode=verify-full"),
        ("postgresql:///x?host=db.example.org", "sslmode=verify-full"),
        ("postgresql://db.example.org/x?sslmode=prefer", "sslmode=prefer"),
        ("postgresql://localhost/x", ""),
        ("postgresql://127.0.0.1:5432/x", ""),
        ("postgresql://[::1]/x", ""),
        ("postgresql:///x?host=/run/postgresql", ""),
        ("postgresql:///x", ""),
    ],
)
def test_beyond_this_machine_the_server_has_to_show_who_it_is(
    where: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    found = [part for part in address(where, Settings()).conninfo.split() if part.startswith("sslmode=")]
    assert found == ([mode] if mode else [])
    monkeypatch.setenv("PGSSLMODE", "allow")
    assert "verify-full" not in address(where, Settings()).conninfo, "said by the operator"


def test_a_server_that_shows_nothing_is_refused_with_a_remedy(server: PostgresServer) -> None:
    """0.0.0.0 leads to this machine, as another host would to that one."""
    far = url(server, "ours", "tls").replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(
        StoreRefused, match=r"cannot be reached safely .* STEM_TLS_CA_CERT .* \?sslmode=disable"
    ) as told:
        connect(far, OURS)
    assert "ours-password" not in str(told.value)
    connect(f"{far}&sslmode=disable", OURS).upkeep.close()
