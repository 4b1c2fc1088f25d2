"""What one member sends costs the leader little, whatever it is: work and memory have a limit.

Work is counted in lines that run, so that it is the same on every machine. What C does in one call is not in it, and
meets the time limit of a test, which nothing else comes near.
"""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from random import Random

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kafka_assignors.clients.kafka_python import leader
from kafka_assignors.core import strategies
from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.indexed import Indexed
from kafka_assignors.core.reading import decode, decoded
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.core.sticky.racks import position_costs
from kafka_assignors.core.wire import bulk, compact, userdata
from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from tests.support.assignors.hostile import varint
from tests.support.work import lines

LINES = 2_000_000
"""Twice what the dearest takes, less than a second of a processor."""
BYTES = 100_000_000
MOST_FACTS = 100
TOPICS = {f"orders-{i}": 64 for i in range(8)}
NAMES = tuple(TOPICS)


def packed(text: bytes, numbers: bytes) -> bytes:
    """Compact user data with a right checksum, whatever is in it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(len(text).to_bytes(4, "big") + text + numbers) + packer.flush()
    return b"\x01" + zlib.crc32(body).to_bytes(4, "big") + body


def one_run(topic: str, first: int, count: int) -> bytes:
    return packed(f'[null,null,"{topic}"]'.encode(), bytes([2, 1]) + varint(first) + varint(count - 1))


def claimed(count: int, name: Callable[[int], bytes], ids: bytes = b"") -> bytes:
    """An array of (topic, partition ids)."""
    rest = struct.pack(">i", len(ids) // 4) + ids
    return struct.pack(">i", count) + b"".join(len(name(i)).to_bytes(2, "big") + name(i) + rest for i in range(count))


def raw(topics: bytes, user_data: bytes | None = None, owned: bytes = bytes(4)) -> bytes:
    """A subscription of version 3 from its parts."""
    data = b"\xff\xff\xff\xff" if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return b"\0\3" + topics + data + owned + struct.pack(">i", 3) + b"\xff\xff"


def names(count: int, name: Callable[[int], bytes]) -> bytes:
    return struct.pack(">i", count) + b"".join(len(name(i)).to_bytes(2, "big") + name(i) for i in range(count))


def number(i: int) -> bytes:
    return b"%x" % i


ORDINARY = names(8, lambda i: NAMES[i].encode())
IDS = struct.pack(">64i", *range(64))
TEXT = b'[null,null,"orders-0"]'
MILLION = 1_000_000

USER_DATA: Mapping[str, Callable[[], bytes]] = {
    "a run of 2^23 ids": lambda: one_run(NAMES[0], 0, 1 << 23),
    "a run of 2^23 ids of an unknown topic": lambda: one_run("absent", 0, 1 << 23),
    "a run of 2^20 ids of an unknown topic": lambda: one_run("absent", 0, 1 << 20),
    "a run of 2^31 ids": lambda: one_run(NAMES[0], 0, 1 << 31),
    "a run that begins at 2^31": lambda: one_run(NAMES[0], 1 << 31, 1 << 31),
    "a run of 2^23 ids of a topic that nobody reads": lambda: one_run("nobody", 0, 1 << 23),
    "zeros": lambda: packed(TEXT, bytes([2, 1]) + bytes(1 << 26)),
    "long numbers": lambda: packed(TEXT, bytes([2, 1]) + b"\x80\x80\x80\x80\x01" * 600_000),
    "a million runs of one": lambda: packed(TEXT, bytes([2]) + varint(MILLION) + b"\1\0" * MILLION),
    "a million runs of an unknown topic": lambda: packed(
        b'[null,null,"absent"]', bytes([2]) + varint(MILLION) + b"\1\0" * MILLION
    ),
    "a million empty topics": lambda: packed(b"[null,null" + b',"t"' * MILLION + b"]", bytes([2]) + bytes(MILLION)),
    "50,000 topics": lambda: packed(
        b"[null,null," + b",".join(b'"%x"' % i for i in range(49_990)) + b"]", bytes([2]) + b"\1\0\0" * 49_990
    ),
    "one topic 49,000 times": lambda: packed(
        b"[null,null" + b',"orders-0"' * 49_000 + b"]", bytes([2]) + b"\1\0\7" * 49_000
    ),
    "a million lists": lambda: packed(b"[null,null" + b",[]" * MILLION + b"]", bytes([2])),
    "brackets": lambda: packed(b"[" * MILLION, bytes([2])),
    "a number of a million digits": lambda: packed(b"[null,null," + b"9" * MILLION + b"]", bytes([2])),
    "a rack of 60 MB": lambda: packed(b'["' + b"x" * 60 * MILLION + b'",null]', bytes([2])),
    "a rack of 2 MB": lambda: packed(b'["' + b"x" * 2 * MILLION + b'",null]', bytes([2])),
}
"""In user data of our own names."""

ARRAYS: Mapping[str, Callable[[], bytes]] = {
    "50,000 empty runs": lambda: claimed(50_000, lambda _: b""),
    "175,000 empty runs": lambda: claimed(175_000, lambda _: b""),
    "50,000 empty runs of a topic": lambda: claimed(50_000, lambda _: b"orders-0"),
    "a million runs": lambda: claimed(MILLION, number),
    "a million ids": lambda: claimed(1, lambda _: b"orders-0", bytes(4 * MILLION)),
    "a million ids beyond": lambda: claimed(1, lambda _: b"orders-0", b"\x7f" * 4 * MILLION),
    "a million ids of an unknown topic": lambda: claimed(1, lambda _: b"absent", b"\x7f" * 4 * MILLION),
    "two million ids": lambda: claimed(1, lambda _: b"orders-0", bytes(8 * MILLION)),
    "ten million ids": lambda: claimed(1, lambda _: b"orders-0", bytes(40 * MILLION)),
    "50,000 topics that nobody reads": lambda: claimed(50_000, number, bytes(4)),
    "every partition 2,000 times": lambda: claimed(16_000, lambda i: NAMES[i % 8].encode(), IDS),
    "every partition once": lambda: claimed(8, lambda i: NAMES[i].encode(), IDS),
}
"""Of topics and ids: in user data of ``sticky``, in the owned partitions of ``cooperative-sticky``."""


def weighed(content: bytes, claims: bytes = b"", state: bytes | None = None, resting: bytes = b"") -> bytes:
    """User data of ``weighted`` with a right checksum: `content` is what its last part unpacks to."""
    parts = [claims or compact.encode((), 3)]
    if state is not None:
        parts += [resting or compact.encode((), 3), squeezed(state)]
    rest = b"".join(len(each).to_bytes(4, "big") + each for each in parts) + squeezed(content)
    version = 1 if state is None else 3
    return bytes([version]) + zlib.crc32(rest, 0 if version == 1 else version).to_bytes(4, "big") + rest


def squeezed(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


def weights(text: bytes, numbers: bytes, codes: bytes, top: float = 1.0) -> bytes:
    """Weights as `weighted.packed` has them before it packs them."""
    return struct.pack(">d", top) + len(text).to_bytes(4, "big") + text + numbers + codes


OWN = struct.pack(">dBB", 1.0, 0, 0)
ORDERS = b'["orders-0"]'
RUN = varint(1) + varint(0)
WEIGHTED: Mapping[str, Callable[[], bytes]] = {
    "weights of 2^21 partitions": lambda: weighed(
        OWN + weights(ORDERS, RUN + varint((1 << 21) - 1), b"\xff" * (1 << 21))
    ),
    "weights of 2^21 partitions that nobody reads": lambda: weighed(
        OWN + weights(b'["nobody"]', RUN + varint((1 << 21) - 1), b"\xff" * (1 << 21))
    ),
    "weights of a run of 2^34 partitions": lambda: weighed(OWN + weights(ORDERS, RUN + varint((1 << 34) - 1), b"\xff")),
    "weights of a million runs": lambda: weighed(
        OWN + weights(ORDERS, varint(MILLION) + b"\1\0" * MILLION, b"\7" * MILLION)
    ),
    "weights of a million topics": lambda: weighed(
        OWN + weights(b"[" + b'"t",' * MILLION + b'"t"]', b"\0" * MILLION, b"")
    ),
    "weights of 49,990 topics": lambda: weighed(
        OWN + weights(b"[" + b",".join(b'"%x"' % i for i in range(49_990)) + b"]", b"\1\0\0" * 49_990, b"\7" * 49_990)
    ),
    "weights of one topic 49,000 times": lambda: weighed(
        OWN + weights(b"[" + b",".join([b'"orders-0"'] * 49_000) + b"]", b"\1\0\0" * 49_000, b"\7" * 49_000)
    ),
    "weights in brackets": lambda: weighed(OWN + weights(b"[" * MILLION, b"", b"")),
    "weights that unpack to 64 MB": lambda: weighed(OWN + bytes(1 << 26)),
    "long numbers of weights": lambda: weighed(OWN + weights(ORDERS, b"\x80\x80\x80\x80\x01" * 500_000, b"")),
    "the heaviest weight": lambda: weighed(OWN + weights(ORDERS, RUN + varint(63), b"\xff" * 64, 1.7e308)),
    "costs of state, claims and rests of 3 MB each": lambda: weighed(
        OWN + weights(ORDERS, RUN + varint((1 << 20) - 1), b"\xff" * (1 << 20)),
        USER_DATA["a million runs of one"](),
        weights(ORDERS, RUN + varint((1 << 20) - 1), b"\xff" * (1 << 20)),
        USER_DATA["a run of 2^23 ids"](),
    ),
    "costs of state that unpack to 64 MB": lambda: weighed(
        OWN + weights(ORDERS, RUN + b"\0", b"\7"), b"", bytes(1 << 26)
    ),
}
"""In user data of ``weighted`` and ``lag``."""

SUBSCRIPTIONS: Mapping[str, Callable[[], bytes]] = {
    "500,000 topics": lambda: raw(names(500_000, number)),
    "50,000 topics": lambda: raw(names(50_000, number)),
    "50,000 topics that all claim": lambda: raw(names(50_000, number), None, claimed(50_000, number, bytes(4))),
    "three million topics": lambda: raw(names(3 * MILLION, lambda _: b"")),
    "a topic 100,000 times": lambda: raw(names(100_000, lambda _: b"orders-0")),
    "38,000 long names": lambda: raw(names(38_000, lambda i: b"%0200x" % i)),
    "a rack of 32 kB": lambda: raw(ORDINARY)[:-2] + b"\x7f\xff" + b"r" * 0x7FFF,
}
ORDINARY_AND_ABSENT = names(9, lambda i: [*NAMES, "absent"][i].encode())


@cache
def bomb(name: str) -> bytes:
    """A member's subscription."""
    where, _, which = name.rpartition(": ")
    if not where:
        return SUBSCRIPTIONS[name]()
    if where == "claims":
        return raw(ORDINARY_AND_ABSENT, weighed(OWN + weights(ORDERS, RUN + b"\0", b"\7"), USER_DATA[which]()))
    if which in WEIGHTED or which in USER_DATA:
        return raw(ORDINARY_AND_ABSENT, {**USER_DATA, **WEIGHTED}[which]())
    since = struct.pack(">i", 3)
    array = ARRAYS[which]()
    return raw(ORDINARY_AND_ABSENT, since, array) if where == "owned" else raw(ORDINARY_AND_ABSENT, array + since)


