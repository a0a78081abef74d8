"""The session that the pipeline's figures are measured in: embedded on two cores, or on so many executors of one core each."""

from typing import TYPE_CHECKING

from stem.pipeline.spark import class_archive, java
from stem.pipeline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMBEDDED = "local[2,4]"
_CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
}


def started(executors: int = 0) -> "SparkSession":
    """Executors are processes of their own, as on a cluster; 0: none, Spark works in this process's own JVM."""
    if not executors:
        return session("bench", master=EMBEDDED)
    swift = " ".join(class_archive.start_options(java.find()))
    conf = _CLUSTER | {"spark.executor.extraJavaOptions": swift}
    return session("bench", master=f"local-cluster[{executors},1,1024]", conf=conf)
