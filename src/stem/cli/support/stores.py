"""Open the stores that flags, environment, file or app name, and print commands that reach them again."""

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

from stem.cli.support.flags.several import json_output, with_options
from stem.core.errors import ConfigError, StemError

if TYPE_CHECKING:
    from stem import Stem
    from stem.contracts.steering.revokes import Revokes
    from stem.contracts.store import Store
    from stem.core.settings.app import Settings

_VARIABLES = {
    "broker_url": "STEM_BROKER_URL",
    "results_url": "STEM_RESULT_BACKEND_URL",
    "namespace": "STEM_NAMESPACE",
}

_NAMESPACE = "Namespace within the store.  [env: STEM_NAMESPACE]"


class StoreNotFound(StemError):
    """The file of the store does not exist, and a command that reads must not create it."""

    exit_code = 1


class Session(msgspec.Struct, frozen=True):
    """The flags that every command takes; None where one was not given."""

    broker_url: str | None
    results_url: str | None
    namespace: str | None
    as_json: bool
    app_path: str | None = None
    may_use_app: bool = False  # STEM_APP may name the store

    def settings(self) -> "Settings":
        """Return the settings of the app if one names the store, else those of flags, environment and file."""
        path = self.app_path or (_app_of_environment(self) if self.may_use_app else None)
        return self._configured() if path is None else _settings_of(path, self)

    def _configured(self) -> "Settings":
        from stem.core.settings.app import check_namespace
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
        """Return the flags as the environment variables that they stand for."""
        named = {variable: getattr(self, flag) for flag, variable in _VARIABLES.items()}
        return {variable: value for variable, value in named.items() if value is not None}

    def load_app(self, path: str) -> "Stem":
        """Import an app with these flags in force. Raises ConfigError, also if it names another store in code."""
        from stem.client import loading

        os.environ.update(self.environment())  # before the import: that is when an app reads its settings
        app = loading.load(path)
        check_flags_hold(self, app.settings, path)
        return app

    @contextmanager
    def store(self) -> "Iterator[Store]":
        """Open the broker's store, with the results of the result store if that is another one."""
        from stem.client.stores import open_store, with_absolute_paths

        store = open_store(check_exists(with_absolute_paths(check_shared(self.settings()))))
        try:
            yield store
        finally:
            store.upkeep.close()

    @contextmanager
    def revokes(self, store: "Store") -> "Iterator[Revokes]":
        """Open the revokes and pauses, which may have a store of their own."""
        from stem.client.stores import revokes_of, with_absolute_paths

        with revokes_of(store, with_absolute_paths(self.settings())) as revokes:
            yield revokes

    @contextmanager
    def app(self) -> "Iterator[Stem]":
        """Open an app on the same stores, without tasks and, because it only reads, without keys."""
        from stem import Stem

        settings = check_exists(check_shared(self.settings()))
        with Stem(settings=msgspec.structs.replace(settings, signing_keys="")) as app:
            yield app

    def sending_app(self, path: str | None) -> "Stem":
        """Return the user's app, or one that knows no tasks; either on the store that the flags name, and with keys."""
        from stem import Stem

        app = self.load_app(path) if path else Stem(settings=self.settings())
        check_shared(app.settings)
        return app

    def command(self, *words: str, **options: object) -> str:
        """Return a command line that reaches the same stores from the same shell. It never holds a password."""
        flags = {
            "app": self.app_path,
            "broker_url": self.broker_url,
            "results_url": self.results_url,
            "namespace": self.namespace,
        }
        given = {name: value for name, value in {**options, **flags}.items() if value is not None}
        for name in self._secrets():
            del given[name]
        spelled = (part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value)))
        return shlex.join(["stem", *words, *spelled])

    @property
    def note(self) -> str | None:
        """Say what to do before such a command works, if anything."""
        if not self._secrets():
            return None
        names = " and ".join(_VARIABLES[name] for name in self._secrets())
        return f"The commands leave out a URL that holds a password: set {names} to it before you paste one."

    def _secrets(self) -> list[str]:
        urls = {"broker_url": self.broker_url, "results_url": self.results_url}
        return [name for name, url in urls.items() if url is not None and _holds_password(url)]


def check_shared(settings: "Settings") -> "Settings":
    """Refuse a store in memory, which no other process can reach. Raises ConfigError."""
    for url in (settings.broker_url, settings.results_url, settings.revokes_url):
        if url is not None and url.lower().startswith("memory:"):
            raise ConfigError(f"{url} lives in one process alone, so no command can reach it; use sqlite:///stem.db.")
    return settings


def check_exists(settings: "Settings") -> "Settings":
    """Refuse a store whose file is missing: only `enqueue` and workers create one, because a new and empty file would hide
    that a command looks in the wrong place. Raises StoreNotFound."""
    # With results in a store of their own, a command may name and read that one alone.
    if settings.broker_url.lower().startswith("sqlite:") and not settings.results_are_apart:
        from stem.client.stores import sqlite_path

        path = sqlite_path(settings.broker_url)
        if path is not None and _is_missing(path):
            raise StoreNotFound(
                f"There is no store here: the file {path} does not exist. Enqueue a task or start a worker to create it, run "
                "the command in the folder of your app, or name the store with --app, --broker-url or STEM_BROKER_URL."
            )
    return settings


def _is_missing(path: Path) -> bool:
    """Return whether only the file is missing; the store itself reports a missing folder or an impossible name."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return path.parent.is_dir()
    except OSError:
        return False
    return False


def _app_of_environment(session: Session) -> str | None:
    """Return STEM_APP, unless something else names the store: importing an app takes time and can fail, and probes do not
    need it."""
    path = os.environ.get("STEM_APP")
    if not path or session.broker_url is not None or os.environ.get("STEM_BROKER_URL"):
        return None
    from stem.runtime.configfile import find, load

    named = find(os.environ) and load(os.environ).sources["broker.url"].kind != "default"
    return None if named else path


@cache
def _settings_of(path: str, session: Session) -> "Settings":
    return session.load_app(path).settings


def check_flags_hold(session: Session, settings: "Settings", path: str) -> None:
    """Refuse a flag that an app overrides, because it names its store in code. Raises ConfigError."""
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
    """Give a command the flags that all commands share; it is called with a Session in their place. `namespace_help` says
    what that flag means there. Without `with_app` there is no --app, or the command has its own."""

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

    return with_options(
        *((_app,) if with_app else ()),
        click.option("--broker-url", metavar="URL", help="The store of the tasks.  [env: STEM_BROKER_URL]"),
        click.option("--results-url", metavar="URL", help="The store of the results.  [env: STEM_RESULT_BACKEND_URL]"),
        click.option("--namespace", metavar="NAME", help=namespace_help),
        json_output,
        click.option("--traceback", is_flag=True, help="Show where an error came from.  [env: STEM_DEBUG=1]"),
    )(run)


in_session_without_app = partial(in_session, with_app=False)


def _holds_password(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.password) or any("password" in name.lower() for name in parse_qs(parts.query))