def drawn(seed: int) -> bytes:
    """A subscription with too much of something, or of several things."""
    random = Random(f"bomb {seed}")

    def many() -> int:
        return int(10 ** random.uniform(0, 5.5))

    topics = random.choice((ORDINARY, ORDINARY_AND_ABSENT, names(many(), number)))
    name = random.choice((number, lambda i: NAMES[i % 8].encode(), lambda _: b"absent"))
    ids = random.choice((b"", bytes(4), IDS, random.randbytes(4 * random.randint(1, 50))))
    array = claimed(min(many(), MILLION // (10 + len(ids))), name, ids)
    text = b"[null,null" + b"".join(b',"%s"' % name(i) for i in range(min(many(), 200_000))) + b"]"
    numbers = bytes([2]) + random.choice((
        random.randbytes(many()),
        bytes(random.randrange(0x80) for _ in range(many())),
        (varint(1) + varint(0) + varint(random.randrange(1 << 34))) * min(many(), 100_000),
        (varint(3) + varint(many()) * 6) * min(many(), 50_000),
    ))  # fmt: skip
    data = random.choice((None, array + struct.pack(">i", 3), packed(text, numbers), random.randbytes(many())))
    sent = bytearray(raw(topics, data, array if random.random() < 0.5 else bytes(4)))
    return bytes(sent)


def honest(name: str) -> list[bytes]:
    """Three members that share all partitions."""
    sent = []
    for m in range(3):
        owned = [(topic, p) for topic in NAMES for p in range(m, 64, 3)]
        data, held = None, ()
        if name == "sticky":
            data = userdata.encode_sticky(owned, 3)
        elif name == "cooperative-sticky":
            data, held = userdata.encode_cooperative(3), tuple(TopicPartition(*each) for each in owned)
        elif name in ("weighted", "lag"):
            data, held = strategies.strategy(name).user_data(None, 3)[0], tuple(TopicPartition(*each) for each in owned)
        elif name not in userdata.JAVAS:
            data = compact.encode(owned, 3)
        sent.append(encode_subscription(Subscription(NAMES, data, held, 3)))
    return sent


def lead(made: strategies.Strategy, sent: list[bytes]) -> tuple[dict[str, bytes], list[str]]:
    """What a leader does with what members sent: the answer, and the facts it tells."""
    heard = [(f"m{i}", None, said) for i, said in enumerate(bulk.subscriptions(sent))]
    made, told = made.agreed(heard, TOPICS)
    reading = decode(made.name, heard, TOPICS)
    answer, facts = made.assign_bytes(reading)
    return {m: bytes(data) for m, data in answer.items()}, [str(fact) for fact in (*told, *reading.facts, *facts)]


def too_dear(made: strategies.Strategy, sent: bytes) -> Iterator[str]:
    """How a member beside three honest ones is beyond the limits, or is heard as nothing without a word."""
    group = [*honest(made.name), sent]
    facts: list[str] = []
    if (work := lines(lambda: facts.extend(lead(made, group)[1]))) > LINES:
        yield f"{work:,} lines run"
    if len(facts) > MOST_FACTS:
        yield f"{len(facts)} facts"
    if made.options or not (made.uses_claims or made.defaults()):
        return  # these read subscriptions as the others do, and tracing takes long
    tracemalloc.start()
    lead(made, group)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if peak > BYTES:
        yield f"{peak / 1e6:.0f} MB"


def read_by(name: str) -> Iterator[str]:
    """The bombs that a strategy reads; subscriptions are read alike by all."""
    yield from {"sticky": SUBSCRIPTIONS, "range": SUBSCRIPTIONS}.get(name, ("50,000 topics",))
    if name in ("weighted", "lag"):
        yield from (f"user data: {each}" for each in WEIGHTED)
    elif name not in userdata.JAVAS:  # our own names share a format; most take these bytes for options alone
        yield from (f"user data: {each}" for each in USER_DATA)
    if name == "sticky":
        yield from (f"user data: {each}" for each in ARRAYS)
    if name == "cooperative-sticky":
        yield from (f"owned: {each}" for each in ARRAYS)


STRATEGIES = sorted(strategies.STRATEGIES)
FURTHER = pytest.mark.release("range has the subscriptions, cooperative-sticky claims, compact-sticky user data")
READERS = {
    **dict.fromkeys(("range", "cooperative-sticky", "compact-sticky", "weighted"), ()),
    **dict.fromkeys(("sticky", "copartitioned"), FURTHER),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        # long: the others read subscriptions and user data by the code of one of these
        *(pytest.param(name, {}, marks=READERS.get(name, pytest.mark.long)) for name in STRATEGIES),
        pytest.param("cooperative-sticky", {"parity": "java"}, marks=FURTHER),
    ],
)
def test_no_member_stops_its_leader(name, options):
    made = strategies.strategy(name, **options)
    made.load()
    dear = {each: found for each in read_by(name) if (found := list(too_dear(made, bomb(each))))}
    assert dear == {}


@pytest.mark.slow
@pytest.mark.release("`compact-sticky` reads these bytes above, and these strategies what they have beside them")
@pytest.mark.parametrize("name", ["weighted", "lag"])
def test_no_member_stops_its_leader_with_claims_beside_weights(name):
    made = strategies.strategy(name)
    made.load()
    dear = {each: found for each in USER_DATA if (found := list(too_dear(made, bomb(f"claims: {each}"))))}
    assert dear == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STRATEGIES if strategies.STRATEGIES[name].uses_claims])
