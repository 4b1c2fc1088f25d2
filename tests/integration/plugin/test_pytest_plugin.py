"""A user's own suite with ``kafka_group`` and ``judged``: it passes and fails as its groups' verdicts say."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_assignors import pytest_plugin as plugin
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.history import History
from tests.support.footprint import footprint
from tests.support.integration.members import gone, members_of
from tests.support.integration.suites import pytest_in, report_of
from tests.support.programs import ran

pytestmark = pytest.mark.broker

THEIRS = """
from kafka_assignors import RangeAssignor


class Dropping(RangeAssignor):
    name = "dropping"

    def assign(self, cluster, members):
        answer = super().assign(cluster, members)
        for each in answer.values():
            each.assigned_partitions = [(topic, [p for p in ps if p]) for topic, ps in each.assigned_partitions]
        return answer
"""
SUITE = """
import json

import pytest

from kafka_assignors.integration.errors import NotStable
from kafka_assignors.integration.records import Record, send


def dropped(kafka_group, topic):
    group = kafka_group("shop", session_timeout_ms=6000)
    for name in ("m1", "m2"):
        group.start(name, [topic], ["theirs:Dropping"])
    group.wait_stable(complete=False)


def test_sound(kafka_group, kafka_topic):
    topic, group = kafka_topic(partitions=4), kafka_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["cooperative-sticky"])
        stable = group.wait_stable()
    assert [len(topics[topic]) for topics in stable.owned.values()] == [2, 2]


def test_drops(kafka_group, kafka_topic):
    dropped(kafka_group, kafka_topic(partitions=4))


def test_never_rests(kafka_group, kafka_topic):
    topic, group = kafka_topic(partitions=4), kafka_group()
    group.start("m1", [topic], ["theirs:Dropping"])
    group.wait_stable(timeout_s=8)


def test_one_may_be_unknown(kafka_group, kafka_topic):
    group = kafka_group("strict")
    group.start("m1", [kafka_topic()], ["range"])
    group.wait_stable()
    waits_in_vain(kafka_group("loose", unknown_ok=True), kafka_topic())


def test_the_other_may_not(kafka_group, kafka_topic):
    kafka_group("loose", unknown_ok=True)
    waits_in_vain(kafka_group("strict"), kafka_topic())


def waits_in_vain(group, topic):
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    with pytest.raises(NotStable):
        group.wait_stable(["m1", "m2"], timeout_s=0.2)


def test_spoils_its_history(kafka_group, kafka_history):
    kafka_group()
    event = {"v": 1, "run": "r", "src": "coordlog", "seq": 0, "ts_ns": 1, "mono_ns": 1, "group": "g"}
    (kafka_history / "g.jsonl").write_text(json.dumps({**event, "kind": "generation_committed"}) + "\\n")
    raise RuntimeError("its own error")


def test_says_nothing(kafka_group):
    kafka_group()


def test_may_say_nothing(kafka_group):
    kafka_group(unknown_ok=True)


def test_fails_by_itself(kafka_group, kafka_topic):
    topic, group = kafka_topic(), kafka_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    assert group.running == ("m2",)


@pytest.fixture
def broken(kafka_group, kafka_topic):
    group = kafka_group()
    group.start("m1", [kafka_topic()], ["range"])
    group.wait_stable()
    raise RuntimeError("no setup")


def test_has_no_setup(broken):
    pass


def some(kafka_broker, group, topic):
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    records = [Record(topic, b"k%d" % n) for n in range(300)]
    send(kafka_broker.bootstrap, group.folder, group.run, "default", records)


def test_sends(kafka_group, kafka_topic, kafka_broker):
    # the group is drained when the test is over: C3 can be judged
    some(kafka_broker, kafka_group(require={"C3"}), kafka_topic(partitions=2))


def test_sends_and_does_not_drain(kafka_group, kafka_topic, kafka_broker):
    some(kafka_broker, kafka_group(require={"C3"}, drain=False), kafka_topic(partitions=2))


@pytest.fixture(scope="module")
def shared(kafka_group_factory, kafka_topic_factory):
    with kafka_group_factory("shared") as group:
        group.start("m1", [kafka_topic_factory(partitions=2)], ["range"])
        yield group


def test_shares_a_group(shared):
    assert list(shared.wait_stable().owned) == ["m1"]


