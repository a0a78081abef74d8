"""A model without a table, so that the dashboard has a place and a permission in Django's admin."""

from django.db import models


class DashboardLink(models.Model):  # type: ignore[misc]
    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "dashboard"
        verbose_name_plural = "dashboard"
