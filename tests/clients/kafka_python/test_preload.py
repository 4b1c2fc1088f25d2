"""What the preloading thread imports is all that a leader needs."""

from __future__ import annotations

import json

import pytest

from tests.support.programs import python

LEADS = """
import json, sys
from array import array
from kafka_assignors.clients.kafka_python import CooperativeStickyAssignor, preload

preload._settled.set()
preload._import(racks=False)
from kafka_assignors.core import small
from kafka_assignors.core.group import Partitions
from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire.protocol import Subscription

before = set(sys.modules)
for leaving in (False, True):
    owned = [Partitions(["t"], [2], array("q", (2 * m, 2 * m + 1))) for m in range(3)]
    joined = [(f"m{m}", None, Subscription(() if leaving and m == 0 else ("t",), b"", owned[m], 5)) for m in range(3)]
    simple = small.assigned("cooperative-sticky", joined, {"t": 6})
    agreed, _ = strategy("cooperative-sticky").agreed(joined, {"t": 6})
    whole, _ = agreed.assign_bytes(decode(agreed.name, joined, {"t": 6}))
    assert simple is None if leaving else simple == {m: bytes(each) for m, each in whole.items()}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.slow
def test_a_first_lead_imports_nothing() -> None:
    done = python("-c", LEADS)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == []
