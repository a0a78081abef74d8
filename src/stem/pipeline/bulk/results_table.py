"""The Delta table with the results of bulks: one transaction per bulk, and each bulk once."""

from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.errors import StemError
from stem.pipeline.bulk.chunks import ResultFile, schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

PARTITION = "bulk"


class BulkTableRefused(StemError):
    """The table cannot take the results; name another with --to."""


def committed(path: str, bulk: str) -> tuple[int, int] | None:
    """The number of items and failures of a bulk in the table; None if it is not there."""
    table = _opened(path)
    if table is None or table.transaction_version(_name(bulk)) is None:
        return None
    import pyarrow.compute as pc

    rows = table.to_pyarrow_dataset().filter(pc.field(PARTITION) == bulk)
    items = rows.count_rows()
    return items, items - rows.filter(pc.field("ok")).count_rows()


def commit(path: str, bulk: str, files: list[ResultFile]) -> set[str]:
    """Commit all files, unless another run has committed the bulk. Returns the names of the files that the table has."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction, Transaction

    whole = schema().append(pa.field(PARTITION, pa.string()))
    table = _opened(path) or DeltaTable.create(path, whole, mode="ignore", partition_by=[PARTITION])
    if table.transaction_version(_name(bulk)) is None:
        actions: list[Any] = [
            AddAction(file.path, file.size, {PARTITION: bulk}, 0, True, _stats(file)) for file in files if file.count
        ]
        properties = CommitProperties(app_transactions=[Transaction(_name(bulk), 1)])
        try:
            table.create_write_transaction(actions, "append", whole, [PARTITION], commit_properties=properties)
        except CommitFailedError:
            if committed(path, bulk) is None:
                raise
    return {uri.rpartition("/")[2] for uri in DeltaTable(path).file_uris() if f"{PARTITION}={bulk}/" in uri}


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


def _stats(file: ResultFile) -> str:
    return msgspec.json.encode({"numRecords": file.count}).decode()
