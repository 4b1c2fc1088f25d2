"""The options of a user's own service: what they make, and what is wrong with them in one sentence."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.commands.services import AskedService
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.service import Service

WORKER = f"{sys.executable} 'my worker.py' {{bootstrap}} {{group}} {{topic}}"
NOTHING = AskedService(None, None, (), None, None, ())
ASKED = replace(NOTHING, command=WORKER)
OPTIONS: dict[str, dict[str, Any]] = {
    "--replicas": {"replicas": 0},
    "--topic": {"topics": ("orders:3",)},
    "--group": {"group": ""},
    "--records": {"records": "orders.txt"},
    "--env": {"environment": ("REGION=eu",)},
    "--output": {"output": "done:3"},
    "--exactly-once": {"exactly_once": True},
    "--match": {"match": "json:loads"},
}


def test_a_command_is_words_as_in_a_shell() -> None:
    service = replace(ASKED, environment=("REGION=eu=1", "EMPTY=")).service(existing=True)

    assert service.command == (sys.executable, "my worker.py", "{bootstrap}", "{group}", "{topic}")
    assert service.environment == {"REGION": "eu=1", "EMPTY": ""}


def test_names_in_braces_are_replaced_and_others_stay() -> None:
    config = MemberConfig(
        "localhost:9092", "billing", "m1", ("orders", "payments"), ("service",), "m1.jsonl", "run", output="done"
    )
    command = ("{replica}", "{output}", "--at={bootstrap}", "{topic}/{topics}", "{group}", '{"key": 1}', "{other}")

    filled = Service(command, {"ADDRESS": "{bootstrap}"}).filled(config)

    assert filled.command == (
        "m1", "done", "--at=localhost:9092", "orders/orders,payments", "billing", '{"key": 1}', "{other}",
    )  # fmt: skip
    assert filled.environment == {"ADDRESS": "localhost:9092"}


@pytest.mark.parametrize(
    ("command", "environment", "words"),
    [
        ("", (), "--service '' has no words; give the command"),
        ("worker 'x", (), '--service "worker \'x": no closing quotation; quote its words'),
        ("no-such-program {bootstrap}", (), "no program 'no-such-program' is found from this folder"),
        (sys.executable, (), "add {bootstrap} to the command, or --env NAME={bootstrap}"),
        (WORKER, ("REGION",), "--env 'REGION' is not NAME=VALUE, such as REGION=eu"),
        (WORKER, ("=eu",), "--env '=eu' is not NAME=VALUE"),
    ],
)
def test_a_command_that_cannot_be_started_is_named(command: str, environment: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        replace(ASKED, command=command, environment=environment).service(existing=False)


@pytest.mark.parametrize(
    ("environment", "lacks"),
    [
        ((), "{group}"),
        (("GROUP={group}",), "{topic}"),
        (("TOPICS={topics}",), "{group}"),
        (("GROUP={group}", "TOPICS={topics}"), None),
    ],
)
def test_on_an_existing_broker_a_service_is_told_what_it_may_read(
    environment: tuple[str, ...], lacks: str | None
) -> None:
    """On a broker of the run's own, a service may name its group and topics itself."""
    asked = replace(ASKED, command=sys.executable, environment=("BROKER={bootstrap}", *environment))

    assert asked.service(existing=False).command == (sys.executable,)
    if lacks is None:
        assert asked.service(existing=True) == asked.service(existing=False)
    else:
        with pytest.raises(
            ConfigError, match=re.escape(f"existing broker it may only read what the run makes; add {lacks}")
        ):
            asked.service(existing=True)


def test_on_an_existing_broker_a_service_is_told_what_it_may_write() -> None:
    asked = replace(ASKED, output="done:3")

    assert asked.service(existing=False)
    with pytest.raises(ConfigError, match=re.escape("it may only write what the run makes; add {output}")):
        asked.service(existing=True)
    assert replace(asked, environment=("OUTPUT={output}",)).service(existing=True)


