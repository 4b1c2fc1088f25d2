"""The life of groups by work, by lag and of bundles: all of their steps and fallbacks, judged; a short and a long form.

The groups of a form live at the same time, step by step, so that they share the waiting.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.loop import told
from kafka_assignors.clients.weights import Weights
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.verdict import Verdict
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.topics import create_topics

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
SESSION_MS = 4000
ASSIGNORS = ("weighted", "lag", "copartitioned")


class Groups:
    """Groups by name, each with topics, records and a folder of its own.

    Args:
        topics: Partition counts of the topics of each group.
    """

    def __init__(
        self, stack: ExitStack, bootstrap: str, folder: Path, names: Sequence[str], topics: Sequence[int]
    ) -> None:
        self.topics: dict[str, list[str]] = {}
        self.by_name: dict[str, MemberGroup] = {}
        self.senders: list[Sender] = []
        for name in names:
            counts = {f"{name}-{n}-{uuid.uuid4().hex[:6]}": count for n, count in enumerate(topics)}
            create_topics(bootstrap, counts)
            self.topics[name] = list(counts)
            group = MemberGroup(
                bootstrap, f"{name}-{uuid.uuid4().hex[:6]}", folder / name, "run", session_timeout_ms=SESSION_MS
            )
            self.by_name[name] = stack.enter_context(group)
            self.senders.append(
                stack.enter_context(Sender(bootstrap, folder / name, "run", list(counts), "default", 20))
            )

    def start(self, name: str, member: str, assignors: Sequence[str]) -> None:
        self.by_name[name].start(member, self.topics[name], assignors, metadata_max_age_ms=1000)

    def stable(self) -> dict[str, Stable]:
        return {name: group.wait_stable(timeout_s=90) for name, group in self.by_name.items()}

    def judged(self) -> dict[str, Verdict]:
        """The verdicts; each is true, and says so by the leaders' assignments, too."""
        for sender in self.senders:
            sender.stop()
        found = {}
        for name, group in self.by_name.items():
            group.drain(timeout_s=60)
            group.close()
            found[name] = verdict = check(History.load(group.folder))
            assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), name
            assert verdict.checked["A1"] > 0, name
        return found


Course = Mapping[str, tuple[str, ...]]
"""Step -> members afterwards, with their lists: r is range, b both, o the assignor alone."""
SHORT: Course = {
    "m1 begins with range": ("m1 r",),
    "m2 joins with both": ("m1 r", "m2 b"),
    "m1 restarts without range": ("m1 o", "m2 b"),  # a cooperative and an eager member
    "m2 restarts without range": ("m1 o", "m2 o"),
    "the topics grow": ("m1 o", "m2 o"),
    "m2 is killed": ("m1 o",),
}
LONG: Course = {
    "m1 begins with range": ("m1 r",),
    "m2 joins with both": ("m1 r", "m2 b"),
    "m1 restarts with both": ("m1 b", "m2 b"),
    "m2 restarts without range": ("m1 b", "m2 o"),
    "m3 joins": ("m1 b", "m2 o", "m3 o"),
    "m1 restarts without range": ("m1 o", "m2 o", "m3 o"),
    "the topics grow": ("m1 o", "m2 o", "m3 o"),
    "m2 is killed": ("m1 o", "m3 o"),
    "m1 leaves": ("m3 o",),
}


def lived(bootstrap: str, folder: Path, assignors: Sequence[str], course: Course, partitions: int) -> None:
    """Let a group of each assignor live through a course."""
    with ExitStack() as stack:
        groups = Groups(stack, bootstrap, folder, assignors, (partitions, partitions))
        now: dict[str, str] = {}
        size = partitions
        for step, members in course.items():
            then = dict(each.split() for each in members)
            for assignor, group in groups.by_name.items():
                group.step(step)
                for member in now.keys() - then.keys():
                    group.kill(member) if "killed" in step else group.stop(member)
                for member, kind in then.items():
                    if now.get(member) != kind:
                        if member in now:
                            group.stop(member)
                        names = {"r": ["range"], "b": [assignor, "range"], "o": [assignor]}[kind]
                        groups.start(assignor, member, names)
                if "grow" in step:
                    for topic in groups.topics[assignor]:
                        group.topics.add_partitions(topic, partitions + 3)
            now, size = then, partitions + 3 if "grow" in step else size
            for assignor, stable in groups.stable().items():
                where = f"{assignor}: {step}"
                assert sorted(stable.owned) == sorted(then), where
                assert stable.protocol == ("range" if "r" in then.values() else assignor), where
                for topic in groups.topics[assignor]:
                    owned = sorted(p for topics in stable.owned.values() for p in topics.get(topic, ()))
                    assert owned == list(range(size)), where
                if "copartitioned" in assignor and "r" not in then.values():
                    assert all(len({*map(tuple, topics.values())}) == 1 for topics in stable.owned.values()), where
        groups.judged()


