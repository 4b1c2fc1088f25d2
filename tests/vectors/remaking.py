"""A file of golden vectors, asked again: the recorded inputs of each case, answered by the classes that run here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .kafka_classes import KafkaClasses

Case = dict[str, Any]
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Case -> the made fields of it. It reads the inputs of the case alone, unless its docstring says more."""


class NotMade(Exception):
    """This case is not made again; the message says why."""


class Maker(NamedTuple):
    """What answers the cases of a file.

    Attributes:
        made: Fields of a case that it answers. Answers may leave out those that a case doesn't have.
        open: Kafka's classes -> what answers.
        version: The Kafka version that the kept file is from.
        measured: Fields of a case that describe Java's answer and aren't made: neither compared nor written.
    """

    made: tuple[str, ...]
    open: Callable[[KafkaClasses], Answer]
    version: str
    measured: tuple[str, ...] = ()


class Count(NamedTuple):
    """The result for one file."""

    cases: int
    equal: int
    different: list[str]  # one line each: the name of the case, what is kept and what was answered
    not_made: Counter[str]  # reason -> cases


def lines(file: Path, every: int = 1) -> list[Case]:
    """The lines of a file, the first and each `every`-th after it.

    Raises:
        ValueError: The file has no lines.
    """
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
    if not found:
        raise ValueError(f"{file} has no vectors")
    return found[::every]


def cases(line: Case) -> Iterator[tuple[str, Case]]:
    """The cases of a line with their names: the line itself, or the rounds of a sequence."""
    name = line.get("name") or line.get("record") or f"key {line.get('key')}"
    for number, case in enumerate(line.get("rounds") or [line]):
        yield (f"{name}#{number}" if "rounds" in line else name), case


def check(file: Path, maker: Maker, kafka: KafkaClasses, every: int = 1) -> Count:
    """Ask each case of a file again and compare the answers with the kept ones."""
    total, equal, different, not_made = 0, 0, [], Counter[str]()
    answer = maker.open(kafka)
    for name, case in (each for line in lines(file, every) for each in cases(line)):
        total += 1
        try:
            now = {field: value for field, value in answer(case).items() if field in maker.made}
        except NotMade as reason:
            not_made[str(reason)] += 1
            continue
        kept = {field: case[field] for field in maker.made if field in case}
        if now == kept:
            equal += 1
        else:
            differing = [f for f in maker.made if kept.get(f) != now.get(f)]
            different += [f"{name}: {f} kept {kept.get(f)}, answered {now.get(f)}" for f in differing[:1]]
    return Count(total, equal, different, not_made)


def make(file: Path, maker: Maker, kafka: KafkaClasses, every: int = 1) -> Iterator[Case]:
    """The lines of a new file: the inputs of the kept one with new answers.

    The fields that describe Java's answer are left out, and so is the answer to a case that isn't made.
    """
    dropped = {*maker.made, *maker.measured}
    answer = maker.open(kafka)
    for line in lines(file, every):
        made = []
        for _, case in cases(line):
            try:
                now = dict(answer(case))
            except NotMade:
                now = {}
            # in the order of the kept fields, so that two files can be compared line by line
            kept = [field for field in case if field not in dropped or field in now]
            made.append({field: now.get(field, case[field]) for field in kept})
        if "rounds" in line:
            outer = {field: value for field, value in line.items() if field not in dropped}
            yield {**outer, "rounds": made}
        else:
            yield made[0]
