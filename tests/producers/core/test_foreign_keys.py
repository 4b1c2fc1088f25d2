"""Keys where other clients' own code places them: KafkaJS, franz-go, Sarama, segmentio/kafka-go."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from kafka_assignors.producers import partition_for_key
from kafka_assignors.producers.core.keys.columns import partitions_columns
from kafka_assignors.producers.core.keys.keyed import PRESETS
from tests.support.producers import vectors

ROWS = [*vectors.load("kafkajs.jsonl"), *vectors.load("go_clients.jsonl")]
ASKED = sorted({preset for row in ROWS for preset in row} - {"key"})


@pytest.mark.slow
@pytest.mark.source("kafkajs 2.2.4, franz-go 1.22.2, Sarama 1.61.1, segmentio/kafka-go 0.4.51")
@pytest.mark.parametrize("preset", ASKED)
def test_every_key_lies_where_the_client_puts_it(preset):
    """One at a time and as a column, which counts an empty key as no key where the client does."""
    rows = [row for row in ROWS if preset in row]
    keys = [bytes.fromhex(row["key"]) for row in rows]
    offsets = np.array([0, *accumulate(map(len, keys))])
    for count in rows[0][preset]:
        theirs = [row[preset][count] for row in rows]
        assert [partition_for_key(key, int(count), preset) for key in keys] == theirs
        (column,) = partitions_columns(np.frombuffer(b"".join(keys), np.uint8), offsets, [(preset, int(count))])
        empty = PRESETS[preset].empty_is_null
        assert column.tolist() == [-1 if empty and not key else p for key, p in zip(keys, theirs, strict=True)]


def test_every_preset_of_these_clients_was_asked():
    assert {name for name in PRESETS if name.startswith(("kafkajs", "franz-go", "segmentio", "sarama"))} == set(ASKED)
