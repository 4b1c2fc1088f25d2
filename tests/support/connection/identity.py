"""An identity server on loopback: OIDC client credentials for tokens that it signs, and its keys for a broker."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from trustme import LeafCert

ISSUER, AUDIENCE, KEY_ID = "https://identity.example", "kafka", "key-1"


@dataclass
class Answer:
    """What the token endpoint answers instead of a token: its body so many bytes at once, with pauses between."""

    status: int = 200
    body: str = "{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    at_once: int = 1 << 20
    pause_s: float = 0


class IdentityServer:
    """Signs tokens for its `clients` (id -> secret). `asked` has the forms of all requests for one.

    Args:
        tls: Its certificate; it then speaks https.
        key: Signs its tokens; by default a new one.
    """

    def __init__(
        self, clients: Mapping[str, str], tls: LeafCert | None = None, key: RSAPrivateKey | None = None
    ) -> None:
        self.clients = dict(clients)
        self.asked: list[dict[str, str]] = []
        self.answer: Answer | None = None
        self.lifetime_s, self.audience = 600.0, AUDIENCE
        self.key = generate_private_key(65537, 2048) if key is None else key
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                self._send(server.of(self.headers.get("Authorization", ""), form))

            def do_GET(self) -> None:
                self._send(Answer(body=json.dumps(server.keys)) if self.path == "/keys" else Answer(404))

            def _send(self, answer: Answer) -> None:
                data = answer.body.encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with suppress(OSError):  # who asked may not wait for the end
                    for at in range(0, len(data), answer.at_once):
                        self.wfile.write(data[at : at + answer.at_once])
                        time.sleep(answer.pause_s)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.configure_cert(context)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
            self.url = f"https://localhost:{self.http.server_address[1]}"

    @property
    def endpoint(self) -> str:
        """URL of its token endpoint."""
        return f"{self.url}/token"

    @property
    def keys_url(self) -> str:
        """URL of its public keys, by which a broker verifies tokens."""
        return f"{self.url}/keys"

    @property
    def keys(self) -> dict[str, Any]:
        """Its public key. Source: RFC 7517"""
        numbers = self.key.public_key().public_numbers()
        n, e = (_b64(x.to_bytes((x.bit_length() + 7) // 8, "big")) for x in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": n, "e": e}]}

    def of(self, authorization: str, form: str) -> Answer:
        """The answer to a request for a token."""
        fields = {name: values[0] for name, values in parse_qs(form).items()}
        self.asked.append(fields)
        if self.answer is not None:
            return self.answer
        kind, _, given = authorization.partition(" ")
        client, _, secret = base64.b64decode(given).decode().partition(":")
        if kind != "Basic" or self.clients.get(client) != secret:
            return Answer(401, json.dumps({"error": "invalid_client", "error_description": f"not {secret}"}))
        if fields.get("grant_type") != "client_credentials":
            return Answer(400, json.dumps({"error": "unsupported_grant_type"}))
        if fields.get("scope") == "nothing":
            return Answer(400, json.dumps({"error": "invalid_scope"}))
        token = {"access_token": self.sign(client, self.lifetime_s), "expires_in": self.lifetime_s}
        return Answer(body=json.dumps({**token, "token_type": "Bearer"}))

    def sign(self, subject: str, lifetime_s: float = 600) -> str:
        """A token for a subject. Source: RFC 7515, 7519"""
        now = time.time()
        claims = {
            "iss": ISSUER, "aud": self.audience, "sub": subject, "scope": "kafka", "iat": int(now),
            "exp": int(now + lifetime_s),
        }  # fmt: skip
        parts = ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, claims)
        signed = ".".join(_b64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_b64(self.key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


@contextmanager
def identity_server(
    clients: Mapping[str, str], tls: LeafCert | None = None, key: RSAPrivateKey | None = None
) -> Iterator[IdentityServer]:
    """An identity server that answers until the end. The arguments are `IdentityServer`'s."""
    server = IdentityServer(clients, tls, key)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
