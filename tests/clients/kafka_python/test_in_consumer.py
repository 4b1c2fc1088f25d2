"""The assignor classes in real KafkaConsumers: whose they are, which protocol is in force, what they may claim."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import gc
import pickle
import threading
import weakref
from pathlib import Path

import pytest
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConfigurationError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
from kafka_assignors.clients.kafka_python import ASSIGNORS, private
from kafka_assignors.errors import ConfigError
from tests.support.kafka_python.silent import holding, silent_consumers
from tests.support.programs import python

CLASSES = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
COOPERATIVE, EAGER = RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER


@pytest.fixture
def consumer():
    with silent_consumers() as make:
        yield make


def sent_by(consumer):
    """Assignor name -> the subscription that the consumer would join with."""
    if not consumer.subscription():
        consumer.subscribe(["t"])
    return dict(consumer._coordinator.group_protocols())


def claims(sent):
    return sorted((each.topic, p) for each in sent.owned_partitions for p in each.partitions), sent.generation_id


def assigned(*partitions):
    return ConsumerProtocolAssignment(3, [("t", list(partitions))], None)


# ------------------------------------------------------------------------------------------------- how it is given


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "form",
    [
        lambda cls: cls,
        lambda cls: cls(rack="r1"),
        lambda cls: functools.partial(cls, rack="r1"),
        lambda cls: cls.factory(rack="r1"),
    ],
    ids=["class", "instance", "partial", "factory"],
)
def test_a_consumer_takes_it_in_every_form(consumer, cls, form):
    made = consumer(form(cls))

    ((name, sent),) = sent_by(made).items()

    assert name == cls.name
    assert sent.rack_id == (None if form(cls) is cls else "r1")
    assert list(sent.topics) == ["t"]


@pytest.mark.parametrize("cls", CLASSES)
def test_the_rack_is_the_consumers_unless_told_otherwise(consumer, cls):
    def rack(*assignor, **config):
        return sent_by(consumer(*assignor, **config))[cls.name].rack_id

    assert rack(cls, client_rack="eu-1a") == "eu-1a"
    assert rack(cls(rack="eu-1b"), client_rack="eu-1a") == "eu-1b"
    assert rack(cls(rack=""), client_rack="eu-1a") is None


def test_each_consumer_gets_its_own_instance_from_a_factory():
    make = StickyAssignor.factory(rack="r1")
    assert make() is not make()


@pytest.mark.parametrize("cls", CLASSES)
def test_one_instance_in_two_open_consumers_is_refused_when_the_second_is_made(consumer, cls):
    assignor = cls()
    first = consumer(assignor)
    with pytest.raises(ConfigError, match=rf"attached to another consumer; .* {cls.__name__}\.factory\(\)"):
        consumer(assignor)

    first.close(autocommit=False)
    consumer(assignor)  # one after the other is fine


def test_an_instance_forgets_the_consumer_it_served_before(consumer):
    assignor = StickyAssignor()
    first = consumer(assignor)
    assignor.on_assignment(assigned(0, 1), 7)
    assert sent_by(first)["sticky"].user_data is not None
    first.close(autocommit=False)

    assert sent_by(consumer(assignor))["sticky"].user_data is None


@pytest.mark.parametrize(
    "entries",
    [
        [RangeAssignor, RangeAssignor],
        [RangeAssignor.factory(rack="r1"), StickyAssignor, RangeAssignor()],
        [RangePartitionAssignor, RangeAssignor],
    ],
    ids=["classes", "factory and instance", "kafka-python's and ours"],
)
def test_a_name_that_is_listed_twice_is_refused(consumer, entries):
    with pytest.raises(ConfigError, match=r"partition_assignment_strategy lists 'range' twice"):
        consumer(*entries)


@pytest.mark.slow
def test_a_consumer_is_not_kept_alive(consumer):
    """kafka-python's client refers to itself, so what is kept shows only after a collection of cycles."""
    assignor = CooperativeStickyAssignor()
    made = consumer(assignor)
    coordinator = weakref.ref(made._coordinator)
    assert assignor._attached() is coordinator()

    made.close(autocommit=False)
    consumer.made.remove(made)
    del made
    gc.collect()

    assert coordinator() is None
    assert assignor._attached() is None
    assignor.on_assignment(assigned(0), 3)
    assert claims(assignor.metadata({"t"})) == ([], 3)  # whoever held it is gone