@pytest.mark.parametrize(
    ("command", "group", "environment", "is_open"),
    [
        ("{bootstrap}", None, (), True),
        ("{bootstrap}", "billing", (), False),
        ("{bootstrap} {group}", None, (), False),
        ("{bootstrap}", None, ("GROUP={group}",), False),
    ],
)
def test_a_group_is_looked_for_if_nothing_names_it(
    command: str, group: str | None, environment: tuple[str, ...], is_open: bool
) -> None:
    asked = replace(ASKED, command=f"{sys.executable} {command}", group=group, environment=environment)

    assert asked.leaves_group_open(asked.service(existing=False)) == is_open


def test_an_output_is_a_topic_of_the_harness_records() -> None:
    assert ASKED.output_topic() is None
    assert replace(ASKED, output="done:3", exactly_once=True).output_topic() == ("done", 3)
    with pytest.raises(ConfigError, match=r"^--output 'done' is not NAME:PARTITIONS"):
        replace(ASKED, output="done").output_topic()
    with pytest.raises(ConfigError, match=r"^--output done:3 needs records with an id, .* or remove --records f$"):
        replace(ASKED, output="done:3", records="f").output_topic()
    assert replace(ASKED, output="done:3", records="orders:made").output_topic() == ("done", 3)
    with pytest.raises(ConfigError, match=r"^--exactly-once needs --output NAME:PARTITIONS"):
        replace(ASKED, exactly_once=True).output_topic()
    with pytest.raises(ConfigError, match=r"^--match orders:id_of needs --output NAME:PARTITIONS"):
        replace(ASKED, match="orders:id_of").output_topic()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_what_is_promised_reaches_the_service(exactly_once: bool) -> None:
    assert (
        replace(ASKED, output="done:3", exactly_once=exactly_once).service(existing=False).exactly_once == exactly_once
    )


def test_faults_of_the_network_need_the_name_of_the_process() -> None:
    """The proxy tells processes apart by their client id."""
    with pytest.raises(ConfigError, match=re.escape("add {replica} to the command, or --env NAME={replica}")):
        ASKED.service(existing=False, network_faults=True)
    assert replace(ASKED, environment=("NAME={replica}",)).service(existing=False, network_faults=True)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_of_a_service_needs_one_whatever_its_value(option: str) -> None:
    with pytest.raises(ConfigError, match=f"^{option} needs --service COMMAND, .*; add it, or remove {option}$"):
        _ = replace(NOTHING, **OPTIONS[option]).given
    assert replace(ASKED, **OPTIONS[option]).given


def test_without_options_no_service_plays() -> None:
    assert not NOTHING.given
    assert NOTHING.words == []


def test_the_words_of_the_options_are_those_that_were_typed() -> None:
    asked = AskedService("w {bootstrap}", 4, ("a:1", "b:2"), "g", "f", ("A=1",), "done:3", True, "m:f")

    assert asked.words == [
        "--service", "w {bootstrap}", "--replicas", "4", "--group", "g", "--records", "f", "--output", "done:3",
        "--match", "m:f", "--topic", "a:1", "--topic", "b:2", "--env", "A=1", "--exactly-once",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("assignors", "client", "named"), [(("sticky",), None, "--assignor sticky"), ((), "java", "--client java")]
)
def test_a_service_chooses_its_client_and_assignors(assignors: tuple[str, ...], client: str | None, named: str) -> None:
    ASKED.require_alone((), None)
    with pytest.raises(ConfigError, match=f"^{named} is for members of the harness"):
        ASKED.require_alone(assignors, client)


def test_topics_have_counts() -> None:
    assert ASKED.topic_counts() == {}
    assert replace(ASKED, topics=("orders:12", "a.b_c-d:10000")).topic_counts() == {"orders": 12, "a.b_c-d": 10_000}


@pytest.mark.parametrize(
    "text", ["orders", "orders:", ":3", "orders:0", "orders:-1", "orders:10001", "or ders:3", "orders:x", "a:b:3"]
)
def test_a_topic_without_a_name_or_count_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"^--topic {text!r} is not NAME:PARTITIONS, such as orders:12"):
        replace(ASKED, topics=("payments:1", text)).topic_counts()


