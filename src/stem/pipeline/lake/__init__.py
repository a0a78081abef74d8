"""The lake: bronze events, silver attempts, gold rollups, as Delta tables."""

from stem.pipeline.lake.lake import open_lake

opened = open_lake  # its name in earlier versions

__all__ = ["open_lake", "opened"]
