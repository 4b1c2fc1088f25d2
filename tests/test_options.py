"""One declaration per family: every entry takes its options, refuses others alike, and sends what it says."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kafka_assignors import Group, Member, plan
from kafka_assignors.clients import aiokafka
from kafka_assignors.clients.kafka_python import ASSIGNORS
from kafka_assignors.core.declaration import Figure, Of, Option
from kafka_assignors.core.group import options as sent_options
from kafka_assignors.core.strategies import STRATEGIES, strategy
from kafka_assignors.core.wire import userdata
from kafka_assignors.core.wire import weighted as carried
from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.members.clients.aiokafka import aiokafka_assignor
from kafka_assignors.integration.registry import assignor_named
from kafka_assignors.operator.cli.plan import made as command

VALUES: Mapping[str, tuple[Any, Any]] = {
    "rack": ("eu-1a", 5),
    "protocol": ("eager", "lazy"),
    "parity": ("java", "go"),
    "lag parity": ("grantneale", "java"),
    "rack_costs": ("leader", "near"),
    "goals": (["balance", "moves", "racks"], ["spread"]),
    "topics": ([["t", "u"]], ["t"]),
    "epsilon": (0.5, -1),
    "consistent-hash epsilon": (None, -1),
    "virtual_nodes": (7, 0),
    "hash": ("sha1", "crc32"),
    "broker_name": ("b", 5),
    "broker_id": (4, -1),
    "inner": ("average-by-circle", "range"),
    "table": ({"i0": {"t": [1]}}, {"i0": {"t": 0}}),
    "uncovered": ("average", "sticky"),
    "weights": ({"t": [2.0, 1.0]}, {"t": [-1]}),
    "weights_file": ("/absent/weights.json", 5),
    "meter": ("records", "cpu"),
    "capacity": (2.0, -1),
    "priority": (1, 0.5),
    "max_work": (40.0, 0),
    "state": ({"t": [8.0]}, {"t": "much"}),
    "move_budget": (2, -1),
    "hysteresis": (True, "yes"),
    "check_every_s": (20, 0),
    "rest_s": (30, 0),
    "partition_rest_s": (30, -1),
    "eager": (True, "m"),
    "checks": (2, -1),
    "since_s": (40, -1),
    "resting": ({"t": [0]}, 5),
    "seconds": (True, 1),
}
"""Option, or assignor and option -> a valid value that is not the default, and an invalid one."""

Entry = Callable[..., Any]
GROUP = Group([Member("m", {"t", "u"})], {"t": 2, "u": 2})
CASES = [(name, option) for name, made in STRATEGIES.items() for option in made.declared.declared]
COOPERATIVE = {"cooperative-sticky", "cooperative-copartitioned"}
OF_AIOKAFKA = {"range": aiokafka.RangeAssignor, "roundrobin": aiokafka.RoundRobinAssignor,
               "sticky": aiokafka.StickyAssignor, "compact-sticky": aiokafka.CompactStickyAssignor,
               "copartitioned": aiokafka.CoPartitionedAssignor, "weighted": aiokafka.WeightedAssignor,
               "lag": aiokafka.LagAssignor}  # fmt: skip
"""aiokafka's assignors that have a class; the others are `aiokafka.Assignor` with a name."""


def spec(name: str, **given: Any) -> str:
    return f"{name}{json.dumps(given)}"


def of_aiokafka(name: str, **given: Any) -> Any:
    """aiokafka's members measure no lag, so they must have it."""
    if name == "lag":
        given = {"lag": {"t": [1.0]}, **given}
    return OF_AIOKAFKA[name](**given) if name in OF_AIOKAFKA else aiokafka.Assignor(name, **given)


def consumers(name: str) -> Iterator[Entry]:
    """Every way to make an assignor for kafka-python; the bridge for confluent-kafka takes the same classes."""
    yield lambda **given: ASSIGNORS[name](**given)
    yield lambda **given: ASSIGNORS[name].factory(**given)()
    yield lambda **given: assignor_named(spec(name, **given))


def aiokafkas(name: str) -> Iterator[Entry]:
    """Every way to make one for aiokafka."""
    if name not in COOPERATIVE:
        yield lambda **given: of_aiokafka(name, **given)
        lag = {"lag": {"t": [1.0]}} if name == "lag" else {}
        yield lambda **given: aiokafka_assignor(spec(name, **{**lag, **given}))


