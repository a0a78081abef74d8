"""Flags, environment, file and defaults become one configuration, and everything wrong is told at once."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import stem
from stem.core.decisions.autoscale import Autoscale
from stem.core.errors import ConfigError
from stem.core.settings.app import ControlSettings, Settings, check_settings, from_environment
from stem.core.settings.effective import (
    OTHER_VARIABLES,
    SETTINGS,
    EffectiveSettings,
    ValueSource,
    merge,
    read_document,
)
from stem.core.settings.kinds import duration, size
from stem.core.settings.worker import WorkerProcess, WorkerSettings
from stem.runtime.configfile import find, load, read

FULL = """
broker:
  url: redis://user:s3cret@host:6379/0
  timeout: 2s
results:
  url: postgresql://stem:s3cret@db/stem
  ttl: 2d
revokes: /var/lib/stem/revokes.stem
events: {ttl: 1h, count: 5000}
namespace: prod
maxArgsBytes: 2MB
fairShare: yes
tls: {caCert: /ca.pem, clientCert: /cert.pem, clientKey: /key.pem, verify: false}
signing:
  keys: k1:hmac-sha256:c2VjcmV0
worker:
  app: shop.tasks:app
  namespace: fleet
  queues: [mail, reports]
  concurrency: 4
  prefetch: 0
  softLimit: 30s
  hardLimit: 5m
  lease: 500ms
  max_tasks_per_child: 100
  maxMemoryPerIsolate: 512MB
autoscale:
  enabled: true
  min: 2
  max: 12
  scaleUpStep: 3
  scaleDownStep: 1
  idleSeconds: 45
  tick: 250ms
  scaleUpCoolDown: 5s
  scaleDownCoolDown: 10s
control:
  namespace: ops
  pollInterval: 1s
  timeout: 3s
  commandsPerSecond: 20