@pytest.fixture(scope="module")
def dropping(kafka_group_factory, kafka_topic_factory):
    with kafka_group_factory("dropping") as group:
        topic = kafka_topic_factory(partitions=4)
        for name in ("m1", "m2"):
            group.start(name, [topic], ["theirs:Dropping"])
        yield group


def test_shares_a_broken_group(dropping):
    dropping.wait_stable(complete=False)


def test_judges_what_is_there(kafka_group, kafka_topic, kafka_history, tmp_path, kafka_judge):
    topic, group = kafka_topic(partitions=2), kafka_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    group.close()
    assert kafka_judge(group.folder).value is True
    assert group.folder == kafka_history
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in kafka_history.glob("*.jsonl"):
        text = path.read_text()
        if path.name.endswith(".m1.0.jsonl"):
            text = text.replace('"partition":1', '"partition":7')
        (damaged / path.name).write_text(text)
    with pytest.raises(pytest.fail.Exception, match="verdict UNKNOWN(.|\\n)*the file was changed"):
        kafka_judge(damaged)
    (damaged / path.name).write_text(text.partition("\\n")[2])
    with pytest.raises(pytest.fail.Exception, match="verdict UNKNOWN"):
        kafka_judge(damaged)
    assert kafka_judge(damaged, unknown_ok=True).value is None


# The last one: what this test is expected to do must not excuse the shared groups, which end with it.
@pytest.mark.xfail(strict=True, reason="ticket 7: drops partition 0")
def test_known_to_drop(kafka_group, kafka_topic):
    dropped(kafka_group, kafka_topic(partitions=4))
