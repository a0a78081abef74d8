from celery import chord, shared_task
from celery.utils.log import get_task_logger

from .models import Bill, Order

logger = get_task_logger(__name__)


class CardDeclined(Exception):
    """The payment provider is not ready yet."""


@shared_task(bind=True, autoretry_for=(CardDeclined,), retry_backoff=True, retry_backoff_max=1, max_retries=3)
def charge(self, order_id):
    order = Order.objects.get(pk=order_id)
    if self.request.retries < 1:
        raise CardDeclined(order.customer)
    Order.objects.filter(pk=order_id).update(state="paid")
    logger.info("charged %s", order.customer)
    return order.price


@shared_task
def bill(prices):
    return Bill.objects.create(total=sum(prices)).total


@shared_task
def note_failure(task_id):
    Order.objects.create(customer=f"failure of {task_id}", price=0, state="failed")


def check_out(order_ids):
    """Charge all orders at the same time, then write one bill."""
    return chord(charge.s(order_id) for order_id in order_ids)(bill.s().on_error(note_failure.s()))
