"""What `why`, `exporter` and `watch` tell of a long churn, against what the harness did, and what they cost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import Topics
from tests.support.live.course import ASSIGNORS, Course, Step

from .result import Result, WrongAnswer

GROUPS = 8
GENERATIONS, QUICK_GENERATIONS = 1000, 120
_WAIT_S = 60


@dataclass(frozen=True)
class Judged:
    """A step, and what `why` told of its generations.

    Args:
        told: Client id, or "" for the group -> causes in the order of the rebalances.
        right: Whether that is one of the right answers.
    """

    group: str
    step: Step
    told: Mapping[str, tuple[str, ...]]
    right: bool


def run(quick: bool) -> Iterator[Result]:
    """``causes/…``: generations counted and causes named by `why` and `exporter`; CPU of `exporter` and `watch`."""
    generations = QUICK_GENERATIONS if quick else GENERATIONS
    # Sessions of the node as its own client are long: on a busy machine it must not be fenced.
    with start_broker("jvm", settings={"broker.session.timeout.ms": "60000"}) as broker:
        yield from soak(broker.bootstrap, GROUPS, generations)


def soak(bootstrap: str, groups: int, generations: int) -> Iterator[Result]:
    """Play all courses at once, with `exporter` on all groups and `watch` on one, and compare."""
    host, _, port = bootstrap.rpartition(":")
    topics, lock = Topics(bootstrap), threading.Lock()

    def grow(topic: str, count: int) -> None:
        with lock:
            topics.grow(topic, count)

    courses = []
    for n in range(groups):
        group = f"soak-{n}-{time.time_ns() % 10**6}"
        counts = {f"{group}-{topic}": 6 for topic in "abc"}
        topics.create(counts)
        courses.append(Course((host, int(port)), group, n, ASSIGNORS[n % len(ASSIGNORS)], counts, grow))
    with tempfile.TemporaryDirectory() as folder:
        answers, costs, seconds = asyncio.run(_play(courses, bootstrap, generations, Path(folder)))
    topics.close()
    yield from _results(courses, answers, costs, seconds)


async def _play(
    courses: Sequence[Course], bootstrap: str, generations: int, folder: Path
) -> tuple[dict[str, Any], dict[str, float], float]:
    names = [course.group for course in courses]
    await asyncio.gather(*(course.begin() for course in courses))
    exporter = _command("exporter", *names, "-b", bootstrap, "--port", "0", "--json", out=folder / "exporter")
    watch = _command("watch", names[0], "-b", bootstrap, "--json", out=folder / "watch")
    try:
        url = json.loads(await _line(exporter, folder / "exporter"))["url"]
        await _line(watch, folder / "watch")
        used = {name: psutil.Process(p.pid) for name, p in (("exporter", exporter), ("watch", watch))}
        before, began = {name: _cpu_s(process) for name, process in used.items()}, time.monotonic()
        course_generations = -(-generations // len(courses))
        await asyncio.gather(*(course.play(course_generations) for course in courses))
        seconds = time.monotonic() - began
        costs = {name: (_cpu_s(process) - before[name]) / seconds for name, process in used.items()}
        why = {name: await asyncio.to_thread(_why, name, bootstrap) for name in names}
        counted = await _counted(url, {name: sum(_first(answer, course).values()) for course, (name, answer) in
                                       zip(courses, why.items(), strict=True)})  # fmt: skip
    finally:
        for process in (exporter, watch):
            process.terminate()
            process.wait(60)
        for course in courses:
            await course.end()
    return {"why": why, "exporter": counted}, costs, seconds


def _command(*args: str, out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as file:
        return subprocess.Popen([sys.executable, "-m", "kafka_assignors", *args], stdout=file, stderr=file)


async def _line(process: subprocess.Popen[bytes], out: Path) -> str:
    """The first line that a command printed."""
    deadline = time.monotonic() + _WAIT_S
    while "\n" not in (output := out.read_text()):
        if time.monotonic() > deadline or process.poll() is not None:
            raise WrongAnswer(f"{process.args!r} did not begin: {output}")
        await asyncio.sleep(0.1)
    return output.splitlines()[0]


def _cpu_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _why(group: str, bootstrap: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kafka_assignors", "why", group, "-b", bootstrap, "-n", "100000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswer(f"why {group}: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def _counted(url: str, due: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Group -> cause -> rebalances, as the exporter serves them once it has counted what is due; or after a while."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read().decode())
        counts: dict[str, dict[str, float]] = {group: {} for group in due}
        for line in text.splitlines():
            if line.startswith("kafka_group_rebalances_total{"):
                labels, value = line.rsplit(" ", 1)
                of = dict(part.split("=") for part in labels[labels.index("{") + 1 : -1].split(","))
                if float(value):
                    counts[of["group"].strip('"')][of["cause"].strip('"')] = float(value)
        if all(sum(counts[group].values()) >= many for group, many in due.items()) or time.monotonic() > deadline:
            return counts
        await asyncio.sleep(1)


def _first(answer: Mapping[str, Any], course: Course) -> Counter[str]:
    """Cause -> rebalances since the course began that are told under it first."""
    since = course.steps[0].before
    rebalances = [r for r in answer["rebalances"] if r["generations"][0] > since and not r["rewritten"]]
    return Counter(rebalance["causes"][0]["kind"] for rebalance in rebalances)


def judged(course: Course, answer: Mapping[str, Any]) -> Iterator[Judged]:
    """Each step of a course, with what `why` tells of it."""
    seen: set[int] = set()
    again: list[Mapping[str, Any]] = []  # within a generation, a static member returned
    first: list[Mapping[str, Any]] = []
    for rebalance in answer["rebalances"]:
        (again if seen.issuperset(rebalance["generations"]) else first).append(rebalance)
        seen.update(rebalance["generations"])
    for step in course.steps:
        mine = [rebalance for rebalance in first if step.before < rebalance["generations"][-1] <= step.after]
        if step.kind == "static restart":
            mine += [rebalance for rebalance in again if rebalance["generations"] == [step.before]]
        causes: dict[str, tuple[str, ...]] = {}
        for cause in (cause for rebalance in mine for cause in rebalance["causes"]):
            causes[cause["client_id"]] = (*causes.get(cause["client_id"], ()), cause["kind"])
        right = causes.keys() <= step.truth.keys()
        right = right and all(causes.get(who, ()) in may for who, may in step.truth.items())
        yield Judged(course.group, step, causes, right)


def uncounted(course: Course, answer: Mapping[str, Any]) -> int:
    """Generations of a course that `why` neither tells nor names as missing."""
    has = {n for rebalance in answer["rebalances"] for n in rebalance["generations"]}
    has |= {n for rebalance in answer["rebalances"] if (gap := rebalance["missing"]) for n in range(gap[0], gap[1] + 1)}
    return len(set(range(course.steps[0].before + 1, course.steps[-1].after + 1)) - has)


def _results(
    courses: Sequence[Course], answers: Mapping[str, Any], costs: Mapping[str, float], seconds: float
) -> Iterator[Result]:
    why = answers["why"]
    steps = [judged_step for course in courses for judged_step in judged(course, why[course.group])]
    clear = [judged_step for judged_step in steps if not judged_step.step.disturbed]
    total = sum(judged_step.step.generations for judged_step in clear)
    wrong = [judged_step for judged_step in clear if not judged_step.right]
    kinds = Counter(judged_step.step.kind for judged_step in steps)
    note = f"{len(courses)} groups, {seconds:.0f} s; steps: {', '.join(f'{k} {n}' for k, n in sorted(kinds.items()))}"
    played = sum(judged_step.step.generations for judged_step in steps)
    yield Result(
        "causes/generations",
        played,
        "generations",
        note=note,
        raw={"steps": [asdict(judged_step) for judged_step in steps]},
    )
    missed = sum(uncounted(course, why[course.group]) for course in courses)
    yield Result("causes/why/uncounted", missed, "generations", none=True)
    lost = sum(judged_step.step.generations for judged_step in wrong)
    yield Result(
        "causes/why/wrong", 100 * lost / total if total else None, "%",
        note=f"{lost} of {total} generations; {played - total} more in {len(steps) - len(clear)} steps in which the "
        "coordinator removed a member unasked",
        raw={"wrong": [asdict(judged_step) for judged_step in wrong]}, none=True,
    )  # fmt: skip
    off: dict[str, Any] = {}
    for course in courses:
        due, counted = _first(why[course.group], course), Counter(answers["exporter"][course.group])
        if due != counted:
            off[course.group] = {"why": dict(due), "exporter": dict(counted)}
    differ = sum(
        abs(counts["why"].get(kind, 0) - counts["exporter"].get(kind, 0)) for counts in off.values()
        for kind in counts["why"].keys() | counts["exporter"].keys()
    )  # fmt: skip
    rebalances = sum(sum(_first(why[course.group], course).values()) for course in courses)
    yield Result("causes/exporter/differs", differ, "rebalances", note=f"of {rebalances}", raw={
        "counted": answers["exporter"], "differs": off}, none=True)  # fmt: skip
    for name, share in costs.items():
        yield Result(f"causes/{name}/cpu", 100 * share, "% of a core", note=f"{played / seconds:.1f} generations/s")
