"""librdkafka's partitioners, asked again through the C functions that confluent-kafka's own library exports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .kafka_classes import KafkaClasses
from .remaking import Answer, NotMade

HASHES = ("consistent", "murmur2", "fnv1a")
PARTITIONERS = (*HASHES, *(f"{name}_random" for name in HASHES))
_A, _B = 2**16, 2**16 + 1  # coprime, their product is above 2**32


def library(_kafka: KafkaClasses) -> Answer:
    """``rd_kafka_msg_partitioner_*``; confluent-kafka's installed version decides which librdkafka answers."""
    found = _library()

    def partitioner(name: str) -> Callable[[bytes | None, int], int]:
        function = getattr(found, f"rd_kafka_msg_partitioner_{name}")
        function.restype = ctypes.c_int32
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        function.argtypes = [pointer, ctypes.c_char_p, size, ctypes.c_int32, pointer, pointer]
        return lambda key, count: int(function(None, key, len(key or b""), count, None, None))

    functions = {name: partitioner(name) for name in PARTITIONERS} if found else {}

    def answer(case: Mapping[str, Any]) -> dict[str, Any]:
        if not functions:
            raise NotMade("confluent-kafka is not installed with a librdkafka of its own")
        key = None if case["key"] is None else bytes.fromhex(case["key"])
        # These have no key of their own to place, and ask for the topic's metadata.
        at_random = {None: PARTITIONERS[len(HASHES) :], b"": ("consistent_random",)}.get(key, ())
        placed = {
            name: {n: function(key, int(n)) for n in case["consistent"]}
            for name, function in functions.items()
            if name not in at_random
        }
        if key is None:
            return placed
        return {"crc32": _whole(functions["consistent"], key), "fnv1a_abs": _whole(functions["fnv1a"], key), **placed}

    return answer


def _library() -> ctypes.CDLL | None:
    try:
        import confluent_kafka
    except ImportError:
        return None
    beside = Path(confluent_kafka.__file__).parent
    files = [*beside.with_name("confluent_kafka.libs").glob("librdkafka*"), *beside.glob(".dylibs/librdkafka*")]
    return ctypes.CDLL(str(files[0])) if files else None


def _whole(function: Callable[[bytes | None, int], int], key: bytes) -> int:
    """The 32-bit hash behind a partitioner that answers ``hash % count``, from two remainders (Chinese remainders)."""
    a, b = function(key, _A), function(key, _B)
    return a + _A * ((b - a) * pow(_A, -1, _B) % _B)
