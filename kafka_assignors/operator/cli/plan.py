"""``plan``: what assignors would do to a live group, as a diff against what its members own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...connection import Connection
from ...core.broker_side import BROKER_SIDE, PROTOCOL, BrokerSide
from ...core.group import TopicPartition
from ...core.group.assignment import owners
from ...core.strategies import STRATEGIES, ByWork, strategy
from ...core.strategy import Strategy
from ...errors import AccessRefused, ClusterError, ConfigError
from ...frame import NO, YES, Common
from ...output import many
from ..live.broker_side import Forecast, forecast
from ..live.cluster import LiveCluster, last_generation
from ..live.group import Change, LiveGroup, LiveTopics, as_group
from ..live.leading import Led, led
from ..plans import Plan, plan
from ..plans.sizing import sizing
from .words import safe, some

FORMAT, VERSION = "kafka-assignors live plan", 1
_USUAL = ("range", "sticky", "cooperative-sticky")
_REST_S = 10
_RECENT = 50_000
"""Offsets of the coordinator's log that are read for the last generation's number and leader."""
DEFAULT = "uniform"
"""The broker's assignor in Kafka's default configuration."""
_SHOWN = 20
_NAME = 24
"""Characters of an assignor's name in the table, so that it fits 80 columns."""


@dataclass(frozen=True)
class Wanted:
    """What the user asked for.

    Args:
        assignors: ``NAME`` or ``NAME:option=value,…``; empty: the elected one and the usual ones.
        sizes: Numbers of members: tell the loads at these instead of one plan.
    """

    group: str | None
    assignors: tuple[str, ...] = ()
    change: Change = field(default_factory=Change)
    save: Path | None = None
    replay: Path | None = None
    sizes: range | None = None


@dataclass(frozen=True)
class Answer:
    """The plans of a group.

    Args:
        plans: Assignor as asked for -> its plan. Its member ids are the coordinator's, or names in a KIP-848 group.
        forecasts: Those of the plans whose assignor runs in the broker.
        notes: Assignor as asked for -> what was read of members, what is assumed and what isn't known.
    """

    live: LiveGroup
    change: Change
    plans: Mapping[str, Plan]
    topics: LiveTopics
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Topic-partition -> name of the member that owns it now."""
        called = self.live.names
        return {tp: called[member.member_id] for member in self.live.members for tp in member.assigned}


def run(common: Common, wanted: Wanted) -> int:
    """Plan a live group, or plan a saved one again."""
    if wanted.replay is not None:
        return _replay(common, wanted.replay)
    if wanted.group is None:
        raise ConfigError("no GROUP is named, and no --replay FILE either; give one of them")
    if wanted.sizes is not None and wanted.save is not None:
        raise ConfigError("--members tells loads, and --save keeps plans; give one of them")
    for given in wanted.assignors:
        made(given)
    live, topics = read(common, common.connection, wanted.group)
    if live.kind != "classic":
        return _of_broker(common, wanted, live, topics)
    elected = [live.protocol] if live.protocol in STRATEGIES else []
    names = wanted.assignors or tuple(elected or ["cooperative-sticky"])
    if not wanted.assignors and wanted.sizes is None:
        names = tuple(dict.fromkeys([*elected, *_USUAL]))
    leaders = {name: led(live, topics, wanted.change, *made(name)) for name in names}
    if wanted.sizes is not None:
        return _tell_sizes(common, live, leaders, wanted.sizes)
    with common.busy("planning"):
        plans = {name: leader.plan for name, leader in leaders.items()}
    notes = {name: leader.notes for name, leader in leaders.items()}
    return _tell(common, Answer(live, wanted.change, plans, topics, notes=notes), wanted.save)


def _of_broker(common: Common, wanted: Wanted, live: LiveGroup, topics: LiveTopics) -> int:
    """A KIP-848 group: what its broker will assign, beside what assignors of classic groups would."""
    if wanted.sizes is not None:
        raise ConfigError(f"--members: group {live.group!r} uses the consumer protocol (KIP-848); plan it with --add N")
    asked = live.protocol or DEFAULT
    names = wanted.assignors or (*([asked] if asked in BROKER_SIDE else []), "cooperative-sticky")
    group = as_group(live, topics, wanted.change)
    with common.busy("planning"):
        forecasts = {n: forecast(live, topics, wanted.change, made(n)[0]) for n in names if _by_broker(n)}
        plans = {n: forecasts[n].plan if n in forecasts else plan(group, made(n)[0], **made(n)[1]) for n in names}
    return _tell(common, Answer(live, wanted.change, plans, topics, forecasts), wanted.save)


def _by_broker(given: str) -> bool:
    """Whether an assignor, as asked for in a KIP-848 group, is the broker's; ``range:protocol=classic`` is not."""
    name, options = made(given)
    return name in BROKER_SIDE and options.get("protocol") != "classic"


