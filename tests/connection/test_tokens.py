"""Tokens of OAUTHBEARER: got from an identity server or a function, kept, renewed, and refused in one sentence."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import trustme

from kafka_assignors.connection import Connection, from_settings, read_connection
from kafka_assignors.connection.oauth import CachedTokens, Grant, Token, endpoint, of_answer, tokens
from kafka_assignors.connection.oauth.endpoint import request_token
from kafka_assignors.errors import AccessRefused, ClusterError, ConfigError
from tests.support.connection.identity import Answer, IdentityServer, identity_server
from tests.support.pages import blocks, example

SECRET = "hunter2:&=ü"
PLACE = __name__
_NESTED = f"x.{base64.urlsafe_b64encode(b'[' * 90_000).decode()}.x"
"""A JWT whose claims are lists without end."""


@pytest.fixture
def identity() -> Iterator[IdentityServer]:
    with identity_server({"alice": SECRET}) as server:
        yield server


def grant_of(server: IdentityServer, **fields: str) -> Grant:
    return Grant(**{"endpoint": server.endpoint, "client_id": "alice", "client_secret": SECRET, **fields})


def test_an_endpoint_gives_a_token_for_the_credentials_and_the_scope(identity: IdentityServer) -> None:
    token = request_token(grant_of(identity, scope="kafka orders"))

    assert token.subject == "alice"
    assert 590 < token.expires_at - time.time() <= 600
    assert identity.asked == [{"grant_type": "client_credentials", "scope": "kafka orders"}]
    assert token.value not in repr(token)
    assert SECRET not in repr(grant_of(identity))


def test_the_token_s_own_expiry_counts_where_the_answer_has_none(identity: IdentityServer) -> None:
    identity.answer = Answer(body=json.dumps({"access_token": identity.sign("bob", 60)}))

    assert 50 < request_token(grant_of(identity)).expires_at - time.time() <= 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (Answer(401, '{"error": "invalid_client"}'), AccessRefused, r"refuses client 'alice' \(401 invalid_client\); "),
        (Answer(401, "no JSON"), AccessRefused, r"refuses client 'alice' \(401\); correct sasl.oauthbearer.client.id"),
        (Answer(400, '{"error": "invalid_scope"}'), AccessRefused, r"refuses scope 'x' \(400 invalid_scope\); correct"),
        (Answer(404), AccessRefused, r"refuses the request for a token \(404\); is .* its token endpoint"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), AccessRefused, r"redirects \(302\), which would"),
        (Answer(503), ClusterError, r"fails \(503\); try again later"),
        (Answer(200, '{"id_token": "x"}'), AccessRefused, r"answered without an access_token; is .* the token end"),
        (Answer(200, "<html>"), AccessRefused, r"answered without an access_token"),
        (Answer(200, "[" * 100_000), AccessRefused, r"answered without an access_token"),
        (Answer(200, '{"access_token": "' + _NESTED + '"}'), AccessRefused, r"doesn't say when its token expires"),
        (Answer(200, '{"access_token": "opaque"}'), AccessRefused, r"doesn't say when its token expires"),
        (Answer(200, '{"access_token": "a", "expires_in": -30}'), AccessRefused, r"token that expired 30 s ago; check"),
        (Answer(200, '{"access_token": "a b", "expires_in": 9}'), AccessRefused, r"gave no token"),
    ],
)  # fmt: skip
def test_what_an_endpoint_refuses_is_one_sentence_with_the_fix(
    identity: IdentityServer, answer: Answer, error: type[Exception], sentence: str
) -> None:
    identity.answer = answer

    with pytest.raises(error, match=sentence) as refused:
        request_token(grant_of(identity, scope="x"))

    assert str(refused.value).startswith(identity.endpoint)
    assert "\n" not in str(refused.value)


def test_an_endpoint_that_never_comes_to_its_end(identity: IdentityServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_TIMEOUT_S", 0.5)
    identity.answer = Answer(body="x" * 1000, at_once=1, pause_s=0.1)
    began = time.monotonic()

    with pytest.raises(ClusterError, match=r"didn't answer within 0.5 s"):
        request_token(grant_of(identity))

    assert time.monotonic() - began < 20


def test_an_endpoint_that_repeats_the_secret_does_not_get_it_into_the_message(identity: IdentityServer) -> None:
    """The server's error_description has the secret in it."""
    with pytest.raises(AccessRefused, match="invalid_client") as refused:
        request_token(grant_of(identity, client_secret="hunter3"))

    assert "hunter3" not in str(refused.value)
    identity.answer = Answer(400, json.dumps({"error": "hunter2: no"}))
    with pytest.raises(AccessRefused, match=r"\(400\)") as refused:
        request_token(grant_of(identity))
    assert "hunter2" not in str(refused.value)


