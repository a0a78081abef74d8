"""Open the stores that flags and environment name, a flag before the environment, and say how to get back to them."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import click
import msgspec

from stem.core.errors import ConfigError, StemError

if TYPE_CHECKING:
    from stem import Stem
    from stem.contracts.revokes import Revokes
    from stem.contracts.store import Store
    from stem.core.config import Settings

_VARIABLES = {
    "broker_url": "STEM_BROKER_URL",
    "results_url": "STEM_RESULT_BACKEND_URL",
    "namespace": "STEM_NAMESPACE",
}

_NAMESPACE = "Namespace within the store.  [env: STEM_NAMESPACE]"


class StoreNotFound(StemError):
    """The file of the store does not exist, and looking for it must not create it."""

    exit_code = 1


class Session(msgspec.Struct, frozen=True):
    """The flags that every command takes; None where one was not given."""

    broker_url: str | None
    results_url: str | None
    namespace: str | None
    as_json: bool
    app_path: str | None = None
    heeds_app: bool = False  # an app may name the store

    def settings(self) -> "Settings":
        """Those of the app where one names the store, else those of flags, environment and file."""
        path = self.app_path or (_app_of_environment(self) if self.heeds_app else None)
        return self._configured() if path is None else _settings_of(path, self)

    def _configured(self) -> "Settings":
        from stem.core.config import check_namespace
        from stem.runtime.configfile import configured

        flags = self.environment()
        settings = configured({name: value for name, value in os.environ.items() if name not in flags})
        return msgspec.structs.replace(
            settings,
            broker_url=settings.broker_url if self.broker_url is None else self.broker_url,
            results_url=settings.results_url if self.results_url is None else self.results_url,
            namespace=settings.namespace if self.namespace is None else check_namespace(self.namespace),
        )

    def environment(self) -> dict[str, str]:
        """The flags as the environment variables that they stand for."""
        named = {variable: getattr(self, flag) for flag, variable in _VARIABLES.items()}
        return {variable: value for variable, value in named.items() if value is not None}

    @contextmanager
    def store(self) -> "Iterator[Store]":
        """The broker's store, its results being those of the result store where that is another one."""
        from stem.backends import placed
        from stem.client.link import open_store

        store = open_store(check_exists(placed(check_shared(self.settings()))))
        try:
            yield store
        finally:
            store.upkeep.close()

    @contextmanager
    def marks(self, store: "Store") -> "Iterator[Revokes]":
        """Where revokes and pauses are kept: beside the tasks, or in a store of their own."""
        from stem.backends import connect_revokes, placed

        settings = placed(self.settings())
        if settings.revokes_place == settings.broker_url:
            yield store.revokes
            return
        opened = connect_revokes(settings)
        try:
            yield opened.revokes
        finally:
            opened.close()

    @contextmanager
    def app(self) -> "Iterator[Stem]":
        """An app on the same stores that knows no tasks and, for it only reads, no keys."""
        from stem import Stem

        settings = check_exists(check_shared(self.settings()))
        with Stem(settings=msgspec.structs.replace(settings, signing_keys="")) as app:
            yield app

    def command(self, *words: str, **options: object) -> str:
        """A command line that reaches the same stores when pasted into the same shell. It never holds a password."""
        flags = {
            "app": self.app_path,
            "broker_url": self.broker_url,
            "results_url": self.results_url,
            "namespace": self.namespace,
        }
        told = {name: value for name, value in {**options, **flags}.items() if value is not None}
        for name in self._secrets():
            del told[name]
        spelled = (part for name, value in told.items() for part in (f"--{name.replace('_', '-')}", str(value)))
        return shlex.join(["stem", *words, *spelled])

    @property
    def note(self) -> str | None:
        """What to do before such a command works, if anything."""
        if not self._secrets():
            return None
        names = " and ".join(_VARIABLES[name] for name in self._secrets())
        return f"The commands leave out a URL that holds a password: set {names} to it before you paste one."

    def _secrets(self) -> list[str]:
        urls = {"broker_url": self.broker_url, "results_url": self.results_url}
        return [name for name, url in urls.items() if url is not None and _holds_password(url)]


