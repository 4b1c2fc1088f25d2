"""Ask one broker for the cluster's nodes or a topic's partitions, with a user's settings; if it refuses, name the
refused setting and the reason.

An open port is not a ready broker, and client libraries retry and log until their timeout; this asks once. It reports
only what it has observed: if a plain or encrypted request gets no answer, it tries the other.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from ..core.wire.primitives import Reader
from ..errors import AccessRefused, ClusterError, ConfigError, KafkaAssignorsError, WireError
from .rights import Right, refusal
from .scram import Scram
from .settings import OAUTHBEARER, Connection

_METADATA, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 3, 17, 36
_CORRELATION = 7
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34
_TLS_ALERT = b"\x15\x03"
_EXPIRED, _NOT_YET, _OTHER_HOST = (10,), (9,), (62, 64)  # X509_V_ERR_*
_UNKNOWN_TOPIC, _NO_LEADER_YET, _INVALID_NAME, _TOPIC_DENIED = 3, 5, 17, 29
_LONGEST_TOPIC = 249  # characters
_SECOND_LOOK_S = 2.0

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class BrokerNode:
    """A broker in the Metadata response."""

    node_id: int
    host: str
    port: int
    rack: str | None


class NotKafka(KafkaAssignorsError, ValueError):
    """The answer is not in Kafka's protocol."""


class _Encrypted(KafkaAssignorsError):
    """The answer is TLS."""


def brokers(where: str | Connection, timeout_s: float = 5) -> list[BrokerNode]:
    """Ask for the live brokers of the cluster; of several addresses, with commas, the first that answers decides.

    `timeout_s` is for all addresses together.

    Raises:
        AccessRefused: The cluster refuses the certificate, user or protocol, or the client gets no token; one sentence.
        ConfigError: An address is not ``host:port``.
        OSError: No connection, or no complete answer in time; if there are several addresses, it says what each did.
        ValueError: The answer is not Kafka's.
    """
    asked = struct.pack(">i", 0)
    return _first(Connection.of(where), timeout_s, lambda line: _nodes(Reader(line.ask(_METADATA, 1, asked), "answer")))


def partition_count(connection: Connection, topic: str, timeout_s: float = 5) -> int:
    """Ask for a topic's number of partitions, those without a leader included; 0: the cluster has no such topic.

    A topic that doesn't exist is not created. `timeout_s` is for all addresses together.

    Raises:
        AccessRefused: The cluster refuses the user or the protocol, or the user may not see the topic.
        ConfigError: An address is not ``host:port``.
        OSError, ValueError: No connection, no complete answer in time, or not Kafka's answer.
    """
    if len(topic) > _LONGEST_TOPIC:
        return 0
    # Version 4 is the first that can forbid the topic's creation; brokers have it since Kafka 1.0.
    asked = struct.pack(">i", 1) + _text(topic) + b"\0"
    code, count = _first(connection, timeout_s, lambda line: _parse_topic(line.ask(_METADATA, 4, asked)))
    if code == _TOPIC_DENIED:
        raise refusal(connection, Right("Describe", "Topic", topic))
    if code not in (0, _UNKNOWN_TOPIC, _NO_LEADER_YET, _INVALID_NAME):
        raise OSError(f"{connection}: the metadata of topic {topic!r} have Kafka's error code {code}")
    return count


def request(connection: Connection, api: int, version: int, body: bytes, timeout_s: float = 5) -> bytes:
    """Send one request of Kafka's protocol; the first address that answers decides.

    `version`'s header is not flexible; `body` and the response are without headers. `timeout_s` is for all addresses.

    Raises:
        AccessRefused: The cluster refuses the certificate, the user or the protocol.
        ConfigError: An address is not ``host:port``.
        OSError, ValueError: No connection, no complete answer in time, or not Kafka's answer.
    """
    return _first(connection, timeout_s, lambda line: line.ask(api, version, body))


