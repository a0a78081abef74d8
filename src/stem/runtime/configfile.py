"""Find and read the configuration file, and merge it with flags and environment."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stem.core.errors import ConfigError
from stem.core.settings.app import Settings, from_environment
from stem.core.settings.routes import FileRoutes, is_routes

if TYPE_CHECKING:
    from stem.core.settings.effective import EffectiveSettings

NAMES = ("stem.yaml", "stem.yml")
VARIABLE = "STEM_CONFIG"
SCHEDULES = "schedules"  # the key that is no setting: `client.schedules.file` reads it
_MOST_BYTES = 1024 * 1024


def configured(env: Mapping[str, str]) -> Settings:
    """Return the settings that the environment and the file give. Raises ConfigError."""
    if find(env) is None:
        return from_environment(env)
    return load(env).check().settings


def load(
    env: Mapping[str, str], *, path: str | None = None, flags: Mapping[str, tuple[str, Any]] | None = None
) -> "EffectiveSettings":
    """Merge flags, environment and file. Everything wrong is in its errors, including a file that cannot be read."""
    from stem.core.settings.effective import merge  # here: most processes have no file

    try:
        found = find(env, path)
        document = {} if found is None else read(found)
    except ConfigError as error:
        rest = merge(flags=flags or {}, env=env, document={})
        rest.errors.insert(0, str(error))
        return rest
    return merge(flags=flags or {}, env=env, document=document, file="" if found is None else str(found))


def find(env: Mapping[str, str], path: str | None = None) -> Path | None:
    """Return the file that is named, or else stem.yaml of the working directory, or None. Raises ConfigError."""
    named = path or env.get(VARIABLE)
    if named:
        who = "--config" if path else VARIABLE
        if not Path(named).is_file():
            raise ConfigError(f"{who} names {named}, which is not a file; correct the path.")
        return Path(named)
    return next((Path(name) for name in NAMES if os.path.isfile(name)), None)


def read(path: Path, most_bytes: int = _MOST_BYTES) -> dict[Any, Any]:
    """Read the file; nothing in it can create an object or run code. Raises ConfigError."""
    try:
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give this process permission.") from error
    if len(content) > most_bytes:
        raise ConfigError(f"{path} is larger than {most_bytes:,} bytes, so it is hardly a configuration.")
    document = _parsed(path, content)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} holds a {type(document).__name__}; use blocks such as 'broker:' and 'worker:'.")
    return document


def line_of(path: Path, keys: Sequence[int | str]) -> int:
    """Return the line of the value that these keys lead to, or of the last one found on the way. The file has been read."""
    import yaml

    node = yaml.compose(path.read_bytes(), yaml.SafeLoader)
    line = 0 if node is None else node.start_mark.line
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(key)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            found = (node.value[key], node.value[key])
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return int(line) + 1


def _parsed(path: Path, content: bytes) -> object:
    import yaml  # here: most commands have no file to read

    class Strict(yaml.SafeLoader):
        """Refuses a duplicate key, of which YAML readers silently keep the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen and isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    try:
        loader = Strict(content)
        node = loader.get_single_node()
        document = None if node is None else loader.construct_document(node)
        return _with_lines(document, node) if isinstance(document, dict) else document
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ConfigError(f"{path}{line}: {error.problem or 'not YAML'}; correct it there.") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply to be a configuration; correct it.") from error
    except (yaml.YAMLError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ConfigError(f"{path} is not YAML ({first_line}); correct it.") from error


def _with_lines(document: dict[Any, Any], node: Any) -> dict[Any, Any]:
    """Keep the lines of the routes, which can be many, so that an error names the one that it is about."""
    for key, value in node.value:
        if is_routes(key.value):
            items = value.value if isinstance(document[key.value], list) else ()
            lines = tuple(item.start_mark.line + 1 for item in items)
            document[key.value] = FileRoutes(document[key.value], key.start_mark.line + 1, lines)
    return document
