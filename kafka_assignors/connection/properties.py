"""Codec for Java's properties files, as ``java.util.Properties`` reads and writes them.

Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")


class Line(NamedTuple):
    """A setting of a file. `number` is its first line, from 1."""

    key: str
    value: str
    number: int


class Given(NamedTuple):
    """A setting's value, and its origin for messages."""

    value: str
    where: str


def parse(text: str) -> list[Line]:
    r"""Parse a properties file, in its order. A key may occur several times; Java takes the last.

    Raises:
        ValueError: A ``\u`` lacks four hexadecimal digits; the message names the line.

    >>> [line.value for line in parse("a = 1\\\n   2\n# not this\nb:\\u00fc")]
    ['12', 'ü']
    """
    return [Line(*_split(line, number), number) for number, line in _logical(text)]


def render(settings: Mapping[str, str]) -> str:
    """Render settings as a properties file that Java and `parse` can read: one ``key=value`` per line, ASCII only."""
    return "".join(f"{_escape(key, ' =:#!')}={_escape(value)}\n" for key, value in settings.items())


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; continued lines are joined."""
    whole, begun = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANK)
        if not whole and (not line or line[0] in "#!"):
            continue
        begun = begun if whole else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        yield begun, whole + line
        whole = ""
    if whole:  # the file ends with a backslash
        yield begun, whole


def _split(line: str, number: int) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(key, number), _unescape(rest, number)


def _unescape(text: str, number: int) -> str:
    def meant(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape[0] != "u":
            return _ESCAPES.get(escape, escape)
        if len(escape) != 5:
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits")
        return chr(int(escape[1:], 16))

    units = re.sub(r"\\(u[0-9a-fA-F]{4}|.|$)", lambda m: meant(m) if m.group(1) else "", text, flags=re.DOTALL)
    # two escapes may be the halves of one character
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, special: str = "") -> str:
    escaped = text.replace("\\", "\\\\")
    for name, char in _ESCAPES.items():
        escaped = escaped.replace(char, f"\\{name}")
    for char in special:
        escaped = escaped.replace(char, f"\\{char}")
    if escaped.startswith(" "):  # blanks before a value are not part of it
        escaped = "\\" + escaped
    units = escaped.encode("utf-16-be", "surrogatepass")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)
