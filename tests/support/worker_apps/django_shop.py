"""Tasks of a Django project: its settings, a database, and queries from each kind of task."""

import os

import django
from django.conf import settings

from stem import Stem

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": os.environ["SHOP_DATABASE_HOST"],
            "CONN_MAX_AGE": None if os.environ["SHOP_CONNECTIONS"] == "persistent" else 0,
        }
    }
)
django.setup()

from django.db import connection  # noqa: E402

app = Stem(retry=0.05)


def query() -> tuple[int, int]:
    """The database's process that served it, and ours."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return cursor.fetchone()[0], os.getpid()


@app.task(name="isolated")
def isolated() -> tuple[int, int]:
    return query()


@app.task(name="inline", isolate=False)
def inline() -> tuple[int, int]:
    return query()


@app.task(name="coroutine")
async def coroutine() -> tuple[int, int]:
    from asgiref.sync import sync_to_async

    return await sync_to_async(query)()
