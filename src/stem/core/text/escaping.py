"""Escapes control characters, so that hostile text cannot act on a terminal.

What a task raises, prints or returns may hold anything: escape sequences, C1 controls, marks that reverse what is
written. None of it is printable by Python's own table, and nothing else is escaped.
"""


def plain(text: str, *, but: str = "") -> str:
    """Escape every unprintable character except those in `but`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else _spelled(c) for c in text)


def plain_lines(text: str) -> str:
    """Escape text of several lines, such as a traceback; keeps line breaks and tabs."""
    return "\n".join(plain(line, but="\t") for line in text.split("\n"))


def plain_json(text: str) -> str:
    """Escape JSON with JSON's own escapes, so that its meaning stays the same."""
    if text.isascii() and "\x7f" not in text:
        return text  # encoders escape the other controls themselves
    return "".join(c if c.isprintable() or c == "\n" else _json_spelled(c) for c in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def _json_spelled(character: str) -> str:
    """`\\uXXXX`, twice where one does not reach."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
