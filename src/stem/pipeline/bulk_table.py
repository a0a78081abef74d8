"""The Delta table that holds the results of bulks: made when first needed, one transaction a bulk, never the same bulk twice."""

from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.errors import StemError
from stem.pipeline.bulk_chunks import Kept, schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

PARTITION = "bulk"


class BulkTableRefused(StemError):
    """The table cannot take the results; name another with --to."""


def committed(path: str, bulk: str) -> bool:
    """Whether the bulk's results are in the table."""
    table = _opened(path)
    return table is not None and table.transaction_version(_name(bulk)) is not None


def commit(path: str, bulk: str, files: list[Kept]) -> None:
    """All of them at once; a second time is a no-op."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, Transaction

    whole = schema().append(pa.field(PARTITION, pa.string()))
    table = _opened(path) or DeltaTable.create(path, whole, partition_by=[PARTITION])
    if table.transaction_version(_name(bulk)) is not None:
        return
    actions: list[Any] = [
        AddAction(file.path, file.size, {PARTITION: bulk}, 0, True, _stats(file)) for file in files if file.count
    ]
    properties = CommitProperties(app_transactions=[Transaction(_name(bulk), 1)])
    table.create_write_transaction(actions, "append", whole, [PARTITION], commit_properties=properties)


def frame(spark: "SparkSession", path: str, bulk: str) -> "DataFrame":
    """The results of one bulk."""
    from pyspark.sql import functions as F

    table = _opened(path)
    prefix = f"{PARTITION}={bulk}/"
    uris = [] if table is None else [uri for uri in table.file_uris() if prefix in uri]
    if not uris:
        return spark.createDataFrame([], COLUMNS)
    found = spark.read.parquet(*uris)
    return found.select(F.lit(bulk).alias(PARTITION), *(name for name in schema().names))


COLUMNS = (
    "bulk string, item string, ok boolean, result string, reason string, error_type string, error_message string, "
    "error_stack string, attempts int, args string, started_at timestamp, finished_at timestamp"
)


def _opened(path: str) -> "DeltaTable | None":
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = DeltaTable(path)
        names = {field.name for field in table.schema().fields}
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise BulkTableRefused(f"The table {path} cannot be read ({error}); name another.") from error
    if not {*schema().names, PARTITION} <= names:
        raise BulkTableRefused(f"{path} is a table of something else than the results of bulks; name another.")
    return table


def _name(bulk: str) -> str:
    return f"stem-bulk-{bulk}"


def _stats(file: Kept) -> str:
    return msgspec.json.encode({"numRecords": file.count}).decode()
