"""From the wheel alone: `stem init` writes a project that works, and `stem deploy init` what runs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.source.clean_environment import CleanEnvironments, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]


def test_a_new_project_passes_its_tests_and_runs_its_task(environments: CleanEnvironments, tmp_path: Path) -> None:
    """As its README says, except that the environment is there already: the package is not on an index yet."""
    bin = environments.with_extra("dashboard")
    stem = str(bin / "stem")
    told = run(str(bin / "python"), "-m", "stem", "init", "my shop", cwd=tmp_path)
    assert told == run(stem, "init", "my shop", "--force", cwd=tmp_path)
    project = tmp_path / "my shop"
    (project / ".venv").symlink_to(bin.parent)
    run(str(bin / "python"), "-m", "pip", "install", "--quiet", "pytest")
    (project / ".venv/installed").touch()
    assert shutil.which("make") is not None
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    assert "2 passed" in run("make", "test", cwd=project, env=env)

    worker = subprocess.Popen(["make", "worker"], cwd=project, env=env, start_new_session=True)
    try:
        assert run(str(bin / "python"), "tasks.py", cwd=project, env=env).endswith(" Hello, Ada!\n")
    finally:
        os.killpg(worker.pid, 15)
        worker.wait(60)
    assert "tasks.greet" in run(stem, "task", "list", "--json", cwd=project, env=env)

    for target in ("systemd", "docker", "compose", "k8s", "helm"):
        run(stem, "deploy", "init", target, "--name", "shop", cwd=project, env=env)
    worker_yaml = (project / "deploy/k8s/worker.yaml").read_text()
    deployment = next(yaml.safe_load_all(worker_yaml))
    assert "--app=tasks:app" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert (project / "deploy/systemd/shop-worker@.service").is_file()
    assert (project / "deploy/helm/templates/worker.yaml").is_file()
