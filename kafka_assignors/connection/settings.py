"""The settings of a connection, and one table of each client's names for them."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from . import jaas
from .oauth import CachedTokens, Grant, aiokafka_provider, kafka_python_provider, oauth_cb, tokens
from .properties import render

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = tuple(jaas.MODULES)
OAUTHBEARER = "OAUTHBEARER"
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
"""Java's class that gets tokens from an endpoint, in all versions since 3.4."""
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Name(NamedTuple):
    """A setting's name for each client. None: the client has no such setting, and gets the value in another form.

    Args:
        java: Kafka's own name; Spark prefixes it with ``kafka.``.
        librdkafka: Its names, the one to write first.
        secret: Whether the value must never be shown.
    """

    java: str | None
    librdkafka: tuple[str, ...] = ()
    python: str | None = None
    aiokafka: str | None = None
    secret: bool = False


NAMES: Mapping[str, Name] = {
    "bootstrap": Name(
        "bootstrap.servers", ("bootstrap.servers", "metadata.broker.list"), "bootstrap_servers", "bootstrap_servers"
    ),
    "protocol": Name("security.protocol", ("security.protocol",), "security_protocol", "security_protocol"),
    "mechanism": Name("sasl.mechanism", ("sasl.mechanism", "sasl.mechanisms"), "sasl_mechanism", "sasl_mechanism"),
    # Java has these two in sasl.jaas.config
    "username": Name(None, ("sasl.username",), "sasl_plain_username", "sasl_plain_username"),
    "password": Name(None, ("sasl.password",), "sasl_plain_password", "sasl_plain_password", secret=True),
    # Java has all of these but one in sasl.jaas.config, Python has them in the token provider
    "client_id": Name(None, ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")),
    "client_secret": Name(
        None, ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"), secret=True
    ),
    "scope": Name(None, ("sasl.oauthbearer.scope",)),
    "extensions": Name(None, ("sasl.oauthbearer.extensions",)),
    "token_endpoint": Name("sasl.oauthbearer.token.endpoint.url", ("sasl.oauthbearer.token.endpoint.url",)),
    "token_function": Name(None, ("oauth_cb",), "sasl_oauth_token_provider", "sasl_oauth_token_provider"),
    "token_argument": Name(None, ("sasl.oauthbearer.config",)),
    "token_ca": Name(None, ("https.ca.pem",)),
    # Python has these five in ssl_context
    "ca": Name("ssl.truststore.certificates", ("ssl.ca.pem",)),
    "certificate": Name("ssl.keystore.certificate.chain", ("ssl.certificate.pem",)),
    "key": Name("ssl.keystore.key", ("ssl.key.pem",), secret=True),
    "key_password": Name("ssl.key.password", ("ssl.key.password",), secret=True),
    "hostname_check": Name("ssl.endpoint.identification.algorithm", ("ssl.endpoint.identification.algorithm",)),
    "dns_lookup": Name("client.dns.lookup", ("client.dns.lookup",), "client_dns_lookup"),
    "request_timeout": Name("request.timeout.ms", ("socket.timeout.ms",), "request_timeout_ms", "request_timeout_ms"),
    "reconnect_backoff": Name("reconnect.backoff.ms", ("reconnect.backoff.ms",), "reconnect_backoff_ms"),
    "reconnect_backoff_max": Name(
        "reconnect.backoff.max.ms", ("reconnect.backoff.max.ms",), "reconnect_backoff_max_ms"
    ),
    "idle": Name(
        "connections.max.idle.ms", ("connections.max.idle.ms",), "connections_max_idle_ms", "connections_max_idle_ms"
    ),
}
"""`Connection`'s fields -> their names. The only place that knows the clients' names."""

ALSO_READ = {
    "sasl.jaas.config": True, "ssl.truststore.location": False, "ssl.truststore.password": True,
    "ssl.truststore.type": False, "ssl.keystore.location": False, "ssl.keystore.password": True,
    "ssl.keystore.type": False, "ssl.ca.location": False, "ssl.certificate.location": False,
    "ssl.key.location": False, "enable.ssl.certificate.verification": False, "sasl.login.callback.handler.class": False,
    "sasl.oauthbearer.method": False, "sasl.oauthbearer.grant.type": False,
    "sasl.oauthbearer.jwt.retriever.class": False, "https.ca.location": False,
}  # fmt: skip
"""Names that are read and converted to other fields -> whether the value is secret."""

NOT_OURS = frozenset({
    "acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "batch.size", "buffer.memory",
    "check.crcs", "client.id", "client.rack", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "default.api.timeout.ms", "delivery.timeout.ms", "enable.auto.commit",
    "enable.idempotence", "enable.metrics.push", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor",
    "heartbeat.interval.ms", "interceptor.classes", "isolation.level", "key.deserializer", "key.serializer",
    "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "max.poll.records", "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
    "partitioner.ignore.keys", "receive.buffer.bytes", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "send.buffer.bytes", "session.timeout.ms", "share.acknowledgement.mode", "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
    "transactional.id", "value.deserializer", "value.serializer",
})  # fmt: skip
"""Java's other client settings. Each command decides how to consume or produce, so these are listed as ignored."""


@dataclass(frozen=True)
class Connection:
    """The settings needed to reach a cluster. `str` shows only the addresses; no representation shows a secret.

    Args:
        bootstrap: ``host:port``, several with commas.
        protocol: One of `PROTOCOLS`.
        mechanism: One of `MECHANISMS` if `protocol` has SASL, else None.
        username, password: Credentials of the mechanism.
        ca: Trusted certificates as PEM; None for the machine's.
        certificate, key, key_password: The client's certificate and key as PEM; None for none.
        hostname_check: ``https``; or ``none``: the certificate need not name the host.
        dns_lookup, request_timeout, reconnect_backoff, reconnect_backoff_max, idle: As in Java, times in
            milliseconds. None: each client's default.
        ignored: Names of given settings that are not about the connection.
        token_endpoint, client_id, client_secret, scope: For OAUTHBEARER, a token endpoint and the credentials there.
        token_function, token_argument: For OAUTHBEARER, ``module:function`` that returns a token, and its text.
        extensions: SASL extensions beside the token, as ``name=value,…``.
        token_ca: Trusted certificates for the token endpoint as PEM; None for the machine's.
    """

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    hostname_check: str = "https"
    dns_lookup: str | None = None
    request_timeout: str | None = None
    reconnect_backoff: str | None = None
    reconnect_backoff_max: str | None = None
    idle: str | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    token_function: str | None = None
    token_argument: str | None = None
    extensions: str | None = None
    token_ca: str | None = field(default=None, repr=False)

    @staticmethod
    def of(where: str | Connection) -> Connection:
        """Convert to a connection; plain text for a bare ``host:port``."""
        return where if isinstance(where, Connection) else Connection(where)

    def __str__(self) -> str:
        return self.bootstrap

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether a user logs in."""
        return self.protocol.startswith("SASL")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        values = (getattr(self, name) for name, row in NAMES.items() if row.secret)
        return tuple(value for value in values if value)

    @property
    def user(self) -> str:
        """Whom the broker knows this client as: the user's name, or the subject of the token if one was got."""
        if self.mechanism == OAUTHBEARER:
            return self.tokens().subject or self.client_id or str(self.token_function)
        return self.username or "ANONYMOUS"

    @property
    def grant(self) -> Grant:
        """The source of its tokens, for OAUTHBEARER."""
        credentials = (self.token_endpoint, self.client_id, self.client_secret, self.scope)
        return Grant(*credentials, self.token_function, self.token_argument or "", self.extensions, self.token_ca)

    def tokens(self) -> CachedTokens:
        """Its tokens, for OAUTHBEARER; the same object for the same settings. ConfigError if they have no source."""
        return tokens(self.grant)

    def at(self, bootstrap: str) -> Connection:
        """The same settings for other addresses."""
        return replace(self, bootstrap=bootstrap)

    def kafka_python(self) -> dict[str, Any]:
        """Configuration for kafka-python's clients."""
        return self._python("python", self.bootstrap.split(","), kafka_python_provider)

    def aiokafka(self) -> dict[str, Any]:
        """Configuration for aiokafka's clients, which have no settings for DNS lookup and backoff."""
        return self._python("aiokafka", self.bootstrap, aiokafka_provider)

    def librdkafka(self) -> dict[str, Any]:
        """Configuration for confluent-kafka's clients. librdkafka itself asks a token endpoint."""
        values = self._settings()
        config: dict[str, Any] = {row.librdkafka[0]: values[name] for name, row in NAMES.items() if name in values}
        if self.token_function is not None:
            config["oauth_cb"] = oauth_cb(self.tokens(), self.grant.named_extensions)
            for name in ("token_argument", "extensions"):  # the function's result has both
                config.pop(NAMES[name].librdkafka[0], None)
        elif self.mechanism == OAUTHBEARER:
            config["sasl.oauthbearer.method"] = "oidc"
        return config

    def java(self) -> dict[str, str]:
        """Configuration for Java's clients. Stores are inline PEM, so the client's host needs no files.

        With a `token_endpoint`, a JVM also needs `java_options`.

        Raises:
            ConfigError: Tokens come from a function in Python, which Java can't call.
        """
        if self.token_function is not None:
            raise ConfigError(
                f"{self}: tokens come from {self.token_function}, a function in Python, which Java's clients and Spark "
                "can't call; give them sasl.oauthbearer.token.endpoint.url with sasl.oauthbearer.client.id and "
                "sasl.oauthbearer.client.secret"
            )
        return self._java()

    def java_options(self) -> list[str]:
        """Options of a JVM for `java`'s settings: since Kafka 4.0 it may only ask token endpoints that one names."""
        return [] if self.token_endpoint is None else [f"-D{_ALLOWED_URLS}={self.token_endpoint}"]

    def _java(self) -> dict[str, str]:
        values = self._settings()
        config = {row.java: values[name] for name, row in NAMES.items() if row.java is not None and name in values}
        if self.hostname_check == "none":
            config["ssl.endpoint.identification.algorithm"] = ""
        if self.mechanism is not None and self.token_function is None:
            config["sasl.jaas.config"] = jaas.render(jaas.login(self.mechanism, self._login_options()))
        if self.token_endpoint is not None:
            config["sasl.login.callback.handler.class"] = LOGIN_HANDLER
        config |= {
            f"ssl.{store}.type": "PEM" for store, pem in (("truststore", self.ca), ("keystore", self.key)) if pem
        }
        return config

    def _login_options(self) -> dict[str, str]:
        if self.mechanism != OAUTHBEARER:
            return {"username": self.username or "", "password": self.password or ""}
        options = {"clientId": self.client_id or "", "clientSecret": self.client_secret or ""}
        extensions = {f"extension_{name}": value for name, value in self.grant.named_extensions.items()}
        trusted = {} if self.token_ca is None else {jaas.CA: self.token_ca, jaas.CA_TYPE: "PEM"}
        return {**options, **({} if self.scope is None else {"scope": self.scope}), **extensions, **trusted}

    def portable(self) -> dict[str, str]:
        """All settings as text that `read_connection` and `from_settings` read, in another process of ours, too.

        They have Java's names; the function that gives tokens, which Java lacks, has librdkafka's.
        """
        if self.token_function is None:
            return self._java()
        values = self._settings()
        names = ("token_function", "token_argument", "extensions")
        return {**self._java(), **{NAMES[name].librdkafka[0]: values[name] for name in names if name in values}}

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source and sink. Raises as `java`."""
        return {f"kafka.{name}": value for name, value in self.java().items()}

    def properties(self) -> str:
        """A ``client.properties`` for `read_connection` and Java, including secrets: keep it private."""
        return render(self.portable())

    @contextlib.contextmanager
    def file(self) -> Iterator[Path]:
        """Write `properties` to a temporary file that only this user can read. A killed process leaves it behind."""
        with tempfile.TemporaryDirectory(prefix="kafka-client-") as folder:
            yield self.write(Path(folder))

    def write(self, folder: Path) -> Path:
        """Write `properties` to a new file in a folder, which only this user can read; its path."""
        path = folder / "client.properties"
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(self.properties(), "ascii")
        return path

    def ssl_context(self) -> ssl.SSLContext:
        """Python's TLS settings. Raises ssl.SSLError if a certificate or key is unreadable, or its password wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.hostname_check != "none"
        if self.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.ca)
        if self.key is not None:
            with _file_of(f"{self.certificate}{self.key}") as path:
                context.load_cert_chain(path, password=self.key_password or "")
        return context

    def _settings(self) -> dict[str, str]:
        """Field -> value, for fields that differ from every client's default."""
        default = {f.name: f.default for f in fields(self)}
        return {n: str(v) for n in NAMES if (v := getattr(self, n)) is not None and v != default[n]}

    def _python(self, client: str, bootstrap: object, provider: Callable[..., Any]) -> dict[str, Any]:
        config: dict[str, Any] = {
            getattr(NAMES[name], client): int(value) if value.isdecimal() and name not in _TEXT else value
            for name, value in self._settings().items()
            if getattr(NAMES[name], client) is not None
        }
        config["bootstrap_servers"] = bootstrap
        if self.mechanism == OAUTHBEARER:
            config["sasl_oauth_token_provider"] = provider(self.tokens(), self.grant.named_extensions)
        if self.tls:
            config["ssl_context"] = self.ssl_context()
        return config


@contextlib.contextmanager
def _file_of(text: str) -> Iterator[str]:
    """A path at which OpenSSL, which loads keys from files only, reads `text`: in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client.pem"), "w", encoding="ascii") as kept:
            kept.write(text)
            kept.flush()
            yield f"/proc/self/fd/{kept.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w", encoding="ascii") as kept:  # for this user alone
            kept.write(text)
            kept.flush()
            yield kept.name


_TEXT = ("username", "password", "bootstrap")