def test_no_member_stops_its_leader_with_bytes_at_random(name):
    made = strategies.strategy(name)
    made.load()
    dear = {seed: found for seed in range(5) if (found := list(too_dear(made, drawn(seed))))}
    assert dear == {}


@pytest.mark.parametrize("name", ["compact-sticky", "sticky", "cooperative-sticky"])
def test_what_a_bomb_claims_takes_nothing_from_honest_members(name):
    """A claim beyond a limit counts for nothing: the others keep what they have, up to a fair share."""
    made = strategies.strategy(name)
    alone, _ = lead(made, [*honest(name), raw(ORDINARY_AND_ABSENT)])
    for data in ("500,000 topics", "user data: a million runs of one", "owned: 175,000 empty runs"):
        answer, facts = lead(made, [*honest(name), bomb(data)])
        assert facts
        if data == "500,000 topics":
            assert answer["m3"] == raw(bytes(4))[:6] + b"\xff\xff\xff\xff"
        else:
            assert answer == alone


@pytest.mark.parametrize(
    ("sent", "fact"),
    [
        ("500,000 topics", "member 'm3' subscribes to 500,000 topics; 50,000 are read at most: it is assigned nothing"),
        ("user data: ten million ids", "member 'm3' sent a subscription of 40,000,"),
        ("owned: 175,000 empty runs", "member 'm3' owns partitions of 175,000 topics; 50,000 are read at most"),
        ("user data: a run of 2^23 ids", "member 'm3' claims 8,388,544 partitions that do not exist; ignored"),
        ("user data: a run of 2^23 ids of a topic that nobody reads", "claims partitions of 1 topic that nobody"),
        ("user data: a run of 2^23 ids of an unknown topic", "and 8,388,605 more that do not exist"),
        ("owned: two million ids", "claims of 2,000,000 partitions; 1,048,576 are read at most"),
    ],
)
def test_what_is_beyond_a_limit_is_told(sent, fact):
    name = "cooperative-sticky" if sent.startswith("owned") else "compact-sticky"
    _, facts = lead(strategies.strategy(name), [*honest(name), bomb(sent)])
    assert any(fact in each for each in facts), facts


