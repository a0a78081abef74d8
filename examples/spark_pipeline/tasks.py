"""A small shop's tasks: one for each order, one that is a Spark job, and one that runs over a whole table."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stem import Fixed, Stem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = Stem()  # the example names its store in STEM_BROKER_URL
place = Path(os.environ.get("STEM_EXAMPLE_PLACE", "."))


@app.task(name="order.confirm", max_retries=1, retry=Fixed(0.05))
def confirm(order: int, amount: float) -> str:
    """Every hundredth customer's mailbox is full until someone makes room."""
    time.sleep(0.002)
    if order % 100 == 0 and not (place / "room").exists():
        raise ConnectionError(f"mailbox of customer {order} is full")
    return f"order {order} over {amount:.2f} confirmed"


@app.task(name="sales.summary", engine="spark")
def summarise(spark: "SparkSession", orders: str) -> dict[str, float]:
    """The worker gives it a session; a revoke or a limit ends its Spark jobs, too."""
    rows = spark.read.parquet(orders).groupBy("country").sum("amount").collect()
    return {row["country"]: round(row["sum(amount)"], 2) for row in rows}


@app.task(name="vat.compute", max_retries=0)
def vat(order: int, amount: float) -> float:
    if order == 13:
        raise ValueError(f"order {order} has no country")
    return round(amount * 0.2, 2)
