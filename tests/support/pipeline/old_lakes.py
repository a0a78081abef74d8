"""Lakes as earlier versions left them."""

import json
from pathlib import Path

from stem.contracts.store import Store
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.lake import Lake


def of_schema_1(root: str, store: Store, offset: str) -> Lake:
    """As the version before left it after its first batch: how far it had read stands in a checkpoint of Spark's."""
    lake = lakes.prepare_lake(root, f"{store.url} ({store.namespace})")
    page = Path(root, "stem.json")
    page.write_text(json.dumps(json.loads(page.read_text()) | {"schema": 1}))
    offsets = Path(root, "checkpoint", "offsets")
    offsets.mkdir(parents=True)
    told = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    (offsets / "0").write_text(f"v1\n{json.dumps(told)}\n{json.dumps({'offset': offset})}")
    return lake
