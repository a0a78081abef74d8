"""Finds the path from which another process can import an app: `module:name` or `file.py:name`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stem.core.errors import ConfigError

if TYPE_CHECKING:
    from stem.client.app import Stem


def path_of(app: "Stem | None") -> str:
    """Return the import path of the app. Raises ConfigError."""
    # A script comes last: what it took from a module is better found there.
    for name, module in sorted(sys.modules.items(), key=lambda item: item[0] == "__main__"):
        for attribute, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if value is app and app is not None:
                return _importable(name, module, attribute)
    raise ConfigError(
        "The app is no module's attribute, so isolates cannot import it; make it one, "
        "or run the tasks here with Worker(app, in_process=True)."
    )


def _importable(name: str, module: Any, attribute: str) -> str:
    if name != "__main__":
        return f"{name}:{attribute}"
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    if spec is not None:
        return f"{spec.name}:{attribute}"
    if file is None:
        raise ConfigError("An app of an interactive session cannot be imported; use Worker(app, in_process=True).")
    return f"{Path(file).absolute()}:{attribute}"