def _first(connection: Connection, timeout_s: float, question: Callable[[_Line], _Answer]) -> _Answer:
    """The answer of the first address that has one."""
    addresses(connection.bootstrap)  # reject an invalid address before any request
    asked = [address.strip() for address in connection.bootstrap.split(",")]
    met: list[str] = []
    deadline = time.monotonic() + timeout_s
    for left, at in zip(range(len(asked), 0, -1), asked, strict=True):
        now = time.monotonic()
        try:
            return _answer(connection.at(at), now + max(0.1, (deadline - now) / left), question)
        except ConfigError:
            raise
        except (OSError, ValueError) as error:
            if len(asked) == 1:
                raise
            met.append(f"{at}: {str(error) or type(error).__name__}")
    raise OSError("; ".join(met))


def require_access(connection: Connection, timeout_s: float = 3) -> None:
    """Raise AccessRefused or ConfigError if the cluster refuses the user or the protocol, or an address is invalid.

    If the cluster is silent, the client may keep retrying.
    """
    try:
        brokers(connection, timeout_s)
    except ConfigError:
        raise
    except (OSError, ValueError):
        pass


def require_cluster(connection: Connection, timeout_s: float = 5) -> None:
    """Raise ClusterError if no broker answers in time: kafka-python's constructors would wait for half a minute.

    A refusal raises AccessRefused, and an invalid address ConfigError.
    """
    try:
        brokers(connection, timeout_s)
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Kafka broker answers at {connection}: {error or type(error).__name__}") from error


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Split ``host:port,…`` into pairs; IPv6 as ``[::1]:9092``. Raises ConfigError if an item has another form."""
    pairs = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"bootstrap {address!r} is not 'host:port', e.g. '127.0.0.1:9092'; separate several with commas"
            )
        pairs.append((host.strip("[]"), int(port)))
    return pairs


def _answer(connection: Connection, deadline: float, question: Callable[[_Line], _Answer]) -> _Answer:
    try:
        with _opened(connection, deadline) as line:
            if connection.sasl:
                _log_in(line, connection)
            return question(line)
    except _Encrypted:
        raise _wants_tls(connection) from None
    except (NotKafka, WireError) as error:
        raise NotKafka(f"{connection} does not use Kafka's protocol: {error}") from error
    except ConnectionRefusedError:  # nothing listens, so no other protocol can help
        raise
    except ConnectionError as error:
        raise _explained(connection, error) from None


@contextlib.contextmanager
def _opened(connection: Connection, deadline: float) -> Iterator[_Line]:
    [(host, port)] = addresses(connection.bootstrap)
    with socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic())) as plain:
        if not connection.tls:
            yield _Line(plain, deadline)
            return
        try:
            with connection.ssl_context().wrap_socket(plain, server_hostname=host) as encrypted:
                yield _Line(encrypted, deadline)
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(connection, host, error) from None
        except ssl.SSLError as error:
            raise (_certificate_refused(connection, error) or _explained(connection, error)) from None


class _Line:
    """A connection on which one request at a time is asked."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket, self._deadline = connected, deadline

    def ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send a request; the body of the response.

        Raises:
            _Encrypted: TLS answers.
            OSError: No complete response in time.
            NotKafka: Another protocol answers.
        """
        request = struct.pack(">hhih", api, version, _CORRELATION, -1) + body
        self._socket.settimeout(max(0.1, self._deadline - time.monotonic()))
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        head = self._receive(4)
        (size,) = struct.unpack(">i", head)
        if head.startswith(_TLS_ALERT):
            raise _Encrypted
        if not 4 <= size <= 10_000_000:
            raise NotKafka(f"a response of {size} bytes")
        answer = self._receive(size)
        if struct.unpack_from(">i", answer) != (_CORRELATION,):
            raise NotKafka("a response to another request")
        return answer[4:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no complete response in time")
            self._socket.settimeout(left)
            block = self._socket.recv(size - len(data))
            if not block:
                raise ConnectionAbortedError("closed the connection without a response")
            data += block
        return data


def _log_in(line: _Line, connection: Connection) -> None:
    mechanism, user, password = connection.mechanism or "", connection.username or "", connection.password or ""
    answer = line.ask(_SASL_HANDSHAKE, 1, _text(mechanism))
    read = Reader(answer, "answer")
    code = read.int16()
    if code == _UNSUPPORTED_MECHANISM:
        raise AccessRefused(
            f"{connection}: sasl.mechanism={mechanism} is not among those that the broker has there "
            f"({', '.join(read.string() for _ in range(read.count()))}); take one of these"
        )
    if code == _ILLEGAL_STATE:
        without = "SSL" if connection.tls else "PLAINTEXT"
        raise AccessRefused(
            f"{connection}: security.protocol={connection.protocol} is refused: no user logs in at this port; set "
            f"security.protocol={without}, or name the port for users"
        )
    if mechanism == OAUTHBEARER:
        _bear(line, connection)
        return
    if mechanism == "PLAIN":
        _authenticate(line, connection, f"\0{user}\0{password}".encode())
        return
    scram = Scram(mechanism, user, password)
    try:
        scram.check(_authenticate(line, connection, scram.final(_authenticate(line, connection, scram.first()))))
    except (ConfigError, NotKafka, WireError):
        raise
    except ValueError as error:
        raise AccessRefused(f"{connection}: login of user {user!r} by {mechanism} failed: {error}") from error


def _bear(line: _Line, connection: Connection) -> None:
    """Log in with a token. Source: RFC 7628, section 3: a refusal comes as JSON, and wants a last message."""
    token = connection.tokens().token()
    extensions = {**connection.grant.named_extensions, **token.extensions}
    pairs = [("auth", f"Bearer {token.value}"), *extensions.items()]
    message = f"n,,\x01{''.join(f'{name}={value}{chr(1)}' for name, value in pairs)}\x01"
    code, answer = _exchange(line, message.encode())
    if not code and not answer:
        return
    try:
        status = json.loads(answer).get("status", "")
    except (ValueError, AttributeError):
        status = ""
    reason = f" ({status})" if isinstance(status, str) and status.replace("_", "").isalpha() else ""
    raise AccessRefused(
        f"{connection}: the broker refuses the token of {connection.user!r}{reason}; check that the token's issuer, "
        "audience and scope are those that this listener expects, that it can read the issuer's keys, and both clocks"
    )


def _authenticate(line: _Line, connection: Connection, message: bytes) -> bytes:
    code, answer = _exchange(line, message)
    if code:
        raise AccessRefused(
            f"{connection}: user {connection.username!r} is refused: the password is wrong, or the user is unknown for "
            f"sasl.mechanism={connection.mechanism}; correct sasl.jaas.config"
        )
    return answer


def _exchange(line: _Line, message: bytes) -> tuple[int, bytes]:
    """Send one SASL message; Kafka's error code and the broker's message."""
    read = Reader(line.ask(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(message)) + message), "answer")
    code, _ = read.int16(), read.string_or_none()
    return code, read.bytes_or_none() or b""


def _untrusted(connection: Connection, host: str, error: ssl.SSLCertVerificationError) -> AccessRefused:
    if error.verify_code in _EXPIRED:
        explanation = "the broker's certificate has expired; renew it (and check this machine's clock)"
    elif error.verify_code in _NOT_YET:
        explanation = "the broker's certificate is not valid yet; check this machine's clock"
    elif error.verify_code in _OTHER_HOST:
        explanation = (
            f"the broker's certificate is not for {host!r}; connect by a name that it has, or have one issued for "
            f"{host!r} (ssl.endpoint.identification.algorithm= left empty would skip this check)"
        )
    else:
        trusted = "the certificates in ssl.truststore" if connection.ca else "this machine's trusted certificates"
        explanation = (
            f"the broker's certificate is of an unknown authority, not of {trusted} ({error.verify_message}); name "
            "the authority's certificate in ssl.truststore.location"
        )
    return AccessRefused(f"{connection}: {explanation}")


def _certificate_refused(connection: Connection, error: ssl.SSLError) -> AccessRefused | None:
    reason = (error.reason or str(error)).upper()
    if "CERTIFICATE_REQUIRED" in reason or ("HANDSHAKE_FAILURE" in reason and connection.key is None):
        explanation = "the broker wants a certificate of the client; name it in ssl.keystore.location"
        return AccessRefused(f"{connection}: {explanation}")
    if "ALERT" in reason and connection.key is not None:
        explanation = (
            f"the broker refuses the client's certificate ({error.reason}); is ssl.keystore.location the right one?"
        )
        return AccessRefused(f"{connection}: {explanation}")
    return None


def _explained(connection: Connection, error: OSError) -> AccessRefused | OSError:
    """Explain a failed connection by probing the port with other protocols."""
    if connection.tls and (alert := _alert(connection)) is not None:
        refused = _certificate_refused(connection, alert)
        if refused is not None:
            return refused
    other = _answers_otherwise(connection)
    if other == "TLS":
        return _wants_tls(connection)
    if other == "plain text":
        return AccessRefused(
            f"{connection}: this port speaks plain text, and security.protocol={connection.protocol} wants TLS; name "
            f"the port for TLS, or set security.protocol={'SASL_PLAINTEXT' if connection.sasl else 'PLAINTEXT'}"
        )
    if other == "SASL":
        return AccessRefused(
            f"{connection}: this port wants a user, and security.protocol={connection.protocol} has none; set "
            f"security.protocol=SASL_{'SSL' if connection.tls else 'PLAINTEXT'}, sasl.mechanism and sasl.jaas.config"
        )
    return error


def _wants_tls(connection: Connection) -> AccessRefused:
    return AccessRefused(
        f"{connection}: this port speaks TLS, and security.protocol={connection.protocol} is plain text; set "
        f"security.protocol={'SASL_SSL' if connection.sasl else 'SSL or SASL_SSL'}, or name a port without TLS"
    )


def _answers_otherwise(connection: Connection) -> str | None:
    """The protocol in which the port answers: ``TLS``, ``plain text``, ``SASL`` (needs a login first) or None."""
    until = time.monotonic() + _SECOND_LOOK_S
    if not connection.sasl and _handshakes(connection, until):
        return "SASL"
    plain = replace(connection, protocol="PLAINTEXT")
    if connection.tls:
        with contextlib.suppress(OSError, ValueError, _Encrypted), _opened(plain, until) as line:
            line.ask(_SASL_HANDSHAKE, 1, _text("PLAIN"))
            return "plain text"
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # any certificate: the port only has to speak TLS
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(addresses(connection.bootstrap)[0], timeout=_SECOND_LOOK_S) as tried:
            context.wrap_socket(tried).close()
    except OSError:
        return None
    return "TLS"


def _alert(connection: Connection) -> ssl.SSLError | None:
    """The TLS alert about the client's certificate, if the client sends no request.

    In TLS 1.3 the server sends it after the client's part of the handshake. A client that has sent more by then may
    find the connection closed, and never read the alert.
    """
    [(host, port)] = addresses(connection.bootstrap)
    try:
        with (
            socket.create_connection((host, port), timeout=_SECOND_LOOK_S) as plain,
            connection.ssl_context().wrap_socket(plain, server_hostname=host) as listening,
        ):
            listening.recv(1)
    except ssl.SSLError as error:
        return error
    except OSError:
        pass
    return None


def _handshakes(connection: Connection, until: float) -> bool:
    """Whether the port waits for a SASL login."""
    [(host, port)] = addresses(connection.bootstrap)
    try:
        with contextlib.ExitStack() as open_:
            tried = open_.enter_context(socket.create_connection((host, port), timeout=_SECOND_LOOK_S))
            if connection.tls:
                tried = open_.enter_context(connection.ssl_context().wrap_socket(tried, server_hostname=host))
            code = Reader(_Line(tried, until).ask(_SASL_HANDSHAKE, 1, _text("PLAIN")), "answer").int16()
    except (OSError, ValueError, _Encrypted):
        return False
    return code in (0, _UNSUPPORTED_MECHANISM)


def _nodes(read: Reader) -> list[BrokerNode]:
    return [BrokerNode(read.int32(), read.string(), read.int32(), read.string_or_none()) for _ in range(read.count())]


def _parse_topic(data: bytes) -> tuple[int, int]:
    """(error code, number of partitions) of the one topic in a Metadata response of version 4."""
    read = Reader(data, "answer")
    read.int32()  # throttle time
    _nodes(read)
    read.string_or_none()  # the cluster's id
    read.int32()  # the controller
    read.count()  # topics
    code = read.int16()
    read.string()
    read.int8()  # whether the topic is internal
    return code, read.count()


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data