# long: assignors/weighted/ proves the placement without members; test_hostile_members.py has a live group with
# weights
@pytest.mark.long
def test_each_assignor_through_join_roll_growth_death_and_leave(kafka_broker: Broker, tmp_path: Path) -> None:
    """Bundles have `test_copartitioned.py`, and their place in the long form."""
    lived(kafka_broker.bootstrap, tmp_path, ("weighted", "lag"), SHORT, 6)


@pytest.mark.long
def test_each_assignor_with_more_partitions(kafka_broker: Broker, tmp_path: Path) -> None:
    lived(kafka_broker.bootstrap, tmp_path, (*ASSIGNORS, "cooperative-copartitioned"), LONG, 60)


METERED = 'weighted{"meter":"work","check_every_s":1,"rest_s":5}'
FALLBACKS: Mapping[str, tuple[str, str]] = {
    # What fails -> the assignor of the member it fails in, and what a member's log says about it.
    "torn": ('weighted{"weights_file":"FOLDER/torn.json"}', "not complete JSON"),
    "missing": ('weighted{"weights_file":"FOLDER/missing.json"}', "does not exist"),
    "expired": ('weighted{"weights_file":"FOLDER/expired.json"}', "expired"),
    "future": ('weighted{"weights_file":"FOLDER/future.json"}', "in the future"),
    "half": ("weighted", ""),  # has no meter
    "newer": ("tests.support.integration.load_assignors:Newer", "newer than"),
    "stops": ("tests.support.integration.load_assignors:Stopping", "the load meter stops"),
    "differ": ('weighted{"epsilon":0.2}', "members have different options"),
    "lag-newer": ("tests.support.integration.load_assignors:NewerLag", "newer than"),
    "lag-differ": ('lag{"parity":"grantneale"}', "members have different options"),
}
TOGETHER = (("torn", "missing", "expired", "future"), ("half", "newer", "stops", "differ"), ("lag-differ", "lag-newer"))
"""Groups of the short form. In the long form each case has a group with two sound members."""


def fallen(bootstrap: str, folder: Path, lists: Mapping[str, Sequence[str]], partitions: int, *, back: bool) -> None:
    """Let the leader of each group leave; every group stays sound and even.

    Args:
        lists: Name of a group -> its members' assignors.
        back: Whether the leader comes back.
    """
    whole = Weights(1, "records_per_s", 0, 1, {"t": (1.0,)})
    (folder / "torn.json").write_text(whole.to_json()[:30], "utf-8")
    (folder / "expired.json").write_text(whole.to_json(), "utf-8")
    (folder / "future.json").write_text(replace(whole, written_ms=10**15, expires_ms=10**15).to_json(), "utf-8")
    members = {
        name: {f"m{n}": [each.replace("FOLDER", str(folder))] for n, each in enumerate(assignors, 1)}
        for name, assignors in lists.items()
    }
    with ExitStack() as stack:
        groups = Groups(stack, bootstrap, folder, list(lists), (partitions,))
        for name, each in members.items():
            groups.by_name[name].step("the first member joins")
            groups.start(name, "m1", each["m1"])
        groups.stable()  # it leads; law A1 can't replay some of the others, which might be all who lead
        for name, each in members.items():
            groups.by_name[name].step("the others join")
            for member, assignors in list(each.items())[1:]:
                groups.start(name, member, assignors)
        for name, began in groups.stable().items():
            counts = [sum(map(len, topics.values())) for topics in began.owned.values()]
            assert (sum(counts), len(counts)) == (partitions, len(members[name])), name
            assert max(counts) <= 1.3 * partitions / len(counts), name  # epsilon, and a whole partition
            groups.by_name[name].step("the leader leaves")
            groups.by_name[name].stop(began.leader)
        for name, left in groups.stable().items():
            if back:
                (gone,) = members[name].keys() - left.owned.keys()
                groups.by_name[name].step("it comes back")
                groups.start(name, gone, members[name][gone])
        if back:
            groups.stable()
        groups.judged()


