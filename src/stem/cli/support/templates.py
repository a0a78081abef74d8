"""Fill in the templates of a folder, and write the files without replacing anybody's own."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from stem.core.errors import ConfigError, UsageError

SUFFIX = ".tmpl"  # so that no tool takes a template for the file that it becomes
_PLACEHOLDER = re.compile("<<([a-z_]+)>>")


def filled(package: str, folder: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file by its path. Values are inserted as they are: whoever makes them quotes them."""
    return {
        path: fill(template.read_text(encoding="utf-8"), values)
        for path, template in sorted(_templates(files(package) / folder))
    }


def fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def write(texts: Mapping[str, str], out: Path, *, force: bool) -> list[Path]:
    """Write all files below `out`, or none if one of them exists and `force` is not given. Raises StemError."""
    paths = {out / path: text for path, text in texts.items()}
    there = [path for path in paths if os.path.lexists(path)]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(f"{there[0]}{more} would be overwritten; add --force, or choose another folder.")
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{error.filename} cannot be written ({reason}); choose another folder.") from error
    return list(paths)


def _replace(path: Path, text: str) -> None:
    """Write beside it and rename: a link is replaced and not followed, and nobody sees half a file."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(21, "it is a folder", str(path))
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=".stem-")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(stream.fileno(), (0o777 if text.startswith("#!") else 0o666) & ~mask)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


def _templates(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield prefix + entry.name.removesuffix(SUFFIX), entry
