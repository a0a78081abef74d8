"""Environment files: read as systemd and shells would, and never evaluated."""

from pathlib import Path

import pytest

from stem.core.errors import ConfigError
from stem.runtime.envfile import load, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stem.env"


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("A=1", {"A": "1"}),
        ("  A = spaces around  ", {"A": "spaces around"}),
        ("export A=1", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A=b=c", {"A": "b=c"}),
        ("A=x # y", {"A": "x # y"}),
        ("A='it is $HOME \\n'", {"A": "it is $HOME \\n"}),
        ('A="say \\"hi\\" for \\$5 \\\\ \\t"', {"A": 'say "hi" for $5 \\ \\t'}),
        ('A="ends in a backslash\\\\"', {"A": "ends in a backslash\\"}),
        ("A=$(rm -rf /)", {"A": "$(rm -rf /)"}),
        ("URL=redis://:p%40ss@host/0", {"URL": "redis://:p%40ss@host/0"}),
        ("# a comment", {}),
        ("; another", {}),
        ("", {}),
        ("A=1\nA=2", {"A": "2"}),
        ("A=one\x0cline\u2028only", {"A": "one\x0cline\u2028only"}),
        ("A=ü\r\nB=2", {"A": "ü", "B": "2"}),
    ],
)
def test_lines_are_names_and_values(file: Path, line: str, variables: dict[str, str]) -> None:
    file.write_bytes(line.encode())
    assert load(file) == variables


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("SECRET", "has no '='"),
        ("1A=geheim", "does not begin with the name"),
        ("my-key=geheim", "does not begin with the name"),
        ("=geheim", "does not begin with the name"),
        ("A='geheim", "has a quote that is not closed"),
        ('A="geheim" tail', "has a quote that is not closed"),
        ('A="', "has a quote that is not closed"),
        ('A="geheim\\"', "has a quote that is not closed"),
        ("A=geheim\0", "holds a NUL"),
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_without_the_value(file: Path, line: str, reason: str) -> None:
    file.write_text(f"GOOD=1\n{line}\nALSO=2\n")
    found = read(file)
    assert found.variables == {"GOOD": "1", "ALSO": "2"}
    (fault,) = found.problems
    assert f"Line 2 of {file} {reason}" in fault and "geheim" not in fault
    with pytest.raises(ConfigError, match="Line 2"):
        load(file)


def test_a_file_that_is_missing_or_no_text_is_told(file: Path) -> None:
    assert read(file).problems == [f"The environment file {file} cannot be read: No such file or directory."]
    file.write_bytes(b"A=\xff\xfe")
    assert read(file).problems == [f"The environment file {file} is not UTF-8 text."]
