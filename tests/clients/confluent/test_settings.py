"""What each plane of the bridge gets of librdkafka's settings, and what is refused by name."""

from __future__ import annotations

import ssl
import time
from typing import Any

import confluent_kafka
import pytest
import trustme
from kafka import KafkaConsumer

from kafka_assignors.clients.confluent.settings import planes
from kafka_assignors.errors import ClusterError, ConfigError

BASE = {"bootstrap.servers": "a:1,b:2", "group.id": "billing"}
SCRAM = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": "secret",
}


def control(config: dict[str, Any], **overrules: Any) -> dict[str, Any]:
    divided = planes({**BASE, **config}, overrules)
    assert divided.control.keys() <= KafkaConsumer.DEFAULT_CONFIG.keys()
    return divided.control


def test_a_plain_configuration() -> None:
    divided = planes({**BASE, "auto.offset.reset": "earliest", "session.timeout.ms": "2000"}, {})

    assert divided.control == {
        "bootstrap_servers": ["a:1", "b:2"], "group_id": "billing", "session_timeout_ms": 2000,
        "allow_auto_create_topics": False, "security_protocol": "PLAINTEXT",
    }  # fmt: skip
    assert divided.data == {**BASE, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    assert (divided.auto_commit, divided.commit_every_s) == (True, 5.0)


@pytest.mark.parametrize(
    ("setting", "translated"),
    [
        ({"allow.auto.create.topics": True}, {"allow_auto_create_topics": True}),
        ({"allow.auto.create.topics": "false"}, {"allow_auto_create_topics": False}),
        ({"client.id": "c", "client.rack": "r"}, {"client_id": "c", "client_rack": "r"}),
        ({"group.instance.id": "one"}, {"group_instance_id": "one"}),
        ({"max.poll.interval.ms": 60000}, {"max_poll_interval_ms": 60000}),
        ({"heartbeat.interval.ms": 1000}, {"heartbeat_interval_ms": 1000}),
        ({"topic.metadata.refresh.interval.ms": 5000}, {"metadata_max_age_ms": 5000}),
        ({"socket.timeout.ms": 9000}, {"request_timeout_ms": 9000}),
        ({"reconnect.backoff.ms": 70, "retry.backoff.ms": 80}, {"reconnect_backoff_ms": 70, "retry_backoff_ms": 80}),
        ({"connections.max.idle.ms": 540000}, {"connections_max_idle_ms": 540000}),
        ({"client.dns.lookup": "use_all_dns_ips"}, {"client_dns_lookup": "use_all_dns_ips"}),
        ({"socket.receive.buffer.bytes": 65536}, {"receive_buffer_bytes": 65536}),
        (SCRAM, {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512",
                 "sasl_plain_username": "ann", "sasl_plain_password": "secret"}),
    ],
)  # fmt: skip
def test_a_setting_is_translated(setting: dict[str, Any], translated: dict[str, Any]) -> None:
    said = control(setting)

    assert {name: said[name] for name in translated} == translated


def test_the_other_name_of_bootstrap_servers() -> None:
    divided = planes({"metadata.broker.list": "c:3", "group.id": "billing"}, {})

    assert divided.control["bootstrap_servers"] == ["c:3"]
    with pytest.raises(ConfigError, match="set the same property"):
        planes({**BASE, "metadata.broker.list": "c:3"}, {})


def test_tls_by_pem_and_without_the_check_of_the_host_name(pem: str) -> None:
    said = control({"security.protocol": "SSL", "ssl.ca.pem": pem, "ssl.endpoint.identification.algorithm": "none"})[
        "ssl_context"
    ]

    assert isinstance(said, ssl.SSLContext)
    assert not said.check_hostname
    assert said.verify_mode == ssl.CERT_REQUIRED
    assert said.cert_store_stats()["x509"] == 1
    assert control({"security.protocol": "SSL", "ssl.ca.pem": pem})["ssl_context"].check_hostname


def test_a_token_callback_serves_both_planes() -> None:
    asked: list[str] = []

    def give(config: str) -> tuple[str, float, str, dict[str, str]]:
        asked.append(config)
        return f"token-{len(asked)}", time.time() + 100, "ann", {"tenant": "7"}

    oauth = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": give, "sasl.oauthbearer.config": "scope=x"}
    divided = planes({**BASE, "security.protocol": "SASL_PLAINTEXT", **oauth}, {})

    assert divided.data["oauth_cb"] is give
    assert divided.control["security_protocol"] == "SASL_PLAINTEXT"
    assert divided.control["sasl_mechanism"] == "OAUTHBEARER"
    tokens = divided.control["sasl_oauth_token_provider"]
    assert [tokens.token(), tokens.token()] == ["token-1", "token-1"]
    assert tokens.extensions() == {"tenant": "7"}
    assert asked == ["scope=x"]


def test_a_token_endpoint_serves_both_planes() -> None:
    oidc = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token", "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": "hunter2",
    }  # fmt: skip
    divided = planes({**BASE, **oidc}, {})

    assert {name: divided.data[name] for name in oidc} == oidc
    assert divided.control["sasl_mechanism"] == "OAUTHBEARER"
    with pytest.raises(ClusterError, match=r"http://127.0.0.1:1/token doesn't answer"):
        divided.control["sasl_oauth_token_provider"].token()