@pytest.mark.slow
def test_limits_hold_for_members_that_kafka_python_decoded():
    for name in ("500,000 topics", "owned: 175,000 empty runs", "50,000 topics that all claim"):
        sent = [*honest("cooperative-sticky"), bomb(name)]
        decoded = leader.subscriptions([ConsumerProtocolSubscription.decode(each) for each in sent])
        for ours, theirs in zip(bulk.subscriptions(sent), decoded, strict=True):
            assert ours._replace(generation=0, rack=None) == theirs._replace(generation=0, rack=None)


@pytest.mark.slow
def test_parity_with_java_is_not_quadratic():
    """8,000 partitions, different subscriptions, two members join: it was 27 s of silence, mostly sets made anew."""
    members, owned = [f"m{m:02}" for m in range(20)], [(f"t{i}", p) for i in range(8) for p in range(1000)]
    held = {m: owned[i::18] for i, m in enumerate(members[:18])}
    group = Group(
        [
            Member(m, [f"t{i}" for i in range(8) if (i + n) % 9], owned=held.get(m, ()), generation=3)
            for n, m in enumerate(members)
        ],
        {f"t{i}": 1000 for i in range(8)},
    )
    for name in ("sticky", "cooperative-sticky"):
        made = strategies.strategy(name, parity="java")
        assert lines(lambda made=made, name=name: made.assign(decoded(name, group))) < 2 * LINES


