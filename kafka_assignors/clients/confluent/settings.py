"""Divide librdkafka's configuration between the two planes: every setting is translated, or rejected by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...connection import from_settings
from ...connection.oauth import CachedTokens, kafka_python_provider, of_answer
from ...connection.read import concerns_connection
from ...errors import ConfigError

_MEMBER = {
    "group.instance.id": "group_instance_id",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
}
"""Settings of the group member, only for the control plane -> kafka-python's names."""
_SHARED = {
    "client.id": "client_id",
    "client.rack": "client_rack",
    "group.id": "group_id",
    "allow.auto.create.topics": "allow_auto_create_topics",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
}
"""Settings for both planes -> kafka-python's names. `kafka_assignors.connection` handles connection settings."""
_OURS = {"enable.auto.commit": True, "auto.commit.interval.ms": 5000}
_REFUSED = {
    "partition.assignment.strategy": "give the assignors as the second argument",
    "group.protocol": "the bridge supports only the classic protocol; other protocols have no client-side assignors",
    "group.remote.assignor": "assignors run in the members; give them as the second argument",
    "enable.auto.offset.store": "the bridge commits records that `poll` returned, or the offsets that you `commit`",
    "on_commit": "`commit` waits for the response and raises",
    "key.deserializer": "the bridge is not a DeserializingConsumer; deserialize `key()` of each message",
    "value.deserializer": "the bridge is not a DeserializingConsumer; deserialize `value()` of each message",
    "topic.blacklist": (
        "the assignor would still assign these topics; subscribe only to the names or patterns that you want"
    ),
}
_FIXED = ("partition_assignment_strategy", "enable_auto_commit", "group_id", "bootstrap_servers")
_TLS_OBJECTS = ("ssl_ca", "ssl_certificate", "ssl_key", "ssl.certificate.verify_cb")


class Planes(NamedTuple):
    """The settings of both planes, and the bridge's own. `control` is for ``KafkaConsumer``, without the assignors."""

    data: dict[str, Any]
    control: dict[str, Any]
    auto_commit: bool
    commit_every_s: float


def planes(config: Mapping[str, Any], control: Mapping[str, Any]) -> Planes:
    """Divide a configuration that has librdkafka's names.

    `control` has settings for the control plane by kafka-python's names, which override translated ones. With an
    ``ssl_context`` no TLS setting is translated, with a ``sasl_mechanism`` no SASL setting.

    Raises:
        ConfigError: A setting is missing, has no meaning here, or cannot be translated; the message names it.
    """
    for name, why in _REFUSED.items():
        if name in config and not (name == "group.protocol" and str(config[name]).lower() == "classic"):
            raise ConfigError(f"{name}={config[name]!r} is not supported: {why}")
    for name in _FIXED:
        if name in control:
            raise ConfigError(
                f"control={{{name!r}: …}} is reserved: the bridge sets it, because both planes depend on it"
            )
    for name in ("group.id", "bootstrap.servers"):
        if not config.get(name) and not (name == "bootstrap.servers" and config.get("metadata.broker.list")):
            raise ConfigError(f"{name!r} is missing: the bridge needs it to join a group")
    ours = {**_OURS, **{name: config[name] for name in _OURS if name in config}}
    data = {name: value for name, value in config.items() if name not in {*_MEMBER, *_OURS, "group.protocol"}}
    # By default librdkafka does not create topics on subscription, but kafka-python does.
    control_settings: dict[str, Any] = {"allow_auto_create_topics": False}
    for name, theirs in {**_MEMBER, **_SHARED}.items():
        if name in config:
            control_settings[theirs] = _typed(name, config[name])
    if control_settings.get("metadata_max_age_ms", 0) < 0:
        raise ConfigError(
            "topic.metadata.refresh.interval.ms below 0 is not supported: the leader must find new topics"
        )
    translated = {name: value for name, value in control_settings.items() if value is not None}
    return Planes(
        {**data, "enable.auto.commit": False}, {**translated, **_reaching(config, control), **control},
        str(ours["enable.auto.commit"]).lower() == "true", int(ours["auto.commit.interval.ms"]) / 1000,
    )  # fmt: skip


def _typed(name: str, value: Any) -> Any:
    if name == "allow.auto.create.topics":
        return str(value).lower() == "true"
    if name.endswith(".bytes"):
        return int(value) or None  # 0 is the system's default
    return int(value) if name.endswith(".ms") else value


def _reaching(config: Mapping[str, Any], control: Mapping[str, Any]) -> dict[str, Any]:
    """Connection settings of the control plane."""
    reaching = {name: value for name, value in config.items() if concerns_connection(name)}
    protocol = str(config.get("security.protocol", "PLAINTEXT")).upper()
    read_as, sasl_settings = protocol, dict[str, Any]()
    if protocol.startswith("SASL") and (own := {} if "sasl_mechanism" in control else _login(config)) is not None:
        reaching = {name: value for name, value in reaching.items() if not name.startswith(("sasl.", "oauth_cb"))}
        read_as, sasl_settings = read_as.replace("SASL_", ""), own
    if "ssl_context" in control:
        reaching = {name: value for name, value in reaching.items() if not name.startswith(("ssl.", "enable.ssl."))}
        read_as = {"SSL": "PLAINTEXT", "SASL_SSL": "SASL_PLAINTEXT"}.get(read_as, read_as)
    elif tls_objects := [name for name in _TLS_OBJECTS if name in config]:
        raise ConfigError(
            f"{tls_objects[0]} can't be translated for kafka-python: give control={{'ssl_context': …}} for the control "
            "plane"
        )
    reaching["security.protocol"] = read_as
    return {**from_settings(reaching).kafka_python(), "security_protocol": protocol, **sasl_settings}


def _login(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """kafka-python's settings of a login that `kafka_assignors.connection` doesn't translate; None for all others."""
    mechanism = str(config.get("sasl.mechanism", config.get("sasl.mechanisms", ""))).upper()
    if mechanism == "OAUTHBEARER" and str(config.get("sasl.oauthbearer.method", "default")).lower() != "oidc":
        if not callable(ask := config.get("oauth_cb")):
            raise ConfigError(
                "sasl.mechanism=OAUTHBEARER needs a callable oauth_cb, which serves both planes, or "
                "sasl.oauthbearer.method=oidc with a token endpoint; for anything else give "
                "control={'sasl_mechanism': 'OAUTHBEARER', 'sasl_oauth_token_provider': …}"
            )
        argument = str(config.get("sasl.oauthbearer.config", ""))
        tokens = CachedTokens(lambda: of_answer(ask(argument), time.time(), "oauth_cb"), "oauth_cb")
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": kafka_python_provider(tokens, {})}
    if mechanism == "GSSAPI":
        raise ConfigError(
            "sasl.mechanism=GSSAPI isn't translated: give control={'sasl_mechanism': 'GSSAPI', "
            "'sasl_kerberos_service_name': …} for the control plane, which uses the ticket of the credential cache"
        )
    return None