def test_an_endpoint_that_nobody_serves(identity: IdentityServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(
            ClusterError, match=rf"http://localhost:{port}/t doesn't answer .*whether the identity server"
        ):
            request_token(grant_of(identity, endpoint=f"http://localhost:{port}/t?key=1"))
    with pytest.raises(
        ClusterError, match=r"host 'identity.invalid' is unknown \(.*\); correct sasl.oauthbearer.token"
    ):
        request_token(grant_of(identity, endpoint="https://identity.invalid/t"))
    with pytest.raises(AccessRefused, match=r"doesn't speak TLS"):
        request_token(grant_of(identity, endpoint=identity.endpoint.replace("http:", "https:")))


def test_no_secret_leaves_this_machine_unencrypted(identity: IdentityServer) -> None:
    with pytest.raises(ConfigError, match=r"http://identity.example/t would send the client's secret unencrypted"):
        request_token(grant_of(identity, endpoint="http://identity.example/t"))
    with pytest.raises(ConfigError, match=r"https://identity.example/t has a user in it") as refused:
        request_token(grant_of(identity, endpoint="https://u:hunter2@identity.example/t"))
    assert "hunter2" not in str(refused.value)


def test_the_endpoint_s_certificate_must_be_of_a_trusted_authority(identity: IdentityServer, tmp_path: Path) -> None:
    """It is trusted by its text in the connection, or by a file that the settings name."""
    authority, other = trustme.CA(), trustme.CA().cert_pem.bytes().decode()
    trusted = authority.cert_pem.bytes().decode()
    with identity_server({"alice": SECRET}, authority.issue_cert("localhost")) as server:
        assert request_token(grant_of(server, ca=trusted)).subject == "alice"
        for grant in (grant_of(server), grant_of(server, ca=other)):
            with pytest.raises(
                AccessRefused, match=r"its certificate is not trusted \(.*\); name the authority's cert"
            ):
                request_token(grant)
        (tmp_path / "ca.pem").write_text(trusted)
        settings = [
            "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.client.id=alice",
            f"sasl.oauthbearer.token.endpoint.url={server.endpoint}", "sasl.oauthbearer.client.secret=${env:S}",
            f"https.ca.location={tmp_path}/ca.pem",
        ]  # fmt: skip
        read = read_connection("b:1", None, settings, {"S": SECRET})
        assert read.tokens().token().subject == "alice"
        assert from_settings(read.portable()) == read
        assert read.librdkafka()["https.ca.pem"] == read.token_ca
    assert len(server.asked) == 2


def test_an_environment_s_proxy_is_not_asked_for_this_machine(
    identity: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert request_token(grant_of(identity)).subject == "alice"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_kept_until_shortly_before_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    clock, lifetimes = Clock(), iter([100.0, 50.0])
    given: list[str] = []

    def get() -> Token:
        lifetime = next(lifetimes, None)
        if lifetime is None:
            raise ClusterError("https://id.example/t fails (503)")
        given.append(f"token-{len(given)}")
        return Token(given[-1], clock.now + lifetime, "alice")

    kept = CachedTokens(get, "client 'alice'", clock)
    assert kept.subject is None
    assert [kept.token().value, kept.token().value] == ["token-0", "token-0"]
    clock.now += 79
    assert kept.token().value == "token-0"
    clock.now += 1
    assert kept.token().value == "token-1"
    clock.now += 41  # due, but the endpoint fails: the old one serves
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        assert [kept.token().value, kept.token().value] == ["token-1", "token-1"]
    assert [record.getMessage() for record in caplog.records] == [
        "the token of client 'alice' is not renewed, the old one is valid for 9 s: https://id.example/t fails (503)"
    ]
    clock.now += 9
    with pytest.raises(ClusterError, match="503"):
        kept.token()


def test_all_clients_of_a_process_share_a_token(identity: IdentityServer) -> None:
    connection = Connection(
        "b:1", "SASL_PLAINTEXT", "OAUTHBEARER", token_endpoint=identity.endpoint, client_id="alice",
        client_secret=SECRET, extensions="tenant=7",
    )  # fmt: skip
    assert connection.user == "alice"
    by_kafka_python = connection.kafka_python()["sasl_oauth_token_provider"]
    by_aiokafka = connection.at("c:2").aiokafka()["sasl_oauth_token_provider"]

    assert by_kafka_python.token() == asyncio.run(by_aiokafka.token()) == connection.tokens().token().value
    assert by_kafka_python.extensions() == by_aiokafka.extensions() == {"tenant": "7"}
    assert len(identity.asked) == 1
    assert replace(connection, client_id="bob").tokens() is not connection.tokens()


def opaque(argument: str) -> tuple[str, float, str, dict[str, str]]:
    return f"token-for-{argument}", time.time() + 60, "alice", {"tenant": "7"}


def without_argument() -> tuple[str, float]:
    return "token", time.time() + 60


async def awaited() -> tuple[str, float]:
    return without_argument()


class Provider:
    """As kafka-python's and aiokafka's."""

    def token(self) -> str:
        with identity_server({}) as server:
            return server.sign("bob")

    def extensions(self) -> dict[str, str]:
        return {"tenant": "8"}


@pytest.mark.parametrize(
    ("name", "subject", "extensions"),
    [
        ("opaque", "alice", {"tenant": "7"}),
        ("without_argument", None, {}),
        ("awaited", None, {}),
        ("Provider", "bob", {"tenant": "8"}),
    ],
)
def test_a_function_gives_the_token(name: str, subject: str | None, extensions: dict[str, str]) -> None:
    token = tokens(Grant(function=f"{PLACE}:{name}", argument="orders")).token()

    assert (token.subject, token.extensions) == (subject, extensions)
    assert name != "opaque" or token.value == "token-for-orders"


def fails() -> None:
    raise OSError("the metadata service doesn't answer")


def expired() -> tuple[str, float]:
    return "token", time.time() - 5


def in_milliseconds() -> tuple[str, float]:
    return "token", 1000 * time.time()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fails", r"oauth_cb=.*:fails raised OSError: the metadata service doesn't answer"),
        ("expired", r"gave a token that expired 5 s ago"),
        ("in_milliseconds", r"returned an expiry in milliseconds; return seconds since the epoch: divide it by 1000"),
        ("Clock", r"returned float; return \(token, expiry in seconds since the epoch\), or a JWT"),
    ],
)
def test_a_function_that_gives_no_token(name: str, sentence: str) -> None:
    if name == "Clock":
        with pytest.raises(AccessRefused, match=sentence):
            of_answer(1.0, time.time(), "oauth_cb")
        return
    with pytest.raises(AccessRefused, match=sentence):
        tokens(Grant(function=f"{PLACE}:{name}")).token()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "no_such_module:x",
            r"oauth_cb=no_such_module:x: No module named 'no_such_module'; name an importable function",
        ),
        (f"{PLACE}:nothing", r"has no attribute 'nothing'"),
        (f"{PLACE}:SECRET", r"is neither a function nor a token provider"),
    ],
)
def test_a_function_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        tokens(Grant(function=name))


