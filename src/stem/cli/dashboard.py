"""`stem dashboard`: serve the dashboard, and write its password file."""

import sys
from pathlib import Path

import click

from stem.cli.support.lazy_group import SuggestingGroup
from stem.cli.support.printing import plain
from stem.cli.support.stores import Session, check_exists, check_shared, in_session
from stem.core.errors import ConfigError, UsageError

_PASSWORDS = click.option(
    "--password-file", type=click.Path(path_type=Path, dir_okay=False), help="Let in those whom this file names."
)


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen on this address.")
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=8780, show_default=True, help="Listen on this port."
)
@_PASSWORDS
@click.option(
    "--token",
    metavar="TOKEN",
    help="Let in whoever shows this token; @/path reads it from a file.  [env: STEM_DASHBOARD_TOKEN]",
    envvar="STEM_DASHBOARD_TOKEN",
)
@click.option("--trusted-header", metavar="NAME", help="Take the user's name from this header of a trusted proxy.")
@click.option(
    "--trusted-proxy", metavar="ADDRESS", multiple=True, help="Trust the header from here.  [default: loopback]"
)
@click.option("--allowed-host", metavar="NAME", multiple=True, help="Browsers may reach it under this name.")
@click.option("--root-path", default="", metavar="PATH", help="The path under which a proxy serves it, such as /stem.")
@click.option("--read-only", is_flag=True, help="Let nobody change anything.")
@click.option("--lake", metavar="PATH", help="The lake of the data pipeline.")
@in_session
def dashboard(
    session: Session,
    host: str,
    port: int,
    password_file: Path | None,
    token: str | None,
    trusted_header: str | None,
    trusted_proxy: tuple[str, ...],
    allowed_host: tuple[str, ...],
    root_path: str,
    read_only: bool,
    lake: str | None,
) -> None:
    """Start the dashboard; Ctrl-C stops it.

    On this machine nobody has to log in. Elsewhere they do: by a password file, a token, or a proxy in front of it.

    \b
    Example: stem dashboard --app shop.tasks:app
             stem dashboard --host 0.0.0.0 --password-file dashboard.passwords
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    try:
        from stem.dashboard.access.options import LOOPBACK, Access, check_address
        from stem.dashboard.application import dashboard as make
        from stem.dashboard.server import listen, serve
    except ImportError as error:
        raise _missing(error) from error
    from stem.runtime.log import LogWriter

    access = Access(
        password_file=password_file,
        token=_token(token),
        trusted_header=trusted_header,
        trusted_proxies=trusted_proxy or LOOPBACK,
        allowed_hosts=allowed_host,
        read_only=read_only,
    )
    check_address(host, access)
    check_exists(check_shared(session.settings()))
    with LogWriter("info", "json" if session.as_json else "text"), session.sending_app(session.app_path) as app:
        try:
            made = make(app, access, lake=lake, host=host)
        except ImportError as error:
            raise _missing(error) from error
        app.store.upkeep.now()  # a store that is not there is an error here, not on every page
        opened = listen(host, port)
        place = f"http://{f'[{host}]' if ':' in host else host}:{opened.getsockname()[1]}{_path(root_path)}/"
        serve(made, opened, root_path=_path(root_path), started=lambda: click.echo(plain(f"stem dashboard on {place}")))


@dashboard.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(["operator", "viewer"]), default="operator", show_default=True, help="What they may do."
)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("dashboard.passwords"),
    show_default=True,
    help="The password file.",
)
def password(name: str, role: str, path: Path) -> None:
    """Set the password of NAME, and add NAME to the file if need be.

    Asks for it, or reads one line from a pipe. The file is readable by its owner only.

    \b
    Example: stem dashboard password ada --role viewer
    """
    try:
        from stem.dashboard.access.passwords import write_password
    except ImportError as error:
        raise _missing(error) from error
    try:
        write_password(path, name, "viewer" if role == "viewer" else "operator", _asked())
    except ImportError as error:
        raise _missing(error) from error
    click.echo(plain(f"{name} is {'an' if role == 'operator' else 'a'} {role}, in {path}."))


def _asked() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    given: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return given


def _token(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text or None
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {text[1:]} cannot be read ({error}); name another.") from error


def _path(root_path: str) -> str:
    path = root_path.rstrip("/")
    if path and (not path.startswith("/") or "//" in path or "?" in path):
        raise UsageError(f"--root-path {root_path!r} is no path; write it like /stem.")
    return path


def _missing(error: ImportError) -> ConfigError:
    return ConfigError(
        f"The dashboard needs packages that are not installed ({error.name}); run: pip install 'stem-tasks[dashboard]'"
    )
