"""The app of docs/pipeline-streaming.md, importable where Spark's Python runs."""

from stem import Stem

app = Stem()


@app.task(name="order.confirm", queue="orders")
def confirm(order: int, country: str, amount: float = 0.0) -> str:
    return f"order {order} to {country}: {amount:.2f}"