@pytest.mark.slow
def test_a_matrix_of_many_racks_is_looked_up_at_once():
    """30 racks and 3,000 partitions with replica racks of their own: the largest cost is found once, not each time."""
    racks = [f"r{i}" for i in range(30)]
    matrix = {a: {b: abs(i - j) for j, b in enumerate(racks)} for i, a in enumerate(racks)}
    members = [Member(f"m{i}", {"t"}, rack=rack) for i, rack in enumerate(racks)]
    on = [set(Random(p).sample(racks, 3)) for p in range(3000)]
    objective = Objective(matrix)
    indexed = Indexed(Group(members, {"t": 3000}, {"t": on}))
    assert lines(lambda: position_costs(indexed, objective)) < LINES


def test_disputes_are_told_in_one_fact_for_those_who_dispute():
    owned = [("t", p) for p in range(20_000)]
    members = [Member(m, {"t"}, owned=owned[first:], generation=2) for m, first in (("a", 0), ("b", 0), ("c", 15_000))]
    found = [
        fact.text
        for fact in decoded("cooperative-sticky", Group(members, {"t": 20_000})).facts
        if fact.kind == "claim-disputed"
    ]
    assert found == [
        "t-0, t-1, t-2 and 14,997 more are claimed by 'a', 'b' with the same generation; they are nobody's",
        "t-15000, t-15001, t-15002 and 4,997 more are claimed by 'a', 'b', 'c' with the same generation; "
        "they are nobody's",
    ]
