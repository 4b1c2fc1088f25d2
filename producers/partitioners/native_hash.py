"""Key hashes in C, if an installed client has them."""

from __future__ import annotations

from functools import cache

from ..core.keys.keyed import Index, preset_named

TWINS = {
    "java": "murmur2_random",
    "librdkafka-murmur2": "murmur2",
    "librdkafka-murmur2-random": "murmur2_random",
    "librdkafka": "consistent_random",
    "librdkafka-consistent": "consistent",
    "librdkafka-consistent-random": "consistent_random",
    "librdkafka-fnv1a": "fnv1a",
    "librdkafka-fnv1a-random": "fnv1a_random",
    "sarama": "fnv1a_random",
    "fnv1a": "fnv1a_random",
}
"""Preset -> librdkafka's partitioner with the same placement. Without ``_random`` in its name it is a function of
confluent_kafka (2.13 and newer), about 0.1 µs a key."""


@cache
def fastest(preset: str) -> Index:
    """A preset's placement by confluent_kafka's C function if installed, else ours; `UnknownName` if there is none."""
    ours = preset_named(preset).place
    try:
        import confluent_kafka
    except ImportError:
        return ours
    native: Index = getattr(confluent_kafka, TWINS.get(preset, "").removesuffix("_random"), ours)
    return native
