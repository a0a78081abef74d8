"""`stem worker diagnose`: find what would keep a worker from starting or working."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from stem.cli.support import printing, security_checks
from stem.cli.support.failure import FAILURE
from stem.cli.support.stores import Session, check_shared, in_session
from stem.cli.worker.launch import command_options, from_variable, words
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.settings.app import Settings

MOST_SKEW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str


@click.command()
@click.option("--node", envvar="STEM_WORKER_NODE", help="Fill in %n in the names of files.  [env: STEM_WORKER_NODE]")
@click.option("--pidfile", envvar="STEM_WORKER_PIDFILE", help="The worker's pid file.  [env: STEM_WORKER_PIDFILE]")
@click.option("--logfile", envvar="STEM_WORKER_LOGFILE", help="The worker's log.  [env: STEM_WORKER_LOGFILE]")
@click.option("--workdir", metavar="DIR", help="The folder that the worker runs in.")
@command_options
@in_session
def diagnose(session: Session, node: str | None, **given: str | None) -> None:
    """Check files, environment, command, stores, clock, signing keys and TLS.

    Only files that are named are checked. Exit code 70 if there is an error; 0 if there are only warnings.

    \b
    Example: stem worker diagnose --pidfile /run/stem/alpha.pid
    """
    found = list(_findings(session, _expanded(node, given)))
    errors = [each for each in found if each.level == "error"]
    if session.as_json:
        printing.json(_report(found))
    else:
        printing.table(("", "check", "finding"), [(each.level, each.check, each.message) for each in found], empty="")
    if errors:
        click.get_current_context().exit(FAILURE)


def _expanded(node: str | None, given: Mapping[str, str | None]) -> dict[str, str | None]:
    from stem.runtime.placeholders import nodes

    if node is None:
        return dict(given)
    (named,) = nodes((node,))
    files = {name: given[name] for name in ("pidfile", "logfile", "workdir", "env_file")}
    return {**given, **{name: value and named.expand(value) for name, value in files.items()}}


def _report(found: list[CheckResult]) -> dict[str, Any]:
    levels = {level: [each.message for each in found if each.level == level] for level in ("error", "warning")}
    return {
        "status": "error" if levels["error"] else "warning" if levels["warning"] else "ok",
        "errors": levels["error"],
        "warnings": levels["warning"],
        "checks": found,
    }


def _findings(session: Session, given: Mapping[str, str | None]) -> Iterator[CheckResult]:
    if given["pidfile"] is not None:
        yield from _pidfile(Path(given["pidfile"]).absolute())
    if given["logfile"] is not None:
        yield from _logfile(Path(given["logfile"]).absolute())
    if given["workdir"] is not None:
        yield _folder("workdir", Path(given["workdir"]).absolute())
    if given["env_file"] is not None:
        yield from _environment(Path(given["env_file"]).absolute())
    yield _command(given["command"], given["command_line"], given["workdir"])
    yield from _service(session)


def _pidfile(path: Path) -> Iterator[CheckResult]:
    from stem.runtime import pidfile

    found = pidfile.read(path)
    message = pidfile.sentence(path, found)
    match found:
        case pidfile.Running():
            yield CheckResult("pid file", "ok", message)
        case pidfile.Missing():
            yield _folder("pid file", path.parent)
        case pidfile.Stale() | pidfile.Recycled():
            yield CheckResult("pid file", "warning", message)
            yield _folder("pid file", path.parent)
        case pidfile.Unreadable():
            yield CheckResult("pid file", "error", message)


def _logfile(path: Path) -> Iterator[CheckResult]:
    if path.is_symlink():
        yield CheckResult(
            "log file", "error", f"{path} is a symbolic link, which is not written through; name the file itself."
        )
    elif path.is_dir():
        yield CheckResult("log file", "error", f"{path} is a folder; name a file in it.")
    elif path.exists() and not os.access(path, os.W_OK):
        yield CheckResult("log file", "error", f"{path} cannot be written to by this user; check its owner and mode.")
    elif path.exists():
        yield CheckResult("log file", "ok", f"{path} can be written to.")
    else:
        yield _folder("log file", path.parent)


def _folder(check: str, folder: Path) -> CheckResult:
    """Check a folder. A missing one is created when the worker starts, if that is permitted."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir():
        return CheckResult(check, "error", f"{existing} is not a folder; move it away, or name another.")
    if not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            check, "error", f"The folder {existing} cannot be written to by this user; check its owner and mode."
        )
    if existing != folder:
        return CheckResult(check, "warning", f"The folder {folder} does not exist; `stem worker multi start` makes it.")
    return CheckResult(check, "ok", f"The folder {folder} can be written to.")


