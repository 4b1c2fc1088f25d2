"""`watch --from` and `exporter --from`: recordings as they grow, no broker; what they lack is unknown, not zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_assignors.integration.commands.group_watcher import RecordedGroupWatcher, news
from kafka_assignors.operator.cli.serving.exporter import PREFIX
from tests.support.cli import answered, cli
from tests.support.live.exporting import exporting, scraped
from tests.support.live.log import LogStory
from tests.support.live.recorded import events_of
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def lines(story: LogStory, hidden: str = "") -> list[str]:
    """The lines of members' recordings, in order; the member `hidden` doesn't record."""
    events = events_of(story.log, records=lambda member: member.client_id != hidden)
    return [event.to_json() + "\n" for event in sorted(events, key=lambda event: event.ts_ns)]


@pytest.fixture
def story() -> LogStory:
    return LogStory().given({"a": [0, 1], "b": [2, 3]}).wait(60)


def test_watch_tells_owners_by_recordings_and_no_lag(story: LogStory, tmp_path: Path) -> None:
    (tmp_path / "h.1.jsonl").write_text("".join(lines(story)))
    done = cli("watch", "--from", str(tmp_path), "--once", "--json")
    view = answered("watch", done)

    assert (view["members"], view["recorded"], view["hidden"], view["log_read"]) == (["a", "b"], 2, [], False)
    assert {(row["member"], row["partition"], row["lag"]) for row in view["owned"]} == {
        ("a", 0, None), ("a", 1, None), ("b", 2, None), ("b", 3, None),
    }  # fmt: skip
    assert (view["state"], view["silent"]) == ("unknown", None)
    assert "lag" in view["unknown"][0]
    assert done.stderr == "", "neither a note nor a broker"


def test_what_a_member_that_does_not_record_owns_is_unknown(story: LogStory, tmp_path: Path) -> None:
    story.given({"c": [0], "a": [1], "b": [2, 3]})
    (tmp_path / "h.1.jsonl").write_text("".join(lines(story, hidden="c")))
    view = answered("watch", cli("watch", "g", "--from", str(tmp_path), "--once", "--json"))
    assert (view["hidden"], view["recorded"]) == (["c-0"], 2)

    table = cli("watch", "g", "--from", str(tmp_path), "--once").stdout
    (row,) = (line for line in table.splitlines() if line.startswith("│ c-0 "))
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["c-0", "unknown", "unknown", "-", "unknown"]
    assert "its leader doesn't record" in " ".join(table.split())


def test_watch_tells_each_rebalance_as_it_is_recorded(
    story: LogStory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("kafka_assignors.operator.recorded.time.monotonic", lambda: float(next(clock)))
    file = tmp_path / "h.1.jsonl"
    file.write_text("".join(lines(story)))

    def told(hidden: str = "") -> list[str]:
        file.write_text("".join(lines(story, hidden)))
        watcher.views()
        return [line.partition(" g ")[2] for view in watcher.views() for line in news(view)]

    with RecordedGroupWatcher([str(tmp_path)], pytest.fail, ["g"], pytest.fail) as watcher:
        assert told() == []
        story.given({"a": [0, 1], "b": [2], "d": [3]}).wait(60)
        assert told() == ["generation 2: joined d; moved 1, every member stopped"]
        story.given({"c": [0], "a": [1], "b": [2], "d": [3]})
        (line,) = told(hidden="c")
        assert line.startswith("generation 3: joined c-0, unknown c-0; moved unknown")


def test_the_exporter_counts_what_is_recorded_from_now_on(story: LogStory, tmp_path: Path) -> None:
    file = tmp_path / "h.1.jsonl"
    file.write_text("".join(lines(story)))
    group = ("group", "g")
    with exporting("--from", str(tmp_path), "--partitions") as (url, _):
        before = scraped(url)
        assert before[f"{PREFIX}rebalances_total", ("cause", "joined"), group] == 0
        assert (before[f"{PREFIX}generation", group], before[f"{PREFIX}members", group]) == (1, 2)
        assert sum(name == f"{PREFIX}partition_owner" for name, *_ in before) == 4
        known = len(lines(story))
        with file.open("a") as grown:
            grown.writelines(lines(story.given({"a": [0, 1], "b": [2], "d": [3]}).wait(60))[known:])
        until(lambda: scraped(url)[f"{PREFIX}rebalances_total", ("cause", "joined"), group] == 1, "it is counted", 30)
        told = scraped(url)
        assert (told[f"{PREFIX}partitions_moved_total", group], told[f"{PREFIX}members", group]) == (1, 3)
        assert (told[f"{PREFIX}may_miss_rebalances", group], told[f"{PREFIX}unknown", group]) == (0, 0)
        assert not {f"{PREFIX}lag_records", f"{PREFIX}plan_gap"} & {name for name, *_ in told}


def test_the_exporter_has_no_figure_that_recordings_lack(story: LogStory, tmp_path: Path) -> None:
    (tmp_path / "h.1.jsonl").write_text("".join(lines(story.given({"c": [0], "a": [1], "b": [2, 3]}), hidden="c")))
    group = ("group", "g")
    with exporting("g", "--from", str(tmp_path)) as (url, _):
        told = scraped(url)
    assert (told[f"{PREFIX}may_miss_rebalances", group], told[f"{PREFIX}unknown", group]) == (1, 1)
    assert told[f"{PREFIX}generation", group] == 2
    absent = ("members", "imbalance_ratio", "partitions_moved_total", "needless_moves_total",
              "ownerless_seconds_lower_bound_total", "lag_records", "plan_gap")  # fmt: skip
    assert not {f"{PREFIX}{name}" for name in absent} & {name for name, *_ in told}


def test_a_group_that_has_yet_to_begin_is_waited_for_by_the_exporter_alone(story: LogStory, tmp_path: Path) -> None:
    (tmp_path / "h.1.jsonl").write_text("".join(lines(story)))
    where = ("billing", "--from", str(tmp_path))
    note = (
        r"note: no generation of group 'billing' is recorded in .*; it has g; it is counted from its first member on\n"
    )
    with exporting(*where, notes=note) as (url, _):
        assert {name for name, *_ in scraped(url)} == {f"{PREFIX}exporter_reachable"}
    watched = cli("watch", *where, "--once")
    assert watched.returncode == 3
    assert json.dumps(watched.stderr).count("it has g") == 1
