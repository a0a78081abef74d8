"""The app of a Django project: settings from STEM, tasks from the installed apps, transactions from `atomic()`."""

import os
from typing import TYPE_CHECKING, Any

import django
import msgspec
from django.apps import apps

from stem.client.app import Stem
from stem.core.errors import ConfigError
from stem.core.settings.app import Settings
from stem.integrations.django import databases
from stem.integrations.django.joining import DjangoStoreConnection
from stem.integrations.django.project_settings import ProjectSettings, read_project_settings
from stem.runtime.configfile import load

if TYPE_CHECKING:
    from stem.client.store_connection import StoreConnection

PATH = "stem.integrations.django:app"

_made: list[Stem] = []


class DjangoStem(Stem):
    """A Stem app that knows Django. It takes the arguments of `Stem`, which override the setting STEM.

    The setting overrides the environment and stem.yaml. If nothing names a store, it is the database of Django's, provided
    that this is SQLite or Postgres. The modules `tasks` of all installed apps are imported when a worker loads the app.
    """

    connection_class: "type[StoreConnection]" = DjangoStoreConnection

    def __init__(self, broker_url: str | None = None, *, settings: Settings | None = None, **options: Any) -> None:
        own = read_project_settings()
        url = broker_url if settings is None else broker_url or settings.broker_url
        found, follows = _configured(own, url)
        super().__init__(broker_url, settings=settings or found, **options)
        connection = self.store_connection
        assert isinstance(connection, DjangoStoreConnection)  # noqa: S101
        connection.alias, connection.follows_database = own.database, follows
        self._has_discovered = False

    def load_tasks(self) -> None:
        if not self._has_discovered:
            self._has_discovered = True
            set_up()
            self.autodiscover([each.name for each in apps.get_app_configs() if hasattr(each.module, "__path__")])
        super().load_tasks()


def project_app() -> Stem:
    """The one app of the project: the one that STEM["APP"] names, or one made of the settings. Raises ConfigError."""
    set_up()
    if not _made:
        path = read_project_settings().app_path or PATH
        _made.append(DjangoStem() if path == PATH else _imported(path))
    return _made[0]


def set_up() -> None:
    """Populate Django's registry of apps, unless manage.py or a server has done so, or is about to."""
    if not (apps.ready or getattr(apps, "loading", False)):
        django.setup()


def _configured(own: ProjectSettings, url: str | None) -> tuple[Settings, bool]:
    """The settings, and whether the store follows Django's database."""
    config = load({**os.environ, **own.of_apps}).check()
    settings, is_named = config.settings, url is not None or config.sources["broker.url"].kind != "default"
    found = None if is_named else databases.store_url(own.database)
    if found is None:
        return settings, False
    return msgspec.structs.replace(settings, broker_url=found), True


def _imported(path: str) -> Stem:
    from importlib import import_module

    module, _, name = path.partition(":")
    app = getattr(import_module(module), name or "app", None)
    if not isinstance(app, Stem):
        raise ConfigError(f"STEM['APP'] is {path!r}, which is no Stem app; write it like shop.stem_app:app.")
    return app
