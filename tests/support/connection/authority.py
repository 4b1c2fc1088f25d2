"""Certificates made for one test run, as a user's authority would make them."""

from __future__ import annotations

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate


class Authority:
    """One authority and one client's certificate of it, in every form that a store has."""

    def __init__(self) -> None:
        self.made = trustme.CA()
        self.ca = self.made.cert_pem.bytes().decode()
        client = self.made.issue_cert("alice@example.org", common_name="alice")
        self.certificate = "".join(blob.bytes().decode() for blob in client.cert_chain_pems)
        self._key = load_pem_private_key(client.private_key_pem.bytes(), None)

    def key(self, password: str | None = None) -> str:
        """The client's key as PKCS8."""
        kept = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kept).decode()

    def truststore(self, password: str) -> bytes:
        """A trust store as keytool makes it."""
        ca = load_pem_x509_certificate(self.ca.encode())
        return serialize_java_truststore(
            [PKCS12Certificate(ca, b"authority")], BestAvailableEncryption(password.encode())
        )

    def keystore(self, password: str) -> bytes:
        """The client's key store."""
        own = load_pem_x509_certificate(self.certificate.encode())
        kept = BestAvailableEncryption(password.encode())
        return serialize_key_and_certificates(b"alice", self._key, own, None, kept)
