"""The image, its script and the Compose file, as far as they can be checked without a Docker daemon."""

import importlib.util
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from acceptance.shell import Shell
from stem import __version__

TOKEN = "0123456789abcdef"


@pytest.fixture
def compose(shop: Shell) -> Path:
    shop.out("deploy", "init", "compose", "--queue", "mail")
    return shop.directory / "deploy/compose/compose.yaml"


@pytest.fixture
def image(shop: Shell) -> Path:
    shop.out("deploy", "init", "docker", "--queue", "mail")
    return shop.directory / "deploy/docker"


def test_the_compose_file_keeps_to_the_specification_of_compose(compose: Path) -> None:
    found = importlib.util.find_spec("check_jsonschema")
    if found is None or found.origin is None:
        pytest.skip("check-jsonschema is not installed, which brings the schema: pip install check-jsonschema")
    schema = json.loads(
        Path(found.origin).with_name("builtin_schemas").joinpath("vendor/compose-spec.json").read_text()
    )
    jsonschema.validate(yaml.safe_load(compose.read_text()), schema)


def test_docker_compose_accepts_the_file_and_asks_for_a_token(shop: Shell, compose: Path) -> None:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True) if shutil.which("docker") else None
    if plugin is None or plugin.returncode:
        pytest.skip("docker compose is not installed; install Debian's docker-compose (version 2) to run this")
    words = ["docker", "compose", "--file", str(compose), "--profile", "pipeline", "config", "--format", "json"]
    without = subprocess.run(words, env=shop.variables, capture_output=True, text=True, timeout=60)
    assert without.returncode and "STEM_DASHBOARD_TOKEN" in without.stderr
    env = shop.variables | {"STEM_DASHBOARD_TOKEN": TOKEN}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services["dashboard"]["environment"]["STEM_DASHBOARD_TOKEN"] == TOKEN


def test_every_service_of_compose_is_confined_limited_and_restarted(compose: Path) -> None:
    services: dict[str, Any] = yaml.safe_load(compose.read_text())["services"]
    assert set(services) == {"redis", "worker", "beat", "dashboard", "pipeline"}
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] not in ("root", "0"), name
        assert service["security_opt"] == ["no-new-privileges:true"] and service["restart"] == "unless-stopped"
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
        assert "stop_grace_period" in service or name == "redis"
        assert "healthcheck" in service or name == "pipeline"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert services["dashboard"]["environment"]["STEM_DASHBOARD_TOKEN"].startswith("${STEM_DASHBOARD_TOKEN:?")
    assert "STEM_DASHBOARD_TOKEN" not in services["worker"]["environment"]


def test_the_image_is_not_root_and_no_shell_stands_before_the_worker(image: Path) -> None:
    steps = instructions(image / "Dockerfile")
    assert steps[0][0] == "FROM" and {word for word, _ in steps} <= KNOWN
    said = dict(steps)
    assert int(said["USER"].partition(":")[0]) > 0 and said["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(said["ENTRYPOINT"]) == ["stem"]
    assert json.loads(said["CMD"])[:2] == ["worker", "start"] and "--queue=mail" in json.loads(said["CMD"])
    assert f'"stem-tasks[${{EXTRAS}}]=={__version__}"' in next(rest for word, rest in steps if word == "RUN")
    ignored = (image / "Dockerfile.dockerignore").read_text().split()
    assert {".git", ".venv", "*.env"} <= set(ignored)


KNOWN = {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Each instruction and the rest of its line, continued lines joined."""
    text = dockerfile.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.parametrize("service", ["worker", "beat", "dashboard", "pipeline"])
def test_docker_takes_every_flag_of_the_script(shop: Shell, image: Path, service: str) -> None:
    """Without a daemon, the client fails only after it has read all flags."""
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed; install Debian's docker.io to run this")
    nowhere = shop.variables | {"DOCKER_HOST": f"unix://{shop.directory}/nobody.sock"}
    done = subprocess.run(["sh", "run.sh", service], cwd=image, env=nowhere, capture_output=True, text=True, timeout=60)
    assert done.returncode and "nobody.sock" in done.stderr, done.stderr


def test_the_script_names_its_services_and_refuses_others(shop: Shell, image: Path) -> None:
    done = subprocess.run([image / "run.sh", "sevrer"], env=shop.variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 64 and "There is no service sevrer; use worker, beat" in done.stderr


def test_all_targets_run_the_same_commands(shop: Shell, image: Path, compose: Path) -> None:
    """So that it is enough to run those of one of them."""
    shop.out("deploy", "init", "k8s", "--queue", "mail")
    services = yaml.safe_load(compose.read_text())["services"]
    for service in ("worker", "beat", "dashboard", "pipeline"):
        document = next(yaml.safe_load_all((shop.directory / f"deploy/k8s/{service}.yaml").read_text()))
        (container,) = document["spec"]["template"]["spec"]["containers"]
        words = [word for word in container["args"] if not word.startswith("--name=")]
        assert services[service]["command"] == words and services[service]["image"] == container["image"]
        assert docker_words(image / "run.sh", service, container["image"]) == words
    default = json.loads(dict(instructions(image / "Dockerfile"))["CMD"])
    assert {*default, "--concurrency=4"} == set(services["worker"]["command"])


def docker_words(script: Path, service: str, image: str) -> list[str]:
    """The arguments after the image in the branch of a service."""
    branch = script.read_text().replace("\\\n", " ").partition(f"\n  {service})")[2].partition(";;")[0]
    words = shlex.split(branch.partition("run ")[2])
    return words[words.index(image) + 1 :]
