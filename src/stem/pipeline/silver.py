"""Attempts out of events: one row for each event that ended an attempt."""

from functools import reduce
from typing import TYPE_CHECKING

from stem.core import fingerprint as rules
from stem.pipeline import shapes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENDED = "is_attempt"
_REASONED = ("failed", "revoked", "requeued")
_DEATH = "The process that ran the task%"  # how the settlement of a fallen isolate begins


def attempts(events: "DataFrame") -> "DataFrame":
    return ended(events).where(ENDED).select(*shapes.names(shapes.ATTEMPTS))


def ended(events: "DataFrame") -> "DataFrame":
    """The events, each with the columns of the attempt that it ended, and whether it did."""
    from pyspark.sql import functions as F

    return (
        # Most data is of events that have no reason, and JSON is dear to read.
        events.withColumn("reason", F.when(F.col("kind").isin(*_REASONED), F.get_json_object("data", "$.reason")))
        .withColumn(ENDED, _has_ended())
        .withColumn("outcome", _outcome())
        .withColumn("fingerprint", _fingerprint())
        .withColumn("finished_at", F.col("at"))
        .withColumn("wait_seconds", F.when(F.col("attempt") == 0, _seconds("enqueued_at", "started_at")))
        .withColumn("run_seconds", _seconds("started_at", "at"))
    )


def _has_ended() -> "Column":
    """What goes back before it began, or is revoked while it waits, was no attempt."""
    from pyspark.sql import functions as F

    kind = F.col("kind")
    return kind.isin("succeeded", "retried", "failed") | (
        kind.isin("revoked", "requeued") & F.col("started_at").isNotNull()
    )


def _outcome() -> "Column":
    from pyspark.sql import functions as F

    is_lost = (F.col("reason") == "lease-expired") | F.col("reason").like(_DEATH)
    of_requeued = F.when(is_lost, "lost").otherwise("interrupted")
    kind = F.col("kind")
    outcome = F.when(kind == "revoked", "cancelled").when(kind == "requeued", of_requeued).otherwise(kind)
    return F.when(F.col(ENDED), outcome)


def _seconds(start: str, end: str) -> "Column":
    """Never negative: a start is dated back by the worker's clock, an end is the store's."""
    from pyspark.sql import functions as F

    seconds = (F.unix_micros(end) - F.unix_micros(start)) / 1e6
    return F.when(seconds < 0, 0.0).otherwise(seconds)


def _fingerprint() -> "Column":
    """The columns' own way to `core.fingerprint`, by the same table of rules."""
    from pyspark.sql import functions as F

    message = F.substring(F.coalesce("error_message", F.lit("")), 1, rules.SEEN_CHARACTERS)
    plain = reduce(lambda text, rule: F.regexp_replace(text, rule[0], rule[1]), rules.RULES, message)
    shown = F.substring(F.trim(plain), 1, rules.KEPT_CHARACTERS)
    digest = F.sha2(F.concat("error_type", F.lit("\n"), shown), 256)
    return F.when(F.col(ENDED) & F.col("error_type").isNotNull(), F.substring(digest, 1, rules.DIGITS))
