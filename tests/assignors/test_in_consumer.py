"""The assignor classes in real KafkaConsumers: whose they are, which protocol is in force, what they may claim."""

from __future__ import annotations

import functools
import gc
import socket
import types

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.base import Generation
from kafka.errors import KafkaConfigurationError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import TopicPartition

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
from kafka_assignors.errors import ConfigError

CLASSES = [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
COOPERATIVE, EAGER = RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER


@pytest.fixture
def consumer():
    """Makes consumers; they join a group when they are polled, and these are not. Their broker never says a word."""
    made, silent = [], socket.create_server(("127.0.0.1", 0))

    def make(*strategy, **config):
        made.append(
            KafkaConsumer(
                bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}",
                group_id="g",
                api_version=(2, 5),
                partition_assignment_strategy=list(strategy),
                **config,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close(autocommit=False)
    silent.close()


def sent_by(consumer):
    """Assignor name -> the subscription that the consumer would join with."""
    if not consumer.subscription():
        consumer.subscribe(["t"])
    return dict(consumer._coordinator.group_protocols())


def holding(consumer, *partitions):
    """The consumer as it is in generation 7, with these partitions of its subscription."""
    consumer.subscribe(["t"])
    consumer._coordinator._generation = Generation(7, "m-1", "cooperative-sticky")
    consumer._subscription.assign_from_subscribed([TopicPartition("t", p) for p in partitions])


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


def test_a_consumer_is_not_kept_alive(consumer):
    """kafka-python's client refers to itself, so what is kept shows only after a collection of cycles."""
    assignor = CooperativeStickyAssignor()
    made = KafkaConsumer.__new__(KafkaConsumer)
    made.config = {"partition_assignment_strategy": [assignor]}
    assignor.attach(made)
    assert assignor._attached() is made

    del made
    gc.collect()

    assert assignor._attached() is None
    assignor.on_assignment(assigned(0), 3)
    assert claims(assignor.metadata({"t"})) == ([], 3)  # whoever held it is gone


# ---------------------------------------------------------------------------------------------- the protocol in force


@pytest.mark.parametrize("cls", [RangeAssignor, RoundRobinAssignor, StickyAssignor])
def test_eager_assignors_are_eager(cls):
    assert cls().supported_protocols() == [EAGER]


@pytest.mark.source("apache/kafka 4.3.0 CooperativeStickyAssignor.supportedProtocols")
@pytest.mark.parametrize(
    ("protocol", "supported"),
    [("auto", [COOPERATIVE, EAGER]), ("cooperative", [COOPERATIVE]), ("eager", [EAGER])],
)
def test_cooperative_sticky_supports_both_unless_told_otherwise(protocol, supported):
    assert CooperativeStickyAssignor(protocol=protocol).supported_protocols() == supported


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


def test_a_wrapped_assignor_finds_its_consumer_too(consumer):
    class Wrapped(AbstractPartitionAssignor):
        name = "cooperative-sticky"

        def __init__(self, inner):
            self.inner = inner

        def supported_protocols(self):
            return self.inner.supported_protocols()

        def metadata(self, topics):
            return self.inner.metadata(topics)

        def assign(self, cluster, members):
            return self.inner.assign(cluster, members)

        def on_assignment(self, assignment, generation):
            self.inner.on_assignment(assignment, generation)

    made = consumer(Wrapped(CooperativeStickyAssignor()), RangeAssignor)
    holding(made, 0)
    assert claims(sent_by(made)["cooperative-sticky"])[0] == []


def test_asked_by_a_kafka_python_that_hides_its_consumer_it_is_cooperative_alone():
    """A later kafka-python may ask from elsewhere. Then a list with an eager assignor is refused, not mistaken."""
    asking = types.FunctionType(
        (lambda assignor: set(assignor.supported_protocols())).__code__, {"__name__": "kafka.coordinator.elsewhere"}
    )

    assert asking(CooperativeStickyAssignor()) == {COOPERATIVE}
    assert asking(CooperativeStickyAssignor(protocol="eager")) == {EAGER}
    assert asking(RangeAssignor()) == {EAGER}


def test_without_a_consumer_it_claims_what_it_got_of_topics_it_still_subscribes_to():
    assignor = CooperativeStickyAssignor()
    assert claims(assignor.metadata({"t"})) == ([], -1)

    assignor.on_assignment(ConsumerProtocolAssignment(3, [("t", [1, 0]), ("left", [0])], None), 7)
    assert claims(assignor.metadata({"t"})) == ([("t", 0), ("t", 1)], 7)

    assignor.lost()
    assert claims(assignor.metadata({"t"})) == ([], -1)
