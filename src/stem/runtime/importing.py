"""Import one module of a large package without the rest: for commands that are over before the rest would be loaded."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any


def import_part(name: str, *also: str, later: Sequence[str] = (), without: Sequence[str] = ()) -> None:
    """Import `package.module`, then others of that package; or a package. Of `package.module` the package's own code, and
    that of modules named `later`, runs when something of them is asked for, and not before; modules that it is to do
    `without` are not there while it is imported. Where a version of the package will not have that, it is imported as ever.
    Raises ImportError."""
    package, _, part = name.partition(".")
    if package not in sys.modules:
        for other in (*([package] if part else []), *later):
            _stand_in(other)
        try:
            with _held(package), _hidden(without):
                for each in (name, *also):
                    import_module(each)
        except (ImportError, AttributeError):
            for each in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
                del sys.modules[each]
    import_module(name)


class _Deferred(ModuleType):
    """A module that is found, and has not run. It does not run while it is held."""

    def __getattr__(self, name: str) -> Any:
        with _running:
            if "_is_held" not in self.__dict__:
                self._run()
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def _run(self) -> None:
        loader = self.__dict__.pop("_loader", None)
        if loader is not None:
            loader.exec_module(self)
            self.__class__ = ModuleType  # type: ignore[assignment]


_running = RLock()  # whoever asks meanwhile waits until the module has run


def _stand_in(name: str) -> None:
    if name in sys.modules or (spec := find_spec(name)) is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__dict__["_loader"] = spec.loader
    module.__class__ = _Deferred
    sys.modules[name] = module


@contextmanager
def _held(package: str) -> Iterator[None]:
    """A package that ran in the midst of its part would find that part half done. A submodule that is asked of it is
    imported, as of a package that has run; more than that is an ImportError."""
    module = sys.modules.get(package)
    if not isinstance(module, _Deferred):
        yield
        return
    module.__dict__["_is_held"] = True
    try:
        yield
    finally:
        del module.__dict__["_is_held"]


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: "there is no such module"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
