"""A nightly run over a few shops: extract and clean each shop's orders, sum them up on Spark, write a report."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from stem import Fixed, Stem, TaskContext, group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = Stem()  # the example names its store in STEM_BROKER_URL
place = Path(os.environ.get("STEM_EXAMPLE_PLACE", "."))
SHOPS = ("berlin", "lima", "osaka")


@app.schedule("0 2 * * *", id="nightly", time_zone="Europe/Berlin")
@app.task(name="etl.nightly")
def nightly(ctx: TaskContext) -> None:
    """Replace this task by the whole run: its result, and the schedule's outcome, are those of the report."""
    day = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    shops = group(extract.s(shop, day) | clean.s() for shop in SHOPS)
    ctx.replace(shops | summarise.s() | report.s(day))


@app.task(name="etl.extract", max_retries=2, retry=Fixed(0.2))
def extract(ctx: TaskContext, shop: str, day: str) -> str:
    """One of the shops is slow to answer: its first call fails, and is retried."""
    if shop == "lima" and ctx.attempt == 0:
        raise ConnectionError(f"{shop} does not answer")
    orders = [{"shop": shop, "day": day, "amount": amount} for amount in (10, 20, None, 30)]
    return _write(f"{shop}.raw.json", orders)


@app.task(name="etl.clean")
def clean(path: str) -> str:
    orders = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return _write(Path(path).name.replace("raw", "clean"), [order for order in orders if order["amount"] is not None])


@app.task(name="etl.summarise", engine="spark")
def summarise(spark: "SparkSession", paths: list[str]) -> dict[str, int]:
    """The worker gives it a session; it gets the files of all shops, in the order of the shops."""
    rows = spark.read.json(paths).groupBy("shop").sum("amount").collect()
    return {row["shop"]: row["sum(amount)"] for row in rows}


@app.task(name="etl.report")
def report(totals: dict[str, int], day: str) -> str:
    lines = [f"# Sales of {day}", "", *(f"- {shop}: {total}" for shop, total in sorted(totals.items()))]
    path = place / "report.md"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _write(name: str, orders: Sequence[Mapping[str, object]]) -> str:
    path = place / name
    path.write_text("".join(json.dumps(order) + "\n" for order in orders))
    return str(path)
