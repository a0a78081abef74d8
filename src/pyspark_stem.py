"""What PySpark looks for when it hears `format("stem")`: importable by this name, it needs no registration."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "stem"

    def schema(self) -> str:
        from stem.pipeline.schemas import SHAPES
        from stem.pipeline.source.read_options import table_of

        return SHAPES[table_of(self.options)]

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from stem.pipeline.source.source import StemReader

        return StemReader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from stem.pipeline.source.stream import StemStreamReader

        return StemStreamReader(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        from stem.pipeline.sink.sink import StemWriter

        return StemWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        from stem.pipeline.sink.sink import StemStreamWriter

        return StemStreamWriter(self.options, schema, overwrite)
