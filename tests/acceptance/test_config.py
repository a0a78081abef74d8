"""`stem config check` shows the configuration, its sources and its errors."""

import json
import subprocess
import sys
from typing import Any

import pytest

from acceptance.shell import Shell
from support.until import until

FILE = """
broker: redis://:s3cret@cache/0
worker:
  concurrency: 4
  max_tasks_per_child: 100
autoscale: {enabled: true, min: 2, max: 12, tick: 2s}
"""


def write(shell: Shell, text: str, name: str = "stem.yaml") -> None:
    (shell.directory / name).write_text(text)


def options(report: Any) -> dict[str, tuple[Any, str, str | None]]:
    return {each["option"]: (each["value"], each["source"], each["name"]) for each in report["options"]}


def test_config_check_prints_each_value_and_its_source(shell: Shell) -> None:
    write(shell, FILE)
    told = shell.at(STEM_NAMESPACE="prod").out("config", "check", "--results-url", "sqlite:///results.db")
    rows = {words[0]: words[1:] for line in told.splitlines() if (words := line.split())}
    assert rows["broker.url"] == ["redis://:***@cache/0", "file", "stem.yaml"]
    assert rows["results.url"] == ["sqlite:///results.db", "flag", "--results-url"]
    assert rows["revokes.url"] == ["sqlite:///results.db", "follows", "results.url"]
    assert rows["namespace"] == ["prod", "environment", "STEM_NAMESPACE"]
    assert rows["worker.concurrency"] == ["4", "file", "stem.yaml"]
    assert rows["worker.maxTasksPerIsolate"] == ["100", "file", "stem.yaml"]
    assert rows["worker.prefetch"] == ["1000", "default"]
    assert rows["autoscale.enabled"] == ["true", "file", "stem.yaml"]
    assert told.endswith("No errors.")
    assert shell.files == ["stem.yaml"]


def test_json_says_the_same(shell: Shell) -> None:
    write(shell, FILE, "other.yaml")
    report = shell.at(STEM_CONFIG="other.yaml", STEM_CONTROL_TIMEOUT="5s").json("config", "check")
    assert (report["status"], report["errors"], report["warnings"]) == ("ok", [], [])
    found = options(report)
    assert found["broker.url"] == ("redis://:***@cache/0", "file", "other.yaml")
    assert found["results.url"] == ("redis://:***@cache/0", "follows", "broker.url")
    assert found["control.timeout"] == (5.0, "environment", "STEM_CONTROL_TIMEOUT")
    assert found["worker.concurrency"] == (4, "file", "other.yaml")
    assert found["worker.queues"] == ([], "default", None)


def test_errors_exit_64_and_all_of_them_are_told(shell: Shell) -> None:
    write(
        shell,
        "worker: {concurrency: four, lease: soon, quees: mail}\nbroker: mysql://u:s3cret@h\nsigning: k1:rot13:c2VjcmV0",
    )
    done = shell.run("config", "check", "--json")
    assert done.returncode == 64 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["status"] == "error"
    assert [error.split(" is ")[0].removeprefix("stem.yaml: ")[:20] for error in report["errors"][:2]] == [
        "worker.concurrency",
        "worker.lease",
    ]
    assert [error.split(":")[0] for error in report["errors"][2:]] == ["broker.url", "signing.keys"]
    assert report["warnings"] == ["stem.yaml: worker.quees is not known, and ignored; did you mean worker.queues?"]
    assert "s3cret" not in done.stdout and "c2VjcmV0" not in done.stdout
    people = shell.run("config", "check")
    assert people.returncode == 64 and "No errors." not in people.stdout
    assert people.stdout.count("error: ") == 4 and people.stdout.count("warning: ") == 1
    assert "s3cret" not in people.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--config", "nowhere.yaml"), "--config names nowhere.yaml, which is not a file"),
        (("--namespace", "a b"), "--namespace is not 1 to 64 of letters"),
        (("--broker-url", ""), "--broker-url is not a text"),
    ],
)
def test_a_wrong_flag_is_an_error_of_the_configuration(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    done = shell.run("config", "check", *words)
    assert (done.returncode, done.stderr) == (64, "")
    assert sentence in done.stdout


def test_a_file_that_is_no_yaml_is_told_by_its_line(shell: Shell) -> None:
    write(shell, "worker:\n  lease: 1\n  lease: 2\n")
    done = shell.run("config", "check")
    assert done.returncode == 64
    assert "error: stem.yaml, line 3: lease is given twice" in done.stdout


def test_a_worker_does_what_the_file_says_and_operators_find_it_by_the_same_file(shell: Shell) -> None:
    (shell.directory / "filed.py").write_text(
        "from stem import Stem\napp = Stem()\n@app.task(name='double')\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    (shell.directory / "stem.yaml").write_text(
        f"broker: sqlite:///{shell.directory}/filed.db\nnamespace: filed\n"
        "worker: {app: 'filed:app', name: from-file, concurrency: 1, max_tasks_per_child: 50}\n"
        "autoscale: {enabled: true, min: 1, max: 3}\n"
    )
    environment = {name: value for name, value in shell.variables.items() if not name.startswith("STEM_")}
    command = [sys.executable, "-m", "stem", "worker", "start"]
    worker = subprocess.Popen(command, cwd=shell.directory, env=environment, stderr=subprocess.DEVNULL)
    try:
        ask = [sys.executable, "-m", "stem"]
        ran = subprocess.run(
            [*ask, "enqueue", "double", "--arg", "n=21", "--wait", "40s"],
            cwd=shell.directory,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.stdout.split()[-1] == "42"
        asked = [*ask, "worker", "stats", "--timeout", "20s", "--json"]

        def answer() -> bytes | None:
            """None: its first heartbeat is not there yet."""
            stats = subprocess.run(asked, cwd=shell.directory, env=environment, capture_output=True)
            return stats.stdout if stats.returncode == 0 else None

        (reply,) = json.loads(until(answer, seconds=30))["replies"]
        assert (reply["workerId"], reply["payload"]["namespace"]) == ("from-file", "filed")
        assert (reply["payload"]["concurrency"], reply["payload"]["maxConcurrency"]) == (1, 3)
    finally:
        worker.terminate()
        assert worker.wait(20) == 0


def test_no_credentials_of_lake_or_spark_are_shown(shell: Shell) -> None:
    (shell.directory / "stem.yaml").write_text("""
broker: "redis://user:hunter2"
pipeline:
  lake: s3a://AKIA:hunter2@bucket/lake?sig=hunter2
  remote: sc://spark:15002/;token=hunter2
  conf:
    spark.hadoop.fs.s3a.secret.key: hunter2
    spark.executor.memory: 2g
tls:
  clientKey: "-----BEGIN PRIVATE KEY-----hunter2"
""")
    for words in (("config", "check"), ("config", "check", "--json"), ("queue", "list"), ("queue", "list", "--json")):
        told = shell.run(*words)
        assert "hunter2" not in told.stdout + told.stderr, words
    assert "spark.executor.memory" in shell.run("config", "check").stdout
