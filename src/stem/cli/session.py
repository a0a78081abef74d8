"""Open the stores that flags and environment name, a flag before the environment, and say how to get back to them."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import click
import msgspec

from stem.core.errors import ConfigError

if TYPE_CHECKING:
    from stem import Stem
    from stem.contracts.store import Store
    from stem.core.config import Settings

_VARIABLES = {
    "broker_url": "STEM_BROKER_URL",
    "results_url": "STEM_RESULT_BACKEND_URL",
    "namespace": "STEM_NAMESPACE",
}

_NAMESPACE = "Which of the store's spaces.  [env: STEM_NAMESPACE]"


class Session(msgspec.Struct, frozen=True):
    """The flags that every command takes; None where one was not given."""

    broker_url: str | None
    results_url: str | None
    namespace: str | None
    as_json: bool

    def settings(self) -> "Settings":
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

        store = open_store(placed(check_shared(self.settings())))
        try:
            yield store
        finally:
            store.upkeep.close()

    @contextmanager
    def app(self) -> "Iterator[Stem]":
        """An app on the same stores that knows no tasks and, for it only reads, no keys."""
        from stem import Stem

        with Stem(settings=msgspec.structs.replace(check_shared(self.settings()), signing_keys="")) as app:
            yield app

    def command(self, *words: str, **options: object) -> str:
        """A command line that reaches the same stores when pasted into the same shell. It never holds a password."""
        flags = {"broker_url": self.broker_url, "results_url": self.results_url, "namespace": self.namespace}
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


def in_session(function: Callable[..., None], *, namespace_help: str = _NAMESPACE) -> Callable[..., None]:
    """Give a command the flags of every command; it is called with a Session in their place. `namespace_help` says what
    that flag means there."""

    @wraps(function)
    def run(
        *,
        broker_url: str | None,
        results_url: str | None,
        namespace: str | None,
        as_json: bool,
        traceback: bool,
        **rest: Any,
    ) -> None:
        if traceback:
            os.environ["STEM_DEBUG"] = "1"  # for the processes that a command starts
        function(Session(broker_url, results_url, namespace, as_json), **rest)

    for option in reversed(
        (
            click.option("--broker-url", metavar="URL", help="Where tasks wait.  [env: STEM_BROKER_URL]"),
            click.option("--results-url", metavar="URL", help="Where records live.  [env: STEM_RESULT_BACKEND_URL]"),
            click.option("--namespace", metavar="NAME", help=namespace_help),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            click.option("--traceback", is_flag=True, help="Show where an error came from.  [env: STEM_DEBUG=1]"),
        )
    ):
        run = option(run)
    return run


def _holds_password(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.password) or any("password" in name.lower() for name in parse_qs(parts.query))
