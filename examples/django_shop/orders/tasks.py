"""What the shop does in the background. Stem finds this module by its name."""

from decimal import Decimal

from django.db.models import Sum

from orders.models import Order, Report
from stem.integrations.django import app


@app.task
def send_receipt(order_id: int, amount: Decimal) -> str:
    """The order is there: this task was committed together with it."""
    order = Order.objects.get(pk=order_id)
    order.receipt = f"Thank you, {order.email}, for {amount:.2f}"
    order.save()
    return order.receipt


@app.schedule("every 2s")
@app.task
def report_turnover() -> str:
    total = Order.objects.exclude(receipt="").aggregate(total=Sum("amount"))["total"] or Decimal()
    report = Report.objects.create(text=f"turnover {total:.2f}")
    return report.text
