import os

from celery import Celery
from celery.schedules import crontab

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.beat_schedule = {
    "count-stock": {"task": "shop.stock.tasks.count", "schedule": 1.0, "args": ("beat",)},
    "close-the-month": {
        "task": "shop.orders.tasks.bill",
        "schedule": crontab(minute=0, hour=6, day_of_month="1-7", day_of_week="mon"),
        "args": ([],),
    },
}