def test_librdkafka_gets_the_same_token_by_its_callback() -> None:
    connection = Connection(
        "b:1", "SASL_PLAINTEXT", "OAUTHBEARER", token_function=f"{PLACE}:opaque", token_argument="a"
    )
    config = connection.librdkafka()
    give: Callable[[str], tuple[str, float, str, dict[str, str]]] = config["oauth_cb"]

    assert give("")[0] == connection.kafka_python()["sasl_oauth_token_provider"].token() == "token-for-a"
    assert give("")[2:] == ("alice", {"tenant": "7"})
    assert not {"sasl.oauthbearer.method", "sasl.oauthbearer.config"} & set(config)


def test_the_page_s_settings_and_its_function_give_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/secured-clusters.md, with a signer of ours in the place of the cloud's."""
    by_endpoint, by_function = (
        block.code for block in blocks("properties")
        if block.page == "docs/secured-clusters.md" and "OAUTHBEARER" in block.code
    )  # fmt: skip
    (tmp_path / "a.properties").write_text(by_endpoint)
    monkeypatch.setenv("KAFKA_CLIENT_SECRET", SECRET)
    grant = read_connection("b:1", tmp_path / "a.properties").grant
    assert grant == Grant("https://login.example.org/oauth2/token", "orders-service", SECRET, "kafka")

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            return f"signed-for-{region}", int(1000 * (time.time() + 900))

    page = ModuleType("my_cloud")
    page.__dict__["MSKAuthTokenProvider"] = MSKAuthTokenProvider
    exec(example("docs/secured-clusters.md", "MSKAuthTokenProvider"), page.__dict__)
    monkeypatch.setitem(sys.modules, "my_cloud", page)
    (tmp_path / "b.properties").write_text(by_function)
    token = read_connection("b:1", tmp_path / "b.properties").tokens().token()
    assert token.value == "signed-for-eu-central-1"
    assert 890 < token.expires_at - time.time() <= 900
