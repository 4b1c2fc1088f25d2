"""Whatever the files of a kept history are, judging it ends soon, and one sentence names the file and what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.history.events import lines
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History, manifest
from kafka_assignors.integration.history.form import fault_in
from kafka_assignors.integration.history.schema import fault_of
from tests.support import forked
from tests.support.histories.story import Story, churn, given_up, seal
from tests.support.no_files import linked, socketed

pytestmark = pytest.mark.invented

Put = Callable[[Path], object]
"""Puts something at a path."""

MEMBER, EXTRA = "g.a.member.jsonl", "x.jsonl"
LATE_S = 60  # of a machine that does much else; what hangs, hangs for good


def kept(folder: Path) -> Path:
    """A run's folder whose verdict is true."""
    story = Story("range", {"t": 2}).start("a", "b").round().records(4).drain()
    assert check(History.load(story.write(folder))).value is True
    return folder


def judged(folder: Path) -> subprocess.CompletedProcess[str]:
    """What ``judge`` says of it, with little memory and time."""
    return forked.run("tests.support.integration.bounded", "judge", str(folder), timeout_s=LATE_S)


def sparse(size: int) -> Put:
    def put(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return put


def circular(path: Path) -> None:
    path.symlink_to("y")
    (path.parent / "y").symlink_to(path.name)


FILES: dict[str, tuple[Put, str]] = {
    "a pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "a device": (linked("/dev/zero"), "it is a device, not a regular file"),
    "a socket": (socketed, "it is a socket, not a regular file"),
    "a directory": (Path.mkdir, "it is a directory, not a regular file"),
    "a link to itself": (linked(EXTRA), "the system can't read it: Too many levels of symbolic links"),
    "links in a circle": (circular, "the system can't read it: Too many levels of symbolic links"),
    "a link to nothing": (linked("none"), "the system can't read it: No such file or directory"),
    "a file that can't be read": (linked("/proc/self/mem"), "the system can't read it: "),
    "10 GB of zeros": (sparse(10 << 30), "it has 10,737,418,240 bytes; "),
    "a line of 900 MB": (sparse(900 << 20), f"a line has more than {lines.LONGEST_LINE:,} bytes"),
    "many empty lines": (lambda path: path.write_bytes(b"\n" * 10**7), "what follows line 1001 is left out"),
    "long unreadable lines": (
        lambda path: path.write_bytes((b"[" + b"1.5," * 10**6 + b"0]\n") * 9), "what follows line 2 is left out"),
}  # fmt: skip
"""What may stand where a file should, and the cause that is told."""


@pytest.mark.slow
@pytest.mark.parametrize(("put", "cause"), FILES.values(), ids=FILES)
def test_whatever_a_file_is_the_verdict_is_unknown_soon(put: Put, cause: str, tmp_path: Path) -> None:
    put(kept(tmp_path) / EXTRA)

    done = judged(tmp_path)

    assert done.returncode == 4, done
    assert f"{EXTRA}: can't be read: {cause}" in done.stdout
    assert done.stderr == ""


MANIFESTS: dict[str, tuple[Put, str]] = {
    **{what: FILES[what] for what in ("a pipe", "a device", "a socket", "a directory")},
    "a link to itself": (linked(manifest.NAME), "the system can't read it: Too many levels of symbolic links"),
    "10 GB of zeros": (sparse(10 << 30), f"it has more than {lines.LONGEST_LINE:,} bytes"),
    "nested": (lambda path: path.write_text("[" * 100_000), "it is nested deeper than"),
    "no UTF-8": (lambda path: path.write_bytes(b"\xff"), "'utf-8' codec can't decode byte 0xff"),
    "another version": (lambda path: path.write_text('{"v": 2}'), "unknown version 2; this version reads 1"),
    "a version that is true": (lambda path: path.write_text('{"v": true}'), "unknown version True"),
    "runs that are none": (lambda path: path.write_text('{"v":1,"runs":[{}],"files":{}}'), "its runs are not a list"),
    "a hash that is none": (
        lambda path: path.write_text('{"v":1,"runs":["run"],"files":{"a":[]}}'), "its files are not an object"),
    "too many files": (
        lambda path: path.write_text(
            json.dumps({"v": 1, "runs": [], "files": {f"{n}": "" for n in range(lines.MOST_FILES + 1)}})),
        "it lists 16,385 files"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("put", "cause"),
    [
        pytest.param(*case, marks=pytest.mark.release("a history file is so above, and opened alike"), id=what)
        if what in FILES else pytest.param(*case, id=what)
        for what, case in MANIFESTS.items()
    ],
)  # fmt: skip
def test_whatever_the_manifest_is_the_verdict_is_unknown_soon(put: Put, cause: str, tmp_path: Path) -> None:
    (kept(tmp_path) / manifest.NAME).unlink()
    put(tmp_path / manifest.NAME)

    done = judged(tmp_path)

    assert done.returncode == 4, done
    assert f"{manifest.NAME} can't be read: {cause}" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_folder_with_very_many_files_is_told_at_once(tmp_path: Path) -> None:
    for number in range(20_000):
        (tmp_path / f"{number}.jsonl").touch()

    done = judged(tmp_path)

    assert done.returncode == 4, done
    assert f"{tmp_path} has 20,000 *.jsonl files; a history has at most 16,384" in done.stdout


@pytest.mark.slow
def test_a_folder_that_is_not_there_and_one_without_a_history_stay_errors(tmp_path: Path) -> None:
    assert judged(tmp_path / "none").returncode == 2
    assert judged(tmp_path).returncode == 2


ROW = b'{"v":1,"kind":"stop","src":"member","seq":1,"run":"run","ts_ns":1,"mono_ns":1,"group":"g","member":"a"%s}'
LINES: dict[str, tuple[bytes, str]] = {
    "nested": (b"[" * 100_000, "it is nested deeper than 32 levels"),
    "nested a little": (ROW % (b',"x":' + b"[" * 60 + b"]" * 60), "it is nested deeper than 32 levels"),
    "many lists": (ROW % (b',"x":[' + b"[]," * 10**6 + b"0]"), "it has more than 524,288 lists and objects"),
    "many values": (ROW % (b',"x":[' + b"1.5," * 2 * 10**6 + b"0]"), "it has more than 1,048,576 values"),
    "NaN": (ROW % b',"x":NaN', "NaN is no number of JSON"),
    "infinity": (ROW % b',"x":-Infinity', "-Infinity is no number of JSON"),
    "a float that is too large": (ROW % b',"x":1e400', "a number is too large"),
    "an integer of 100,000 digits": (ROW % b',"x":%s' % (b"1" * 100_000), "Exceeds the limit"),
    "a name twice": (ROW % b',"member":"b"', "an object has the name 'member' twice"),
    "a name twice, below": (ROW % b',"x":[{"y":1,"y":1}]', "an object has the name 'y' twice"),
    "no UTF-8": (ROW % b',"x":"\xff"', "'utf-8' codec can't decode byte 0xff"),
    "half a surrogate pair": (ROW % rb',"x":"\ud800"', "a string has half of a surrogate pair"),
    "NUL": (b"\0" * 100, "Expecting value"),
    "NUL in a string": (ROW % b',"x":"\0"', "Invalid control character"),
    "a byte order mark": (lines.BOM + ROW % b"", "it begins with a byte order mark"),
    "a carriage return": (ROW % b"" + b"\r", "it ends with a carriage return"),
    "two values": (ROW % b"" + ROW % b"", "Extra data"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("line", "cause"), LINES.values(), ids=LINES)
def test_whatever_a_line_is_the_verdict_is_unknown_soon(line: bytes, cause: str, tmp_path: Path) -> None:
    replaced(kept(tmp_path) / MEMBER, 2, line)

    done = judged(tmp_path)

    assert done.returncode == 4, done
    assert f"{MEMBER}:2: unreadable: {cause}" in done.stdout
    assert done.stderr == ""


def replaced(path: Path, number: int, line: bytes) -> None:
    rows = path.read_bytes().splitlines(keepends=True)
    rows[number - 1] = line + b"\n"
    path.write_bytes(b"".join(rows))
    seal(path)


def test_a_line_of_strange_fields_is_read_if_it_is_json(tmp_path: Path) -> None:
    """Fields may be added within a version."""
    path = kept(tmp_path) / MEMBER
    rows = path.read_bytes().splitlines()
    replaced(path, 2, rows[1][:-1] + rb',"new":[1.0,"\u00e9\u001b",{"x":null}]}')

    assert check(History.load(tmp_path)).value is True


@pytest.mark.slow
def test_a_generation_with_a_hundred_thousand_partitions_is_read(tmp_path: Path) -> None:
    path = kept(tmp_path) / "g.coordlog.jsonl"
    rows = path.read_text("utf-8").splitlines()
    number = next(number for number, row in enumerate(rows, start=1) if "generation_committed" in row)
    row = json.loads(rows[number - 1])
    partitions = [{"topic": "orders-of-a-shop", "partition": partition} for partition in range(100_000)]
    row["members"][0] |= {"assigned": partitions, "owned": partitions, "assignment": "00" * 400_000}
    row["members"][0]["subscription"] = "00" * 400_000

    replaced(path, number, json.dumps(row).encode())

    assert [problem for problem in History.load(tmp_path).problems if "unreadable" in problem] == []


FIELDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an offset of 10^40": ("ack", {"offset": 10**40}, "data.offset must be smaller than or equal to"),
    "a wall clock of 10^40": ("ack", {"ts_ns": 10**40}, "data.ts_ns must be smaller"),
    "a monotonic clock of 10^40": ("ack", {"mono_ns": -(10**40)}, "data.mono_ns must be bigger"),
    "a partition that is 1.0": ("ack", {"partition": 1.0}, "data.partition must be integer"),
    "a partition that is true": ("ack", {"partition": True}, "data.partition must be integer"),
    "a seq that is 1.0": ("ack", {"seq": 1.0}, "data.seq must be integer"),
    "no group": ("generation", {"group": ...}, "data must contain ['group'] properties"),
    "a member that is null": ("exit", {"member": None}, "data.member must be string"),
    "a stable step without a generation": (
        "step", {"name": "stable", "generation": ...}, "data must contain ['generation'] properties"),
    "a drained step without offsets": (
        "step", {"name": "drained", "offsets": ...}, "data must contain ['offsets'] properties"),
    "a session that is text": (
        "start", {"config": {"session_timeout_ms": "1000"}}, "data.config.session_timeout_ms must be integer or null"),
    "assignors that are numbers": ("start", {"config": {"assignors": [7]}}, "data.config.assignors[0] must be string"),
    "options that are no JSON": ("start", {"config": {"assignors": ["sticky{]"]}}, "config.assignors: the options"),
    "options that are nested": (
        "start", {"config": {"assignors": ['sticky{"x":' + "[" * 50_000]}}, "config.assignors: the options"),
    "a rest that is no number": (
        "start", {"config": {"assignors": ['weighted{"rest_s":[]}']}}, "config.assignors: rest_s of"),
    "goals that are no list": (
        "start", {"config": {"assignors": ['sticky{"goals":7}']}}, "config.assignors: goals of"),
    "a side that is a list": (
        "fault_begin", {"fault": "delay", "params": {"side": []}}, "data.params.side must be string"),
    "a billion partitions": ("topics", {"topics": {"t": 10**9}}, "data.topics.t must be smaller"),
    "very many partitions": (
        "topics", {"topics": {"t": 1 << 20, "u": 1}}, "topics: 1,048,577 partitions; an event has at most 1,048,576"),
    "a change without its topics": (
        "admin_change", {"change": "create_topic", "topics": ...}, "data must contain ['topics'] properties"),
    "a subscription that is a list": (
        "admin_change", {"change": "subscribe", "subscription": []}, "data.subscription must be object"),
    "racks of other partitions": ("assign_begin", {"racks": {"t": [["r"]] * 9}}, "racks: 9 of 't', which has "),
}  # fmt: skip
"""Kind, its fields as they are damaged (...: gone), and what is told. Each is of a type that JSON has."""


@pytest.mark.parametrize(("kind", "fields", "cause"), FIELDS.values(), ids=FIELDS)
def test_a_field_that_no_law_can_read_is_told_with_its_line(
    kind: str, fields: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    assert unreadable(varied(), kind, fields, tmp_path).startswith(cause)


FORMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a run of another count": (
        "consume", {"offsets": [{"topic": "t", "partition": 0, "first": 0, "last": 3, "count": 3, "bytes": 3}]},
        "offsets: t-0 from 0 to 3 are not 3 records"),
    "a run that goes back": (
        "consume", {"offsets": [{"topic": "t", "partition": 0, "first": 2, "last": 0, "count": 0, "bytes": 0}]},
        "offsets: t-0 from 2 to 0 are not 0 records"),
    "an offset below 0": (
        "consume", {"offsets": [{"topic": "t", "partition": 0, "first": -1, "last": 0, "count": 2, "bytes": 0}]},
        "data.offsets[0].first must be bigger than or equal to 0"),
    "a partition adopted twice": (
        "generation", {"partitions": [{"topic": "t", "partition": 0}] * 2}, "partitions: t-0 is there twice"),
    "a partition revoked twice": (
        "revoke_begin", {"partitions": [{"topic": "t", "partition": 0}] * 2}, "partitions: t-0 is there twice"),
    "an end of a partition twice": (
        "step", {"name": "drained", "offsets": [{"topic": "t", "partition": 0, "offset": n} for n in (1, 2)]},
        "offsets: t-0 is there twice"),
    "a member that leads twice": ("assign_begin", {"members": ["a", "a"]}, "members: a is there twice"),
    "an end before its offset": (
        "not_drained", {"left": [{"topic": "t", "partition": 0, "offset": 2, "end": 1}]},
        "left: t-0 ends at 1, before 2"),
    "a truncation upwards": (
        "truncated", {"offsets": [{"topic": "t", "partition": 0, "offset": 2, "end": 1}]},
        "offsets: t-0 ends at 1, before 2"),
    "half a byte": (
        "generation_committed", {"members": [{"subscription": "000"}, {}]}, "subscription of 'a-id': an odd"),
    "a member committed twice": ("generation_committed", {"members": [{}, {"member_id": "a-id"}]}, "members: a-id is"),
    "a partition given twice": (
        "generation_committed", {"members": [{"assigned": [{"topic": "t", "partition": 0}] * 2}, {}]},
        "assigned of 'a-id': t-0 is there twice"),
}  # fmt: skip
"""As `FIELDS`: what the schema can't say. Of committed members the given fields are changed."""


@pytest.mark.parametrize(("kind", "fields", "cause"), FORMS.values(), ids=FORMS)
def test_a_count_or_a_list_that_contradicts_itself_is_told_with_its_line(
    kind: str, fields: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    assert unreadable(varied(), kind, fields, tmp_path).startswith(cause)


def doubled(field: str) -> Callable[[Any], Any]:
    return lambda data: {**data, field: [*data[field], data[field][0]]}


def first_of(field: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: {**data, field: [change(data[field][0]), *data[field][1:]]}


UNSEEN: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "a run of another count": (
        "consume", "offsets", first_of("offsets", lambda run: {**run, "count": run["count"] + 1})),
    "a partition adopted twice": ("generation", "partitions", doubled("partitions")),
    "a partition assigned twice": ("assigned_begin", "partitions", doubled("partitions")),
    "a partition revoked twice": ("revoke_end", "partitions", doubled("partitions")),
    "an end of a partition twice": ("step", "offsets", doubled("offsets")),
    "a member that leads twice": ("assign_begin", "members", doubled("members")),
    "a partition given twice": ("generation_committed", "members", first_of("members", doubled("assigned"))),
}  # fmt: skip
"""Kind, a list of it that is not empty, and a damage that no law sees."""


@pytest.mark.parametrize(("kind", "field", "damage"), UNSEEN.values(), ids=UNSEEN)
def test_what_contradicts_itself_is_true_to_the_laws_and_unknown_as_it_is_read(
    kind: str, field: str, damage: Callable[[Any], Any], tmp_path: Path
) -> None:
    story = churn("sticky")
    at = next(i for i, event in enumerate(story.events) if event.kind == kind and event.data.get(field))
    story.events[at] = replace(story.events[at], data=damage(story.events[at].data))
    assert check(story.history).value is True

    history = History.load(story.write(tmp_path))

    assert [": unreadable: " in problem for problem in history.problems] == [True]
    assert check(history).value is None


def varied() -> Story:
    """A story with every kind of event that the tables above damage."""
    story = given_up()
    story.tell("fault_begin", "proxy", "a", fault="delay", target="a", params={"side": "request"})
    story.tell("fault_end", "proxy", "a", fault="delay", target="a", params={"side": "request"})
    story.tell("admin_change", change="create_topic", target="u", topics={"u": 3})
    story.tell("truncated", offsets=[{"topic": "t", "partition": 0, "offset": 1, "end": 1}])
    story.tell("consume", "member", "a", offsets=[])
    story.tell("step", name="drained", offsets=[])
    return story


def unreadable(story: Story, kind: str, fields: dict[str, Any], folder: Path) -> str:
    """Why the line of an event of that kind is unreadable once it has these fields; it is readable before."""
    story.write(folder)
    for path in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for number, row in enumerate(rows, start=1):
            if row["kind"] != kind or row.get("name") != fields.get("name", row.get("name")):
                continue
            assert (fault_of(row), fault_in(row)) == (None, None), row
            replaced(path, number, json.dumps(changed(row, fields)).encode())
            problems = [p for p in History.load(folder).problems if p.startswith(f"{path.name}:{number}: unreadable: ")]
            assert len(problems) == 1, problems
            return problems[0].partition(": unreadable: ")[2]
    raise AssertionError(f"no {kind} in this story")


def changed(row: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    row = json.loads(json.dumps(row))
    for name, value in fields.items():
        if value is ...:
            del row[name]
        elif name == "members" and value and isinstance(value[0], dict):
            row[name] = [{**member, **more} for member, more in zip(row[name], value, strict=True)]
        elif name in ("config", "params"):
            row[name] = {**row.get(name, {}), **value}
        else:
            row[name] = value
    return row


@pytest.mark.parametrize("whole", [True, False])
def test_an_event_that_is_in_two_files_is_told(whole: bool, tmp_path: Path) -> None:
    """Even if both are sealed, and the manifest has them."""
    rows = (kept(tmp_path) / MEMBER).read_bytes().splitlines(keepends=True)
    (tmp_path / EXTRA).write_bytes(b"".join(rows if whole else rows[:2]))
    seal(tmp_path / EXTRA)

    history = History.load(tmp_path)

    assert history.problems == (f"{MEMBER} and {EXTRA} have event 0 (start) in common: one file is a copy",)
    assert check(history).value is None


def test_a_line_that_is_there_twice_is_told(tmp_path: Path) -> None:
    path = kept(tmp_path) / MEMBER
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([rows[0], *rows]))
    seal(path)

    assert History.load(tmp_path).problems[0] == f"{MEMBER}:2: seq 0 instead of 1"


def test_after_many_unreadable_lines_the_rest_is_not_read(tmp_path: Path) -> None:
    path = kept(tmp_path) / MEMBER
    path.write_bytes(b"x\n" * (lines.MOST_BAD - 1) + path.read_bytes())  # and its first seq is a bad one
    assert {event.member for event in History.load(tmp_path).events if event.src == "member"} == {"a", "b"}
    path.write_bytes(b"x\n" * 2 + path.read_bytes())

    history = History.load(tmp_path)

    assert {event.member for event in history.events if event.src == "member"} == {"b"}
    cut = f"{MEMBER}: can't be read: what follows line 1001 is left out: the history has too many bad lines"
    assert history.problems[0] == cut, "before its bad lines, which are many"
