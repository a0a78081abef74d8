"""Loads the user's app from `module:name` or `path/to/file.py:name`."""

from types import ModuleType

from stem.client.app import Stem
from stem.client.user_modules import from_file, module_of_app
from stem.core.errors import ConfigError

STEM_APP = "__stem_app__"  # the attribute by which another object gives the app that it stands for (stem.compat)


def load(path: str) -> Stem:
    """Import the app at `package.module:name` or `file.py:name`, with all its tasks. The default name is `app`. Raises
    ConfigError."""
    module_name, _, attribute = path.partition(":")
    module = from_file(module_name) if module_name.endswith(".py") else module_of_app(module_name, path)
    app = module
    for name in (attribute or "app").split("."):
        if not hasattr(app, name):
            raise ConfigError(
                f"Module {module_name!r} has no {attribute or 'app'!r}{_others(module, Stem)}; "
                "name the app as --app module:name."
            )
        app = getattr(app, name)
    app = getattr(app, STEM_APP, app)
    if not isinstance(app, Stem):
        raise ConfigError(
            f"{path!r} is of type {type(app).__name__} and not a Stem app{_others(module, Stem)}; "
            "name the app as --app module:name."
        )
    app.load_tasks()
    return app


def _others(module: ModuleType, kind: type) -> str:
    found = [name for name, value in vars(module).items() if isinstance(value, kind) or hasattr(type(value), STEM_APP)]
    return f" (it has the app {', '.join(map(repr, found))})" if found else ""
