"""A worker that asks for papers, from its settings to the operator's: certificates on both sides, and nobody without."""

import json
from pathlib import Path

import pytest

from acceptance.lab import Lab
from integration.control import test_http as over_http

papers = over_http.papers


def test_a_worker_that_asks_for_certificates_answers_those_who_show_one(lab: Lab, papers: Path) -> None:
    def having(name: str) -> dict[str, str]:
        files = {"CERT": f"{name}.pem", "KEY": f"{name}.key", "CA": "ca.pem"}
        return {f"STEM_CONTROL_{what}": str(papers / file) for what, file in files.items()}

    worker = lab.shell.at(STEM_CONTROL_HTTP="127.0.0.1:0", **having("server"))
    lab.start("w1", shell=worker)
    by_http = lab.shell.at(STEM_CONTROL_TRANSPORTS="http")

    told = by_http.at(**having("client")).json("worker", "ping", "--timeout", "9s")
    assert told["transport"] == "http"
    assert [(each["workerId"], each["status"]) for each in told["replies"]] == [("w1", "ok")]

    for stranger in (by_http.at(**having("stranger")), by_http.at(STEM_CONTROL_CA=str(papers / "ca.pem"))):
        done = stranger.run("worker", "ping", "--timeout", "5s")
        assert done.returncode == 70 and "pong" not in done.stdout, done
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1

    past_it = by_http.at(**having("stranger"), STEM_CONTROL_TRANSPORTS="http,broker").run("worker", "ping", "--json")
    assert past_it.returncode == 0 and json.loads(past_it.stdout)["transport"] == "broker"
    assert "control.transport_skipped from=http" in past_it.stderr, "that a transport fails is worth a line"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"CERT": "server.pem"}, "Control has a TLS certificate and no key"),
        ({"KEY": "server.key"}, "Control has a TLS key and no certificate"),
        ({"HTTP": "127.0.0.1:0", "TOKEN": "t" * 16, "CA": "ca.pem"}, "the worker's endpoint has no certificate"),
        ({"HTTP": "0.0.0.0:0", "TOKEN": "t" * 16}, "plain http would show its token"),
        ({"HTTP": "127.0.0.1:0"}, "A control endpoint needs a token or TLS"),
        ({"TOKEN": "t" * 15}, "The control token has fewer than 16 characters"),
        ({"HTTP_ALLOW": "worker1/path"}, "STEM_CONTROL_HTTP_ALLOW="),
    ],
)
def test_half_configured_protection_is_refused_by_everybody(
    lab: Lab, papers: Path, settings: dict[str, str], sentence: str
) -> None:
    files = {"CERT", "KEY", "CA"}
    given = {
        f"STEM_CONTROL_{name}": str(papers / value) if name in files else value for name, value in settings.items()
    }
    shell = lab.shell.at(STEM_CONTROL_TRANSPORTS="http", **given)
    for words in (("worker", "start", "--app", "lab:app"), ("worker", "ping")):
        assert sentence in shell.refusal(*words, code=64), words
    checked = shell.run("config", "check")
    assert checked.returncode == 64 and sentence in checked.stdout + checked.stderr
    assert "t" * 15 not in checked.stdout + checked.stderr