def _tell(common: Common, answer: Answer, save: Path | None) -> int:
    if save is not None or common.as_json:
        document = as_json(answer)
        if save is not None:
            save.write_text(json.dumps(document), "utf-8")
        if common.as_json:
            common.print_json(document)
            return YES
    common.show(lines(answer))
    if save is not None:
        common.show([f"Saved; show it again by: kafka-assignors plan --replay {safe(str(save))}"])
    return YES


def _tell_sizes(common: Common, live: LiveGroup, leaders: Mapping[str, Led], sizes: range) -> int:
    """How many members? One table per assignor; `schemas/plan-members.json` describes the JSON."""
    with common.busy("planning"):
        sizings = {name: sizing(leader.decoded.group, leader.strategy, sizes) for name, leader in leaders.items()}
    if common.as_json:
        documents = [{"assignor": name, "sizing": json.loads(table.to_json())} for name, table in sizings.items()]
        common.print_json({"group": live.group, "members": len(live.members), "sizings": documents})
        return YES
    common.show([f"[bold]{safe(live.group)}[/]: {many(len(live.members), 'member')}, {safe(live.protocol)}"])
    for name, table in sizings.items():
        common.show(["", *(safe(line) for line in str(table).splitlines()), *_noted(live, leaders[name].notes)])
    return YES


def read(common: Common, connection: Connection, group: str) -> tuple[LiveGroup, LiveTopics]:
    """A group at rest, with its topics. Raises ClusterError if it is absent or empty, or doesn't come to rest."""
    with LiveCluster(connection) as cluster:
        deadline = time.monotonic() + _REST_S
        while (live := _read(common, cluster, group)).state not in ("Stable", "Empty"):
            if time.monotonic() > deadline:
                raise ClusterError(f"group {group!r} is in a rebalance ({live.state}) for {_REST_S} s; ask again later")
            time.sleep(0.2)
        if not live.members:
            raise ClusterError(f"group {group!r} is empty: it has offsets and no members; start one")
        if live.kind == "classic":
            live = _with_leader(common, cluster, live)
        return live, cluster.topics({topic for member in live.members for topic in member.topics})


def _read(common: Common, cluster: LiveCluster, group: str) -> LiveGroup:
    live = cluster.group(group, sent=True)
    if live.kind == "classic":
        return live
    # The records of a member that joined long ago are anywhere in the log.
    with common.busy("reading the coordinator's log") as progress:
        return cluster.broker_assigned(group, cluster.log(group, most=sys.maxsize, progress=progress))


def _with_leader(common: Common, cluster: LiveCluster, live: LiveGroup) -> LiveGroup:
    try:
        last = last_generation(cluster.log(live.group, most=_RECENT))
    except AccessRefused as refused:
        common.note(f"generation and leader are not shown: {refused}")
        return live
    if last is None or {m.member_id for m in last.members} != {m.member_id for m in live.members}:
        return live
    return replace(live, generation=last.generation, leader=last.leader)


