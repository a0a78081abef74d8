"""The Django app: what INSTALLED_APPS names."""

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate

from stem.core.errors import ConfigError


class StemConfig(AppConfig):  # type: ignore[misc]
    name = "stem.integrations.django"
    label = "stem"
    verbose_name = "Stem"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from stem.integrations.django import databases

        databases.remember_names()
        checks.register(_check)
        post_migrate.connect(_create_tables, sender=self)


def _check(**_: Any) -> list[checks.CheckMessage]:
    """Says in `manage.py check` what is wrong with the setting STEM."""
    from stem.integrations.django.application import project_app

    try:
        project_app()
    except ConfigError as error:
        return [checks.Error(str(error), id="stem.E001")]
    return []


def _create_tables(using: str, **_: Any) -> None:
    """With `manage.py migrate`, where Stem's tables are in Django's database: a transaction that holds the lock of an SQLite
    file would keep Stem from creating them."""
    from stem.integrations.django.application import project_app
    from stem.integrations.django.joining import DjangoStoreConnection

    connection = project_app().store_connection
    if isinstance(connection, DjangoStoreConnection) and connection.shares_database and connection.alias == using:
        connection.store.upkeep.now()  # opening it creates them
        connection.close()
