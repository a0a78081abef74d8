"""A link in Django's admin that leads to Stem's dashboard, for those who have the permission `stem.view_dashboardlink`."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect

from stem.integrations.django.models import DashboardLink


class DashboardLinkAdmin(admin.ModelAdmin):  # type: ignore[misc]
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponseRedirect:  # noqa: ARG002
        return HttpResponseRedirect(settings.STEM["DASHBOARD_URL"])

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False


if getattr(settings, "STEM", {}).get("DASHBOARD_URL") is not None:
    admin.site.register(DashboardLink, DashboardLinkAdmin)
