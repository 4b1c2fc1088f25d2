"""Names from outside, in what every command prints: no control character, no command to a build server."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable
from html import escape
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from kafka_assignors import RangeAssignor
from kafka_assignors.clients.fact_log import FactLog
from kafka_assignors.core.group.facts import Fact
from kafka_assignors.integration.broker import Broker
from kafka_assignors.pipeline.report import text
from tests.support.cli import answered, cli
from tests.support.histories.stories import died, later
from tests.support.histories.story import Story
from tests.support.waiting import until

HOSTILE = "\x1b[2Jm\r\n::error file=a::no [red]\u202e##vso[task.complete result=Failed] \x9b31m"
SHOWN = r"\x1b[2Jm\r\n\x3a:error file=a\x3a:no [red]\u202e\x23#vso[task.complete result=Failed] \x9b31m"
_COMMAND = re.compile(r"^\s*::[A-Za-z]|##\w*\[", re.MULTILINE)


def harmless(told: str) -> str:
    """Text without a control character or a command. A line may be broken within a name."""
    assert {c for c in told if not c.isprintable()} <= {"\n"}, told
    assert not _COMMAND.search(told), told
    return told


def joined(told: str) -> str:
    """The letters alone: tables and pipes break lines where they like, errors are one line."""
    return re.sub(r"[\s│┃]|\\r\\n", "", told)


def shows(done: subprocess.CompletedProcess[str], times: int = 1) -> None:
    """A command that told the name, and nothing harmful."""
    told = joined(harmless(done.stdout) + harmless(done.stderr))
    assert told.count(joined(SHOWN)) >= times, done


# long: eight commands; the tests below have the same names in what was typed, in a judged history and in a log
@pytest.mark.long
@pytest.mark.broker
def test_a_live_group_with_hostile_names(kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path) -> None:
    """The group, its members' client ids and their racks."""
    topic, where = kafka_topic(partitions=4), ("-b", kafka_broker.bootstrap)
    ended = threading.Event()

    def poll(consumer: KafkaConsumer) -> None:
        while not ended.is_set():
            consumer.poll(100)

    consumers = [
        KafkaConsumer(
            topic, bootstrap_servers=kafka_broker.bootstrap, group_id=HOSTILE, client_id=f"{name}{HOSTILE}",
            client_rack=HOSTILE, metrics_enabled=False, partition_assignment_strategy=[RangeAssignor],
        )
        for name in "ab"
    ]  # fmt: skip
    threads = [threading.Thread(target=poll, args=[each]) for each in consumers]
    for thread in threads:
        thread.start()
    try:
        until(lambda: [len(each.assignment()) for each in consumers] == [2, 2], "each has two partitions")
        saved = str(tmp_path / "plan.json")
        plan = cli("plan", HOSTILE, *where, "--remove", f"a{HOSTILE}", "--save", saved)
        assert plan.returncode == 0, plan.stderr
        shows(plan, 3)
        shows(cli("plan", "--replay", saved), 2)
        shows(cli("plan", HOSTILE, *where, "--remove", f"c{HOSTILE}"), 3)  # not there; did you mean …
        shows(cli("why", HOSTILE, *where), 2)
        shows(cli("vote", HOSTILE, *where), 3)
        shows(cli("watch", HOSTILE, *where, "--once"))  # the members, too, but each in a cell of many lines
        shows(cli("doctor", *where, "--groups"))
        shows(cli("doctor", *where, "--group", f"no{HOSTILE}"))
    finally:
        ended.set()
        for thread, consumer in zip(threads, consumers, strict=True):
            thread.join()
            consumer.close()


@pytest.mark.slow
def test_what_was_typed_is_told_back_harmless() -> None:
    for asked in (("judge", HOSTILE), (HOSTILE,), ("plan", "--add-partitions", HOSTILE), ("explain", HOSTILE),
                  ("plan", "g", "--members", HOSTILE), ("keys", "audit", "t", "-b", HOSTILE),
                  ("test", "churn", "--assignor", HOSTILE)):  # fmt: skip
        done = cli(*asked)
        assert done.returncode in (2, 3), done
        harmless(done.stdout)
        harmless(done.stderr)
        assert "x1b[2Jm" in done.stderr, done


@pytest.mark.slow
def test_a_judged_history_with_hostile_names(tmp_path: Path) -> None:
    """The same member never joins again: a law that is broken names it, with its witnesses."""
    story = later(died(Story("range", group=HOSTILE).start("a", HOSTILE).round(), HOSTILE))
    folder = story.write(tmp_path / "history")
    assert answered("judge", cli("judge", str(folder), "--json"), 1)["value"] is False
    shows(cli("judge", str(folder)), 2)


@pytest.mark.slow
def test_a_page_and_a_picture_of_a_judged_history(tmp_path: Path) -> None:
    """Topics, a group, members, steps and messages: as text, as labels in drawings, and in the JSON of witnesses."""
    story = Story("range", {HOSTILE: 2}, group=HOSTILE).start("a", HOSTILE).round().records(3).consume()
    story.tell("step", name=HOSTILE)
    story = later(died(story, HOSTILE))
    page, picture = tmp_path / "page.html", tmp_path / "page.png"

    done = cli("judge", str(story.write(tmp_path / "history")), "--page", str(page), "--png", str(picture))

    assert done.returncode == 1, done
    html = harmless(page.read_text("utf-8"))
    assert html.count(escape(SHOWN)) > 5
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_fact_that_is_logged_in_a_service(caplog: pytest.LogCaptureFixture) -> None:
    FactLog().warn("range", [Fact("garbage-user-data", HOSTILE, f"member {HOSTILE} sent no user data")])
    assert SHOWN in harmless(caplog.messages[0])


def test_a_table_of_the_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    text.table("Lag", ("group", "records"), [(HOSTILE, 1)])
    assert SHOWN in harmless(capsys.readouterr().out)