"""


# long: a suite of 15 tests with a broken law each; packaging/test_harness_page.py has one that fails, by its law, and
# four that pass
@pytest.mark.long
def test_a_suite_fails_where_its_groups_break_a_law(kafka_broker: Broker, tmp_path: Path) -> None:
    """One run: which tests pass, what a failure tells, what is kept, that judging it again says the same."""
    suite, kept = tmp_path / "suite", tmp_path / "kept here"
    suite.mkdir()
    (suite / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (suite / "theirs.py").write_text(THEIRS)
    (suite / "test_theirs.py").write_text(SUITE)
    (suite / "pytest.ini").write_text(
        f"[pytest]\nkafka_backend = external\nkafka_bootstrap = {kafka_broker.bootstrap}\n"
    )

    before = footprint(kafka_broker.bootstrap)

    done = pytest_in(suite, "-rA", f"--kafka-artifacts={kept}")

    after = footprint(kafka_broker.bootstrap)
    assert set(after["groups"]) <= set(before["groups"]), "an external broker's groups are removed"
    assert set(after["topics"]) <= set(before["topics"])
    shown = done.stdout + done.stderr
    assert done.returncode == 1, shown
    assert f"kafka: external backend, {kafka_broker.bootstrap}, histories below {kept}" in shown
    told = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) test_theirs.py::(\w+)", shown, re.MULTILINE)
    outcomes = {test: outcome for outcome, test in told if outcome != "ERROR"}
    assert outcomes == {
        "test_sound": "PASSED",
        "test_drops": "FAILED",
        "test_known_to_drop": "XFAIL",
        "test_one_may_be_unknown": "PASSED",
        "test_the_other_may_not": "FAILED",
        "test_spoils_its_history": "FAILED",
        "test_never_rests": "FAILED",
        "test_says_nothing": "FAILED",
        "test_may_say_nothing": "PASSED",
        "test_fails_by_itself": "FAILED",
        "test_judges_what_is_there": "PASSED",
        "test_sends": "PASSED",
        "test_sends_and_does_not_drain": "FAILED",
        "test_shares_a_group": "PASSED",
        "test_shares_a_broken_group": "PASSED",
    }, shown
    errors = re.findall(r"^ERROR test_theirs.py::\w+ - (.*)$", shown, re.MULTILINE)
    assert sorted(error[:10] for error in errors) == ["Failed: O3", "RuntimeErr"], "no setup, and the shared group"
    assert "warning" not in shown.splitlines()[-1], "kafka-python's own are not the user's"
    assert "C3 is required but was not judged" in report_of("test_sends_and_does_not_drain", shown)
    folders = set(kept.iterdir())
    shared = {path for path in folders if path.name.startswith(("shared.", "dropping."))}
    histories = {path.name.partition("-test_")[2].partition(".")[0]: path for path in folders - shared}
    assert len(shared) == 2, "each shared group has a folder of its own, as each other test"
    assert len(histories) == len(outcomes) + 1 - len(shared)

    report = report_of("test_drops", shown)
    assert "verdict FALSE" in report
    assert re.search(r"O3: .*topic-\S+-0", report), report
    assert report.index("O3: ") < report.index("verdict FALSE"), "the law comes first: pytest's summary is one line"
    assert "witness " in report
    assert "Traceback" not in report
    (again,) = re.findall(r"kafka-assignors judge (.*)", report)
    assert again == f"'{histories['drops']}'"
    judged = ran("/bin/sh", "-c", f"'{sys.executable}' -m kafka_assignors judge {again}", cwd=suite)
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert "verdict FALSE" in judged.stdout

    report = report_of("test_never_rests", shown)
    assert "is not stable after 8 s" in report
    assert re.search(r"^>\s+group\.wait_stable", report, re.MULTILINE), "the test's own line"
    assert "def wait_stable" not in report, "not the harness's"
    assert "verdict FALSE" in report
    assert re.search(r"O3: generation \d+, led by \S+: topic-\S+-0 ", report), report
    assert re.search(
        r"witness \d\d:\d\d:\S+ the coordinator log \(event \d+\): generation \d+ \(dropping\): m1 got", report
    )

    assert "was not stable after 0.2 s" in report_of("test_the_other_may_not", shown)
    report = report_of("test_spoils_its_history", shown)
    assert "RuntimeError: its own error" in report
    assert "verdict over its groups" in report

    report = report_of("test_says_nothing", shown)
    assert "verdict UNKNOWN" in report
    assert "nothing to judge" in report
    report = report_of("test_fails_by_itself", shown)
    assert "assert () == ('m2',)" in report or "('m1',) == ('m2',)" in report
    assert "verdict over its groups" in report
    assert "verdict true" in report

    started = [pid for folder in histories.values() if any(folder.glob("*.m1.*")) for pid in members_of(folder)]
    assert len(started) == 15
    assert [pid for pid in started if not gone(pid)] == []
    assert [e.kind for e in History.load(histories["has_no_setup"]).events if e.kind == "stop"] == ["stop"]


LOG = """2026-11-23T03:23:48.944Z [main] INFO kafka.Kafka - starting
2026-11-23T03:23:48.945Z [main] WARN kafka.Log - slow
[2026-11-23 03:23:49,000] INFO fine (kafka.Log)
[2026-11-23 03:23:49,001] ERROR broken (kafka.Log)
java.io.IOException: No space left on device"""


@pytest.mark.parametrize("sound", [False, True])
def test_a_failure_shows_warnings_and_errors_of_the_broker(sound: bool, tmp_path: Path) -> None:
    """With their stack traces; the whole log is in a file that the report names."""
    config = SimpleNamespace(stash={plugin._LOGS: tmp_path})
    item = SimpleNamespace(config=config, nodeid="test_shop.py::test_a[1]")
    broker = SimpleNamespace(backend="jvm", log_tail=lambda _: LOG.splitlines()[0] if sound else LOG)

    *told, where = plugin._warnings(broker, item).splitlines()  # type: ignore[arg-type]

    assert told == (["no warning and no error"] if sound else [LOG.splitlines()[n] for n in (1, 3, 4)])
    path = Path(where.partition("the whole log: ")[2])
    assert path.name == "test_shop.py-test_a-1.log"
    assert path.read_text() == broker.log_tail(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kafka-backend=jvn"], "--kafka-backend=jvn: unknown; known: jvm, shared, docker, external"),
        # long: further options that are refused by the same check, each in a run of pytest
        pytest.param(
            ["--kafka-backend=external"],
            "--kafka-backend=external and --kafka-bootstrap=HOST:PORT belong together",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["--kafka-bootstrap=h:1", "--kafka-backend=external", "--kafka-version=3"],
            "an external one has its own",
            marks=pytest.mark.long,
        ),
    ],
)
def test_options_that_cannot_go_together_are_refused_before_a_test_runs(
    options: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')

    done = pytest_in(tmp_path, *options)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr
