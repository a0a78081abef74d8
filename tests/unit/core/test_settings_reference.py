"""docs/settings.md lists every setting as it is declared. Run this file as a program to write the page anew."""

from pathlib import Path
from textwrap import fill

from stem.core.settings.effective import OTHER_VARIABLES, SETTINGS
from stem.core.settings.setting import Setting

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
HEAD = """# Settings

Each setting has a key in `stem.yaml` (`worker.lease` is `lease` in the block `worker`), a field in
code, and usually an environment variable. Some have a flag of `stem worker start`. A flag overrides
the environment, which overrides the file, which overrides the default. `stem config check` prints
the effective values and where each comes from.

Keys may be written in camelCase, snake_case or kebab-case. A duration is a number of seconds or
`250ms`, `2s`, `5m`, `1h`, `1d`, and its key may end in `Seconds`. A size is a number of bytes or
`512MB`, and its key may end in `Bytes`. Where the default names another setting, the value of that
setting applies.

This page is generated from the declarations in `src/stem/core/settings`.
"""
CODE = """
## In code

`Settings` (`Stem(settings=…)`), `WorkerSettings` and `Autoscale` (`WorkerSettings(autoscale=…)`)
name the same settings:

| key | in code |
|---|---|
"""
OTHERS = """
## Other variables

"""


def page() -> str:
    blocks = dict.fromkeys(setting.block for setting in SETTINGS)
    tables = [table(block, [setting for setting in SETTINGS if setting.block == block]) for block in blocks]
    code = "".join(f"| `{setting.key}` | `{setting.field}` |\n" for setting in SETTINGS)
    names = ", ".join(f"`{name}`" for name in OTHER_VARIABLES)
    others = fill(f"Stem also reads these: {names}.", 100, break_on_hyphens=False)
    return HEAD + "".join(tables) + CODE + code + OTHERS + others + "\n"


def table(block: str, settings: list[Setting]) -> str:
    rows = "".join(
        f"| `{setting.key}` | {setting.help} | {_default(setting)} | {_code(setting.variable)} | "
        f"{', '.join(map(_code, setting.flags.split()))} | {', '.join(map(_code, setting.also.split()))} |\n"
        for setting in settings
    )
    head = "| key | meaning | default | variable | flag | also spelled |\n|---|---|---|---|---|---|\n"
    return f"\n## {block or 'Top level'}\n\n{head}{rows}"


def _default(setting: Setting) -> str:
    return setting.auto or _code(setting.default_text) or "none"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def test_the_page_lists_every_setting_as_it_is_declared() -> None:
    assert PAGE.read_text() == page(), "write it anew: .venv/bin/python tests/unit/core/test_settings_reference.py"


def test_every_declaration_says_what_the_setting_does() -> None:
    assert [setting.key for setting in SETTINGS if not setting.help[:1].isupper() or setting.help[-1:] != "."] == []


def test_no_two_settings_share_a_key_a_variable_or_a_spelling() -> None:
    keys = [f"{setting.block}.{name}".lower() for setting in SETTINGS for name in setting.names]
    variables = [setting.variable for setting in SETTINGS if setting.variable]
    assert len(keys) == len(set(keys)) and len(variables) == len(set(variables))


if __name__ == "__main__":
    PAGE.write_text(page())
