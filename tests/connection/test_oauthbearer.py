"""Users with tokens on a broker whose own validator reads them: refused in one sentence, or let in by every client.

The broker is Kafka's, with its ``OAuthBearerValidatorCallbackHandler``; the identity server is `tests.support`'s.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from kafka import KafkaConsumer, KafkaProducer
from typer.testing import CliRunner

from kafka_assignors import RangeAssignor
from kafka_assignors.connection import Connection, Right, brokers
from kafka_assignors.errors import AccessRefused, ClusterError, ConfigError
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.secured import LISTENER, Certificates
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import create_topics
from kafka_assignors.operator.cli.app import app
from tests.support.connection import tokens
from tests.support.connection.identity import AUDIENCE, ISSUER, IdentityServer, identity_server

pytestmark = pytest.mark.broker

SECRET = "wonderland-7"
RIGHTS = (
    Right("Read", "Topic", "orders"), Right("Write", "Topic", "orders"), Right("Read", "Topic", "__consumer_offsets"),
    Right("Read", "Group", "billing", prefixed=True), Right("Describe", "Group", "billing", prefixed=True),
)  # fmt: skip
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_JOINS_S = 90
_COUNTER = itertools.count()


def settings(identity: IdentityServer) -> dict[str, str]:
    """Settings of a broker whose secured listener also takes the tokens of an identity server."""
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        # a client shows a new token before the old one expires (KIP-368)
        f"{prefix}.oauthbearer.connections.max.reauth.ms": "3600000",
        "sasl.oauthbearer.jwks.endpoint.url": identity.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def identity() -> Iterator[IdentityServer]:
    with identity_server({"alice": SECRET, "stranger": SECRET}) as server:
        yield server


@pytest.fixture(scope="module")
def broker(identity: IdentityServer) -> Iterator[Broker]:
    with pytest.MonkeyPatch.context() as patch:
        # since Kafka 4.0 a JVM asks no URL that isn't named there
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={identity.keys_url}")
        started = start_broker(certificates=Certificates(), settings=settings(identity))
    with started:
        create_topics(started.bootstrap, {"orders": 4})
        assert started.secured is not None
        started.secured.allow("alice", RIGHTS)
        yield started


@pytest.fixture(scope="module")
def alice(broker: Broker, identity: IdentityServer) -> Connection:
    """By an identity server's token endpoint."""
    assert broker.secured is not None
    return Connection(
        broker.secured.bootstrap, "SASL_SSL", "OAUTHBEARER", ca=broker.secured.admin.ca,
        token_endpoint=identity.endpoint, client_id="alice", client_secret=SECRET, scope="kafka",
    )  # fmt: skip


@pytest.fixture
def by_function(alice: Connection, identity: IdentityServer, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """By a function, which the member processes import, too."""
    monkeypatch.setenv(tokens.ENDPOINT, identity.endpoint)
    monkeypatch.setenv(tokens.SECRET, SECRET)
    source = {"token_function": f"{tokens.__name__}:cloud", "token_argument": "alice"}
    return replace(alice, token_endpoint=None, client_id=None, client_secret=None, scope=None, **source)


def test_a_token_lets_in(alice: Connection, by_function: Connection) -> None:
    for user in (alice, by_function):
        assert len(brokers(user)) == 1
        assert user.user == "alice"


def test_a_token_that_the_broker_refuses(alice: Connection, identity: IdentityServer) -> None:
    """The broker's validator says no, and each sentence has whose token it is, and no token."""
    identity.audience = "another"
    try:
        other = replace(alice, scope="another audience")
        other.tokens().token()
    finally:
        identity.audience = AUDIENCE
    with pytest.raises(AccessRefused, match=r"refuses the token of 'alice' \(invalid_token\); check that the token's"):
        brokers(other)
    with identity_server({"alice": SECRET}) as impostor:
        foreign = replace(alice, token_endpoint=impostor.endpoint)
        with pytest.raises(AccessRefused, match=r"refuses the token of 'alice'") as refused:
            brokers(foreign)
    assert foreign.tokens().token().value not in str(refused.value)


def test_an_endpoint_that_refuses_or_is_silent(alice: Connection) -> None:
    with pytest.raises(AccessRefused, match=r"refuses client 'alice' \(401 invalid_client\); correct") as refused:
        brokers(replace(alice, client_secret="hunter2"))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ClusterError, match=r"http://127.0.0.1:1/token doesn't answer"):
        brokers(replace(alice, token_endpoint="http://127.0.0.1:1/token"))


def test_a_listener_without_tokens(alice: Connection, secured_broker: Broker) -> None:
    assert secured_broker.secured is not None
    there = replace(alice.at(secured_broker.secured.bootstrap), ca=secured_broker.secured.admin.ca)
    with pytest.raises(AccessRefused, match=r"sasl.mechanism=OAUTHBEARER is not among those .* \(SCRAM-SHA-512\)"):
        brokers(there)


