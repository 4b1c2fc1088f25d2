"""`why --from` and `watch --from`, whatever a recording is: one sentence, soon, and never a defect; what can't be read
is left out."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafka_assignors.history.events.checked import checked_event
from kafka_assignors.operator.cli.app import app
from kafka_assignors.operator.recorded import RecordedMeter
from tests.history.test_recorded import drawn_life
from tests.support.live.recorded import GROUP, events_of

ROWS = [json.loads(event.to_json()) for event in events_of(*drawn_life(3))]
VALUES: tuple[Any, ...] = (
    None, "x", "", "ff", "\0", 0, -1, 1 << 62, 1 << 70, 0.5, True, [], [1], {}, {"a": 1}, "\x1b[31m",
)  # fmt: skip
"""What may stand anywhere: other types, numbers too large, bytes that are no subscription, what a terminal obeys."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within a row."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from places(one, (*path, name))


def damaged(draw: random.Random) -> list[dict[str, Any]]:
    """The recording, with up to three values replaced or taken away."""
    rows = copy.deepcopy(ROWS)
    for _ in range(draw.randint(1, 3)):
        row = draw.choice(rows)
        *way, last = draw.choice(list(places(row)))
        node = row
        for name in way:
            node = node[name]
        if draw.random() < 0.2:
            del node[last]
        else:
            node[last] = draw.choice(VALUES)
    return rows


def why(place: Path, *command: str) -> tuple[int, str]:
    """Exit code and output of `why --from`, or of another command."""
    done = CliRunner().invoke(app, [*(command or ("why", GROUP)), "--from", str(place)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "\x1b[31m" not in done.output
    assert "defect" not in done.output
    return done.exit_code, done.output


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return folder


def test_the_whole_recording_is_told(tmp_path: Path) -> None:
    code, output = why(written(tmp_path, ROWS))

    assert code == 0
    assert "joined" in output
    assert "left out" not in output


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_value_of_any_kind_is_left_out_or_told(seed: int, tmp_path: Path) -> None:
    code, _ = why(written(tmp_path, damaged(random.Random(seed))))

    assert code in (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_watch_shows_or_leaves_it_out_too(seed: int, tmp_path: Path) -> None:
    code, _ = why(written(tmp_path, damaged(random.Random(seed))), "watch", "--once")

    assert code in (0, 3)


def counted(rows: list[dict[str, Any]], parts: int) -> None:
    """Give a meter the rows that are events, in so many parts."""
    events = []
    for row in rows:
        with suppress(ValueError):
            events.append(checked_event(json.dumps(row).encode()))
    mine = [event for event in events if event.group == GROUP]
    step = -(-len(mine) // parts)
    meter = RecordedMeter(GROUP, mine[:step])
    for n in range(1, parts + 1):
        meter.add(mine[n * step : (n + 1) * step], 10.0 * n)
        assert meter.live is None or meter.live.members is not None
    meter.add([], 1e6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_recording_that_grows_is_counted_whatever_it_has(seed: int) -> None:
    counted(damaged(random.Random(seed)), 4)


@pytest.mark.long  # minutes; the test before has some of them
def test_two_thousand_damages_are_left_out_or_told(tmp_path: Path) -> None:
    for seed in range(2000):
        counted(damaged(random.Random(seed)), 4)
        assert why(written(tmp_path, damaged(random.Random(seed))))[0] in (0, 3), seed


LINES = {
    "no JSON": b"{", "a list": b"[1]", "nested": b"[" * 100_000, "NaN": b'{"v":1,"ts_ns":NaN}', "bytes": b"\xff\xfe",
    "zeros": b"\0" * 5000, "another version": b'{"v":9}', "no fields": b'{"v":1}',
}  # fmt: skip


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_line_that_is_no_event_is_left_out_and_counted(line: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        checked_event(line)
    (tmp_path / "b.jsonl").write_bytes(line + b"\n")

    code, output = why(written(tmp_path, ROWS))

    assert code == 0
    assert "1 line left out" in output


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "a folder": (Path.mkdir, "it is a directory, not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    "ten gigabytes": (_sparse, "it has 10,000,000,000 bytes"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "the system can't read it"),
}


@pytest.mark.parametrize(("put", "words"), FILES.values(), ids=FILES)
def test_what_is_no_file_of_a_recording_is_named(put: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl")

    for command in ("why", "watch"):
        code, output = why(tmp_path, command, GROUP)

        assert code == 2
        assert words in output.replace("\n", " ")
