"""A Django connection to any database, though a process can configure Django only once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.conf import settings


@contextmanager
def django_alias(database: dict[str, Any], alias: str = "shop") -> Iterator[Any]:
    """The connection, under an alias of Django's for `transaction.atomic(using=alias)`."""
    if not settings.configured:
        settings.configure(DATABASES={})
        django.setup()
    from django.db import connections

    connections.settings[alias] = connections.configure_settings({"default": {}, alias: database})[alias]
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]
