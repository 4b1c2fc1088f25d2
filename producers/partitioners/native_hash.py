"""Key hashes in C, if an installed client has them."""

from __future__ import annotations

from functools import cache

from ..core.keys.keyed import Index, preset_named

# preset -> function of confluent_kafka (2.13 and newer) with the same placement, about 0.1 µs a key.
_C_FUNCTIONS = {
    "java": "murmur2",
    "librdkafka-murmur2": "murmur2",
    "librdkafka-murmur2-random": "murmur2",
    "librdkafka": "consistent",
    "librdkafka-consistent": "consistent",
    "librdkafka-consistent-random": "consistent",
    "librdkafka-fnv1a": "fnv1a",
    "librdkafka-fnv1a-random": "fnv1a",
    "sarama": "fnv1a",
    "fnv1a": "fnv1a",
}


@cache
def fastest(preset: str) -> Index:
    """A preset's placement by confluent_kafka's C function if installed, else ours; `UnknownName` if there is none."""
    ours = preset_named(preset).place
    try:
        import confluent_kafka
    except ImportError:
        return ours
    native: Index = getattr(confluent_kafka, _C_FUNCTIONS.get(preset, ""), ours)
    return native
