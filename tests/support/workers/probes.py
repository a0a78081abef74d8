"""Ask a worker's probes, as a kubelet or Prometheus would."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from support.servers import free_port
from support.until import until


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Probe:
    """One address; a free one unless it is given."""

    def __init__(self, address: str = "") -> None:
        self.address = address or f"127.0.0.1:{free_port()}"

    def get(self, path: str, *, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        request = Request(f"http://{self.address}{path}", headers=dict(headers or {}), method=method)
        began_at = perf_counter()
        try:
            with urlopen(request, timeout=5) as answer:
                return Answer(answer.status, answer.read().decode(), perf_counter() - began_at)
        except HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), perf_counter() - began_at)

    def is_live(self) -> bool:
        return self.get("/livez").status == 200

    def state(self) -> tuple[int, str, str]:
        """The status of /readyz, what it says of the worker, and of its broker."""
        answer = self.get("/readyz")
        return answer.status, answer.json["state"], answer.json.get("broker", "")

    def until_ready(self, *, seconds: float = 30.0) -> dict[str, Any]:
        def ready() -> dict[str, Any] | None:
            try:
                answer = self.get("/readyz")
            except OSError:
                return None
            return answer.json if answer.status == 200 else None

        return until(ready, seconds=seconds)

    def samples(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """What /metrics says, read by Prometheus' own parser: by the name of the sample, then by labels."""
        found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics").body):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of the samples that have these labels; None if there is none."""
        wanted = {key.replace("__", "."): text for key, text in labels.items()}
        chosen = [value for key, value in self.samples().get(name, {}).items() if wanted.items() <= dict(key).items()]
        return sum(chosen) if chosen else None
