"""The Django app: what INSTALLED_APPS names."""

from typing import Any

from django.apps import AppConfig
from django.core import checks

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


def _check(**_: Any) -> list[checks.CheckMessage]:
    """Says in `manage.py check` what is wrong with the setting STEM."""
    from stem.integrations.django.application import project_app

    try:
        project_app()
    except ConfigError as error:
        return [checks.Error(str(error), id="stem.E001")]
    return []
