"""SCRAM client: user and broker each prove that they know the password without sending it.

Source: RFC 5802
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets


class Scram:
    """One login, by ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._password = password.encode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The client-first message."""
        return f"n,,{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """The client-final message, given the answer to the first; ValueError if that isn't SCRAM's, or not ours."""
        text = answer.decode()
        attributes = dict(part.partition("=")[::2] for part in text.split(","))
        if not {"r", "s", "i"} <= set(attributes) or not attributes["r"].startswith(self._nonce):
            raise ValueError("the broker's response is not a SCRAM message")
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, base64.b64decode(attributes["s"]), int(attributes["i"])
        )
        key = self._keyed(salted, b"Client Key")
        without_proof = f"c=biws,r={attributes['r']}"
        everything = f"{self._bare},{text},{without_proof}".encode()
        signature = self._keyed(hashlib.new(self._hash, key).digest(), everything)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._signature = self._keyed(self._keyed(salted, b"Server Key"), everything)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Verify that the broker knows the password; ValueError if it doesn't."""
        if answer.decode().partition("v=")[2] != base64.b64encode(self._signature).decode():
            raise ValueError("the broker did not prove that it knows the user's password: it may be an impostor")

    def _keyed(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)
