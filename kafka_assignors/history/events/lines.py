"""Reads files that may be anything, within bounds: a device, a pipe, gigabytes of zeros, JSON nested without end.

A kept history may come from another machine, or from a run that was cut off. Whatever its files are, reading them ends
soon, takes little memory, and says in one sentence what is wrong.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import isinf
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import KafkaAssignorsError

MOST_BYTES = 1 << 30
"""Of all files of a history together. Kept histories have 330 bytes an event, so 3 million events are below it."""
LONGEST_LINE = 1 << 24
"""Bytes. A coordinator's record has 1 MB by default (``message.max.bytes``). A generation with 100,000 partitions, each
claimed and assigned, takes 11 MB as a line."""
MOST_NODES, MOST_VALUES = 1 << 19, 1 << 20
"""Lists and objects, and commas, in one line or in a manifest: the generation above has 200,000 and 400,000. An empty
list takes 2 bytes of a file and 64 of memory, and a number a microsecond."""
DEEPEST = 32
"""Levels of lists and objects. An event has 6; JSON's decoder and encoder recurse, up to Python's limit."""
MOST_FILES = 1 << 14
"""Files of a history. A run has one for each process and one for each of the harness's observers."""
MOST_BAD, MOST_BAD_BYTES = 1000, 1 << 22
"""Bad lines of a history, and bytes of those that can't be read, after which the rest of a file that has more is not
read: it is no history."""
BOM = b"\xef\xbb\xbf"


class Unreadable(KafkaAssignorsError, ValueError):
    """A file, or the rest of it, can't be read; the message says why, without the file's name."""


class Allowance:
    """How many bytes of a history's files may still be read, and how many bad lines they may have."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = self._left = most
        self._bad, self._bad_bytes = MOST_BAD, MOST_BAD_BYTES

    def take(self, size: int) -> None:
        """Count bytes that are read. Raises `Unreadable` if there are too many."""
        self._left -= size
        if self._left < 0:
            raise Unreadable(f"with the files before it, it has more than the {self._most:,} bytes of a history")

    def require(self, size: int) -> None:
        """Raise `Unreadable` if a file of this size has more bytes than are left."""
        if size > self._left:
            raise Unreadable(
                f"it has {size:,} bytes; with the files before it, that is more than the {self._most:,} of a history"
            )

    def forgive(self, number: int, size: int) -> None:
        """Count a bad line. Raises `Unreadable`, by its number in the file, if it is one too many."""
        self._bad -= 1
        self._bad_bytes -= size
        if self._bad < 0 or self._bad_bytes < 0:
            raise Unreadable(f"what follows line {number} is left out: the history has too many bad lines")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or a link to one.

    Raises:
        Unreadable: It is something else, such as a directory, a pipe or a device, or the system refuses to read it.
        FileNotFoundError: There is none; a link that leads nowhere is `Unreadable`.
    """
    try:
        _require_regular(path.stat())
        # What replaced it since must not block: a pipe waits for its writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _require_regular(os.fstat(file.fileno()))
            yield file
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            raise
        raise Unreadable(f"the system can't read it: {error.strerror or error}") from error


_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _require_regular(info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        what = next((name for is_kind, name in _KINDS if is_kind(info.st_mode)), "no file")
        raise Unreadable(f"it is {what}, not a regular file")


def lines(file: BinaryIO, allowance: Allowance) -> Iterator[bytes]:
    """The lines of a file, each with its newline; the last one may lack it.

    Raises:
        Unreadable: A line is longer than `LONGEST_LINE`, the file has more bytes than are allowed, or the system
            fails to read it.
    """
    allowance.require(os.fstat(file.fileno()).st_size)
    while line := file.readline(LONGEST_LINE + 1):
        allowance.take(len(line))
        if len(line) > LONGEST_LINE:
            raise Unreadable(f"a line has more than {LONGEST_LINE:,} bytes")
        yield line


def text_of(path: Path) -> bytes:
    """The bytes of a small file. Raises `Unreadable` if it is no file or longer than `LONGEST_LINE`."""
    with opened(path) as file:
        data = file.read(LONGEST_LINE + 1)
    if len(data) > LONGEST_LINE:
        raise Unreadable(f"it has more than {LONGEST_LINE:,} bytes")
    return data


def decoded(data: bytes) -> Any:
    """The value of JSON text, as strict as our writers are.

    Raises:
        ValueError: It is no JSON in UTF-8; it has a name twice in an object, a number that JSON or a float doesn't
            have, half of a surrogate pair or a carriage return at its end; it is nested deeper than `DEEPEST`, or has
            more lists, objects or values than are read.
    """
    if data.startswith(BOM):
        raise ValueError("it begins with a byte order mark")
    if data.endswith(b"\r"):
        raise ValueError("it ends with a carriage return: the file's line ends were converted")
    nodes = data.count(b"[") + data.count(b"{")
    if nodes > MOST_NODES:
        raise ValueError(f"it has more than {MOST_NODES:,} lists and objects")
    if data.count(b",") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    text = data.decode()
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from None
    if nodes > DEEPEST and _is_deeper(value):
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a string has half of a surrogate pair") from None
    return value


class _Decimal(float):
    """A number with a point or an exponent. To Python and JSON Schema 1.0 is an integer; ``range`` refuses it."""

    __slots__ = ()

    def is_integer(self) -> bool:
        return False


def _decimal(text: str) -> _Decimal:
    if isinf(value := _Decimal(text)):
        raise ValueError("a number is too large")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the name {twice[:40]!r} twice")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_decimal, parse_constant=_constant)


def _is_deeper(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [inner for node in level for inner in _within(node) if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def _within(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
