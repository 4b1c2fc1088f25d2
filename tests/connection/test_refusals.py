"""What a cluster refuses is told in one sentence: the thing, its value, the fix. Nobody waits beyond the deadline."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_assignors.connection import Connection, brokers
from kafka_assignors.errors import AccessRefused
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.secured import Certificates, Secured
from kafka_assignors.integration.commands.cli import app as harness
from kafka_assignors.pipeline.cli import app as pipeline
from kafka_assignors.producers.commands import app as producers
from tests.support.connection.authority import Authority


@contextlib.contextmanager
def tls_server(certificates: Certificates, tmp_path: Path, client_ca: str | None = None) -> Iterator[str]:
    """A port that speaks TLS with these certificates, and no Kafka; its ``host:port``."""
    kept = tmp_path / "server.pem"
    kept.write_text(certificates.chain + certificates.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kept)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = listener.accept()
                    with contextlib.suppress(OSError), context.wrap_socket(connected, server_side=True) as one:
                        one.recv(1)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"localhost:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    serving.join(5)


def refused(connection: Connection) -> str:
    with pytest.raises(AccessRefused) as told:
        brokers(connection, 10)
    said = str(told.value)
    assert "\n" not in said
    assert not any(secret in said for secret in connection.secrets)
    return said


def test_a_user_is_let_in_and_sees_the_brokers(secured_broker: Broker, secured: Secured):
    user = secured.user("visitor")
    assert [(n.host, n.port) for n in brokers(user)] == [("localhost", int(secured.bootstrap.partition(":")[2]))]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_mechanism_that_the_broker_does_not_have(secured: Secured, mechanism: str):
    assert f"sasl.mechanism={mechanism} is not among those that the broker has there (SCRAM-SHA-512)" in refused(
        replace(secured.admin, mechanism=mechanism)
    )


@pytest.mark.parametrize("wrong", [{"password": "another-word"}, {"username": "nobody"}])
def test_a_wrong_name_or_password(secured: Secured, wrong: dict[str, str]):
    given = replace(secured.admin, **wrong)
    said = f"user {given.username!r} is refused: the password is wrong, or the user is unknown"
    assert said in refused(given)


def test_an_unknown_authority(secured: Secured):
    other = replace(secured.admin, ca=Certificates().ca)
    assert "certificate is of an unknown authority, not of the certificates in ssl.truststore" in refused(other)
    assert "not of this machine's trusted certificates" in refused(replace(secured.admin, ca=None))


def test_tls_on_a_port_of_plain_text(secured_broker: Broker, secured: Secured):
    said = refused(secured.admin.at(secured_broker.bootstrap))
    assert f"{secured_broker.bootstrap}: this port speaks plain text, and security.protocol=SASL_SSL wants TLS" in said
    assert "set security.protocol=SASL_PLAINTEXT" in said
    assert "set security.protocol=PLAINTEXT" in refused(
        replace(secured.admin.at(secured_broker.bootstrap), protocol="SSL", mechanism=None)
    )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_plain_text_on_a_port_of_tls(secured: Secured, protocol: str):
    said = refused(replace(secured.admin, protocol=protocol, ca=None))
    assert f"this port speaks TLS, and security.protocol={protocol} is plain text; set security.protocol=" in said


def test_no_user_where_one_is_wanted(secured: Secured):
    said = refused(replace(secured.admin, protocol="SSL", mechanism=None))
    assert "this port wants a user, and security.protocol=SSL has none; set security.protocol=SASL_SSL" in said


def test_a_user_where_none_is_wanted(secured_broker: Broker, secured: Secured):
    plain = replace(secured.admin.at(secured_broker.bootstrap), protocol="SASL_PLAINTEXT", ca=None)
    assert "no user logs in at this port; set security.protocol=PLAINTEXT" in refused(plain)


def test_an_expired_certificate(tmp_path: Path):
    made = Certificates(expired=True)
    with tls_server(made, tmp_path) as at:
        assert "the broker's certificate has expired" in refused(Connection(at, "SSL", ca=made.ca))


def test_a_certificate_for_another_host(tmp_path: Path):
    made = Certificates(("broker.example.org",))
    with tls_server(made, tmp_path) as at:
        said = refused(Connection(at, "SSL", ca=made.ca))
        assert "the broker's certificate is not for 'localhost'; connect by a name that it has" in said
        by_number = refused(Connection(at.replace("localhost", "127.0.0.1"), "SSL", ca=made.ca))
        assert "is not for '127.0.0.1'" in by_number


def test_a_broker_that_wants_the_client_s_certificate(tmp_path: Path):
    made, clients, others = Certificates(), Authority(), Authority()
    with tls_server(made, tmp_path, clients.ca) as at:
        assert "the broker wants a certificate of the client" in refused(Connection(at, "SSL", ca=made.ca))
        wrong = Connection(at, "SSL", ca=made.ca, certificate=others.certificate, key=others.key())
        assert "the broker refuses the client's certificate" in refused(wrong)


COMMANDS = {
    "watch": (harness, "watch", "billing", "--once"),
    "run": (harness, "run", "churn", "--confirm"),
    "demo": (harness, "demo", "--confirm"),
    "place": (producers, "place", "orders", "k"),
    "audit": (producers, "audit", "orders"),
    "growth": (producers, "growth", "--from", "4", "--to", "8", "orders"),
    "pipeline run": (pipeline, "run", "--topics", "orders"),
    "pipeline stream": (pipeline, "stream", "--topics", "orders"),
}


def said_by(name: str, connection: Connection, folder: Path) -> str:
    """The one sentence of a command that fails."""
    app, *words = COMMANDS[name]
    out = [] if app is producers or name == "watch" else ["--out", str(folder / "out")]
    with connection.file() as config:
        done = CliRunner().invoke(app, [*words, *out, "--config", str(config)])
    assert done.exit_code in (2, 3), (done.output, done.exception)
    [said] = [line for line in done.stderr.splitlines() if not line.startswith("pipeline: ")]  # that is progress
    assert not any(secret in done.output for secret in connection.secrets)
    assert not (folder / "out").exists() or not list((folder / "out").rglob("*.parquet"))
    print(f"{name}: {said}")
    return said


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_in_one_sentence_what_is_refused(
    name: str, secured: Secured, stranger: Connection, orders: str, tmp_path: Path
):
    assert "the password is wrong" in said_by(name, replace(secured.admin, password="another-word"), tmp_path / "1")
    other = replace(secured.admin, ca=Certificates().ca)
    assert "certificate is of an unknown authority" in said_by(name, other, tmp_path / "2")
    expired = Certificates(expired=True)
    with tls_server(expired, tmp_path) as at:
        assert "the broker's certificate has expired" in said_by(
            name, replace(secured.admin.at(at), ca=expired.ca), tmp_path / "3"
        )
    said = said_by(name, stranger, tmp_path / "4")
    assert "user 'stranger' lacks the permission " in said
    assert "; an administrator can grant it with: kafka-acls.sh " in said


@pytest.mark.slow
def test_a_port_that_never_answers_ends_with_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        for protocol in ("PLAINTEXT", "SSL"):
            with pytest.raises(OSError, match=r"timed out|no complete response"):
                brokers(Connection(at, protocol), 0.5)


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        at = f"127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(ConnectionRefusedError):
        brokers(Connection(at, "SSL"), 5)


def test_of_several_addresses_one_that_answers_is_enough(secured: Secured):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        at = f"127.0.0.1:{gone.getsockname()[1]}"
    assert len(brokers(secured.admin.at(f"{at},{secured.bootstrap}"))) == 1
