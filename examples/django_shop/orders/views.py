"""Takes orders."""

from decimal import Decimal

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from orders.models import Order
from orders.tasks import send_receipt


class CardDeclined(Exception):
    pass


@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Both are stored, the order and the task, or neither is."""
    try:
        with transaction.atomic():
            order = Order.objects.create(email=request.POST["email"], amount=Decimal(request.POST["amount"]))
            task = send_receipt.enqueue(order.pk, order.amount)
            charge(request.POST["card"])
    except CardDeclined as error:
        return JsonResponse({"error": str(error)}, status=402)
    return JsonResponse({"order": order.pk, "task": task.id}, status=201)


def charge(card: str) -> None:
    if card == "empty":
        raise CardDeclined("The card was declined.")
