"""One module of a package without the rest, and the rest when it is asked for."""

import subprocess
import sys
from pathlib import Path

PART = "from stem.runtime.importing import import_part; import_part('redis.connection', without=('json.tool',)); "


def test_of_redis_only_the_connection_is_there_until_more_is_asked_for() -> None:
    asked = (
        "import redis; from redis.connection import SSLConnection; "
        "print('redis.cluster' in sys.modules, 'redis.asyncio' in sys.modules); "
        "from redis import RedisCluster, Sentinel; import redis.asyncio; "
        "print(redis.Redis.__module__, redis.asyncio.Redis.__module__, redis.__version__[0].isdigit()); "
        "print(redis.SSLConnection is SSLConnection, hasattr(redis, 'nothing'))"
    )
    assert _said(PART + asked) == [
        "False False",
        "redis.client redis.asyncio.client True",
        "True False",
    ]


def test_of_psycopg_only_what_speaks_to_libpq_is_there_until_more_is_asked_for() -> None:
    how = "from stem.runtime.importing import import_part; import_part('psycopg.pq', 'psycopg.conninfo'); "
    asked = (
        "from psycopg.pq import PGconn; from psycopg.errors import Error; "
        "print('psycopg.connection' in sys.modules, 'psycopg.types' in sys.modules); "
        "import psycopg; print(psycopg.Connection.__module__, psycopg.Error is Error, psycopg.pq.PGconn is PGconn)"
    )
    assert _said(how + asked) == ["False False", "psycopg True True"]


def test_what_it_is_to_do_without_is_hidden_only_while_it_is_imported(tmp_path: Path) -> None:
    _package(tmp_path, part="try:\n    import colorsys\nexcept ImportError:\n    colorsys = None\n")
    asked = "import whole.part, colorsys; print(whole.part.colorsys, colorsys.__name__, whole.is_run)"
    how = "from stem.runtime.importing import import_part; import_part('whole.part', without=('colorsys',)); "
    assert _said(how + asked, tmp_path) == ["None colorsys True"]


def test_a_package_that_will_not_be_imported_in_part_is_imported_as_ever(tmp_path: Path) -> None:
    refusal = "import sys\nif not hasattr(sys, 'whole_has_run'):\n    raise ImportError('the package first')\n"
    _package(tmp_path, package="import sys\nsys.whole_has_run = True\n", part=refusal)
    how = "from stem.runtime.importing import import_part; import_part('whole.part'); "
    assert _said(how + "import whole.part; print(whole.is_run, type(whole).__name__)", tmp_path) == ["True module"]


def test_a_package_that_is_not_installed_is_an_import_error_that_names_it() -> None:
    how = "from stem.runtime.importing import import_part\ntry:\n    import_part('nowhere.part')\n"
    assert _said(f"{how}except ModuleNotFoundError as error:\n    print(error.name)") == ["nowhere"]


def _package(place: Path, *, package: str = "", part: str) -> None:
    (place / "whole").mkdir()
    (place / "whole" / "__init__.py").write_text(f"{package}is_run = True\n")
    (place / "whole" / "part.py").write_text(part)


def _said(code: str, place: Path | None = None) -> list[str]:
    """In a process of its own: this one has imported everything."""
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
