"""Orders in Django's admin, beside the link to Stem's dashboard."""

from django.contrib import admin

from orders.models import Order

admin.site.register(Order)
