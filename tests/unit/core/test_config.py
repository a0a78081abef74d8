"""Settings from the environment, and URLs without their secrets."""

from pathlib import PurePath

import pytest

from stem.core.errors import ConfigError
from stem.core.settings.app import Retention, Settings, Tls, check_namespace, from_environment, masked


def test_an_empty_environment_gives_the_defaults() -> None:
    assert from_environment({}) == Settings()
    assert Settings().broker_url == "sqlite:///stem.db"
    assert not Settings().results_are_apart


def test_every_variable_is_read() -> None:
    found = from_environment(
        {
            "STEM_BROKER_URL": "redis://h",
            "STEM_RESULT_BACKEND_URL": "postgresql://h/db",
            "STEM_NAMESPACE": "prod.eu-1",
            "STEM_STORE_TIMEOUT": "2.5",
            "STEM_MAX_ARGS_BYTES": "2048",
            "STEM_RESULT_TTL": "60",
            "STEM_EVENTS_TTL": "70",
            "STEM_EVENTS_COUNT": "80",
            "STEM_TLS_CA_CERT": "/ca",
            "STEM_TLS_CLIENT_CERT": "/cert",
            "STEM_TLS_CLIENT_KEY": "/key",
            "STEM_TLS_VERIFY": "off",
            "STEM_SIGNING_KEYS": "k1:abc",
        }
    )
    assert found == Settings(
        broker_url="redis://h",
        results_url="postgresql://h/db",
        namespace="prod.eu-1",
        timeout_seconds=2.5,
        max_args_bytes=2048,
        retention=Retention(results_seconds=60, events_seconds=70, events_count=80),
        tls=Tls(ca_file=PurePath("/ca"), cert_file=PurePath("/cert"), key_file=PurePath("/key"), verify=False),
        signing_keys="k1:abc",
    )
    assert found.results_are_apart


def test_empty_variables_count_as_unset() -> None:
    names = ["STEM_BROKER_URL", "STEM_RESULT_BACKEND_URL", "STEM_NAMESPACE", "STEM_STORE_TIMEOUT", "STEM_TLS_VERIFY"]
    assert from_environment(dict.fromkeys(names, "")) == Settings()


def test_results_on_the_brokers_url_live_with_the_broker() -> None:
    env = {"STEM_BROKER_URL": "redis://h", "STEM_RESULT_BACKEND_URL": "redis://h"}
    assert not from_environment(env).results_are_apart


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", "-inf", "1e18", "1e300"])
@pytest.mark.parametrize(
    "name", ["STEM_STORE_TIMEOUT", "STEM_MAX_ARGS_BYTES", "STEM_RESULT_TTL", "STEM_EVENTS_TTL", "STEM_EVENTS_COUNT"]
)
def test_a_number_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        from_environment({name: value})


@pytest.mark.parametrize("name", ["STEM_EVENTS_COUNT", "STEM_MAX_ARGS_BYTES"])
def test_a_count_is_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        from_environment({name: "0.5"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("STEM_STORE_TIMEOUT", "1e10"), ("STEM_MAX_ARGS_BYTES", "1.5"), ("STEM_EVENTS_COUNT", "1" * 30)],
)
def test_a_number_that_some_store_could_not_hold_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        from_environment({name: value})


@pytest.mark.parametrize(("text", "is_on"), [("1", True), ("TRUE", True), (" on ", True), ("0", False), ("No", False)])
def test_switches_read_as_people_write_them(text: str, is_on: bool) -> None:
    assert from_environment({"STEM_TLS_VERIFY": text}).tls.verify is is_on


def test_an_odd_switch_is_refused() -> None:
    with pytest.raises(ConfigError, match="STEM_TLS_VERIFY"):
        from_environment({"STEM_TLS_VERIFY": "maybe"})


def test_namespaces_are_short_plain_words() -> None:
    for good in ("stem", "a", "A.b_c-1", "x" * 64):
        assert check_namespace(good) == good
    for bad in ("", "-a", "a b", "a:b", "{a}", "ü", "x" * 65, "a\n"):
        with pytest.raises(ConfigError):
            check_namespace(bad)
    with pytest.raises(ConfigError):
        from_environment({"STEM_NAMESPACE": "a/b"})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
        ("redis://:secret@h/0", "redis://:***@h/0"),
        ("redis://user:secret@h/0", "redis://user:***@h/0"),
        ("postgresql://u:p@ss:w@h:5432/db?sslmode=require", "postgresql://u:***@h:5432/db?sslmode=require"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("redis://u:se/cr?et#@h/0", "redis://u:***@h/0"),
        ("postgresql://h:5432/db?application_name=a@b", "postgresql://h:5432/db?application_name=a@b"),
        ("postgresql:///db?host=/tmp/pg", "postgresql:///db?host=/tmp/pg"),
        ("postgresql://h/db?user=u&password=secret", "postgresql://h/db?user=u&password=***"),
        ("redis://h/0?PASSWORD=secret&x=1", "redis://h/0?PASSWORD=***&x=1"),
    ],
)
def test_a_shown_url_never_has_its_password(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize("url", ["redis://[bad", "http://[::1", "//", "", "a b", "redis://u:p@[bad"])
def test_a_broken_url_can_be_shown(url: str) -> None:
    assert "p@" not in masked(url)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///a/../stem.db", "sqlite:///./stem.db?synchronous=normal"),
        ("sqlite:////tmp/x%20y.db", "sqlite:////tmp//x y.db"),
        ("redis://h", "redis://:secret@H:6379/0"),
        ("redis://localhost/1", "redis://127.0.0.1:6379/1"),
        ("postgresql://u:p@localhost/db", "postgres://v@127.0.0.1:5432/db?sslmode=require"),
        ("postgresql:///db?host=/tmp/pg", "postgresql:///db?host=/tmp/pg&application_name=x"),
    ],
)
def test_one_store_under_two_names_is_one(one: str, other: str) -> None:
    assert not Settings(broker_url=one, results_url=other).results_are_apart


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///a.db", "sqlite:////a.db"),
        ("redis://h/0", "redis://h/1"),
        ("redis://h", "redis://mylocalhost"),
        ("redis://h", "redis://h:6380"),
        ("redis://[::1", "redis://[::2"),
        ("postgresql://h/a", "postgresql://h/b"),
        ("postgresql://h/a", "postgresql://h/a?schema=other"),
        ("postgresql:///db?host=/tmp/pg", "postgresql:///db?host=/tmp/other"),
        ("memory://a", "memory://b"),
    ],
)
def test_two_stores_are_two(one: str, other: str) -> None:
    assert Settings(broker_url=one, results_url=other).results_are_apart
