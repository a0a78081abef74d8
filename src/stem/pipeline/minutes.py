"""The place of `minutes` in earlier versions; it is in `stem.pipeline.rollups.minutes`."""

from stem.pipeline.rollups.minutes import minutes

__all__ = ["minutes"]
