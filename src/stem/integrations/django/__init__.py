"""Stem in a Django project: `from stem.integrations.django import app`, then `@app.task`.

Nothing of Django is imported until a name is used, so that the package can stand in INSTALLED_APPS.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stem.integrations.django.application import DjangoStem as DjangoStem

    app: DjangoStem


def __getattr__(name: str) -> Any:
    if name not in ("app", "DjangoStem"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stem.integrations.django import application

    value = globals()[name] = application.project_app() if name == "app" else application.DjangoStem
    return value
