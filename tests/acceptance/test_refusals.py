"""Every mistake is one sentence and an exit code: no traceback, no hang, nothing written."""

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from acceptance.shell import Shell
from support.servers import RedisServer

DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("frobnicate",), "No such command"),
        (("enqueue",), "Missing argument 'NAME'"),
        (("enqueue", "a", "--frob"), "No such option"),
        (("enqueue", "a", "--args", "{not json"), "--args is not JSON"),
        (("enqueue", "a", "--args", "[1]"), "not a JSON object"),
        (("enqueue", "a", "--args", f'{{"x": {DEEP}}}'), "nested too deeply"),
        (("enqueue", "a", "--args", "@nowhere.json"), "cannot be read (No such file"),
        (("enqueue", "a", "--args", "{}", "--arg", "x=1"), "do not go together"),
        (("enqueue", "a", "--arg", "x"), "is not key=value"),
        (("enqueue", "a", "--arg", "x={"), "--arg x is not JSON"),
        (("enqueue", "a", "--arg", "x=1", "--arg", "x=2"), "given twice"),
        (("enqueue", "a", "--arg", 'x="\\u0000"'), "NUL"),
        (("enqueue", "a", "--arg", "x=1e999"), "--arg x is out of the range of numbers"),
        (("enqueue", "a", "--meta", "x=-1e999"), "--meta x is out of the range of numbers"),
        (("enqueue", "a", "--arg", "x=" + "x" * 120_000, *(f"--arg=y{n}=" + "y" * 120_000 for n in range(9))), "limit"),
        (("enqueue", "a", "--arg", "x=\udcff"), "is not UTF-8"),
        (("task", "list", "--queue", "\udcff"), "is not UTF-8"),
        (("enqueue", "a", "--priority", "12"), "'--priority': 12 is not in the range"),
        (("enqueue", "a", "--priority", "high"), "'--priority'"),
        (("enqueue", "a", "--delay", "-5s"), "'-5s' is not a duration"),
        (("enqueue", "a", "--delay", "soon"), "'soon' is not a duration"),
        (("enqueue", "a", "--delay", "9999999d"), "is not a duration"),
        (("enqueue", "a", "--not-before", "2030-01-01T00:00:00"), "has no time zone"),
        (("enqueue", "a", "--not-before", "tomorrow"), "not an ISO 8601 moment"),
        (("enqueue", "a", "--delay", "1s", "--not-before", "2030-01-01T00:00:00Z"), ""),
        (("enqueue", "a", "--expires", "never"), "neither a duration"),
        (("enqueue", "a", "--header", "stem-signature=x"), "reserved"),
        (("enqueue", "a", "--header", "a b=x"), "Header name"),
        (("enqueue", "a", "--id", "no spaces"), "no spaces"),
        (("enqueue", "a", "--queue", "no/slash"), "no/slash"),
        (("enqueue", "no spaces"), "no spaces"),
        (("enqueue", "a", "--max-retries", "-1"), "--max-retries"),
        (("enqueue", "a", "--unique", "sometimes"), "neither until_done"),
        (("enqueue", "a", "--namespace", "a/b"), "Namespace 'a/b'"),
        (("enqueue", "a", "--broker-url", ""), "is not a store that Stem knows"),
        (("enqueue", "a", "--broker-url", "amqp://guest:s3cret@host"), "is not a store that Stem knows"),
        (("enqueue", "a", "--broker-url", "memory://"), "lives in one process alone"),
        (("enqueue", "a", "--broker-url", "redis://[::1"), "is not a URL"),
        (("queue", "list", "--broker-url", "redis://[::1"), "is not a URL"),
        (("queue", "list", "--broker-url", "memory://"), "lives in one process alone"),
        (("enqueue", "a", "--app", "nowhere:app"), "no module 'nowhere'"),
        (("enqueue", "a", "--app", "json:app"), "Module 'json' has no 'app'"),
        (("enqueue", "a", "--app", "json:loads"), "not a Stem app"),
        (("enqueue", "a", "--app", "../x"), "does not name an app"),
        (("task", "list", "--state", "happy"), "'happy' is not one of"),
        (("task", "list", "--limit", "0"), "--limit"),
        (("task", "list", "--since", "then"), "neither a duration"),
        (("task", "show", "no spaces"), "no spaces"),
        (("queue", "peek", "no spaces"), "no spaces"),
        (("queue", "purge", "default"), "add --yes"),
        (("dlq", "replay"), "Say which"),
        (("dlq", "purge", "--all"), "add --yes"),
        (("dlq", "replay", "no spaces"), "no spaces"),
    ],
    ids=lambda value: ascii(" ".join(value))[1:50] if isinstance(value, tuple) else "",
)
def test_a_usage_mistake_exits_64_and_writes_nothing(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    refusal = shell.refusal(*words, code=64)
    assert sentence in refusal
    assert "s3cret" not in refusal
    assert shell.files == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STEM_BROKER_URL", "mysql://host"),
        ("STEM_NAMESPACE", "a b"),
        ("STEM_STORE_TIMEOUT", "-1"),
        ("STEM_STORE_TIMEOUT", "1e10"),
        ("STEM_RESULT_TTL", "1e18"),
        ("STEM_EVENTS_COUNT", "1e300"),
        ("STEM_MAX_ARGS_BYTES", "1.5"),
        ("STEM_TLS_VERIFY", "perhaps"),
    ],
)
def test_a_bad_setting_exits_64_and_is_named(shell: Shell, variable: str, value: str) -> None:
    assert value in shell.at(**{variable: value}).refusal("queue", "list", code=64)
    assert shell.files == []