@pytest.mark.long  # long: assignors/weighted/test_stability.py proves the rests without members
def test_what_moved_to_a_member_stays_there_while_it_rests(kafka_broker: Broker, tmp_path: Path) -> None:
    """What moved becomes heavy at once. A rebalance with another cause moves it in the group without rests alone."""
    file, rests = tmp_path / "weights.json", {"resting": 600, "restless": 0}
    with ExitStack() as stack:
        groups = Groups(stack, kafka_broker.bootstrap, tmp_path, list(rests), (6,))
        topics = {name: names[0] for name, names in groups.topics.items()}

        def weigh(heavy: Mapping[str, Sequence[int]]) -> None:
            weights = {topics[name]: tuple(4.0 if p in ids else 1.0 for p in range(6)) for name, ids in heavy.items()}
            now_ms = time.time_ns() // 1_000_000
            (new := tmp_path / "new").write_text(
                Weights(now_ms, "records_per_s", now_ms, now_ms + 3_600_000, weights).to_json(), "utf-8"
            )
            new.replace(file)

        def joined(step: str, member: str, **options: object) -> dict[str, dict[str, list[int]]]:
            """group -> member -> partitions, once a member has joined each group."""
            for name, group in groups.by_name.items():
                group.step(step)
                known = {"weights_file": str(file), "hysteresis": True, "partition_rest_s": rests[name], **options}
                groups.start(name, member, [f"weighted{json.dumps(known)}"])
            return {
                name: {m: list(owned.get(topics[name], ())) for m, owned in stable.owned.items()}
                for name, stable in groups.stable().items()
            }

        weigh(dict.fromkeys(rests, ()))
        joined("one member", "m1")
        moved = joined("another gets half", "m2")
        assert {len(ids) for owned in moved.values() for ids in owned.values()} == {3}
        weigh({name: owned["m2"] for name, owned in moved.items()})
        then = joined("a standby joins", "m3", capacity=0)
        groups.judged()

    assert then["resting"] == {**moved["resting"], "m3": []}
    assert {m: len(ids) for m, ids in then["restless"].items()} == {"m1": 4, "m2": 2, "m3": 0}
    for name, folder in ((name, tmp_path / name) for name in rests):
        said = next(said for _, said in told(History.load(folder), {topics[name]: 6}) if len(said) == 3)
        telling = {m: sorted(p for _, p in each.moving.resting) for m, each in said.items() if each.moving.resting}
        assert list(telling.values()) == ([sorted(moved[name]["m2"])] if rests[name] else []), name


def logs(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in folder.glob("*.log"))


# long: ten groups; assignors/weighted/ has each fallback
@pytest.mark.long
def test_what_fails_leaves_a_sound_group(kafka_broker: Broker, tmp_path: Path) -> None:
    """Several failures share a group, so that all of them take few processes."""
    lists = {"-".join(cases): [FALLBACKS[case][0] for case in cases] for cases in TOGETHER}
    fallen(kafka_broker.bootstrap, tmp_path, lists, 24, back=False)
    for cases in TOGETHER:
        for case in cases:
            assert FALLBACKS[case][1] in logs(tmp_path / "-".join(cases)), case


@pytest.mark.long
def test_what_fails_beside_two_sound_members_leaves_a_sound_group(kafka_broker: Broker, tmp_path: Path) -> None:
    for case, (assignor, said) in FALLBACKS.items():
        sound = "lag" if case.startswith("lag") else 'weighted{"epsilon":0.3}' if case == "differ" else METERED
        fallen(kafka_broker.bootstrap, tmp_path, {case: [sound, sound, assignor]}, 60, back=True)
        assert said in logs(tmp_path / case), case
