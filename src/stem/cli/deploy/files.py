"""Which files a target has, and what to run when they are written."""

from pathlib import Path

from stem.cli.deploy.values import Deployment, places
from stem.cli.support import templates

_PACKAGE = "stem.cli.deploy"
_NEXT = "next"  # the template of the commands that follow; it becomes no file


def texts(target: str, deployment: Deployment, out: Path) -> dict[str, str]:
    """Return the text of each file by its path below `out`."""
    found = _filled(target, deployment, out)
    del found[_NEXT]
    match target:
        case "systemd":
            return {f"{deployment.name}-{path}": text for path, text in found.items()}
        case "compose":
            return {**_image(deployment, out), **found}
        case _:
            return found


def next_commands(target: str, deployment: Deployment, out: Path) -> list[str]:
    return _filled(target, deployment, out)[_NEXT].splitlines()


def _image(deployment: Deployment, out: Path) -> dict[str, str]:
    """Compose builds the image itself."""
    return {path: text for path, text in _filled("docker", deployment, out).items() if path.startswith("Dockerfile")}


def _filled(target: str, deployment: Deployment, out: Path) -> dict[str, str]:
    return templates.filled(_PACKAGE, f"templates/{target}", deployment.placeholders | places(out))
