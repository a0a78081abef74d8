"""Stem in a Flask application: settings from its config, tasks inside its application context, `flask stem …`."""

import os
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from flask import Flask, current_app
from flask.cli import ScriptInfo, pass_script_info

from stem.client.app import Stem
from stem.client.middleware import Middleware
from stem.client.run.context import TaskContext
from stem.core.errors import ConfigError, UsageError
from stem.core.settings.app import Settings, check_settings, masked
from stem.core.settings.setting import declared, read_environment
from stem.runtime.keys import Keyring

if TYPE_CHECKING:
    app: "FlaskStem"

S = TypeVar("S", bound=msgspec.Struct)

PATH = "stem.integrations.flask:app"
NAME = "stem"  # in app.extensions


class FlaskStem(Stem):
    """A Stem app that becomes part of a Flask application by `init_app`. It takes the arguments of `Stem`.

    Workers run each task inside the application's context, so that `current_app` and extensions work as in a view.
    """

    def __init__(self, *args: Any, flask: Flask | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Take settings from the config (STEM_BROKER_URL, STEM_NAMESPACE …: Stem's environment variables), add
        `flask stem …`, and run tasks in this application's context. Raises ConfigError, UsageError."""
        if self.store_connection.is_open:
            raise UsageError(
                f"The store {masked(self.settings.broker_url)} is open already; call init_app before the first task is sent."
            )
        self._configure(_given(flask))
        if not any(isinstance(each, InFlaskContext) for each in self.store_connection.hooks.middleware):
            self.use(InFlaskContext(self))
        self.flask = flask
        flask.extensions[NAME] = self
        flask.cli.add_command(_command, NAME)

    def _configure(self, values: dict[str, Any]) -> None:
        settings = self.settings
        for each in declared(Settings):
            if each.key in values:
                settings = _with(settings, each.field, values[each.key])
        self.settings = self.store_connection.settings = check_settings(settings)
        self.store_connection.keyring = Keyring.parse(self.settings.signing_keys)


class InFlaskContext(Middleware):
    """Pushes the application's context around each task."""

    def __init__(self, stem: FlaskStem) -> None:
        self._stem = stem

    def execute(self, context: TaskContext) -> AbstractContextManager[Any]:  # noqa: ARG002
        return self._stem.flask.app_context()


def _given(flask: Flask) -> dict[str, Any]:
    """The settings that the config names, by key. Raises ConfigError."""
    texts = {name: str(value) for name, value in flask.config.items() if name.startswith("STEM_") and value is not None}
    reading = read_environment(declared(Settings), texts)
    if reading.errors:
        raise ConfigError(reading.errors[0])
    return reading.values


def _with(settings: S, field: str, value: Any) -> S:
    """The settings with another value of a field; dots lead into nested structs."""
    name, _, rest = field.partition(".")
    return msgspec.structs.replace(settings, **{name: _with(getattr(settings, name), rest, value) if rest else value})


@click.command(
    NAME,
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    help="Run a command of Stem's with this application, such as: flask stem worker start",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_script_info
def _command(info: ScriptInfo, arguments: tuple[str, ...]) -> None:
    from stem.cli import main

    os.environ["STEM_APP"] = PATH
    if info.app_import_path is not None:
        os.environ["FLASK_APP"] = info.app_import_path
    sys.exit(main.run(arguments))


def __getattr__(name: str) -> Any:
    """`app`: of the Flask application that runs here, or else of the one that FLASK_APP names. Raises ConfigError."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if current_app:
        return _extension(current_app)
    value = globals()[name] = _extension(ScriptInfo(os.environ.get("FLASK_APP")).load_app())
    return value


def _extension(flask: Flask) -> FlaskStem:
    found = flask.extensions.get(NAME)
    if not isinstance(found, FlaskStem):
        raise ConfigError(f"The Flask application {flask.name!r} has no Stem; call init_app with it.")
    return found