def check_shared(settings: "Settings") -> "Settings":
    """A command ends at once, and a store in its memory would end with it. Raises ConfigError."""
    for url in (settings.broker_url, settings.results_url, settings.revokes_url):
        if url is not None and url.lower().startswith("memory:"):
            raise ConfigError(f"{url} lives in one process alone, so no command can reach it; use sqlite:///stem.db.")
    return settings


def check_exists(settings: "Settings") -> "Settings":
    """Only `enqueue` and workers make a store: a file made by whoever merely looks would hide that he looks in the wrong
    place. Raises StoreNotFound."""
    # Where results live apart, whoever names them alone looks at them alone.
    if settings.broker_url.lower().startswith("sqlite:") and not settings.results_are_apart:
        from stem.backends.sqlite.address import address

        path = address(settings.broker_url).path
        if _is_missing(path):
            raise StoreNotFound(
                f"There is no store here: the file {path} does not exist. Enqueue a task or start a worker to create it, run "
                "the command in the folder of your app, or name the store with --app, --broker-url or STEM_BROKER_URL."
            )
    return settings


def _is_missing(path: Path) -> bool:
    """A folder that is missing, or a name that cannot be, is the store's to tell."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return path.parent.is_dir()
    except OSError:
        return False
    return False


def _app_of_environment(session: Session) -> str | None:
    """STEM_APP, unless something else names the store: importing an app takes long and can fail, and workers' probes, say,
    have no need of it."""
    path = os.environ.get("STEM_APP")
    if not path or session.broker_url is not None or os.environ.get("STEM_BROKER_URL"):
        return None
    from stem.runtime.configfile import find, load

    named = find(os.environ) and load(os.environ).sources["broker.url"].kind != "default"
    return None if named else path


@cache
def _settings_of(path: str, session: Session) -> "Settings":
    """Raises ConfigError."""
    from stem.client import loading

    os.environ.update(session.environment())  # before the import: that is when an app reads its settings
    settings = loading.load(path).settings
    check_flags_hold(session, settings, path)
    return settings


def check_flags_hold(session: Session, settings: "Settings", path: str) -> None:
    """An app that names its store in code does not heed the environment; better to refuse than to work elsewhere."""
    flags = {
        "--broker-url": (session.broker_url, settings.broker_url),
        "--results-url": (session.results_url, settings.results_url),
        "--namespace": (session.namespace, settings.namespace),
    }
    for flag, (wanted, used) in flags.items():
        if wanted is not None and wanted != used:
            raise ConfigError(f"{path} names its own store in code, so {flag} cannot change it; leave out the flag.")


_app = click.option(
    "-A", "--app", "app_path", metavar="MODULE:NAME", help="Use the store that this app names.  [env: STEM_APP]"
)


def in_session(
    function: Callable[..., None], *, namespace_help: str = _NAMESPACE, with_app: bool = True
) -> Callable[..., None]:
    """Give a command the flags of every command; it is called with a Session in their place. `namespace_help` says what
    that flag means there. Without `with_app` there is no --app, or one of the command's own."""

    @wraps(function)
    def run(
        *,
        broker_url: str | None,
        results_url: str | None,
        namespace: str | None,
        as_json: bool,
        traceback: bool,
        app_path: str | None = None,
        **rest: Any,
    ) -> None:
        if traceback:
            os.environ["STEM_DEBUG"] = "1"  # for the processes that a command starts
        function(Session(broker_url, results_url, namespace, as_json, app_path, with_app), **rest)

    for option in reversed(
        (
            *((_app,) if with_app else ()),
            click.option("--broker-url", metavar="URL", help="Where tasks wait.  [env: STEM_BROKER_URL]"),
            click.option("--results-url", metavar="URL", help="Where records live.  [env: STEM_RESULT_BACKEND_URL]"),
            click.option("--namespace", metavar="NAME", help=namespace_help),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            click.option("--traceback", is_flag=True, help="Show where an error came from.  [env: STEM_DEBUG=1]"),
        )
    ):
        run = option(run)
    return run


in_session_without_app = partial(in_session, with_app=False)


def _holds_password(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.password) or any("password" in name.lower() for name in parse_qs(parts.query))
