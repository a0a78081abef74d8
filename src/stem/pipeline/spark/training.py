"""Write the class archive: `python -m stem.pipeline.spark.training`; with a path, be the training run that writes it there."""

import os
import signal
import sys
import tempfile
from pathlib import Path

from stem.pipeline.spark import class_archive, java, sample_job
from stem.pipeline.spark.session import start


def train(output: Path) -> None:
    """Run the sample job in a JVM that records the classes it loads."""
    spark = start("training", master="local[2]", java_options=class_archive.training_options(java.find(), output))
    gateway = spark.sparkContext._gateway
    assert gateway is not None  # noqa: S101 - it exists as long as the context does
    with tempfile.TemporaryDirectory(prefix="stem-training-") as folder:
        sample_job.run(spark, Path(folder))
    spark.stop()
    # The JVM writes the archive when it ends, which it does when its stdin closes.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["STEM_SPARK_ARCHIVE"] = "off"
    if len(sys.argv) == 1:
        class_archive.write(java.find())
    else:
        train(Path(sys.argv[1]))