def plans(name: str) -> Iterator[Entry]:
    """Every way to plan with one."""
    yield lambda **given: strategy(name, **given)
    yield lambda **given: plan(GROUP, name, **given)
    yield lambda **given: command(f"{name}:{','.join(f'{n}={json.dumps(value)}' for n, value in given.items())}")


def declared(name: str, option: str) -> Option[Any]:
    return STRATEGIES[name].declared.declared[option]


def values(name: str, option: str) -> tuple[Any, Any]:
    return VALUES.get(f"{name} {option}", VALUES[option])


def in_plans(option: Option[Any], value: Any) -> Any:
    return {"m": value} if isinstance(option, Figure) else value


def refused(entry: Entry, **given: Any) -> str:
    with pytest.raises(ConfigError) as told:
        entry(**given)
    return str(told.value)


def plannable(entry: int, value: Any) -> bool:
    """The command separates options by commas, so it takes no value that has one."""
    return entry < 2 or "," not in json.dumps(value)


# ------------------------------------------------------------------------------------------------- what is taken


@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_option_is_taken_everywhere(name: str, option: str) -> None:
    of = declared(name, option)
    valid, _ = values(name, option)

    if of.of is not Of.PLAN:
        for entry in consumers(name):
            assert entry(**{of.called: valid}).name == name
        for entry in aiokafkas(name):
            if of.needs is None:
                assert entry(**{of.called: valid}).name == name
            else:
                assert f"has no option '{of.called}': aiokafka" in refused(entry, **{of.called: valid})
    if of.of is not Of.CONSUMER:
        value = in_plans(of, valid)
        for i, entry in enumerate(plans(name)):
            if plannable(i, value):
                assert entry(**{option: value}) is not None
        assert strategy(name, **{option: value}).options == {option: of.json(value)}


@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_invalid_value_is_refused_everywhere_with_the_same_words(name: str, option: str) -> None:
    of = declared(name, option)
    _, invalid = values(name, option)
    said = set()

    if of.of is not Of.PLAN:
        entries = [*consumers(name), *(aiokafkas(name) if of.needs is None else ())]
        said |= {refused(entry, **{of.called: invalid}) for entry in entries}
    if of.of is not Of.CONSUMER:
        value = in_plans(of, invalid)
        told = {refused(e, **{option: value}) for i, e in enumerate(plans(name)) if plannable(i, value)}
        said |= {each.replace(f"{option} of 'm' must", f"{option} must") for each in told}
    if of.of is Of.GROUP:
        with pytest.raises(ConfigError) as told_by_member:
            strategy(name).as_told(json.dumps({option: invalid}).encode())
        said.add(str(told_by_member.value))

    assert len(said) == 1
    (text,) = said
    assert option in text or (option == "weights" and "weighs" in text) or "t-0 weighs" in text


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_unknown_option_is_refused_with_those_that_there_are(name: str) -> None:
    of = STRATEGIES[name].declared
    every = set(of.of_consumers())
    able = {each for each, option in of.of_consumers().items() if option.needs is None}
    owners = {ASSIGNORS[name].__name__, f"assignor {name!r}"}
    entries = [*((entry, every) for entry in consumers(name)), *((entry, able) for entry in aiokafkas(name))]
    for entry, known in [*entries, *((entry, set(of.of_plans()) or {"none"}) for entry in plans(name))]:
        owner, _, has = refused(entry, racs="none").partition(" has no option 'racs'; it has ")
        assert owner in owners
        assert set(has.split(", ")) == known

    for option in of.declared.values():  # where it isn't taken
        if option.of is Of.CONSUMER and option.name != "protocol":  # which is something else in a plan
            assert f"has no option '{option.name}'" in refused(next(plans(name)), **{option.name: None})
        if option.of is Of.PLAN:
            assert f"has no option '{option.name}'" in refused(next(consumers(name)), **{option.name: None})


