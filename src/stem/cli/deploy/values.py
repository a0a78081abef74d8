"""What templates are filled in with: checked, so that no name can become anything but a name in the file."""

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

from stem.core.envelope import check_queue
from stem.core.errors import UsageError

_APP = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
)
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")  # a label of DNS, a unit and a user, with room for a suffix
_IMAGE = re.compile(
    r"([a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9][a-z0-9._/-]{0,200}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
)
_FOLDER = re.compile(r"(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the flags say. Each value consists of letters that mean nothing to systemd, YAML, Helm, Docker or a shell."""

    app: str
    name: str
    image: str
    queues: tuple[str, ...]
    folder: str

    def __post_init__(self) -> None:
        _check(self.app, _APP, "--app", "module:name, such as shop.tasks:app")
        _check(self.name, _NAME, "--name", "up to 32 of a-z, 0-9 and '-', and begin with a letter")
        _check(self.image, _IMAGE, "--image", "an image with its tag, such as registry.example.org/shop:1")
        _check(self.folder, _FOLDER, "--folder", "an absolute path of letters, digits, '.', '_', '+' and '-'")
        for queue in self.queues:
            check_queue(queue)

    @property
    def placeholders(self) -> dict[str, str]:
        repository, _, tag = self.image.rpartition(":")
        flags = [f"--queue={queue}" for queue in self.queues]
        return {
            "app": self.app,
            "name": self.name,
            "image": self.image,
            "repository": repository,
            "tag": tag,
            "pipeline_image": f"{repository}-pipeline:{tag}",
            "folder": self.folder,
            "queue_words": "".join(f" {flag}" for flag in flags),
            "queue_items": "".join(f", {json.dumps(flag)}" for flag in flags),
            "queues": json.dumps(list(self.queues)),
            "scale_query": f"?{urlencode([('queue', queue) for queue in self.queues])}" if self.queues else "",
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "version": version("stem-tasks"),
        }


def name_of(app: str) -> str:
    """Return the name that an app's package suggests: `my_shop.tasks:app` is `my-shop`."""
    return re.sub(r"[^a-z0-9-]+", "-", re.split(r"[.:]", app)[0].lower()).strip("-")


def places(out: Path) -> dict[str, str]:
    """Return where `out` and the project, which is the working directory, lie as seen from each other."""
    inside = os.path.relpath(out)
    return {
        "out": shlex.quote(inside),
        "context": _interpolated(os.path.relpath(Path.cwd(), out)),
        "dockerfile": _interpolated(os.path.join(inside, "Dockerfile")),
    }


def _interpolated(path: str) -> str:
    """Quote a path for a file in which Compose replaces variables."""
    return json.dumps(path.replace("$", "$$"))


def _check(value: str, form: re.Pattern[str], flag: str, expected: str) -> None:
    if not form.fullmatch(value):
        raise UsageError(f"{flag} is {value!r}; use {expected}.")
