"""Files and lines are read within bounds: what is at a bound is read, what is one beyond it is refused, and why."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.history.events import lines
from kafka_assignors.history.events.lines import Allowance, Unreadable, decoded, opened, text_of
from tests.support.no_files import linked, socketed


def refused(cause: str) -> pytest.RaisesExc[Unreadable]:
    """It is `Unreadable`, and the message is no more and no less than this."""
    return pytest.raises(Unreadable, match=f"^{re.escape(cause)}$")


def not_json(cause: str) -> pytest.RaisesExc[ValueError]:
    """It is no value, and the message is no more and no less than this."""
    return pytest.raises(ValueError, match=f"^{re.escape(cause)}$")


def read(path: Path, allowance: Allowance) -> list[bytes]:
    with opened(path) as file:
        return list(lines.lines(file, allowance))


def test_the_bounds_are_those_that_are_documented() -> None:
    """A gigabyte of files, 16 MB a line, 16,384 files, 32 levels; lists and values of 100,000 partitions, twice."""
    assert (lines.MOST_BYTES, lines.LONGEST_LINE, lines.MOST_FILES) == (1_073_741_824, 16_777_216, 16_384)
    assert (lines.MOST_NODES, lines.MOST_VALUES, lines.DEEPEST) == (524_288, 1_048_576, 32)
    assert (lines.MOST_BAD, lines.MOST_BAD_BYTES) == (1000, 4_194_304)


def test_a_history_may_have_as_many_bytes_as_are_allowed_and_no_more() -> None:
    allowance = Allowance(1000)
    allowance.take(400)
    allowance.require(600)
    with refused("it has 601 bytes; with the files before it, that is more than the 1,000 of a history"):
        allowance.require(601)

    allowance.take(600)

    with refused("with the files before it, it has more than the 1,000 bytes of a history"):
        allowance.take(1)


def test_without_a_figure_the_allowance_is_that_of_a_history() -> None:
    Allowance().require(lines.MOST_BYTES)

    with pytest.raises(Unreadable):
        Allowance().require(lines.MOST_BYTES + 1)


def test_a_history_may_have_as_many_bad_lines_as_are_allowed_and_no_more() -> None:
    allowance = Allowance()
    for number in range(1, lines.MOST_BAD + 1):
        allowance.forgive(number, 0)

    with refused("what follows line 1001 is left out: the history has too many bad lines"):
        allowance.forgive(lines.MOST_BAD + 1, 0)


def test_bad_lines_may_have_as_many_bytes_as_are_allowed_and_no_more() -> None:
    allowance = Allowance()
    allowance.forgive(1, lines.MOST_BAD_BYTES - 7)
    allowance.forgive(2, 7)

    with refused("what follows line 3 is left out: the history has too many bad lines"):
        allowance.forgive(3, 1)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a directory": (Path.mkdir, "it is a directory, not a regular file"),
    "a pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "a socket": (socketed, "it is a socket, not a regular file"),
    "a device": (linked("/dev/zero"), "it is a device, not a regular file"),
    "a link to itself": (linked("x"), "the system can't read it: Too many levels of symbolic links"),
    "a link to nothing": (linked("nothing"), "the system can't read it: No such file or directory"),
}


@pytest.mark.parametrize(("put", "cause"), NO_FILES.values(), ids=NO_FILES)
def test_only_a_regular_file_is_opened(put: Callable[[Path], object], cause: str, tmp_path: Path) -> None:
    put(tmp_path / "x")

    with refused(cause), opened(tmp_path / "x"):
        pass


def test_a_link_to_a_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1\n")
    (tmp_path / "x").symlink_to("file")

    assert read(tmp_path / "x", Allowance()) == [b"1\n"]


def test_a_file_that_is_not_there_is_no_unreadable_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), opened(tmp_path / "x"):
        pass


def test_what_the_system_refuses_while_it_is_read_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")

    with refused("the system can't read it: no words for it"), opened(tmp_path / "x"):
        raise OSError("no words for it")


def test_a_pipe_that_replaces_a_file_once_it_was_looked_at_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    regular, path = (tmp_path / "file").stat(), tmp_path / "x"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)  # no open of this test waits, whatever its flags are
    monkeypatch.setattr(Path, "stat", lambda self: regular)
    flags: list[int] = []
    open_ = os.open
    monkeypatch.setattr(os, "open", lambda path, how: flags.append(how) or open_(path, how))
    try:
        with refused("it is a pipe, not a regular file"), opened(path):
            pass
    finally:
        os.close(writer)

    assert [how & os.O_NONBLOCK for how in flags] == [os.O_NONBLOCK]


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_may_be_as_long_as_is_allowed_with_its_newline(
    end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    longest = b"x" * (10 - len(end)) + end
    path = tmp_path / "x"
    path.write_bytes(b"a\n" + longest)
    assert read(path, Allowance()) == [b"a\n", longest]
    path.write_bytes(b"x" + longest)

    with refused("a line has more than 10 bytes"):
        read(path, Allowance())


def test_a_file_that_is_larger_than_what_is_left_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\n" * 50)
    allowance = Allowance(150)
    assert len(read(tmp_path / "x", allowance)) == 50
    with opened(tmp_path / "x") as file:
        with refused("it has 100 bytes; with the files before it, that is more than the 150 of a history"):
            next(lines.lines(file, allowance))

        assert file.tell() == 0


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\n")
    with path.open("rb", buffering=0) as file:
        rows = lines.lines(file, Allowance(4))
        assert next(rows) == b"a\n"
        with path.open("ab") as more:
            more.write(b"b\nc\n")
        assert next(rows) == b"b\n"

        with refused("with the files before it, it has more than the 4 bytes of a history"):
            next(rows)


def test_a_small_file_has_at_most_the_bytes_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    path = tmp_path / "x"
    path.write_bytes(b"0123456789")
    assert text_of(path) == b"0123456789"
    path.write_bytes(b"0123456789+")

    with refused("it has more than 10 bytes"):
        text_of(path)


def nested(levels: int, kinds: str = "[]") -> bytes:
    """Lists, or objects by turns, within each other."""
    value: Any = b"0"
    for level in range(levels):
        value = b"[%s]" % value if kinds == "[]" or level % 2 else b'{"x":%s}' % value
    return bytes(value)


@pytest.mark.parametrize("kinds", ["[]", "[]{}"])
def test_levels_are_counted(kinds: str) -> None:
    assert decoded(nested(lines.DEEPEST, kinds)) is not None

    with not_json("it is nested deeper than 32 levels"):
        decoded(nested(lines.DEEPEST + 1, kinds))


def test_a_value_that_no_recursion_can_read_is_nested_too_deep() -> None:
    with not_json("it is nested deeper than 32 levels"):
        decoded(nested(100_000))


def test_many_values_beside_each_other_are_no_levels() -> None:
    many = lines.DEEPEST * 3

    assert decoded(b"[%s]" % b",".join([b'[{"x":[]}]'] * many)) == [[{"x": []}]] * many


def test_lists_and_objects_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_NODES", 5)
    assert decoded(b'[[],{},[],{"x":0}]') == [[], {}, [], {"x": 0}]

    with not_json("it has more than 5 lists and objects"):
        decoded(b'[[],{},[],{"x":{}}]')


def test_values_are_counted_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_VALUES", 3)
    assert decoded(b"[1,2,3,4]") == [1, 2, 3, 4]

    with not_json("it has more than 3 values"):
        decoded(b"[1,2,3,4,5]")


NO_JSON: dict[str, tuple[bytes, str]] = {
    "a byte order mark": (lines.BOM + b"1", "it begins with a byte order mark"),
    "a carriage return": (b"1\r", "it ends with a carriage return: the file's line ends were converted"),
    "not a number": (b"[NaN]", "NaN is no number of JSON"),
    "infinity": (b"[Infinity]", "Infinity is no number of JSON"),
    "a name twice": (b'{"a":1,"b":2,"c":3,"b":4}', "an object has the name 'b' twice"),
    "a long name twice": (b'{"%s":1,"%s":2}' % ((b"x" * 50,) * 2), f"an object has the name '{'x' * 40}' twice"),
    "half of a surrogate pair": (rb'["\ud800"]', "a string has half of a surrogate pair"),
    "a float that is too large": (b"[1e400]", "a number is too large"),
    "a float of many digits": (b"[%s.0]" % (b"9" * 400), "a number is too large"),
}


@pytest.mark.parametrize(("data", "cause"), NO_JSON.values(), ids=NO_JSON)
def test_json_is_as_strict_as_our_writers(data: bytes, cause: str) -> None:
    with not_json(cause):
        decoded(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (rb'"\ud83d\ude00\u00e9"', "😀é"),
        (b'"\xc3\xa9"', "é"),
        (b'{"a":{"b":1},"b":2}', {"a": {"b": 1}, "b": 2}),
        (b"[1e5,1.5,1e-400,-3]", [100_000.0, 1.5, 0.0, -3]),
        (b"1" * 300, int("1" * 300)),
    ],
    ids=["escapes", "characters", "a name at two levels", "numbers", "a long integer"],
)
def test_what_json_has_is_read(data: bytes, value: Any) -> None:
    assert decoded(data) == value


@pytest.mark.parametrize("data", [b"1.0", b"1e2"])
def test_a_number_with_a_point_or_an_exponent_is_no_integer(data: bytes) -> None:
    """JSON Schema asks the float itself; it takes 1.0 for an integer, and the laws could not count with it."""
    assert float(data).is_integer()

    assert decoded(data).is_integer() is False
