"""Sends orders, and shows what the workers made of them."""

import time

import django

import shop  # noqa: F401 - it makes the app

django.setup()

from shop.orders.models import Bill, Order  # noqa: E402
from shop.orders.tasks import charge, check_out  # noqa: E402

orders = [Order.objects.create(customer=name, price=price) for name, price in (("Ada", 10), ("Bob", 20), ("Eve", 12))]
print("bill:", check_out([order.pk for order in orders]).get(timeout=30))
print("states:", sorted(Order.objects.filter(pk__in=[order.pk for order in orders]).values_list("state", flat=True)))
print("bills:", list(Bill.objects.values_list("total", flat=True)))
print("one more:", charge.delay(orders[0].pk).get(timeout=30))

ends_at = time.monotonic() + 30
while not Order.objects.filter(state="counted").exists() and time.monotonic() < ends_at:
    time.sleep(0.1)
print("counted by:", Order.objects.filter(state="counted").values_list("customer", flat=True).first())
