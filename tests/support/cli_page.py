"""The page of docs about the command, made from the command: ``python -m tests.support.cli_page`` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from kafka_assignors.frame import Common, Output
from kafka_assignors.operator.cli.explain import explanations
from tests.support.cli import commands
from tests.support.places import ROOT

FILE = ROOT / "docs" / "cli.md"
HEAD = """# The command `kafka-assignors`

The extras `kafka-python` and `cli` are what live groups need; `kafka-assignors doctor` names what other commands
lack, and what to type: it knows the checkout or wheel that you installed. `python -m kafka_assignors` is the same
command. `kafka-assignors --install-completion` completes its words in your shell. This page is made from the
command's own help.

Exit codes of all commands: 0 yes, 1 no, 2 usage, 3 could not run, 4 unknown, 130 interrupted. Usage is what you typed
or wrote into a file: an option, a name, a setting. A command could not run if a broker, a group, a topic, a right, a
package or the machine was in its way. An error is one sentence on stderr. `--json` prints JSON; its schemas are in
`kafka_assignors/operator/cli/schemas/`.

`plan`, `why`, `vote`, `scale` and `exporter` join nothing and write nothing. They need the right Describe on the group
and its topics, and Read on the topic `__consumer_offsets` for the coordinator's log. `why` tells what that log shows:
who was in each generation, with which subscription, assigned what. It does not show why a member left or when it
stopped consuming: the first is told as *left or expired*, the second by bounds, or by one time for a member that left
and one for a session that expired. A move is *needless* if an optimally balanced assignment does without it; that isn't
told of groups with racks or with assignors that balance something else. A group that its last member leaves has not
rebalanced.
[Words](glossary.md) defines what is counted.
A classic member gets another member id when it joins again, so the log can't tell a new process on its host from one
that lived on. Compaction removes old generations; `why` names those missing.

Of each rebalance `why` first tells the partition-ms without an owner and the longest such time, then what that time
consists of and on whom each part depends: until all members had heard of the rebalance and joined
(`heartbeat.interval.ms`), the leader's assignor, the second round of a cooperative rebalance (the callbacks of those
that gave partitions up, then `heartbeat.interval.ms` of all others), and the new owners' first commits. The log does
not show which member joined last, nor callbacks, so these parts are upper bounds. A KIP-848 group's log has the release
of each partition and its assignment: that time ends with the new owner's next heartbeat
(`consumer.heartbeat.interval.ms`).
"""


def page() -> str:
    """The page."""
    all_of = commands()
    output, cluster = (tuple(f.name for f in fields(kind)) for kind in (Output, Common))
    shown = all_of["why"]
    parts = [HEAD, "## Options of every command\n", *_options(shown, set(output))]
    parts += ["\n## Options of every command that asks a cluster\n", *_options(shown, set(cluster) - set(output))]
    only = [
        f"`{path}`" for path, command in all_of.items() if "bootstrap" not in {param.name for param in command.params}
    ]
    parts += [f"\n{', '.join(only[:-1])} and {only[-1]} ask none."]
    for path, command in all_of.items():
        parts += _one(path, command, set(cluster), command.epilog.partition("kafka-assignors ")[2])
    parts += ["\n## Causes told by `why`\n", "| cause | meaning | example |", "|---|---|---|"]
    parts += [
        f"| {name} | {explanation['meaning']} | {explanation['example']} |"
        for name, explanation in explanations().items()
        if explanation["kind"] == "cause"
    ]
    return "\n".join(parts) + "\n"


def _one(name: str, command: Any, shared: set[str], example: str) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    words = "".join(
        f" {a.metavar or a.name.upper()}" if a.required else f" [{a.metavar or a.name.upper()}]" for a in arguments
    )
    yield f"\n## `{name}{words}`\n"
    yield " ".join((command.help or "").split("\f")[0].split())
    yield f"\n```sh\nkafka-assignors {example}\n```\n"
    yield from _options(command, {param.name for param in command.params} - shared)


def _options(command: Any, wanted: set[str]) -> Iterator[str]:
    params = [p for p in command.params if p.name in wanted and p.name != "help" and getattr(p, "help", None)]
    if not params:
        return
    yield "| option | meaning |"
    yield "|---|---|"
    for param in params:
        if param.param_type_name == "argument":
            names = f"`{param.metavar or param.name.upper()}`"
        else:
            value = "" if param.is_flag else f" {param.metavar or param.opts[0].strip('-').upper()}"
            names = ", ".join(f"`{opt}{value}`" for opt in [*param.opts, *param.secondary_opts])
        default = param.default
        default_text = (
            f" Default: {default}." if default not in (None, False, True, ()) and not callable(default) else ""
        )
        text = re.sub(r"\s+", " ", param.help).strip().replace("|", "\\|")
        yield f"| {names} | {text}{default_text} |"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
