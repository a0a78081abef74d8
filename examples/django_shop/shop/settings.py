"""The settings of the shop. Those of Stem are INSTALLED_APPS, STEM, and the two options of the database."""

import os
from pathlib import Path

PLACE = Path(os.environ.get("SHOP_PLACE", "."))

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-this-example")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "testserver"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "stem.integrations.django",
    "orders",
]

# Workers write to the same file, so a transaction takes its lock when it begins, and waits for it.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": PLACE / "shop.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# No store is named, so tasks live in the shop's own database and commit with its orders.
STEM = {"DASHBOARD_URL": os.environ.get("SHOP_DASHBOARD_URL", "http://localhost:8780/")}

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