def _environment(path: Path) -> Iterator[CheckResult]:
    """Read the file; its variables hold in the checks that follow, as they do in the worker."""
    from stem.runtime.envfile import read

    found = read(path)
    os.environ.update(found.variables)
    for problem in found.problems:
        yield CheckResult("environment", "error", problem)
    if not found.problems:
        yield CheckResult("environment", "ok", f"{path} sets {len(found.variables)} variables.")


def _command(command: str | None, line: str | None, workdir: str | None) -> CheckResult:
    try:
        chosen = words(command, line) or from_variable(os.environ)
    except StemError as error:
        return CheckResult("command", "error", str(error))
    if not chosen:
        return CheckResult("command", "ok", "It is `stem worker start` of this installation.")
    # A name with a slash counts from where the worker runs.
    program = chosen[0] if "/" not in chosen[0] else str(Path(workdir or ".", chosen[0]))
    place = shutil.which(program)
    if place is None:
        remedy = "name its whole path, or make it executable"
        return CheckResult("command", "error", f"The command {chosen[0]} is not found; {remedy}.")
    return CheckResult("command", "ok", f"It is {place}.")


def _service(session: Session) -> Iterator[CheckResult]:
    """Check the settings, then what they name."""
    from stem.runtime.configfile import load

    try:
        settings = check_shared(session.settings())
    except StemError as error:
        yield CheckResult("settings", "error", str(error))
        return
    yield _checked("signing keys", security_checks.signing, settings)
    if settings.control.keys:  # else the signing keys serve
        yield _checked("control keys", security_checks.control_signing, settings)
    yield _checked("TLS", security_checks.tls, settings)
    yield from (CheckResult("environment", "warning", doubt) for doubt in load(os.environ).warnings)
    yield from _stores(settings)


def _checked(check: str, run: "Callable[[Settings], str]", settings: "Settings") -> CheckResult:
    try:
        finding = run(settings)
    except StemError as error:
        return CheckResult(check, "error", str(error))
    return CheckResult(check, "ok", f"{finding[0].upper()}{finding[1:]}.")


def _stores(settings: "Settings") -> Iterator[CheckResult]:
    from stem.client.stores import with_absolute_paths

    try:
        there = with_absolute_paths(settings)
    except StemError as error:
        yield CheckResult("store", "error", str(error))
        return
    yield from _store("store", there.broker_url, there)
    if there.results_are_apart and there.results_url is not None:
        yield from _store("result store", there.results_url, there)
    if there.revokes_place not in (there.broker_url, there.results_url):
        yield _checked("revoke store", _revoke_store, there)


def _revoke_store(settings: "Settings") -> str:
    """Raises ConfigError, StoreUnavailable, StoreRefused."""
    from stem.client.stores import connect_revokes
    from stem.core.settings.app import masked

    opened = connect_revokes(settings)
    try:
        version = opened.revokes.version()
    finally:
        opened.close()
    return f"{masked(opened.url)} answers, {version} revokes so far"


def _store(check: str, url: str, settings: "Settings") -> Iterator[CheckResult]:
    from stem.client.stores import connect
    from stem.core.settings.app import masked

    try:
        store = connect(url, settings)
    except StemError as error:
        yield CheckResult(check, "error", str(error))
        return
    try:
        diagnosis = store.upkeep.diagnose()
        yield CheckResult(check, "ok", f"{masked(url)} answers: {diagnosis.server}.")
        yield from (CheckResult(check, "warning", warning) for warning in diagnosis.warnings)
        yield clock(store)
    except StemError as error:
        yield CheckResult(check, "error", str(error))
    finally:
        store.upkeep.close()


def clock(store: "Store") -> CheckResult:
    from stem.runtime.clock import skew_seconds

    skew = skew_seconds(store.upkeep.now)
    if abs(skew) <= MOST_SKEW_SECONDS:
        return CheckResult("clock", "ok", f"{abs(skew):.3f} s from the store's.")
    direction = "ahead of" if skew > 0 else "behind"
    message = f"This machine's clock is {abs(skew):.1f} s {direction} the store's, which decides; set it by NTP."
    return CheckResult("clock", "warning", message)