# ---------------------------------------------------------------------------------------------- the protocol in force


@pytest.mark.parametrize("cls", [RangeAssignor, RoundRobinAssignor, StickyAssignor])
def test_eager_assignors_are_eager(cls):
    assert cls().supported_protocols() == [EAGER]


@pytest.mark.source("apache/kafka 4.3.0 CooperativeStickyAssignor.supportedProtocols")
@pytest.mark.parametrize(
    ("protocol", "supported"), [("auto", [COOPERATIVE, EAGER]), ("cooperative", [COOPERATIVE]), ("eager", [EAGER])]
)
def test_cooperative_sticky_supports_both_unless_told_otherwise(consumer, protocol, supported):
    said = []

    class Listening(CooperativeStickyAssignor):
        def supported_protocols(self):
            said.extend(super().supported_protocols())
            return said

    consumer(Listening(protocol=protocol))
    assert said == supported


def test_an_unknown_protocol_is_refused_before_any_join():
    with pytest.raises(ConfigError, match="protocol must be 'auto', 'cooperative' or 'eager', not 'lazy'"):
        CooperativeStickyAssignor.factory(protocol="lazy")


def test_alone_it_is_cooperative_and_claims_what_the_consumer_holds(consumer):
    assignor = CooperativeStickyAssignor()
    made = consumer(assignor)
    assignor.on_assignment(assigned(0, 1), 7)
    holding(made, 1)  # 0 is gone since

    assert made._coordinator._rebalance_protocol == COOPERATIVE
    assert claims(sent_by(made)["cooperative-sticky"]) == ([("t", 1)], 7)


@pytest.mark.parametrize("beside", [RangeAssignor, StickyAssignor, RangePartitionAssignor])
@pytest.mark.parametrize("protocol", ["auto", "eager"])
@pytest.mark.parametrize("first", [True, False], ids=["listed first", "listed last"])
def test_beside_an_eager_assignor_the_consumer_is_eager_and_it_claims_nothing(consumer, beside, protocol, first):
    """In force is EAGER: by the time of the join the consumer has revoked what it still has in memory."""
    assignor = CooperativeStickyAssignor(protocol=protocol)
    made = consumer(*([assignor, beside] if first else [beside, assignor]))
    assignor.on_assignment(assigned(0, 1), 7)
    holding(made, 0, 1)

    assert made._coordinator._rebalance_protocol == EAGER
    assert claims(sent_by(made)["cooperative-sticky"]) == ([], 7)  # the generation as Java tells it


def test_eager_assignors_go_together(consumer):
    eager = [RangeAssignor, RoundRobinAssignor, StickyAssignor]
    assert list(sent_by(consumer(*eager))) == ["range", "roundrobin", "sticky"]


def test_protocol_cooperative_refuses_an_eager_list(consumer):
    with pytest.raises(KafkaConfigurationError, match=r"'range', 'cooperative-sticky'.*Mixing EAGER and COOPERATIVE"):
        consumer(RangeAssignor, CooperativeStickyAssignor.factory(protocol="cooperative"))


def test_a_fenced_member_claims_nothing_although_its_consumer_remembers(consumer):
    """Thrown out in the middle of a join, kafka-python keeps the old assignment in memory until the next one."""
    assignor = CooperativeStickyAssignor()
    made = consumer(assignor)
    assignor.on_assignment(assigned(0, 1), 7)
    holding(made, 0, 1)
    made._coordinator.reset_generation()

    sent = sent_by(made)["cooperative-sticky"]

    assert made.assignment() == {("t", 0), ("t", 1)}
    assert claims(sent) == ([], -1)
    assert sent.user_data == b"\xff\xff\xff\xff"


