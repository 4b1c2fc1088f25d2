"""The weights file: what is right is read, and whatever else a file can be is told, never raised."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.clients.weights import CLOCKS_MS, NoWeights, Weights, parse, read
from kafka_assignors.core.group import TopicPartition

GOOD = Weights(7, "records_per_s", 1_000, 2_000, {"t": (12.0, 0.0, 3.4), "ü": (1.0,)})
weights = st.floats(0, allow_nan=False, allow_infinity=False)


def altered(**fields: object) -> bytes:
    return json.dumps({**json.loads(GOOD.to_json()), **fields}).encode()


@pytest.mark.slow
@given(st.dictionaries(st.text(), st.lists(weights, min_size=1).map(tuple)), st.integers(0, 2**62))
def test_what_is_written_is_read(topics: dict[str, tuple[float, ...]], version: int) -> None:
    written = Weights(version, "bytes_per_s", 0, 1, topics)

    assert parse(written.to_json().encode(), 0) == written


def test_a_file_cut_at_any_byte_is_torn() -> None:
    whole = GOOD.to_json().encode()

    found = [parse(whole[:cut], 0) for cut in range(len(whole.rstrip()))]

    assert {weights.kind if isinstance(weights, NoWeights) else weights for weights in found} == {"torn"}
    assert parse(whole.rstrip(), 0) == GOOD


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"\xff\xfe{}", "torn", "not complete JSON"),
        (b"[" * 100_000, "torn", "not complete JSON"),
        (b"[]", "invalid", "a JSON list instead of an object"),
        (b"{}", "unknown-format", "format None; this version reads 1"),
        (altered(format=2), "unknown-format", "format 2; this version reads 1"),
        (altered(version="7"), "invalid", "version is '7', not an integer"),
        (altered(written_ms=0.5), "invalid", "written_ms is 0.5, not an integer"),
        (altered(expires_ms=None), "invalid", "expires_ms is None"),
        (altered(unit="apples"), "invalid", "unit is 'apples', not one of records_per_s, "),
        (altered(unit=["lag_records"]), "invalid", "unit is ['lag_records']"),
        (altered(weights=[1]), "invalid", "weights is not an object"),
        (altered(weights={"t": 1}), "invalid", "topic 't' has no list of weights"),
        (altered(weights={"t": []}), "invalid", "topic 't' has no list of weights"),
        (altered(weights={"t": [1, -0.5]}), "invalid", "t-1 weighs '-0.5', not a number of at least 0"),
        (altered(weights={"t": [math.nan]}), "invalid", "t-0 weighs 'nan'"),
        (altered(weights={"t": [math.inf]}), "invalid", "t-0 weighs 'inf'"),
        (altered(weights={"t": [10**400]}), "invalid", "t-0 weighs '1000"),
        (altered(weights={"t": [True]}), "invalid", "t-0 weighs 'True'"),
        (altered(weights={"t": [None]}), "invalid", "t-0 weighs 'None'"),
        (altered(expires_ms=-8_000), "expired", "version 7 expired 8 s ago"),
        (altered(expires_ms=0), "expired", "version 7 expired 0 s ago"),
        (altered(written_ms=CLOCKS_MS + 1), "future", "version 7 was written 300 s in the future"),
        (altered(written_ms=10**400), "future", "in the future; are the clocks right?"),
        (altered(written_ms=10**400, expires_ms=-(10**400)), "future", "in the future"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, kind: str, text: str) -> None:
    found = parse(data, 0)

    assert isinstance(found, NoWeights)
    assert found.kind == kind
    assert text in str(found)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["version", "unit", "expires_ms", "weights", "t"]), inner, max_size=4),
))  # fmt: skip
def test_no_json_raises(value: object) -> None:
    row = {**json.loads(GOOD.to_json()), **value} if isinstance(value, dict) else value

    assert isinstance(parse(json.dumps(row).encode(), 0), Weights | NoWeights)


@given(st.binary())
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(parse(data, 0), NoWeights)


def test_clocks_may_differ_and_the_next_writer_reads_what_is_untimely() -> None:
    assert isinstance(parse(altered(written_ms=CLOCKS_MS, expires_ms=10**6), 0), Weights)
    for times in ({"written_ms": 10**15}, {"expires_ms": -1}):
        assert isinstance(parse(altered(**times), None), Weights)


def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    assert read(path) == NoWeights("missing", f"weights file {str(path)!r} does not exist")
    path.write_text(GOOD.to_json(), "utf-8")
    assert read(path, now_ms=1_999) == GOOD
    expired = read(path)  # by this machine's clock
    assert isinstance(expired, NoWeights)
    assert expired.kind == "expired"
    assert str(expired).startswith(f"weights file {str(path)!r}: version 7 expired ")
    for strange in (tmp_path, "a\0b"):
        found = read(strange)
        assert isinstance(found, NoWeights)
        assert found.kind == "unreadable"


def test_a_partition_that_came_later_weighs_the_topics_median() -> None:
    found = GOOD.of({"t": 5, "ü": 0, "unmeasured": 2})

    assert found == {TopicPartition("t", p): w for p, w in enumerate((12.0, 0.0, 3.4, 3.4, 3.4))}
    assert GOOD.of({"t": 1}) == {TopicPartition("t", 0): 12.0}
