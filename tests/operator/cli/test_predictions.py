"""What `plan` says a live group will do is what the group then does, with our leaders, Java's and the broker's."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from tests.support.live.drawn import CHANGES, ByBroker, Classic, Prediction
from tests.support.live.predicting import Predicted

T, U = "t", "u"
WEIGHTS = {T: [40, 7, 7, 3, 2, 1], U: [5, 11, 2]}
ASSIGNORS: tuple[tuple[str, str | None], ...] = (
    (f"weighted{json.dumps({'weights': WEIGHTS})}", f"weighted{json.dumps({'weights': WEIGHTS, 'capacity': 3})}"),
    (f"weighted{json.dumps({'weights': WEIGHTS, 'max_work': 40, 'epsilon': 0.01})}", None),
    (f"lag{json.dumps({'lag': WEIGHTS})}", None),
    (f"lag{json.dumps({'lag': WEIGHTS, 'parity': 'grantneale'})}", None),
    ('sticky{"goals": ["spread", "balance", "racks", "moves"]}', "sticky"),
    ('cooperative-sticky{"goals": ["spread", "balance", "racks", "moves"]}', None),
    ('cooperative-sticky{"goals": ["balance", "moves", "racks"]}', "cooperative-sticky"),
    ('consistent-hash{"epsilon": 0.0}', 'consistent-hash{"epsilon": 1.0}'),
    ('consistent-hash{"epsilon": null, "virtual_nodes": 7}', None),
    (f"copartitioned{json.dumps({'topics': [[T, U]]})}", None),
    (f"cooperative-copartitioned{json.dumps({'topics': [[T, U]]})}", None),
    (f"config{json.dumps({'table': {'m2': {T: [0, 1, 2]}, 'm3': {U: [2]}}, 'uncovered': 'average'})}", None),
)
"""The assignor of all members but one, and that one's; None: the same. The topics are named t and u here."""
BY_BROKER = 8
"""Groups of Kafka's own protocol."""


@pytest.mark.long  # long: test_live_groups.py plans a join, which comes true
@pytest.mark.broker
# long: plans of Java's members; test_tour.py plans for a group of several clients
@pytest.mark.parametrize(
    ("client", "assignor"),
    [("kafka-python", "cooperative-sticky"), pytest.param("java", "range", marks=pytest.mark.long)],
)
def test_a_group_does_what_was_planned(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path, client: str, assignor: str
) -> None:
    """A join, a leave and a growth; `benchmarks/predictions.py` makes 200."""
    group, topics = f"g-{uuid.uuid4().hex[:8]}", {kafka_topic(partitions=6): 6}
    members = MemberGroup(kafka_broker.bootstrap, group, tmp_path, "run", session_timeout_ms=10_000)
    with members, Predicted(kafka_broker.bootstrap, members, client, assignor, topics, seed=7) as predicted:
        made = list(predicted.predictions(3))

    assert [each.change for each in made] == ["join", "leave", "growth"]
    for each in made:
        assert each.planned == each.did, each.options


@pytest.mark.broker
# long: twenty groups. test_live_groups.py plans a join, which comes true, and live/test_leading.py
# holds plans of what members sent against what a leader does.
@pytest.mark.long
@pytest.mark.timeout(3000)
def test_plans_of_what_members_sent_and_of_lists_beside_patterns_come_true(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """60 plans: weights, capacities, goals, tables, bundles; lists and patterns of KIP-848 groups."""
    made = [
        *_of_classic(ASSIGNORS, CHANGES, kafka_broker, kafka_topic, tmp_path),
        *_by_broker(BY_BROKER, CHANGES, kafka_broker, kafka_topic),
    ]

    assert len(made) == len(CHANGES) * (len(ASSIGNORS) + BY_BROKER)
    assert [each for each in made if not each.true] == []


def _of_classic(
    classic: tuple[tuple[str, str | None], ...],
    changes: tuple[str, ...],
    broker: Broker,
    topic: Callable[..., str],
    folder: Path,
) -> Iterator[Prediction]:
    for seed, (assignor, other) in enumerate(classic):
        t, u = topic(partitions=6), topic(partitions=3)
        named = [each and each.replace('"t"', f'"{t}"').replace('"u"', f'"{u}"') for each in (assignor, other)]
        group = f"g-{uuid.uuid4().hex[:8]}"
        members = MemberGroup(broker.bootstrap, group, folder / str(seed), "run", session_timeout_ms=10_000)
        with members, Classic(members, named[0] or "", {t: 6, u: 3}, seed, named[1]) as predicted:
            yield from predicted.predictions(changes)


def _by_broker(
    groups: int, changes: tuple[str, ...], broker: Broker, topic: Callable[..., str]
) -> Iterator[Prediction]:
    draw = random.Random(26)
    for seed in range(groups):
        counts = {topic(partitions=count): count for count in draw.choices(range(3, 10), k=2)}
        pattern, wider = f"^({'|'.join(counts)})$", f"^({'|'.join(reversed(counts))}).*"
        lists = list(counts)
        usual, *others = draw.sample([lists, [pattern], [wider], [lists[0], pattern]], k=2 + seed % 2)
        assignor = draw.choice([None, "uniform", "range"])
        group = f"g-{uuid.uuid4().hex[:8]}"
        with ByBroker(broker.bootstrap, group, counts, usual, others, assignor, seed) as predicted:
            yield from predicted.predictions(changes)