def made(given: str) -> tuple[str, dict[str, Any]]:
    """An assignor as the user writes it -> its name and options.

    Raises:
        UnknownName, ConfigError: There is no such assignor or option.

    >>> made("sticky:parity=java")
    ('sticky', {'parity': 'java'})
    """
    name, _, text = given.partition(":")
    options: dict[str, Any] = {}
    for setting in filter(None, text.split(",")):
        option, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--assignor {given}: {setting!r} is not option=value, as in sticky:parity=java")
        try:
            options[option] = json.loads(value)
        except ValueError:
            options[option] = value
    if name in BROKER_SIDE and name not in STRATEGIES:
        options.setdefault("protocol", PROTOCOL)
    strategy(name, **options)
    return name, options


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain values, which `--replay` reads; `schemas/plan.json` describes it."""
    called = answer.live.names
    return {
        "format": FORMAT,
        "version": VERSION,
        "group": answer.live.group,
        "kind": answer.live.kind,
        "elected": answer.live.protocol,
        "generation": answer.live.generation,
        "leader": called.get(answer.live.leader or ""),
        "change": {
            **asdict(answer.change),
            "remove": list(answer.change.remove),
            "joining": list(answer.change.joining),
        },
        "topics": dict(answer.topics.counts),
        "members": [
            {
                "name": called[member.member_id],
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "topics": sorted(member.topics),
                "owned": [[*tp] for tp in member.assigned],
            }
            for member in answer.live.members
        ],
        "plans": [
            {**_plan_json(name, plan, answer.forecasts.get(name)), "notes": list(answer.notes.get(name, ()))}
            for name, plan in answer.plans.items()
        ],
    }


def _plan_json(name: str, plan: Plan, forecast: Forecast | None) -> dict[str, Any]:
    cost = _cost(plan)
    forecasted = (
        {}
        if forecast is None
        else {"forecast": {"cases": forecast.cases, "draws": forecast.draws, "others": forecast.others}}
    )
    return {
        **forecasted,
        "assignor": name,
        "stops": cost.stops,
        "rebalances": 2 if plan.withheld else 1,
        "moves": cost.moves,
        "unowned": cost.unowned,
        "loads": [cost.least_load, cost.most_load],
        "optimal": plan.optimal if plan.goals else None,
        "plan": json.loads(plan.to_json()),
    }


@dataclass(frozen=True)
class _Cost:
    """moves: from living members; unowned: partitions without a living owner; stops: who stops consuming."""

    moves: int
    unowned: int
    stops: str
    least_load: int
    most_load: int


def _cost(plan: Plan) -> _Cost:
    moves = sum(move.old is not None for move in plan.moves)
    members = len(plan.loads)
    made = strategy(plan.strategy, **plan.options)
    partly = (made.withholds and not _all_revoke(plan, made)) or isinstance(made, BrokerSide)
    stops = "only what moves" if partly else f"all {many(members, 'member')}"
    loads = plan.loads.values()
    return _Cost(moves, len(plan.moves) - moves, stops, min(loads, default=0), max(loads, default=0))


def _all_revoke(plan: Plan, made: Strategy) -> bool:
    """Whether all members that own anything are eager, though their assignor can be cooperative."""
    if not isinstance(made, ByWork):
        return False
    holders = {member.member_id for member in plan.group.members if len(member.owned)}
    eager = made.placing.eager
    return eager if isinstance(eager, bool) else bool(holders) and holders <= eager


def lines(answer: Answer) -> Iterator[str]:
    """The answer as lines of rich's markup, at most 80 columns wide where names allow it."""
    live = answer.live
    yield (
        f"[bold]{safe(live.group)}[/]: {many(len(live.members), 'member')}, "
        f"{many(len(answer.owners), 'partition')}, {safe(_under(live))}"
    )
    if live.kind != "classic":
        yield from _by_whom(live)
    if answer.change:
        yield f"Planned with: {safe(changed(answer.change))}"
    else:
        yield "Planned: a rebalance as the group is now"
    yield ""
    yield from _table(answer)
    for name, assignor_plan in list(answer.plans.items())[:1]:
        yield ""
        yield from _diff(answer, name, assignor_plan)


def _under(live: LiveGroup) -> str:
    """Who assigns, and the number of the assignment."""
    if live.kind != "classic":
        asked = f"{live.protocol}, as most members ask" if live.protocol else "the broker's default"
        return f"assigned by the broker (KIP-848, {asked})" + (f", epoch {live.generation}" if live.generation else "")
    at = "" if live.generation is None else f", generation {live.generation}"
    leader = live.names.get(live.leader or "")
    return live.protocol + at + ("" if leader is None else f", led by {leader}")


