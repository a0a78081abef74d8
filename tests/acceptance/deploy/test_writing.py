"""`stem deploy init` and `stem init` write files, and never anything else than what was asked for."""

import json
import re
from pathlib import Path

import pytest
import yaml

from acceptance.shell import Shell

TARGETS = ("systemd", "docker", "compose", "k8s", "helm")
SECRET = "hunter2-hunter2-hunter2"


def files_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_written_listed_and_followed_by_what_to_do_next(shop: Shell, target: str) -> None:
    told = shop.out("deploy", "init", target)
    found = files_below(shop.directory / "deploy" / target)
    assert {f"wrote deploy/{target}/{path}" for path in found} <= set(told.splitlines())
    assert told.partition("\nNext:\n  ")[2]
    for text in found.values():
        assert text.endswith("\n") and not re.search("<<[a-z]", text)
    assert any("shop:app" in text for text in found.values())


@pytest.mark.parametrize("target", TARGETS)
def test_no_file_holds_a_secret_of_the_environment(shop: Shell, target: str) -> None:
    shell = shop.at(STEM_BROKER_URL=f"redis://:{SECRET}@127.0.0.1/0", STEM_DASHBOARD_TOKEN=SECRET)
    told = shell.json("deploy", "init", target)
    assert told["written"] and told["next"]
    assert not any(SECRET in text for text in files_below(shop.directory / "deploy").values())
    assert SECRET not in json.dumps(told)


def test_the_app_may_come_from_the_configuration_file_and_must_come_from_somewhere(shell: Shell) -> None:
    assert "--app shop.tasks:app" in shell.refusal("deploy", "init", "k8s", code=64)
    (shell.directory / "stem.yaml").write_text("worker: {app: 'my_shop.tasks:app'}")
    shell.out("deploy", "init", "k8s", "--queue", "mail", "--queue", "reports", "--out", "here")
    worker = yaml.safe_load_all((shell.directory / "here/worker.yaml").read_text())
    container = next(iter(worker))["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "my-shop:1"
    assert {"--app=my_shop.tasks:app", "--queue=mail", "--queue=reports"} <= set(container["args"])


def test_files_that_exist_stay_as_they_are_unless_force_is_given(shop: Shell) -> None:
    place = shop.directory / "deploy/systemd"
    place.mkdir(parents=True)
    beside = shop.directory / "precious"
    beside.write_text("mine")
    (place / "shop-beat.service").symlink_to(beside)
    sentence = shop.refusal("deploy", "init", "systemd", code=64)
    assert "deploy/systemd/shop-beat.service would be overwritten; add --force" in sentence
    assert [path.name for path in place.iterdir()] == ["shop-beat.service"]
    shop.out("deploy", "init", "systemd", "--force")
    assert beside.read_text() == "mine" and not (place / "shop-beat.service").is_symlink()
    shop.out("deploy", "init", "systemd", "--force", "--queue", "mail")
    assert "--queue=mail" in (place / "shop-worker@.service").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("--app", 'shop:app"\nExecStartPre=/bin/false'),
        ("--app", "shop:app %n"),
        ("--app", "shop:app{{ .Values.secret }}"),
        ("--app", "$(touch here):app"),
        ("--queue", 'mail", "--log-level=debug'),
        ("--queue", "mail\n- evil"),
        ("--queue", "<<app>>"),
        ("--name", "shop\n"),
        ("--name", "-shop"),
        ("--name", "Shop;reboot"),
        ("--image", "shop:1 --privileged"),
        ("--image", "shop"),
        ("--folder", "/srv/shop%h"),
        ("--folder", "/srv/../etc"),
        ("--folder", "srv"),
    ],
    ids=lambda words: repr(" ".join(words)),
)
def test_a_hostile_name_is_refused_and_nothing_is_written(shop: Shell, words: tuple[str, str]) -> None:
    sentence = shop.refusal("deploy", "init", "k8s", *words, code=64)
    assert sentence.endswith(".")
    assert not (shop.directory / "deploy").exists()


@pytest.mark.parametrize("folder", ["it's $HOME & more", 'a "quoted" one', "plain"])
def test_any_folder_can_be_written_to_and_is_quoted_where_it_is_named(shop: Shell, folder: str) -> None:
    told = shop.json("deploy", "init", "compose", "--out", folder)
    compose = yaml.safe_load((shop.directory / folder / "compose.yaml").read_text())
    build = {key: path.replace("$$", "$") for key, path in compose["services"]["worker"]["build"].items()}
    assert build == {"context": "..", "dockerfile": f"{folder}/Dockerfile"}
    (line,) = [line for line in told["next"] if line.endswith(" ps")]
    named = shop.paste(line.replace("docker compose --file", "ls").removesuffix(" ps"))
    assert named.returncode == 0, named


def test_a_folder_that_cannot_be_written_is_one_sentence(shop: Shell) -> None:
    (shop.directory / "file").write_text("")
    assert "cannot be written" in shop.refusal("deploy", "init", "k8s", "--out", "file/below", code=64)


def test_init_writes_a_project_and_keeps_what_is_there(shell: Shell) -> None:
    told = shell.json("init", "my shop")
    assert told["next"] == ["cd 'my shop'", "make test", "make worker"]
    project = shell.directory / "my shop"
    assert set(files_below(project)) == {path.removeprefix("my shop/") for path in told["written"]}
    (project / "tasks.py").write_text("mine")
    assert "would be overwritten; add --force" in shell.refusal("init", "my shop", code=64)
    assert (project / "tasks.py").read_text() == "mine"
    assert (project / "README.md").read_text().startswith("# my shop\n")


def test_init_writes_here_if_no_folder_is_named_whatever_its_name(shell: Shell) -> None:
    odd = shell.directory / '](javascript:) """ <b>'
    odd.mkdir()
    told = Shell(odd, shell.variables).out("init")
    assert "cd " not in told and (odd / "tasks.py").is_file()
    compile((odd / "tasks.py").read_text(), "tasks.py", "exec")
    assert "<" not in (odd / "README.md").read_text()
