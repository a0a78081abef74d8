"""A link in Django's admin that leads to Stem's dashboard, for those who have the permission `stem.view_dashboardlink`."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseRedirect

from stem.integrations.django.models import DashboardLink
from stem.integrations.django.project_settings import read_project_settings


class DashboardLinkAdmin(admin.ModelAdmin):  # type: ignore[misc]
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponseRedirect:  # noqa: ARG002
        return HttpResponseRedirect(read_project_settings().dashboard_url)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False


if read_project_settings().dashboard_url is not None:
    admin.site.register(DashboardLink, DashboardLinkAdmin)
