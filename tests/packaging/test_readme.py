"""The lines of the README and of the pages about clients, run: what they promise works as it stands there."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_assignors.integration.broker import Broker
from kafka_assignors.producers import partition_for_key
from tests.support.pages import PAGES, blocks, example
from tests.support.producers.reading import read_back
from tests.support.waiting import until

KEYS = (b"alice", b"bob", b"carol")


CONSUMERS = {
    "readme": ("README.md", "KafkaConsumer"),
    "kafka-python": ("docs/clients.md", "from kafka import KafkaConsumer"),
    "first-bounce": ("docs/range-to-cooperative.md", "first_bounce"),
    "aiokafka": ("docs/clients.md", "kafka_assignors.aiokafka"),
    "confluent": ("docs/clients.md", "kafka_assignors.confluent"),
}
PRODUCERS = {
    "readme": ("README.md", "KafkaProducer"),
    "kafka-python": ("docs/clients.md", "from kafka import KafkaProducer"),
    "confluent": ("docs/clients.md", "kafka_assignors.producers.confluent"),
    "aiokafka": ("docs/clients.md", "kafka_assignors.producers.aiokafka"),
}


def few(examples: dict[str, tuple[str, str]], *long: str) -> list[Any]:
    """The examples, some of which are long."""
    return [pytest.param(e, id=name, marks=[pytest.mark.long] * (name in long)) for name, e in examples.items()]


@pytest.mark.broker
# long: two more examples of kafka-python, with other assignors
@pytest.mark.parametrize("where", few(CONSUMERS, "kafka-python", "first-bounce"))
def test_consumer_and_producer_examples_work_together(
    kafka_broker: Broker, kafka_topic: Callable[..., str], where: tuple[str, str]
) -> None:
    """The producer's three records reach the consumer, each on the partition that Java would give its key."""
    topic = kafka_topic(partitions=6)

    def here(code: str) -> list[str]:
        code = code.replace("localhost:9092", kafka_broker.bootstrap).replace('"orders"', repr(topic))
        return [sys.executable, "-u", "-c", code.replace('"billing"', repr(f"billing-{topic}"))]

    seen: dict[bytes, set[int]] = {}
    consumer = subprocess.Popen(here(example(*where)), stdout=subprocess.PIPE, text=True)
    try:
        assert consumer.stdout is not None

        def read(lines: object = consumer.stdout) -> None:
            for line in lines:  # type: ignore[attr-defined]
                partition, _offset, key = line.split()
                seen.setdefault(eval(key), set()).add(int(partition))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        deadline = time.monotonic() + 60
        # A new group starts at the end of the topic, so what counts is sent once it has its partitions.
        while set(seen) != set(KEYS):
            assert time.monotonic() < deadline, f"the consumer printed {seen}"
            assert consumer.poll() is None, "the consumer example ended"
            subprocess.run(here(example(*PRODUCERS["readme"])), check=True, timeout=60)
    finally:
        consumer.kill()
        reader.join(10)
        consumer.communicate()
    assert seen == {key: {partition_for_key(key, 6)} for key in KEYS}


@contextmanager
def sending(topic: str, broker: Broker) -> Iterator[None]:
    """Send to each partition in turn, all the time."""
    ends = threading.Event()

    def send() -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        number = 0
        while not ends.wait(0.01):
            producer.send(topic, b"x", partition=(number := number + 1) % 6)
        producer.close()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(30)


@pytest.mark.broker
@pytest.mark.timeout(180)
@pytest.mark.parametrize("word", ["import CooperativeStickyAssignor, leave", "kafka_assignors.confluent"])
def test_leaving_examples_hand_over(kafka_broker: Broker, kafka_topic: Callable[..., str], word: str) -> None:
    """Two processes share a topic; SIGTERM ends the first in order, and the second gets what it had."""
    topic = kafka_topic(partitions=6)
    code = example("docs/leaving.md", word).replace("localhost:9092", kafka_broker.bootstrap)
    code = code.replace('"orders"', repr(topic)).replace('"billing"', repr(f"billing-{topic}"))
    line = [sys.executable, "-u", "-c", code]
    seen: list[set[int]] = [set(), set()]

    def read(lines: object, into: set[int]) -> None:
        for each in lines:  # type: ignore[attr-defined]
            into.add(int(each.split()[0]))

    members = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True)]
    threads = [threading.Thread(target=read, args=(members[0].stdout, seen[0]), daemon=True)]
    threads[0].start()
    with sending(topic, kafka_broker):
        until(lambda: seen[0] == set(range(6)), "the first reads all", within_s=60)
        members.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True))
        threads.append(threading.Thread(target=read, args=(members[1].stdout, seen[1]), daemon=True))
        threads[1].start()
        try:
            until(lambda: len(seen[1]) >= 3, "the second has its share", within_s=60)
            members[0].terminate()
            assert members[0].wait(timeout=40) == 0
            until(lambda: seen[1] == set(range(6)), "the second has all", within_s=30)
        finally:
            for member, thread in zip(members, threads, strict=True):
                member.kill()
                thread.join(10)
                member.communicate()


@pytest.mark.broker
# long: one more example of kafka-python
@pytest.mark.parametrize("where", few(PRODUCERS, "kafka-python"))
def test_producer_examples_place_like_java(
    kafka_broker: Broker, kafka_topic: Callable[..., str], where: tuple[str, str]
) -> None:
    topic = kafka_topic(partitions=6)
    code = example(*where).replace("localhost:9092", kafka_broker.bootstrap).replace('"orders"', repr(topic))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    assert placed == {key: partition_for_key(key, 6) for key in KEYS}


def test_election_example_prints_the_vote(capsys: pytest.CaptureFixture[str]) -> None:
    exec(example("docs/range-to-cooperative.md", "elect("), {})
    assert "range wins by votes, range 2 : roundrobin 1" in capsys.readouterr().out


def test_the_plan_example_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The page may leave out lines; those that it has are printed, in that order."""
    page = "docs/planning.md"
    exec(next(b.code for b in blocks("python") if b.page == page and "plan(" in b.code), {})

    printed = iter(capsys.readouterr().out.splitlines())
    shown = [line for line in example(page, "the least possible", "text").splitlines() if line.strip() != "…"]
    assert len(shown) > 5
    for line in shown:
        assert line in printed, line


def test_the_readmes_rows_of_frameworks_are_those_of_their_page() -> None:
    rows = [line for line in PAGES["README.md"].splitlines() if re.search(r"\| `(churn|roll)` \|", line)]
    linkless = re.sub(r"\[([^]]+)\]\(histories/[^)]+\)", r"\1", PAGES["docs/frameworks.md"]).splitlines()

    assert len(rows) == 3
    assert [row for row in rows if row not in linkless] == []


def test_the_readme_is_short() -> None:
    assert PAGES["README.md"].count("\n") <= 130
