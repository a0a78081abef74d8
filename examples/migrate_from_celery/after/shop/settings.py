import os

SECRET_KEY = "only-for-the-example"
INSTALLED_APPS = ["shop.orders", "shop.stock"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SHOP_DATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

CELERY_BROKER_URL = os.environ["SHOP_BROKER_URL"]
CELERY_RESULT_BACKEND = os.environ["SHOP_BROKER_URL"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ROUTES = {"shop.stock.*": {"queue": "stock"}}
CELERY_TIMEZONE = "Europe/Berlin"
