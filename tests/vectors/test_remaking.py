"""The golden vectors are what Kafka's own classes answer, and the program that asks them notices a difference."""

from __future__ import annotations

import functools
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.vectors import remaking
from tests.vectors.__main__ import app
from tests.vectors.files import FOLDER, MAKERS, NOT_MADE
from tests.vectors.kafka_classes import KafkaClasses
from tests.vectors.random_source import RandomSource

SAMPLE = 2  # at least this many lines of each file in the short form
NEEDS = {name: [] if "librdkafka" in name else [pytest.mark.jvm] for name in MAKERS}


def test_every_file_of_vectors_has_a_maker_or_a_reason():
    assert {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.jsonl")} == {*MAKERS, *NOT_MADE}


@pytest.fixture(scope="module")
def checked():
    """File, each n-th line -> the count of its answers."""
    with ExitStack() as started:
        classes = functools.cache(lambda version: started.enter_context(KafkaClasses(version)))
        yield lambda name, every: remaking.check(FOLDER / name, MAKERS[name], classes(MAKERS[name].version), every)


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS[name]) for name in MAKERS])
@pytest.mark.release("a new file has the kept answers")
def test_a_sample_of_the_vectors_is_what_the_classes_answer(name, checked):
    found = checked(name, len(remaking.lines(FOLDER / name)) // SAMPLE)
    assert found.different == []
    assert found.equal >= SAMPLE


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS[name]) for name in MAKERS])
def test_all_vectors_are_what_the_classes_answer(name, checked):
    found = checked(name, 1)
    assert found.different == []
    assert found.equal + found.not_made.total() == found.cases
    assert found.equal > 0.9 * found.cases


@pytest.mark.jvm
@pytest.mark.parametrize(
    "name", ["assignors/sticky.jsonl", pytest.param("assignors/wire.jsonl", marks=pytest.mark.long)]
)
def test_a_new_file_has_the_kept_inputs_and_answers(name, tmp_path):
    """A line of the new file is the kept line without what describes the answer."""
    every, out = len(remaking.lines(FOLDER / name)) // SAMPLE, tmp_path / "new.jsonl"

    ran = CliRunner().invoke(app, ["make", name, "--out", str(out), "--every", str(every)])

    assert ran.exit_code == 0, ran.output
    kept, new = remaking.lines(FOLDER / name, every), remaking.lines(out)
    assert len(new) == len(kept) >= SAMPLE
    for before, now in zip(kept, new, strict=True):
        for (_, case), (_, made) in zip(remaking.cases(before), remaking.cases(now), strict=True):
            exact = case.get("determinism", "exact") == "exact"
            gone = {"metrics"} if exact else {"metrics", "expected"}
            assert made == {field: value for field, value in case.items() if field not in gone}


@pytest.mark.long
@pytest.mark.jvm
@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
@pytest.mark.parametrize("name", MAKERS)
def test_every_pinned_kafka_answers_or_says_why_not(name, version):
    """Without an exception; answers may differ between versions."""
    with KafkaClasses(version) as kafka:
        found = remaking.check(FOLDER / name, MAKERS[name], kafka, len(remaking.lines(FOLDER / name)) // SAMPLE)
    assert found.cases == found.equal + len(found.different) + found.not_made.total()


def lengths(kafka):
    def answer(case):
        if case["text"] == "":
            raise remaking.NotMade("no text")
        return {"length": len(case["text"])}

    return answer


LENGTHS = remaking.Maker(("length",), lengths, "1", measured=("even",))


@pytest.fixture
def texts(tmp_path) -> Path:
    """A file with a single case, a sequence whose second round is wrong, and a case that can't be made."""
    rows = [
        {"name": "a", "text": "x", "length": 1, "even": False},
        {"name": "b", "rounds": [{"text": "xx", "length": 2}, {"text": "xyz", "length": 4}]},
        {"name": "c", "text": "", "length": 9},
    ]
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_wrong_answer_in_a_kept_file_is_found(texts):
    found = remaking.check(texts, LENGTHS, None)

    assert found.cases == 4
    assert found.equal == 2
    assert found.different == ["b#1: length kept 4, answered 3"]
    assert found.not_made == {"no text": 1}


def test_a_missing_answer_in_a_kept_file_is_found(texts):
    texts.write_text(json.dumps({"name": "a", "text": "x"}))

    assert remaking.check(texts, LENGTHS, None).different == ["a: length kept None, answered 1"]


def test_a_new_file_has_the_new_answers_and_none_where_none_is_made(texts):
    assert [*remaking.make(texts, LENGTHS, None)] == [
        {"name": "a", "text": "x", "length": 1},
        {"name": "b", "rounds": [{"text": "xx", "length": 2}, {"text": "xyz", "length": 3}]},
        {"name": "c", "text": ""},
    ]


def test_the_command_exits_with_1_on_a_difference(texts, monkeypatch):
    monkeypatch.setattr("tests.vectors.__main__.FOLDER", texts.parent)
    monkeypatch.setitem(MAKERS, texts.name, LENGTHS)

    ran = CliRunner().invoke(app, ["check", texts.name])

    assert ran.exit_code == 1
    assert "cases 4, equal 2, different 1, not re-made 1" in ran.output
    assert "different: b#1: length kept 4, answered 3" in ran.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "assignors/none.jsonl"], "no vectors"),
        (["make", "partitioners/accumulator_kip794.jsonl", "--out", "new.jsonl"], "can't be made"),
        (["make", "assignors/wire.jsonl", "--out", str(FOLDER / "assignors" / "wire.jsonl")], "never edited"),
        (["check", "--kafka-version", "0.8.2"], "0.8.2"),
    ],
)
def test_the_command_refuses(arguments, message):
    ran = CliRunner().invoke(app, arguments, env={"COLUMNS": "1000", "TERM": "dumb"})

    assert ran.exit_code == 2
    assert message in ran.output


@pytest.mark.jvm
def test_java_draws_the_recorded_numbers(kafka_java):
    """The first draw of a call is the recorded number itself, later ones have its remainder."""
    source, positive = RandomSource(kafka_java), kafka_java.classes.org.apache.kafka.common.utils.Utils.toPositive
    random = kafka_java.classes.java.util.concurrent.ThreadLocalRandom.current()
    source.begin([0, 2**31 - 1, 963851751, 5, 6, 7])

    assert [source.during(random.nextInt) for _ in range(3)] == [0, 2**31 - 1, 963851751]

    drawn = source.during(lambda: [positive(random.nextInt()) for _ in range(3)], 3, modulus=7)
    assert (drawn[0], drawn[1] % 7, drawn[2] % 7) == (5, 6, 0)
    assert source.used == 6
    assert source.during(lambda: None) is None
    assert source.used == 6
