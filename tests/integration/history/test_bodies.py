"""The classes of events have the fields of the schema: the same names, types and optional ones, in both directions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import COMMON, Event, bodies, generation_in, is_of
from kafka_assignors.integration.history.schema import fault_of
from tests.support.histories.schema import RULES, SCHEMA
from tests.support.histories.story import churn
from tests.support.places import ROOT

TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TEXTS = {"^[0-9a-f]*$": "00", "^[0-9a-f]{64}$": "0" * 64}


def resolved(rule: dict[str, Any]) -> dict[str, Any]:
    return SCHEMA["$defs"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule


def of_schema(rule: dict[str, Any]) -> frozenset[Any]:
    """The shapes that a value may have by the schema."""
    rule = resolved(rule)
    if "enum" in rule:
        return frozenset(type(value).__name__ for value in rule["enum"])
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    return frozenset(of_type(rule, name) for name in names)


def of_type(rule: dict[str, Any], name: str) -> Any:
    if name == "array":
        return "array", of_schema(rule["items"])
    if name != "object":
        return TYPES[name]
    if "properties" in rule:
        return "object", of_properties(rule)
    return "mapping", of_schema(rule["additionalProperties"]) if "additionalProperties" in rule else None


def of_properties(rule: dict[str, Any], but: Sequence[str] = ()) -> frozenset[Any]:
    """(name, shapes, whether it may be missing) of each property; what may be missing may also be null."""
    properties = ((name, of_schema(of), name) for name, of in rule.get("properties", {}).items() if name not in but)
    optional = rule.get("properties", {}).keys() - set(rule.get("required", ()))
    return frozenset((n, shapes | ({"None"} if n in optional else set()), n in optional) for n, shapes, _ in properties)


def of_hint(hint: Any) -> frozenset[Any]:
    """The shapes that a value may have by a field's type."""
    if get_origin(hint) in (Union, UnionType):
        return frozenset(shape for one in get_args(hint) for shape in of_hint(one))
    if get_origin(hint) in (tuple, Sequence):
        return frozenset([("array", of_hint(get_args(hint)[0]))])
    if get_origin(hint) is Mapping:
        of_values = get_args(hint)[1]
        return frozenset([("mapping", None if of_values in (Any, object) else of_hint(of_values))])
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return frozenset([("object", of_class(hint))])
    return frozenset(["None" if hint is NoneType else hint.__name__])


def of_class(cls: Any) -> frozenset[Any]:
    defaults = {field.name: field.default for field in fields(cls)} if is_dataclass(cls) else cls._field_defaults
    hints = get_type_hints(cls)
    return frozenset((name, of_hint(hints[name]), defaults.get(name, ...) is None) for name in names_of(cls))


def names_of(cls: Any) -> Sequence[str]:
    return [field.name for field in fields(cls)] if is_dataclass(cls) else cls._fields


def sample(rule: dict[str, Any], *, whole: bool) -> Any:
    """A value that fits a rule: with all that it may have, or without what may be missing."""
    rule = resolved(rule)
    if "const" in rule or "enum" in rule:
        return rule["const"] if "const" in rule else rule["enum"][0]
    name = rule["type"] if isinstance(rule["type"], str) else rule["type"][0 if whole else -1]
    if name == "array":
        return [sample(rule["items"], whole=whole)] * whole
    if name == "object" and "additionalProperties" in rule:
        return {"t": sample(rule["additionalProperties"], whole=whole)} if whole else {}
    if name == "object":
        rows, required = rule.get("properties", {}), rule.get("required", ())
        return {name: sample(of, whole=whole) for name, of in rows.items() if whole or name in required}
    text = TEXTS.get(rule.get("pattern", ""), "x")
    return {"string": text, "integer": 1, "number": 0.5, "boolean": True, "null": None}[name]


def strange(value: Any, hint: Any) -> list[str]:
    """Where a value has another type than its field."""
    if get_origin(hint) in (Union, UnionType):
        return [] if any(not strange(value, one) for one in get_args(hint)) else [f"{value!r} is no {hint}"]
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        if type(value) is not hint:
            return [f"{value!r} is no {hint}"]
        hints = get_type_hints(hint)
        return [what for name in names_of(hint) for what in strange(getattr(value, name), hints[name])]
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return [f"{value!r} is no {hint}"]
        return [what for one in value for what in strange(one, get_args(hint)[0])]
    return [] if isinstance(value, get_origin(hint) or hint) else [f"{value!r} is no {hint}"]


def test_each_kind_has_its_class() -> None:
    assert set(bodies.KINDS) == set(RULES) == set(SCHEMA["properties"]["kind"]["enum"])
    assert len(set(bodies.KINDS.values())) == len(bodies.KINDS), "a class is of one kind"


@pytest.mark.parametrize("kind", RULES)
def test_a_class_has_the_fields_of_its_kind_and_no_others(kind: str) -> None:
    assert of_class(bodies.KINDS[kind]) == of_properties(RULES[kind], but=("src", *COMMON))


def lines() -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """(kind, whether it has all fields or only those that it must have, a line that fits the schema)."""
    for kind, rule in RULES.items():
        required = {"src", *SCHEMA["required"], *rule.get("required", ())}
        properties = {**SCHEMA["properties"], **rule.get("properties", {}), "kind": {"const": kind}}
        for whole in (False, True):
            yield kind, whole, sample({"type": "object", "properties": properties, "required": required}, whole=whole)


@pytest.mark.parametrize(("kind", "whole", "row"), list(lines()))
def test_a_line_that_fits_is_decoded_to_the_types_of_its_class(kind: str, whole: bool, row: dict[str, Any]) -> None:
    """So no law fails on a line that `History.load` takes."""
    assert fault_of(row) is None
    names = names_of(bodies.KINDS[kind])

    body = Event.from_row(dict(row)).body

    assert type(body) is bodies.KINDS[kind]
    assert strange(body, type(body)) == []
    assert {name for name in names if getattr(body, name) is not None} == row.keys() & set(names)
    assert not whole or row.keys() >= set(names)


def test_fields_of_a_later_version_are_ignored_and_kept() -> None:
    ack = next(event for event in churn().events if event.kind == "ack")
    row = {**json.loads(ack.to_json()), "shard": 3}

    event = Event.from_row(dict(row))

    assert event.body == ack.body
    assert json.loads(replace(event, mono_ns=event.mono_ns).to_json()) == row


def test_replaced_data_are_decoded_anew() -> None:
    ack = next(event for event in churn().events if is_of(event, bodies.AckBody))

    assert replace(ack, data={**ack.data, "offset": ack.body.offset + 1}).body.offset == ack.body.offset + 1


def test_a_missing_field_is_named() -> None:
    with pytest.raises(KeyError, match="sha256"):
        Event("end", "r", "member", 0, 0, 0).body  # noqa: B018


def test_a_row_of_rows_is_decoded_whole() -> None:
    (first, *_) = (event for event in churn().events if event.kind == "generation_committed")

    generation = generation_in(first)

    assert generation is not None
    assert [(m.member_id, m.instance_id) for m in generation.members] == [
        ("a-id", None),
        ("b-id", None),
        ("c-id", None),
    ]
    assert generation.members[0].assigned == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))


@pytest.mark.parametrize("room", ["checker", "report"])
def test_who_judges_and_who_reports_reads_no_field_by_its_name(room: str) -> None:
    """A name that is misspelt there would be found by no type checker."""
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "integration" / room).rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\.data(\[|\.get\b)", line)
    ]
    assert lines == []
