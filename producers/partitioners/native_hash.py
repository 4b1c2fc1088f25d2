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
    """The fastest available function for a preset's placement: confluent_kafka's if it is installed, else ours.

    Raises:
        UnknownName: No such preset.
    """
    ours = preset_named(preset).place
    try:
        import confluent_kafka
    except ImportError:
        return ours
    native: Index = getattr(confluent_kafka, _C_FUNCTIONS.get(preset, ""), ours)
    return native