def test_commands_name_the_user_and_the_missing_right(alice: Connection, identity: IdentityServer) -> None:
    stranger = replace(alice, client_id="stranger")
    with stranger.file() as config:
        done = CliRunner().invoke(app, ["keys", "audit", "orders", "--config", str(config)])
    assert done.exit_code == 3, done.output
    assert "user 'stranger' lacks the permission" in done.stderr
    assert "--allow-principal User:stranger" in done.stderr


def play(user: Connection, folder: Path, clients: Sequence[str]) -> str:
    """A group with a member of each client, stable; what is kept of it."""
    name = f"billing-{next(_COUNTER)}"
    with MemberGroup(user, name, folder, "run", session_timeout_ms=10_000) as group:
        for client in clients:
            group.start(client, ["orders"], ["range"], client=client)
        group.wait_stable(timeout_s=_JOINS_S)
        assert {path.name.split(".")[1] for path in folder.glob("*.0.jsonl")} == {*clients}
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


@pytest.mark.jvm
@pytest.mark.release("members of the Python clients get in by a function")
def test_members_of_every_client_get_in_by_a_token_endpoint(
    alice: Connection, identity: IdentityServer, tmp_path: Path
) -> None:
    """An endpoint of https, whose certificate is of an authority that only the settings name."""
    authority = trustme.CA()
    with identity_server({"alice": SECRET}, authority.issue_cert("localhost"), identity.key) as server:
        user = replace(alice, token_endpoint=server.endpoint, token_ca=authority.cert_pem.bytes().decode())
        kept = play(user, tmp_path, ("kafka-python", "java", "verifiable", "confluent", "aiokafka", "bridge"))
    assert SECRET not in kept
    assert "eyJ" not in kept  # how each JWT begins
    assert len(server.asked) >= 6  # Java's and librdkafka's clients ask themselves


def test_members_of_python_s_clients_get_in_by_a_function(by_function: Connection, tmp_path: Path) -> None:
    kept = play(by_function, tmp_path, ("kafka-python", "verifiable", "confluent", "aiokafka", "bridge"))
    assert SECRET not in kept


def test_a_java_member_does_not_start_with_a_function(by_function: Connection, tmp_path: Path) -> None:
    with (
        MemberGroup(by_function, f"billing-{next(_COUNTER)}", tmp_path, "run") as group,
        pytest.raises(ConfigError, match="a function in Python, which Java's clients and Spark can't call"),
    ):
        group.start("m1", ["orders"], ["range"], client="java")


@pytest.mark.parametrize("way", ["alice", "by_function"])
def test_commands_read_a_group(way: str, request: pytest.FixtureRequest, broker: Broker) -> None:
    user: Connection = request.getfixturevalue(way)
    name = f"billing-{next(_COUNTER)}"
    ours = {"partition_assignment_strategy": [RangeAssignor], "auto_offset_reset": "earliest"}
    with (
        closing(KafkaProducer(**user.kafka_python())) as producer,
        closing(KafkaConsumer("orders", **user.kafka_python(), group_id=name, client_id="owner", **ours)) as consumer,
    ):
        producer.send("orders", b"x").get(20)
        deadline = time.monotonic() + _JOINS_S
        while not consumer.poll(timeout_ms=1000):
            assert time.monotonic() < deadline, f"no record within {_JOINS_S} s"
        consumer.commit()
        with user.file() as config:
            outputs = {}
            for words in (["groups"], ["plan", name], ["why", name], ["watch", name, "--once", "--json"]):
                done = CliRunner().invoke(app, [*words, "--config", str(config)])
                assert done.exit_code == 0, (words, done.output, done.exception)
                assert SECRET not in done.output
                outputs[words[0]] = done.stdout
    assert name in outputs["groups"]
    assert [row["partition"] for row in json.loads(outputs["watch"])["owned"]] == [0, 1, 2, 3]


@pytest.mark.release("test_tokens.py renews them without a broker")
def test_a_consumer_shows_new_tokens_before_the_old_ones_expire(alice: Connection, identity: IdentityServer) -> None:
    """Through two renewals: each connection is one whose token hasn't expired (KIP-368).

    kafka-python authenticates again after 85 to 95 % of a token's life; a busy machine needs some time for that.
    """
    short = replace(alice, scope="short")
    identity.lifetime_s = 12
    try:
        with closing(KafkaProducer(**short.kafka_python(), retries=0)) as producer:
            deadline = time.monotonic() + 60
            while sum(form.get("scope") == "short" for form in identity.asked) < 3:
                assert time.monotonic() < deadline, "no new token"
                producer.send("orders", b"x").get(20)
    finally:
        identity.lifetime_s = 600