@pytest.mark.parametrize(
    "words", [("task", "show", "x"), ("task", "result", "x"), ("task", "result", "x", "--wait", "60")]
)
@pytest.mark.usefixtures("durable_store")
def test_an_unknown_task_exits_1_at_once(stem: Shell, words: tuple[str, ...]) -> None:
    assert "no task x" in stem.refusal(*words, code=1)


@pytest.mark.usefixtures("durable_store")
def test_unknown_dead_letters_exit_1(stem: Shell) -> None:
    assert "no dead letter x" in stem.refusal("dlq", "show", "x", code=1)
    assert stem.run("dlq", "replay", "x", "--limit", "5").returncode == 1
    assert stem.run("dlq", "purge", "x", "--yes").returncode == 1


def test_a_made_up_cursor_exits_64(stem: Shell) -> None:
    stem.out("enqueue", "a")
    for words in (("task", "list"), ("dlq", "list")):
        assert "'nonsense'" in stem.refusal(*words, "--cursor", "nonsense", code=64)
        assert stem.run(*words, "--cursor", "1" * 30).returncode in (0, 64)  # some store may know so large a number


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}/0", "postgresql://u:s3cret@127.0.0.1:{port}/x"])
def test_a_server_that_is_not_there_exits_70(shell: Shell, url: str, closed_port: int) -> None:
    there = url.format(port=closed_port)
    for words in (("health",), ("enqueue", "a"), ("queue", "list")):
        refusal = shell.refusal(*words, "--broker-url", there, code=70)
        assert "127.0.0.1" in refusal and "s3cret" not in refusal


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}/0", "postgresql://u:s3cret@127.0.0.1:{port}/x"])
def test_a_server_that_accepts_and_says_nothing_exits_70_at_the_deadline(
    shell: Shell, url: str, silent_port: int
) -> None:
    shell.at(STEM_STORE_TIMEOUT="1").refusal("health", "--broker-url", url.format(port=silent_port), code=70)


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_bad_password_exits_70_and_is_not_repeated(shell: Shell) -> None:
    server = RedisServer("--requirepass", "right")
    try:
        for url in (server.url, server.url.replace("redis://", "redis://:wr0ng@")):
            refusal = shell.refusal("health", "--broker-url", url, code=70)
            assert "password" in refusal.lower() and "wr0ng" not in refusal
    finally:
        server.close()


def test_a_result_backend_of_its_own_is_checked_as_well(shell: Shell, closed_port: int) -> None:
    shell.refusal("health", "--results-url", f"redis://127.0.0.1:{closed_port}/0", code=70)


def test_a_read_only_database_exits_70(shell: Shell, unprivileged: Callable[[], None]) -> None:
    shell.out("enqueue", "a")
    for name in shell.files:
        (shell.directory / name).chmod(0o444)
    shell.directory.chmod(0o555)
    try:
        before = (shell.directory / "stem.db").read_bytes()
        shell.refusal("enqueue", "b", code=70, preexec_fn=unprivileged)
        assert (shell.directory / "stem.db").read_bytes() == before
    finally:
        shell.directory.chmod(0o755)


def test_a_file_that_is_no_database_exits_70_and_is_left_alone(shell: Shell) -> None:
    letter = shell.directory / "stem.db"
    letter.write_text("Dear Ada, " * 1000)
    for words in (("health",), ("enqueue", "a")):
        assert "stem.db" in shell.refusal(*words, code=70)
    assert letter.read_text() == "Dear Ada, " * 1000


def test_a_folder_that_is_not_there_exits_70(shell: Shell) -> None:
    refusal = shell.refusal("health", "--broker-url", "sqlite:///no/such/folder/stem.db", code=70)
    assert "no/such/folder" in refusal


def test_a_name_too_long_for_a_file_exits_70(shell: Shell) -> None:
    assert "File name too long); choose another path" in shell.refusal(
        "health", "--broker-url", f"sqlite:///{'x' * 300}.db", code=70
    )


def test_a_working_directory_that_is_gone_exits_70_unless_the_path_is_absolute(shell: Shell) -> None:
    gone, there = shell.directory / "gone", f"sqlite:///{shell.directory}/stem.db"

    def refusal(words: str) -> str:
        done = shell.paste(f"mkdir {gone}; cd {gone}; rmdir {gone}; {words}")
        # A script in a folder whose name has a space is started by a shell, which misses its directory as well.
        (said,) = [line for line in done.stderr.splitlines() if not line.startswith("sh: ")]
        assert done.returncode in (64, 70), done
        return said

    assert "working directory, which is gone" in refusal("stem health")
    assert "no module 'nowhere'" in refusal(f"stem enqueue a --app nowhere:app --broker-url {there}")
    shell.out("enqueue", "a")
    assert shell.paste(f"mkdir {gone}; cd {gone}; rmdir {gone}; stem health --broker-url {there}").returncode == 0


def test_with_json_the_error_is_an_object_on_stderr(shell: Shell, closed_port: int) -> None:
    shell.out("enqueue", "a")
    for words, code, kind in (
        (("task", "show", "x"), 1, "TaskNotFound"),
        (("enqueue", "a", "--args", "{"), 64, "InvalidArguments"),
        (("enqueue", "a", "--priority", "12"), 64, "UsageError"),
        (("health", "--broker-url", f"redis://127.0.0.1:{closed_port}"), 70, "StoreUnavailable"),
    ):
        done = shell.run(*words, "--json")
        assert (done.returncode, done.stdout) == (code, "")
        error = json.loads(done.stderr)["error"]
        assert error["type"] == kind and error["message"] and set(error) == {"type", "message"}