def _by_whom(live: LiveGroup) -> Iterator[str]:
    """What isn't known of the broker's assignor."""
    if not live.protocol:
        yield (
            "[dim]No member asks for an assignor: the broker takes the first of its group.consumer.assignors, "
            f"{DEFAULT} unless that was changed.[/]"
        )
    elif live.protocol not in BROKER_SIDE:
        yield f"[yellow]Unknown:[/] what the broker's assignor {safe(live.protocol)} will do; it is not one of Kafka's."


def _how_certain(forecast: Forecast, change: Change) -> Iterator[str]:
    """How much the broker's assignment depends on what nobody knows yet."""
    joining = change.add + len(change.joining)
    if joining > 1:
        yield "[dim]Planned for members that join together; joining one by one can move other partitions.[/]"
    if not joining:
        return
    if forecast.cases == forecast.draws:
        yield f"[dim]The same for each of {forecast.draws} drawn ids of a new member.[/]"
    else:
        yield (
            "[yellow]Not certain:[/] the broker's order depends on the id that a new member draws. This assignment "
            f"came out for {forecast.cases} of {forecast.draws} drawn ids; --json has the "
            f"{many(len(forecast.others), 'other')}."
        )


def changed(change: Change) -> str:
    """A change in words.

    >>> changed(Change(2, ("m1", "1"), {"orders": 12}))
    '2 more members, without m1, 1 member fewer, orders grown to 12 partitions'
    """
    phrases = [f"{many(change.add, 'more member')}"] if change.add else []
    phrases += [f"{name} joins" for name in change.joining]
    phrases += [
        f"{many(int(removal), 'member')} fewer" if removal.isdecimal() else f"without {removal}"
        for removal in change.remove
    ]
    phrases += [f"{topic} grown to {count} partitions" for topic, count in change.partitions.items()]
    return ", ".join(phrases)


def _table(answer: Answer) -> Iterator[str]:
    called = {name: f"{name} (broker)" if name in answer.forecasts else name for name in answer.plans}
    wide = min(_NAME, max(len(name) for name in (*called.values(), "assignor")))
    yield f"[dim]{'assignor':<{wide}}  {'each gets':>9}  {'moves':>6}  {'unowned':>7}  {'stops':<16} best?[/]"
    for name, assignor_plan in answer.plans.items():
        cost = _cost(assignor_plan)
        loads = f"{cost.least_load}" if cost.least_load == cost.most_load else f"{cost.least_load}-{cost.most_load}"
        best = "[green]yes[/]" if assignor_plan.optimal else _not_best(assignor_plan) if assignor_plan.goals else "?"
        shown = called[name] if len(called[name]) <= wide else f"{called[name][: wide - 1]}…"
        yield f"{safe(f'{shown:<{wide}}')}  {loads:>9}  {cost.moves:>6,}  {cost.unowned:>7,}  {cost.stops:<16} {best}"


def _not_best(plan: Plan) -> str:
    return f"[yellow]no: {next(goal.name for goal in plan.goals if not goal.reached)}[/]"


def _diff(answer: Answer, name: str, plan: Plan) -> Iterator[str]:
    before = answer.owners
    called = answer.live.names  # member id -> name; a plan has either
    after = {tp: called.get(member, member) for tp, member in owners(plan.target).items()}
    loads = {called.get(member, member): load for member, load in plan.loads.items()}
    now: dict[str, int] = dict.fromkeys(answer.live.names.values(), 0)
    for owner in before.values():
        now[owner] += 1
    yield f"[bold]{safe(name)}[/] would change" + ("" if plan.moves or answer.change else " nothing")
    gets: dict[str, list[TopicPartition]] = {}
    gives: dict[str, list[TopicPartition]] = {}
    for tp in after.keys() | before.keys():
        old, new = before.get(tp), after.get(tp)
        if old != new and new is not None:
            gets.setdefault(new, []).append(tp)
        if old != new and old is not None:
            gives.setdefault(old, []).append(tp)
    names = list(dict.fromkeys([*now, *loads]))
    for member in names[:_SHOWN]:
        yield from _member(member, now.get(member), loads.get(member), gets.get(member, ()), gives.get(member, ()))
    if len(names) > _SHOWN:
        yield f"  and {many(len(names) - _SHOWN, 'more member')}"
    if plan.moves:
        yield ""
        yield f"[bold]Why[/] ({many(len(plan.moves), 'new owner')})"
        for move in plan.moves[:_SHOWN]:
            holder = called.get(move.old or "", move.old) or before.get(move.partition) or "nobody"
            why = _named(move.why, called) if holder in loads or holder == "nobody" else f"{holder} leaves"
            gains = called.get(move.new, move.new)
            yield f"  {safe(str(move.partition))}: {safe(holder)} -> {safe(gains)}  [dim]{safe(why)}[/]"
        if len(plan.moves) > _SHOWN:
            yield f"  and {many(len(plan.moves) - _SHOWN, 'more move')}; --json has all"
    if plan.withheld:
        yield (
            f"It takes 2 rebalances: {many(len(plan.withheld), 'partition')} must be revoked before the new owners get "
            "them."
        )
    if name in answer.forecasts:
        yield from _how_certain(answer.forecasts[name], answer.change)
    yield from _bounds(plan)
    yield from _noted(answer.live, answer.notes.get(name, ()))
    for fact in plan.facts[:_SHOWN]:
        yield f"[yellow]note:[/] {safe(_named(str(fact), called))}"


