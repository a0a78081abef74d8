"""Recognise VARIANT columns, which Arrow represents as structs, and read them as JSON values."""

import json
from typing import TYPE_CHECKING, Any

from stem.core.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


def refuse_nested(schema: "StructType") -> None:
    """Refuse a VARIANT inside another type: tasks would get Spark's internal bytes. Raises UsageError."""
    from pyspark.sql.types import VariantType

    for field in schema.fields:
        if not isinstance(field.dataType, VariantType) and _holds_variant(field.dataType):
            raise UsageError(
                f"Column {field.name!r} holds VARIANT inside {field.dataType.simpleString()}, which cannot become an argument; "
                f"make it one VARIANT with to_variant_object({field.name}), or text with to_json({field.name})."
            )


def is_variant(kind: "pa.DataType") -> bool:
    import pyarrow.types as kinds

    return kinds.is_struct(kind) and any((kind.field(n).metadata or {}).get(b"variant") for n in range(kind.num_fields))


def variant_values(column: "pa.Array[Any]") -> list[Any]:
    from pyspark.sql.types import VariantVal

    cells = column.to_pylist()
    return [cell and json.loads(VariantVal(cell["value"], cell["metadata"]).toJson()) for cell in cells]


def _holds_variant(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    match kind:
        case ArrayType():
            return _holds_variant(kind.elementType)
        case MapType():
            return _holds_variant(kind.valueType)
        case StructType():
            return any(_holds_variant(field.dataType) for field in kind.fields)
        case _:
            return isinstance(kind, VariantType)