class Wrapped(AbstractPartitionAssignor):
    """Somebody's assignor around ours; the methods named in `elsewhere` are called on another thread."""

    name = ""

    def __init__(self, inner, *elsewhere):
        self.name, self._inner, self._elsewhere = inner.name, inner, elsewhere

    def _call(self, method, *arguments):
        if method not in self._elsewhere:
            return getattr(self._inner, method)(*arguments)
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(getattr(self._inner, method), *arguments).result()

    def supported_protocols(self):
        return self._call("supported_protocols")

    def metadata(self, topics):
        return self._call("metadata", topics)

    def assign(self, cluster, members):
        return self._call("assign", cluster, members)

    def on_assignment(self, assignment, generation):
        self._call("on_assignment", assignment, generation)


def test_a_wrapped_assignor_finds_its_consumer_too(consumer):
    made = consumer(Wrapped(CooperativeStickyAssignor()), RangeAssignor)
    holding(made, 0)
    assert claims(sent_by(made)["cooperative-sticky"])[0] == []


@pytest.mark.parametrize("cls", CLASSES)
def test_a_consumer_that_is_made_out_of_sight_is_found_when_it_joins(consumer, cls, caplog):
    assignor = cls()
    made = consumer(Wrapped(assignor, "supported_protocols"), client_rack="eu-1a")
    assert assignor._attached() is None
    holding(made, 1)

    sent = [sent_by(made)[cls.name] for _ in range(2)][-1]

    assert assignor._attached() is made._coordinator
    assert claims(sent)[0] == ([("t", 1)] if cls is CooperativeStickyAssignor else [])
    assert [r.getMessage().partition(" when ")[0] for r in caplog.records if r.name == "kafka_assignors"] == [
        f"{cls.name}: the assignor did not find its consumer"
    ], "its rack is unknown"
    assignor.attach(made)
    assert sent_by(made)[cls.name].rack_id == "eu-1a"


@pytest.mark.parametrize("cls", CLASSES)
def test_a_consumer_that_is_never_seen_is_told_of_once(consumer, cls, caplog):
    assignor = cls()
    made = consumer(Wrapped(assignor, "supported_protocols", "metadata"))

    sent_by(made), sent_by(made)
    assert [r.getMessage().partition(",")[0] for r in caplog.records if r.name == "kafka_assignors"] == [
        f"{cls.name}: the assignor can't find its consumer"
    ]

    assignor.attach(made)
    holding(made, 1)
    assert claims(sent_by(made)[cls.name])[0] == ([("t", 1)] if cls is CooperativeStickyAssignor else [])


def test_an_instance_of_two_consumers_made_out_of_sight_is_refused_by_the_second_join(consumer):
    assignor = CooperativeStickyAssignor()
    first, second = (consumer(Wrapped(assignor, "supported_protocols")) for _ in range(2))
    sent_by(first)
    with pytest.raises(ConfigError, match="attached to another consumer"):
        sent_by(second)


def test_of_a_consumer_that_can_not_be_seen_it_is_cooperative_alone(consumer):
    """So a list with an eager assignor is refused, not mistaken: it would claim what its consumer has revoked."""
    assert CooperativeStickyAssignor().supported_protocols() == [COOPERATIVE]
    assert CooperativeStickyAssignor(protocol="eager").supported_protocols() == [EAGER]
    assert RangeAssignor().supported_protocols() == [EAGER]
    with pytest.raises(KafkaConfigurationError, match="Mixing EAGER and COOPERATIVE"):
        consumer(Wrapped(CooperativeStickyAssignor(), "supported_protocols"), RangeAssignor)


