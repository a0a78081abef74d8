"""Find the user's app by `module:name`, or by `path/to/file.py:name`. Whatever its import does wrong becomes one sentence."""

import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType

    from stem.client.app import Stem


def load(path: str) -> "Stem":
    """The app at `package.module:name` or `file.py:name`; the name is `app` if none is given. Raises ConfigError."""
    from stem.client.app import Stem

    module_name, _, attribute = path.partition(":")
    module = _from_file(module_name) if module_name.endswith(".py") else _imported(module_name, path)
    app = module
    for name in (attribute or "app").split("."):
        if not hasattr(app, name):
            raise ConfigError(
                f"Module {module_name!r} has no {attribute or 'app'!r}; name the app as --app module:name."
            )
        app = getattr(app, name)
    if not isinstance(app, Stem):
        raise ConfigError(f"{path!r} is a {type(app).__name__} and not a Stem app; name the app as --app module:name.")
    return app


def _from_file(file: str) -> "ModuleType":
    """A script, under the name it would be imported by: what it guards with `__name__ == "__main__"` does not run."""
    place = Path(file).absolute()
    name = place.stem
    spec = spec_from_file_location(name, place)
    if spec is None or spec.loader is None or not place.is_file():
        raise ConfigError(f"There is no file {file}; name the app as --app module:name or --app file.py:name.")
    module = sys.modules[name] = module_from_spec(spec)
    if str(place.parent) not in sys.path:
        sys.path.insert(0, str(place.parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error
    return module


def _imported(module_name: str, path: str) -> "ModuleType":
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"{path!r} does not name an app; write it like --app shop.tasks:app.")
    with suppress(FileNotFoundError):  # a working directory that was deleted holds no module either
        if os.getcwd() not in sys.path:
            sys.path.insert(
                0, os.getcwd()
            )  # an installed command does not look where it was started, as `python -m` does
    try:
        with redirect_stdout(sys.stderr):  # what the app prints while it loads is not our output
            return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            where = "run the command in the folder that holds it, or install it"
            raise ConfigError(f"There is no module {error.name!r} for --app {path}; {where}.") from error
        raise _broken(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(module_name, error) from error


def _broken(module_name: str, error: BaseException) -> ConfigError:
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ConfigError(f"Module {module_name!r} cannot be imported ({cause}); --traceback shows where.")
