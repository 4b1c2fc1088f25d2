"""The user data of our own names: small, checked, and readable whatever the bytes."""

from __future__ import annotations

import hashlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core.wire import compact
from kafka_assignors.errors import WireError


class Everything(dict):
    """Every topic, with all partitions there can be."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __missing__(self, topic: str) -> int:
        return 1 << 31


ANY = Everything()
NAMES = st.text("abcäß漢🚀._-09", min_size=1, max_size=12)
OWNED = st.lists(st.tuples(NAMES, st.one_of(st.integers(0, 40), st.integers(0, 2**31 - 1))), max_size=60)


@given(OWNED, st.integers(-1, 2**31 - 1), st.none() | st.text("ab", max_size=4), st.none() | NAMES)
def test_what_is_written_is_read(owned, generation, rack, instance_id):
    said = compact.decode(compact.encode(owned, generation, rack, instance_id), ANY)

    assert set(said.owned) == set(owned)
    assert len(said.owned) == len(set(owned))
    assert (said.generation, said.rack, said.instance_id, said.garbage) == (generation, rack, instance_id, "")


@given(OWNED, st.randoms())
def test_the_bytes_do_not_depend_on_the_order(owned, random):
    shuffled = [*owned]
    random.shuffle(shuffled)
    assert compact.encode(shuffled, 3) == compact.encode(owned, 3)


@pytest.mark.parametrize("size", [64, 1000, 100_000])
def test_a_contiguous_range_takes_less_than_a_byte_a_partition(size):
    assert len(compact.encode([("orders", 5 + p) for p in range(size)], 7, "eu-1a", "billing-3")) <= min(size, 64)


def test_every_third_partition_takes_less_than_a_byte_each():
    """As round robin and sticky leave them; Java's V1 takes four."""
    assert len(compact.encode([("orders", p) for p in range(0, 30_000, 3)], 7)) < 1000


def test_partitions_at_random_take_less_than_two_bytes_each():
    scattered = [("orders", (p * 7919) % 100_003) for p in range(10_000)]
    assert len(compact.encode(scattered, 7)) < 20_000


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(data):
    said = compact.decode(data, ANY)
    assert (len(said.owned), said.rack, said.instance_id) == (0, None, None)
    assert said.garbage or not data


@given(st.data())
def test_every_damage_is_noticed(data):
    good = compact.encode([("t", p) for p in range(0, 40, 3)], 5, "r1")
    at, value = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 255))
    damaged = good[:at] + bytes([value]) + good[at + 1 :]
    if damaged != good:
        assert compact.decode(damaged, ANY).garbage
        assert len(compact.decode(damaged, ANY).owned) == 0
    assert compact.decode(good[:at], ANY).garbage or at == 0


def packed(content):
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(content) + packer.flush()
    return b"\x01" + zlib.crc32(body).to_bytes(4, "big") + body


def told(names, numbers):
    text = names if isinstance(names, bytes) else json.dumps(names).encode()
    return packed(len(text).to_bytes(4, "big") + text + bytes(numbers))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x03" + compact.encode([("t", 0)], 1)[1:], "version 3, newer than 2"),
        (packed(b""), "cannot be read"),
        (packed(bytes((3 << 20) + 1)), "cut off, or more than 3,145,728 bytes"),
        (told([None], [0]), "not a list of names"),
        (told([5, None], [0]), "the rack or the instance id is not a string"),
        (told([None, None, "t"], [0]), "cannot be read"),  # no count of runs
        (told([None, None, "t"], [0, 2, 0, 0]), "runs are missing"),
        (told([None, None, "t"], [0, 1, 0, 0xFF, 0xFF, 0xFF, 0x7F]), "claims of 268,435,456 partitions"),
        (told([None, None, *["t"] * 50_000], [0]), "claims of more than 50,000 topics"),
        (told([None, None, "t"], [0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0]), "beyond int32"),
        (told([None, None], [0x80]), "cut off"),
        (told([None, None], [0x80] * 6 + [0]), "more than 35 bits"),
        (told(b"[" * 100_000, [0]), "cannot be read"),
        (told(b"\xff\xfe", [0]), "cannot be read"),
    ],
)
def test_content_that_only_a_foe_would_write_says_nothing(data, why):
    said = compact.decode(data, ANY)
    assert why in said.garbage
    assert len(said.owned) == 0


def test_claims_are_cut_at_the_partition_count():
    """Before they are spelled out: what does not exist is counted, and takes no memory."""
    owned = [*(("t", p) for p in (0, 1, 3, 5, 6, 9, 2**31 - 1)), ("u", 4), ("v", 0)]

    said = compact.decode(compact.encode(owned, 3), {"t": 6, "u": 0, "w": 9})

    assert said.owned == (("t", 0), ("t", 1), ("t", 3), ("t", 5))
    assert (said.owned.beyond, said.owned.strange) == (4, 1)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_claims_that_no_broker_would_store_are_left_out():
    names = [hashlib.sha512(str(i).encode()).hexdigest() for i in range(20_000)]
    data, why = compact.encode_within([(name, 0) for name in names], 1, "r1", "i1")

    assert compact.decode(data, ANY) == compact.CompactData(rack="r1", instance_id="i1")
    assert why.startswith("claims of 20,000 partitions take 1,")
    assert "message.max.bytes" in why
    assert compact.encode_within([("t", 0)], 1, None, None) == (compact.encode([("t", 0)], 1), "")


@pytest.mark.parametrize("partition", [-1, 2**40])
def test_a_partition_that_cannot_be_is_refused(partition):
    with pytest.raises(WireError, match="partitions and generations are 0 to"):
        compact.encode([("t", partition)], 1)
