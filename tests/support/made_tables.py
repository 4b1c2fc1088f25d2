"""Tables of docs made from the code: ``python -m tests.support.made_tables`` writes them between their marks.

A table stands between ``<!-- made: NAME -->`` and ``<!-- /made -->``. It has docstrings, helps of options, descriptions
of metrics, or the rights that tests prove.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

import pytest

from kafka_assignors import pytest_plugin
from kafka_assignors.connection import consumer_protocol
from kafka_assignors.integration.members.faults import MemberFaults
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.members.group_topics import GroupTopics
from kafka_assignors.integration.proxy import Cut, Delay, Drop, Reset
from kafka_assignors.integration.records.sender import Sender, read_back, send
from kafka_assignors.integration.running_service import RunningService
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.chaos import DRAWN
from kafka_assignors.operator.cli.serving.exporter import Readings
from kafka_assignors.operator.scaling import Rules
from tests.support.connection.least import NEEDED
from tests.support.places import ROOT

PAGES = tuple(
    ROOT / "docs" / f"{name}.md"
    for name in ("scenarios", "harness", "testing", "service", "secured-clusters", "monitoring", "classic-to-consumer")
)
INNER = {
    "write", "end_members", "wait_committed", "leader_and_follower", "ends", "wait_ends", "tell_truncated", "begin",
    "finish",
}  # fmt: skip
"""Calls that scenarios, services and fixtures make, and people don't need."""
LETTERS = {"orders": "T", "billing": "G", "owned": "G", "events": "E"}
"""Names in the tests of rights -> what the page calls them."""


def scenarios() -> Iterator[str]:
    """Name and what happens, of each scenario."""
    yield "| scenario | what happens |\n|---|---|"
    for name, scenario in SCENARIOS.items():
        yield _row(f"`{name}`", scenario.about)
    for name, drawn in DRAWN.items():
        yield _row(f"`{name}`", drawn(0).about.replace("seed 0", "`--seed`"))


def faults() -> Iterator[str]:
    """The faults of one member's network."""
    yield "| fault | what happens |\n|---|---|"
    for fault in (Cut, Delay, Drop, Reset):
        yield _row(_signature(fault, fault.__name__), _told(fault))


def calls() -> Iterator[str]:
    """What a group of members can do: itself, its faults, its topics."""
    yield "| call | what it does |\n|---|---|"
    yield _row(_signature(MemberGroup, "MemberGroup"), _told(MemberGroup))
    for prefix, kind in (("", MemberGroup), ("", MemberFaults), ("topics", GroupTopics)):
        for name, call in vars(kind).items():
            if inspect.isfunction(call) and not name.startswith("_") and name not in INNER:
                yield _row(_signature(call, f"{prefix}.{name}"), _told(call))


def service() -> Iterator[str]:
    """What a test can do to a running service."""
    yield "| call | what it does |\n|---|---|"
    for name, call in vars(RunningService).items():
        if inspect.isfunction(call) and not name.startswith("_") and name not in INNER:
            yield _row(_signature(call, name), _told(call))


def options() -> Iterator[str]:
    """The options of the pytest plugin, which are settings in its ini file as well."""
    yield "| option | ini setting | meaning |\n|---|---|---|"
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    for option in parser.getgroup("kafka").options:
        (name,) = option.names()
        yield _row(f"`{name}`", f"`{option.dest}`", option.attrs()["help"])


def metrics() -> Iterator[str]:
    """What ``exporter`` serves."""
    yield "| metric | labels | meaning |\n|---|---|---|"
    for metric in Readings(partitions=True, rules=Rules(delay_s=30)).collect():
        total = "_total" if metric.type == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in getattr(metric, "_labelnames"))  # noqa: B009 (it has no other name)
        yield _row(f"`{metric.name}{total}`", labels, metric.documentation)


def protocol() -> Iterator[str]:
    """What becomes of settings under the consumer protocol."""
    yield "| setting | with `group.protocol=consumer` | what to do |\n|---|---|---|"
    settings = (
        "session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type",
        "group.instance.id", "client.rack",
    )  # fmt: skip
    for effect in consumer_protocol.under_consumer_protocol(dict.fromkeys(settings, "1"), "librdkafka"):
        yield _row(f"`{effect.setting}`", f"{effect.kind}: {effect.text}", effect.remedy)


def rights() -> Iterator[str]:
    """The least rights of all that reaches a cluster; the rights of `test` are named once."""
    yield "| what | rights |\n|---|---|"
    for what, needed in NEEDED.items():
        played = NEEDED["test"] if what != "test" and set(NEEDED["test"]) <= set(needed) else ()
        others = [
            f"{r.operation} {r.kind} {LETTERS.get(r.name, r.name)}{'*' if r.prefixed else ''}"
            for r in needed
            if r not in played
        ]
        yield _row(what, ", ".join([*(["those of `test`"] if played else []), *others]))


def records() -> Iterator[str]:
    """Records sent and read back."""
    yield "| call | what it does |\n|---|---|"
    for call in (send, read_back, Sender):
        yield _row(_signature(call, call.__name__), _told(call))


def fixtures() -> Iterator[str]:
    """The fixtures of the pytest plugin."""
    yield "| fixture | what it gives |\n|---|---|"
    for name, fixture in vars(pytest_plugin).items():
        function = getattr(fixture, "_fixture_function", None) or getattr(fixture, "__wrapped__", None)
        if name.startswith("kafka_") and function is not None and name not in ("kafka_logs", "kafka_groups_made"):
            yield _row(f"`{name}`", _told(function))


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "scenarios": scenarios, "faults": faults, "calls": calls, "records": records, "fixtures": fixtures,
    "service": service, "options": options, "metrics": metrics, "rights": rights,
    "protocol": protocol,
}  # fmt: skip


def anew(text: str) -> str:
    """A page with its tables as they should be."""
    return re.sub(
        r"(<!-- made: (\w+) -->\n).*?(\n<!-- /made -->)",
        lambda mark: f"{mark[1]}\n" + "\n".join(TABLES[mark[2]]()) + f"\n{mark[3]}",
        text,
        flags=re.DOTALL,
    )


def _signature(call: Callable[..., object], name: str) -> str:
    """A call with the names of its arguments, and their defaults."""
    empty, signature = inspect.Parameter.empty, inspect.signature(call)
    bare = [each.replace(annotation=empty) for each in signature.parameters.values() if each.name != "self"]
    return f"`{name}{signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)}`"


def _told(call: Callable[..., object]) -> str:
    """A docstring on one line: what stands before ``Raises``, with the arguments by name."""
    text = re.split(r"\n(?:Raises|Source|Cost|Example)s?:\n", inspect.getdoc(call) or "")[0]
    before, args, after = re.split(r"\n(Args:)\n", f"{text}\n", maxsplit=1) if "\nArgs:\n" in text else (text, "", "")
    given, returns, value = after.partition("\nReturns:\n")
    if not args:
        before, returns, value = before.partition("\nReturns:\n")
    named = re.sub(r"^    \*{0,2}(\w+): ", r"`\1`: ", given, flags=re.MULTILINE)
    return " ".join(f"{before} {named} {'Returns: ' if returns else ''}{value}".split())


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('``', '`').replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(anew(page.read_text("utf-8")), "utf-8")