def test_what_control_gives_is_not_translated() -> None:
    context = ssl.create_default_context()
    said = control({**SCRAM, "security.protocol": "SASL_SSL", "ssl.keystore.location": "/none"}, ssl_context=context)

    assert said["ssl_context"] is context
    assert (said["security_protocol"], said["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    kerberos = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/none"}
    said = control(kerberos, sasl_mechanism="GSSAPI", sasl_kerberos_service_name="kafka")
    assert (said["security_protocol"], said["sasl_mechanism"]) == ("SASL_PLAINTEXT", "GSSAPI")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"group.id": ""}, "'group.id' is missing"),
        ({"bootstrap.servers": ""}, "'bootstrap.servers' is missing"),
        ({"partition.assignment.strategy": "range"}, "as the second argument"),
        ({"group.protocol": "consumer"}, "only the classic protocol"),
        ({"on_commit": print}, "`commit` waits"),
        ({"key.deserializer": str}, r"not a DeserializingConsumer; deserialize `key\(\)`"),
        ({"value.deserializer": str}, r"not a DeserializingConsumer; deserialize `value\(\)`"),
        ({"topic.blacklist": "a"}, "topic.blacklist='a' is not supported"),
        ({"topic.metadata.refresh.interval.ms": -1}, "the leader must find new topics"),
        ({"ssl.ca.location": "/none"}, "ssl.ca.location has no effect with security.protocol=PLAINTEXT"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/none"}, "ssl.ca.location"),
        ({"security.protocol": "SSL", "ssl.engine.location": "/none"}, "ssl.engine.location"),
        ({"security.protocol": "SSL", "ssl_ca": object()}, "ssl_ca can't be translated"),
        ({**SCRAM, "sasl.mechanisms": "OAUTHBEARER"}, "needs a callable oauth_cb"),
        ({**SCRAM, "sasl.mechanisms": "GSSAPI"}, "GSSAPI isn't translated: give control="),
        ({**SCRAM, "sasl.password": ""}, "needs a user"),
    ],
)
def test_a_setting_is_refused_by_name(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        control(config)


@pytest.mark.parametrize("name", ["enable_auto_commit", "partition_assignment_strategy", "bootstrap_servers"])
def test_control_may_not_overrule_what_both_planes_depend_on(name: str) -> None:
    with pytest.raises(ConfigError, match=f"control={{'{name}'"):
        control({}, **{name: "x"})


def test_librdkafka_knows_what_is_left_to_the_data_plane() -> None:
    divided = planes({**BASE, "isolation.level": "read_committed", "session.timeout.ms": 2000}, {})

    confluent_kafka.Consumer(divided.data).close()


@pytest.fixture(scope="module")
def pem() -> str:
    """Of a certificate authority."""
    return trustme.CA().cert_pem.bytes().decode()