def _noted(live: LiveGroup, notes: Sequence[str]) -> Iterator[str]:
    """What a leader's plan was computed with."""
    for note in notes:
        yield f"[dim]{safe(_named(note, live.names))}[/]"


def _named(text: str, called: Mapping[str, str]) -> str:
    """A text with members' names in place of their ids."""
    for member_id in sorted(called, key=len, reverse=True):  # an id may begin as another one does
        text = text.replace(member_id, called[member_id])
    return text


def _member(
    member: str, had: int | None, has: int | None, gets: Sequence[TopicPartition], gives: Sequence[TopicPartition]
) -> Iterator[str]:
    if had is not None and has is None:
        yield f"  [red]- {safe(member)}[/]  {had} -> leaves"
        return
    sign, style = ("+", "green") if had is None else ("~", "yellow") if gets or gives else (" ", "dim")
    yield f"  [{style}]{sign} {safe(member)}[/]  {had or 0} -> {has or 0}"
    if gets:
        yield f"      [green]+ {safe(some(map(str, sorted(gets))))}[/]"
    if gives:
        yield f"      [red]- {safe(some(map(str, sorted(gives))))}[/]"


def _bounds(plan: Plan) -> Iterator[str]:
    if not plan.goals:
        return
    yield f"[dim]Proven bounds: {'; '.join(map(str, plan.goals))}[/]"


def _replay(common: Common, file: Path) -> int:
    """Show a saved answer and compute its plans again: exit code 1 if one differs."""
    try:
        document = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"--replay {file} is not a saved plan: {error}") from error
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ConfigError(f"--replay {file} is not a saved plan; write one by: kafka-assignors plan GROUP --save FILE")
    try:
        kept = {entry["assignor"]: Plan.from_json(json.dumps(entry["plan"])) for entry in document["plans"]}
        called = {str(member["member_id"]): str(member["name"]) for member in document["members"]}
    except (LookupError, TypeError) as error:
        raise ConfigError(f"--replay {file} is damaged: {type(error).__name__}: {error}") from error
    anew = {name: plan.replay() for name, plan in kept.items()}
    differ = [name for name, plan in kept.items() if anew[name] != plan]
    if common.as_json:
        common.print_json({**document, "differ": differ})
        return NO if differ else YES
    common.show(_again(str(document["group"]), anew, differ, called))
    return NO if differ else YES


def _again(group: str, anew: Mapping[str, Plan], differ: Sequence[str], called: Mapping[str, str]) -> Iterator[str]:
    yield f"[bold]{safe(group)}[/]: saved plans of {many(len(anew), 'assignor')}, computed anew"
    for name, assignor_plan in anew.items():
        yield ""
        yield f"[bold]{safe(name)}[/]" + (": [red]the saved plan is another one[/]" if name in differ else "")
        yield from (safe(line) for line in _named(str(assignor_plan), called).splitlines())
    yield ""
    yield (
        f"[red]Computed anew, these differ: {safe(', '.join(differ))}[/]" if differ else "Computed anew: all are equal."
    )
