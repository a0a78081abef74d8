"""Imports the user's modules. Whatever goes wrong in them becomes one sentence."""

import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from stem.core.errors import ConfigError

_STEM = str(Path(__file__).parents[1])


def import_tasks(name: str, *, may_be_missing: bool) -> None:
    """Import a module that an app includes. Raises ConfigError."""
    _look_in_the_working_directory()
    if may_be_missing:
        package = name.rpartition(".")[0]
        found = _imported(package, f"autodiscover([{package!r}])")
        if not hasattr(found, "__path__") or find_spec(name) is None:  # a plain module has no modules in it
            return
    _imported(name, f"include=[{name!r}]")


def from_file(file: str) -> ModuleType:
    """Import a script under its module name, so that its `__name__ == "__main__"` block does not run."""
    place = Path(file).absolute()
    name = place.stem
    spec = spec_from_file_location(name, place)
    if spec is None or spec.loader is None or not place.is_file():
        raise ConfigError(f"There is no file {file}; name the app as --app module:name or --app file.py:name.")
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(place):
        raise ConfigError(f"{_shadowed(name)}; rename the file {file}.")
    module = sys.modules[name] = module_from_spec(spec)
    if str(place.parent) not in sys.path:
        sys.path.insert(0, str(place.parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error
    return module


def module_of_app(module_name: str, path: str) -> ModuleType:
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"{path!r} does not name an app; write it like --app shop.tasks:app.")
    _look_in_the_working_directory()
    module = _imported(module_name, f"--app {path}")
    top, file = module_name.partition(".")[0], Path(f"{module_name.partition('.')[0]}.py")
    if file.is_file() and getattr(sys.modules[top], "__file__", None) != str(file.absolute()):
        raise ConfigError(f"{_shadowed(top)}; rename the file {file}.")
    return module


def _look_in_the_working_directory() -> None:
    """Add the working directory to the import path, as `python -m` does and an installed command does not."""
    with suppress(FileNotFoundError):  # a working directory that was deleted holds no module either
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())


def _imported(module_name: str, wanted_by: str) -> ModuleType:
    try:
        with redirect_stdout(sys.stderr):  # what the app prints while it loads is not our output
            return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            where = "run the command in the folder that holds it, or install it"
            raise ConfigError(f"There is no module {error.name!r} for {wanted_by}; {where}.") from error
        raise _broken(module_name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(module_name, error) from error


def _broken(module_name: str, error: BaseException) -> ConfigError:
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = "" if isinstance(error, SyntaxError) else _line_of(error)  # a SyntaxError says its line itself
    hint = _shadow_hint(error)
    return ConfigError(
        f"Module {module_name!r} cannot be imported ({cause}{where}){hint}; --traceback shows the stack."
    )


def _line_of(error: BaseException) -> str:
    """Name the last line of the user's own code in the traceback, or of a library if there is none."""
    lines: list[tuple[str, int]] = []
    stack = error.__traceback__
    while stack is not None:
        lines.append((stack.tb_frame.f_code.co_filename, stack.tb_lineno))
        stack = stack.tb_next
    found = [(file, line) for file, line in lines if not file.startswith((_STEM, "<frozen "))]
    own = [(file, line) for file, line in found if not file.startswith((sys.prefix, sys.base_prefix))]
    if not found:
        return ""
    file, line = (own or found)[-1]
    with suppress(ValueError, FileNotFoundError):
        file = str(Path(file).relative_to(Path.cwd()))
    return f", {file} line {line}"


def _shadow_hint(error: BaseException) -> str:
    """Explain an import error caused by a user's file that has the name of another module."""
    name = getattr(error, "name", None) if isinstance(error, ImportError) else None
    if isinstance(error, AttributeError):
        name = getattr(error.obj, "__name__", None)
    if isinstance(name, str) and name.isidentifier() and Path(f"{name}.py").is_file() and _is_taken(name):
        return f"; {_shadowed(name)}, so rename the file {name}.py"
    return ""


def _is_taken(name: str) -> bool:
    return name == "stem" or name in sys.stdlib_module_names


def _shadowed(name: str) -> str:
    if name == "stem":
        return "Stem itself is the module 'stem'"
    return (
        f"Python has a module {name!r} of its own" if name in sys.stdlib_module_names else f"{name!r} is loaded already"
    )