"""


def merged(text: str = "", env: dict[str, str] | None = None, **flags: tuple[str, Any]) -> EffectiveSettings:
    document = yaml.safe_load(text) or {}
    return merge(flags={k.replace("_", "."): v for k, v in flags.items()}, env=env or {}, document=document, file="f")


def test_nothing_said_gives_the_defaults() -> None:
    effective = merged()
    assert (effective.errors, effective.warnings) == ([], [])
    assert effective.settings == Settings() == from_environment({})
    assert (effective.worker, effective.process) == (WorkerSettings(), WorkerProcess())
    assert {source.kind for source in effective.sources.values()} == {"default"}


def test_a_whole_file_is_read() -> None:
    effective = merged(FULL)
    assert (effective.errors, effective.warnings) == ([], [])
    assert effective.process == WorkerProcess(app="shop.tasks:app")
    assert effective.worker == WorkerSettings(
        queues=("mail", "reports"),
        concurrency=4,
        prefetch=0,
        soft_limit=30.0,
        hard_limit=300.0,
        lease_seconds=0.5,
        max_tasks_per_isolate=100,
        max_memory_per_isolate=512 * 1024 * 1024,
        autoscale=Autoscale(enabled=True, scale_up_step=3, idle_seconds=45.0, tick_seconds=0.25),
    )
    settings = effective.settings
    assert check_settings(settings) == settings
    assert settings.control == ControlSettings(
        namespace="ops", worker_namespace="fleet", timeout_seconds=3.0, poll_seconds=1.0, commands_per_second=20.0
    )
    assert (settings.broker_url, settings.timeout_seconds) == ("redis://user:s3cret@host:6379/0", 2.0)
    assert (settings.revokes_place, settings.max_args_bytes) == ("/var/lib/stem/revokes.stem", 2 * 1024 * 1024)
    assert (settings.retention.results_seconds, settings.retention.events_seconds) == (172800.0, 3600.0)
    assert (settings.fair_share, settings.tls.verify, str(settings.tls.ca_file)) == (True, False, "/ca.pem")


@pytest.mark.parametrize(
    "key",
    [
        "maxTasksPerIsolate",
        "max_tasks_per_isolate",
        "max-tasks-per-isolate",
        "maxTasksPerChild",
        "max_tasks_per_child",
        "MAX_TASKS_PER_CHILD",
    ],
)
def test_all_spellings_of_a_setting_are_one(key: str) -> None:
    effective = merged(f"worker: {{{key}: 100}}")
    assert (effective.errors, effective.warnings) == ([], [])
    assert effective.worker.max_tasks_per_isolate == 100


@pytest.mark.parametrize("key", ["maxMemoryPerIsolate", "maxMemoryPerIsolateBytes", "max_memory_per_child"])
@pytest.mark.parametrize("value", ["536870912", "512MB", "512 MiB", "0.5g", "524288k"])
def test_memory_is_bytes_or_a_size(key: str, value: str) -> None:
    assert merged(f"worker: {{{key}: {value}}}").worker.max_memory_per_isolate == 512 * 1024 * 1024


def test_a_flag_counts_before_the_environment_that_before_the_file_and_that_before_the_default() -> None:
    text = "{broker: 'redis://file', results: 'redis://file', namespace: file, worker: {concurrency: 3}}"
    env = {"STEM_BROKER_URL": "redis://env", "STEM_RESULT_BACKEND_URL": "redis://env", "STEM_NAMESPACE": ""}
    effective = merged(text, env, broker_url=("--broker-url", "redis://flag"))
    values, sources = effective.values, effective.sources
    assert (values["broker.url"], sources["broker.url"]) == ("redis://flag", ValueSource("flag", "--broker-url"))
    assert (values["results.url"], sources["results.url"]) == (
        "redis://env",
        ValueSource("environment", "STEM_RESULT_BACKEND_URL"),
    )
    assert (values["namespace"], sources["namespace"]) == ("file", ValueSource("file", "f"))
    assert (values["worker.prefetch"], sources["worker.prefetch"]) == (1000, ValueSource("default"))


def test_a_broken_variable_that_a_flag_overrides_harms_nobody() -> None:
    env = {"STEM_NAMESPACE": "a b"}
    assert merged(env=env).errors == [
        "STEM_NAMESPACE='a b' is not 1 to 64 of letters, digits, '.', '_' and '-', as text."
    ]
    assert merged(env=env, namespace=("--namespace", "fine")).errors == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("worker: {concurrency: four}", "f: worker.concurrency is 'four'; use a whole number from 1 to 1,000."),
        ("worker: {concurrency: '4'}", "f: worker.concurrency is '4'; use a whole number from 1 to 1,000."),
        ("worker: {concurrency: 0}", "f: worker.concurrency is 0; use a whole number"),
        ("worker: {concurrency: true}", "f: worker.concurrency is True; use a whole number"),
        ("worker: {softLimit: soon}", "f: worker.softLimit is 'soon'; use a number of seconds, or a duration"),
        ("worker: {softLimit: .inf}", "f: worker.softLimit is inf"),
        ("worker: {queues: []}", "f: worker.queues is []; use a name, or a list of names."),
        ("worker: {queues: [1]}", "f: worker.queues is [1]"),
        ("worker: {maxMemoryPerIsolate: lots}", "f: worker.maxMemoryPerIsolate is 'lots'; use a whole number of bytes"),
        ("worker: [mail]", "f: worker is a list; use a block with keys like namespace, name, queues"),
        ("worker: mail", "f: worker is a str; use a block"),
        ("worker: {logLevel: loud}", "f: worker.logLevel is 'loud'; use one of debug, info, warning, error."),
        ("namespace: 7", "f: namespace is 7; use 1 to 64"),
        ("namespace: [a]", "f: namespace is ['a']; use 1 to 64"),
        ("tls: {verify: 'no'}", "f: tls.verify is 'no'; use a switch"),
        ("control: {timeout: 0}", "f: control.timeout is 0; use a number of seconds"),
        ("broker: {url: [redis]}", "f: broker.url is of type list; use a text."),
        ("signing: {keys: 17}", "f: signing.keys is of type int; use a list of keys; unset it to sign nothing."),
        ("worker: {maxTasksPerChild: 3, max_tasks_per_isolate: 4}", "f: worker.max_tasks_per_isolate says again"),
        ("autoscale: {min: 5, max: 3}", "autoscale.min 5 is above autoscale.max 3"),
        ("worker: {softLimit: 9, hardLimit: 9}", "The soft limit of 9 s is not below the hard limit of 9 s"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(text: str, error: str) -> None:
    effective = merged(text)
    assert [found[: len(error)] for found in effective.errors] == [error]
    with pytest.raises(ConfigError, match=r"; (use|keep|lower)"):
        effective.check()


def test_everything_wrong_is_told_at_once_and_warnings_apart() -> None:
    text = (
        "{worker: {concurrency: 0, prefetch: -1, concurency: 3, colour: red}, wroker: {}, 5: 6, control: {timeout: x}}"
    )
    effective = merged(text, {"STEM_STORE_TIMEOUT": "-1", "STEM_BROKER_ULR": "x", "STEM_ELSEWHERE": "x"})
    assert [error.split(" is ")[0] for error in effective.errors] == [
        "STEM_STORE_TIMEOUT='-1'",
        "f: worker.concurrency",
        "f: worker.prefetch",
        "f: control.timeout",
    ]
    assert effective.warnings == [
        "f: wroker is not known, and ignored; did you mean worker?",
        "f: 5 is not known, and ignored.",
        "f: worker.concurency is not known, and ignored; did you mean worker.concurrency?",
        "f: worker.colour is not known, and ignored.",
        "STEM_BROKER_ULR is not known, and ignored; did you mean STEM_BROKER_URL?",
        "STEM_ELSEWHERE is not known, and ignored.",
    ]


def test_concurrency_outside_of_the_bounds_of_autoscaling_is_a_doubt() -> None:
    text = "{worker: {concurrency: 40}, autoscale: {enabled: true}}"
    (warning,) = merged(text).warnings
    assert "worker.concurrency 40 is outside of autoscale.min 2 to autoscale.max 12" in warning
    assert merged(text.replace("true", "false")).warnings == []


def test_shown_values_hold_no_secret_and_name_the_setting_they_follow() -> None:
    shown = {path: (value, str(source)) for path, value, source in merged(FULL).shown()}
    assert "s3cret" not in str(shown) and "c2VjcmV0" not in str(shown)
    assert shown["broker.url"] == ("redis://user:***@host:6379/0", "file f")
    assert shown["signing.keys"] == ("k1:hmac-sha256:***", "file f")
    followed = {path: (value, str(source)) for path, value, source in merged("broker: redis://h").shown()}
    assert followed["results.url"] == followed["revokes.url"] == ("redis://h", "follows broker.url")
    assert followed["control.namespace"] == ("stem", "follows namespace")
    named = {path: (value, str(source)) for path, value, source in merged(env={"STEM_WORKER_NAMESPACE": "w"}).shown()}
    assert named["control.namespace"] == ("w", "follows worker.namespace")


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("@/etc/keys", "@/etc/keys"),
        ("a:ed25519:@/etc/key, b:hmac-sha256:eA==", "a:ed25519:@/etc/key,b:hmac-sha256:***"),
        ("", ""),
        ("justasecret", "***"),
        ("k1:justasecret", "***"),
    ],
)
def test_keys_are_shown_by_their_ids(keys: str, shown: str) -> None:
    assert {path: value for path, value, _ in merged(env={"STEM_SIGNING_KEYS": keys}).shown()}["signing.keys"] == shown


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        ("STEM_REVOKE_STORE_URL", "revokes.stem", lambda s: s.revokes_place == "revokes.stem"),
        ("STEM_CONTROL_NAMESPACE", "ops", lambda s: s.control_namespace == "ops" and s.worker_namespace == "stem"),
        ("STEM_WORKER_NAMESPACE", "fleet", lambda s: s.control_namespace == s.worker_namespace == "fleet"),
        ("STEM_NAMESPACE", "prod", lambda s: s.control_namespace == s.worker_namespace == "prod"),
        ("STEM_CONTROL_TIMEOUT", "5s", lambda s: s.control.timeout_seconds == 5.0),
        ("STEM_CONTROL_TIMEOUT", "250ms", lambda s: s.control.timeout_seconds == 0.25),
        ("STEM_RESULT_BACKEND_URL", "redis://h", lambda s: s.revokes_place == "redis://h"),
        ("STEM_BROKER_URL", "redis://h", lambda s: s.revokes_place == "redis://h"),
    ],
)
def test_the_environment_is_read_alike_with_and_without_a_file(variable: str, value: str, read: Any) -> None:
    assert read(from_environment({variable: value}))
    assert merged(env={variable: value}).settings == from_environment({variable: value})


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([*(o.name for o in SETTINGS), *(o.block for o in SETTINGS)]) | st.text(max_size=5) | st.integers(),
        inner,
        max_size=5,
    ),
    max_leaves=20,
))  # fmt: skip
def test_whatever_a_file_holds_is_answered_with_sentences(document: Any) -> None:
    if not isinstance(document, dict):
        document = {"worker": document, "broker": document, "namespace": document}
    reading = read_document(document)
    assert all(sentence.endswith((".", "?")) for sentence in [*reading.errors, *reading.warnings])
    effective = merge(flags={}, env={}, document=document)
    if not effective.errors:
        assert check_settings(effective.settings)
        msgspec.json.encode(effective.worker)


@given(st.text(max_size=12))
def test_no_text_can_make_a_duration_or_a_size_fail(text: str) -> None:
    assert (duration(text) or 0) >= 0
    assert (size(text) or 0) >= 0


def test_a_file_is_found_by_name_by_variable_or_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find({}) is None
    (tmp_path / "stem.yaml").write_text("namespace: here")
    (tmp_path / "named.yaml").write_text("namespace: named")
    env = {"STEM_CONFIG": str(tmp_path / "named.yaml")}
    assert load({}).settings.namespace == "here"
    assert load(env).settings.namespace == "named"
    assert load(env, path="stem.yaml").settings.namespace == "here"
    assert load(env, path="stem.yaml").sources["namespace"] == ValueSource("file", "stem.yaml")
    assert load({"STEM_CONFIG": "nowhere"}).errors == [
        "STEM_CONFIG names nowhere, which is not a file; correct the path."
    ]
    assert load({}, path="nowhere").errors == ["--config names nowhere, which is not a file; correct the path."]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"worker: {", "line 1"),
        (b"a: 1\nworker: [}\n", "line 2"),
        (b"worker:\n  lease: 1\n  lease: 2\n", "line 3: lease is given twice"),
        (b"[1, 2]", "holds a list; use blocks"),
        (b"just words", "holds a str"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"a: \x00", "is not YAML"),
        (b"a: !!python/object/apply:os.system ['true']", "line 1"),
        (b"a: 2026-99-99", "is not YAML"),
        (b"[" * 1200, "nested too deeply"),
        (b"#" * 2_000_000, "larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "stem.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        read(path)
    assert sentence in str(refusal.value) and str(path) in str(refusal.value)
    assert load({}, path=str(path)).errors == [str(refusal.value)]


def test_a_value_that_says_itself_over_and_over_is_told_in_brief() -> None:
    bomb: list[Any] = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    (error,) = merge(flags={}, env={}, document={"worker": {"concurrency": bomb}}).errors
    assert error.startswith("worker.concurrency is [[") and len(error) < 200


def test_an_empty_file_and_empty_blocks_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stem.yaml"
    for text in ("", "# nothing\n", "worker:\nautoscale:\nnamespace:\nbroker: {url: }\n"):
        path.write_text(text)
        effective = load({}, path=str(path))
        assert (effective.errors, effective.warnings, effective.settings) == ([], [], Settings())


def test_every_variable_that_the_package_reads_is_known() -> None:
    sources = Path(stem.__file__).parent.rglob("*.py")
    named = {name for source in sources for name in re.findall(r'"(STEM_[A-Z_]*[A-Z])"', source.read_text())}
    known = {option.variable for option in SETTINGS} | set(OTHER_VARIABLES)
    assert named <= known, sorted(named - known)
