"""The page of docs about options, made from their declarations: ``python -m tests.support.options_page`` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafka_assignors.core.broker_side import BROKER_SIDE
from kafka_assignors.core.declaration import Option
from kafka_assignors.core.strategies import STRATEGIES
from tests.support.places import ROOT

FILE = ROOT / "docs" / "options.md"
HEAD = """# Options of the assignors

An assignor checks its options when it is made. It refuses an unknown one, and lists those that it has. Names, values
and messages are the same with kafka-python, with aiokafka, with the bridge for confluent-kafka, in `plan`, in
`kafka-assignors plan -A NAME:OPTION=VALUE` and in the harness (`weighted{"epsilon": 0.2}`). This page is made from the
declarations, which a test compares with every constructor.

| whose | in user data | in a consumer | in a plan |
|---|---|---|---|
| group | unless it is the default; [more than half decide](choosing-an-assignor.md#options) | the value | the value |
| member | as the member's own figure, without a vote | its own value | `{member id: value}`, or all partitions |
| consumer | no | the value | – |
| plan | no; a leader derives it from what members send, or does without it | – | the value |

aiokafka's consumers can't do what the last column names, so aiokafka's assignors refuse these options, with the reason.
The bridge has the assignors of kafka-python.
"""


def page() -> str:
    """The page."""
    owners: dict[Option[Any], list[str]] = {}
    for name, made in STRATEGIES.items():
        for option in made.declared.declared.values():
            owners.setdefault(option, []).append(name)
    sections: dict[tuple[str, ...], list[Option[Any]]] = {}
    for option, names in owners.items():
        sections.setdefault(tuple(names), []).append(option)
    parts = [HEAD]
    for names, options in sections.items():
        every = len(names) == len(STRATEGIES)
        title = "All assignors" if every else ", ".join(f"`{name}`" for name in names)
        parts += [f"\n## {title}\n", *_table(options)]
    (broker,) = {made.declared for made in BROKER_SIDE.values()}
    parts += ["\n## The broker's `uniform` and `range` (KIP-848)\n", *_table(broker.declared.values())]
    return "\n".join(parts) + "\n"


def _table(options: Iterable[Option[Any]]) -> Iterator[str]:
    yield "| option | default | values | meaning | whose | the consumer must be able to |"
    yield "|---|---|---|---|---|---|"
    yield from map(_row, options)


def _row(option: Option[Any]) -> str:
    name = f"`{option.called}`" if option.called == option.name else f"`{option.called}`; in plans `{option.name}`"
    unsent = f"; `{option.unsent}` isn't sent" if option.unsent else ""
    cells = (name, f"`{option.default!r}`", option.values, option.help, f"{option.of.value}{unsent}",
             option.needs.value if option.needs else "–")  # fmt: skip
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