@pytest.mark.parametrize(
    "cls", [*ASSIGNORS.values(), *OF_AIOKAFKA.values()], ids=lambda cls: f"{cls.__module__}.{cls.__name__}"
)
def test_a_constructor_spells_out_its_options_as_they_are_declared(cls: Any) -> None:
    name = cls.name or next(name for name, each in OF_AIOKAFKA.items() if each is cls)
    options = STRATEGIES[name].declared.of_consumers()
    if cls in OF_AIOKAFKA.values():
        options = {each: option for each, option in options.items() if option.needs is None}
    parameters = inspect.signature(cls).parameters

    assert {each: (p.annotation, p.default) for each, p in parameters.items()} == {
        each: (option.annotation, option.default) for each, option in options.items()
    }
    assert {each.kind for each in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_every_option_has_values_here() -> None:
    assert {option for _, option in CASES} == {each for each in VALUES if " " not in each}


# ------------------------------------------------------------------------------------------------- what travels


def told(name: str, data: bytes | None) -> tuple[Any, ...]:
    """Options and figures in user data."""
    options = strategy(name).told_by(data)
    if name not in ("weighted", "lag"):
        return (sent_options.read(options) if options else {},)
    of = carried.decode(data, {"t": 2})
    figures = [
        {t: (ids.tolist(), v.tolist()) for t, (ids, v) in each.items()} for each in (of.weights, of.moving.state)
    ]
    assert of.garbage == of.compact_data.garbage == ""
    return sent_options.read(options) if options else {}, of.own, *figures


ADOPTED = SimpleNamespace(partitions=lambda: [("t", 0)], user_data=b"")


def sent(name: str, **given: Any) -> bytes | None:
    """The user data of a kafka-python member that owns t-0."""
    made = ASSIGNORS[name](**given)
    made.on_assignment(ADOPTED, -1)
    return decode_subscription(made.metadata({"t"}).encode()).user_data


@pytest.mark.parametrize(("name", "option"), CASES)
def test_user_data_have_the_options_that_are_declared_to_travel(name: str, option: str) -> None:
    of = declared(name, option)
    if of.of is Of.PLAN:
        return
    given, plain = {of.called: values(name, option)[0]}, told(name, sent(name))
    options, *figures = told(name, sent(name, **given))

    assert plain[0] == {}
    assert sent(name, **{of.called: of.default}) == sent(name)
    assert options == (given if of.of is Of.GROUP else {})
    assert (tuple(figures) != plain[1:]) == (of.of is Of.MEMBER)
    if of.unsent is not None:
        assert sent(name, **{of.called: of.unsent}) == sent(name)


@pytest.mark.parametrize(("name", "option"), CASES)
def test_a_leader_takes_from_others_what_is_declared_to_be_the_groups(name: str, option: str) -> None:
    of = declared(name, option)
    value = in_plans(of, values(name, option)[0])
    text = json.dumps({option: value}).encode()

    if of.of is Of.GROUP:
        made = strategy(name).as_told(text)
        assert made == strategy(name, **{option: value})
        assert made.told_options() == {option: value}
    else:
        with pytest.raises(ConfigError, match=f"each member sets {option} for itself"):
            strategy(name).as_told(text)


@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_aiokafka_member_sends_what_one_of_kafka_python_sends(name: str, option: str) -> None:
    of = declared(name, option)
    if name in COOPERATIVE or of.of is Of.PLAN or of.needs is not None:
        return
    given = {of.called: values(name, option)[0]}
    if name == "lag":
        given = {"lag": {"t": [1.0]}, **given}
    made = of_aiokafka(name, **given)
    made.on_assignment(ADOPTED)
    eager = {"protocol": "eager"} if name in ("weighted", "lag") else {}

    assert decode_subscription(made.metadata(["t"])).user_data == sent(name, **given, **eager)


def test_a_rack_travels_beside_the_options() -> None:
    for name, cls in ASSIGNORS.items():
        subscription = decode_subscription(cls(rack="eu-1a").metadata({"t"}).encode())
        assert subscription.rack == "eu-1a"
        if name not in userdata.JAVAS and name not in ("weighted", "lag"):
            assert strategy(name).compact_data(subscription.user_data).rack == "eu-1a"


def test_numbers_of_numpy_are_numbers() -> None:
    """A member sends the bytes of the same int or float."""
    given = {"move_budget": 3, "capacity": 2.0, "epsilon": 0.25, "priority": 1, "max_work": 9.0}
    of_numpy = {name: np.int64(value) if isinstance(value, int) else np.float32(value) for name, value in given.items()}

    assert ASSIGNORS["weighted"](**of_numpy).metadata(["t"]) == ASSIGNORS["weighted"](**given).metadata(["t"])


@pytest.mark.parametrize("option", ["goals", "rack_costs", "parity"])
def test_an_array_is_no_value_of_an_option(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} must be "):
        ASSIGNORS["sticky"](**{option: np.array([1, 2])})