def test_a_topic_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"^--topic 'orders:6': topic 'orders' is given twice; remove one$"):
        replace(ASKED, topics=("orders:3", "orders:6")).topic_counts()


@pytest.mark.parametrize("group", ["", " "])
def test_the_group_is_the_named_one_or_the_scenarios(group: str) -> None:
    assert ASKED.group_named("churn") == "churn"
    assert replace(ASKED, group="billing").group_named("churn") == "billing"
    with pytest.raises(ConfigError, match=f"^--group {group!r} is empty; "):
        replace(ASKED, group=group).group_named("churn")


def test_each_line_of_a_file_is_the_value_of_a_record(tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_bytes(b'{"cents": 100}\r\n\n\xff')

    assert replace(ASKED, records=str(file)).values() == [b'{"cents": 100}', b"", b"\xff"]
    assert ASKED.values() == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda file: None, "No such file or directory; name a file with the value of one record per line"),
        (lambda file: file.mkdir(), "Is a directory; name a file"),
        (lambda file: file.touch(), "has no line; write the value of one record into each"),
    ],
    ids=["missing", "folder", "empty"],
)
def test_a_file_of_records_that_has_none_is_named(tmp_path: Path, made: Any, words: str) -> None:
    file = tmp_path / "orders.txt"
    made(file)
    with pytest.raises(ConfigError, match=f"^--records {re.escape(str(file))}.*{words}"):
        replace(ASKED, records=str(file)).values()


OWN = """
import json

def value(id): return json.dumps({"order": id})
def pair(id): return "customer", id.encode()
def keyless(id): return None, id
def same(id): return b"same"
def number(id): return 7
def fails(id): raise LookupError("no such order")
def order_of(record): return json.loads(record.value)["order"]
def bytes_of(record): return record.key
no_function = 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the working directory, which is not on the path."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize(
    ("function", "made"),
    [
        ("value", b'{"order": "s-1"}'),
        ("pair", (b"customer", b"s-1")),
        ("keyless", (None, b"s-1")),
    ],
)  # fmt: skip
def test_a_function_makes_records_of_their_ids(function: str, made: Any, own: str) -> None:
    path = list(sys.path)

    make = replace(ASKED, records=f"{own}:{function}").values()

    assert callable(make)
    assert make("s-1") == made
    assert sys.path == path


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("same", "returns the same for two ids, and its records can't be told apart; put the id that it gets into"),
        ("number", "returned int; return the record's value as text or bytes, or (key, value)"),
        ("fails", "called with the id '00000000-0', it raised LookupError: no such order; it takes the id of a record"),
        ("missing", "has no attribute 'missing'; name an importable function as module:function"),
        ("no_function", "it is int and no function"),
    ],
)
def test_a_function_that_makes_no_records_is_named(function: str, words: str, own: str) -> None:
    with pytest.raises(ConfigError, match=f"^--records {own}:{function}.*{re.escape(words)}"):
        replace(ASKED, records=f"{own}:{function}").values()


class Output(NamedTuple):
    """A record of the output topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


def test_a_function_tells_whose_record_an_output_is_of(own: str) -> None:
    def matched(function: str, output: Output) -> Any:
        match = replace(ASKED, output="done:3", match=f"{own}:{function}").service(existing=False).match
        assert match is not None
        return match(output)

    output = Output("done", 0, 5, b"s-2", b'{"order": "s-1"}')
    assert matched("order_of", output) == "s-1"
    assert matched("bytes_of", output) == "s-2"
    assert matched("bytes_of", output._replace(key=None)) is None
    with pytest.raises(HarnessError, match="it raised JSONDecodeError for the output at done-0, offset 5: "):
        matched("order_of", output._replace(value=b"none"))
    with pytest.raises(HarnessError, match="returned int for an output; return the id of the record"):
        matched("order_of", output._replace(value=b'{"order": 7}'))
    assert ASKED.service(existing=False).match is None