@pytest.mark.slow
def test_it_survives_being_imported_while_kafka_python_is_mocked():
    """As a user's tests may do: what is replaced for one test must not be kept for the next."""
    code = """
import socket, unittest.mock
import kafka, kafka.coordinator.consumer
with unittest.mock.patch("kafka.KafkaConsumer"), unittest.mock.patch("kafka.consumer.KafkaConsumer"), \
        unittest.mock.patch("kafka.coordinator.consumer.ConsumerCoordinator"):
    from kafka_assignors import StickyAssignor
silent = socket.create_server(("127.0.0.1", 0))
assignor = StickyAssignor()
consumer = kafka.KafkaConsumer(
    bootstrap_servers="127.0.0.1:%d" % silent.getsockname()[1], group_id="g", api_version=(2, 5),
    partition_assignment_strategy=[assignor],
)
print(assignor._attached() is consumer._coordinator)
consumer.close(autocommit=False)
"""
    done = python("-c", code)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


# ------------------------------------------------------------------------------------------- refused, copied, pickled


def in_use():
    """Threads, and how many descriptors, garbage aside."""
    gc.collect()
    return sorted(thread.name for thread in threading.enumerate()), len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda taken: [taken], "attached to another consumer"),
        (lambda taken: [RangeAssignor, RangeAssignor], "lists 'range' twice"),
        (lambda taken: [functools.partial(RangeAssignor, rack=5)], "rack must be a string"),
        (lambda taken: [StickyAssignor, functools.partial(CooperativeStickyAssignor, protocol="x")], "protocol must"),
    ],
    ids=["an instance in use", "a name twice", "a rack that is none", "an option that is none"],
)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_a_consumer_that_is_refused_leaves_no_thread_and_no_descriptor(consumer, refused, message):
    taken = RangeAssignor()
    consumer(taken)
    threads, descriptors = in_use()

    for _ in range(3):
        with pytest.raises(ConfigError, match=message):
            consumer(*refused(taken), metrics_enabled=True)

    now, more = in_use()
    assert now == threads
    assert more < descriptors + 3, "each refused one would leave three; the open one may connect or give up meanwhile"


def test_an_instance_that_was_refused_can_be_used_afterwards(consumer):
    assignor = RangeAssignor()
    with pytest.raises(ConfigError, match="lists 'range' twice"):
        consumer(assignor, RangeAssignor)
    made = consumer(assignor)
    assert assignor._attached() is made._coordinator


@pytest.mark.parametrize("cls", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_an_attached_assignor_starts_anew(consumer, cls, duplicate):
    """What the original holds, and in which generation, is true of its consumer alone."""
    assignor = cls(rack="r1")
    first = consumer(assignor)
    assignor.on_assignment(assigned(0, 1), 7)
    original = assignor.metadata({"t"}).encode()

    other = duplicate(assignor)

    assert other.metadata({"t"}).encode() == cls(rack="r1").metadata({"t"}).encode()
    second = consumer(other)
    assert (assignor._attached(), other._attached()) == (first._coordinator, second._coordinator)
    assert assignor.metadata({"t"}).encode() == original


def test_without_a_consumer_it_claims_what_it_got_of_topics_it_still_subscribes_to():
    assignor = CooperativeStickyAssignor()
    assert claims(assignor.metadata({"t"})) == ([], -1)

    assignor.on_assignment(ConsumerProtocolAssignment(3, [("t", [1, 0]), ("left", [0])], None), 7)
    assert claims(assignor.metadata({"t"})) == ([("t", 0), ("t", 1)], 7)

    assignor.lost()
    assert claims(assignor.metadata({"t"})) == ([], -1)


@pytest.mark.parametrize(
    ("name", "use"),
    [("need_rejoin", private.joining.must_rejoin), ("poll", lambda made: private.joining.rebalance(made, 0.0))],
)
def test_what_the_bridge_drives_says_what_is_missing(consumer, monkeypatch, name, use):
    """It can't do without, so it is an error; what is in `PRIVATE` is a warning (`test_renamed.py`)."""
    made = consumer(RangeAssignor)
    made.subscribe(["t"])
    use(made)
    for cls in (type(made._coordinator), *type(made._coordinator).__bases__):
        monkeypatch.delattr(cls, name, raising=False)
    vars(made._coordinator).pop(name, None)  # the guard's

    with pytest.raises(ConfigError, match=f"has no '{name}', without which only its own poll"):
        use(made)
