"""Convert key stores and trust stores to PEM text, which every client reads (Java since Kafka 2.7).

The first bytes decide a store's type, because Java's default for an unspecified one is JKS, whatever the file is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from ..extras import install

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER = re.compile(r"^[A-Za-z-]+:.*$", re.MULTILINE)
_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"


class Identity(NamedTuple):
    """The client's identity in PEM. `certificate` is the client's own, then its issuers."""

    certificate: str
    key: str
    key_password: str | None


def pem(text: str, kind: str, where: str) -> str:
    """The blocks of one kind in PEM text, with base64 in lines of 64.

    Line breaks of `text` may be blanks, as in a properties file. `kind` is the end of the blocks' label:
    ``CERTIFICATE`` or ``PRIVATE KEY``; `where` is a name for errors.

    Raises:
        ConfigError: There is no such block.
    """
    blocks = [_normal(name, body) for name, body in _BLOCK.findall(text) if name.endswith(kind)]
    if not blocks:
        raise ConfigError(f"{where}: it has no '-----BEGIN {kind}-----'; give PEM text with one")
    return "".join(blocks)


def trusted(path: str, password: str | None, where: str) -> str:
    """The certificates of a trust store as PEM. Raises ConfigError if it is unreadable, or neither PEM nor PKCS12."""
    data = _read(path, where)
    if _is_pem(data):
        if password is not None:
            raise ConfigError(f"{where}={path} is PEM, which has no password; remove the trust store's password")
        return pem(data.decode("utf-8", "replace"), "CERTIFICATE", f"{where}={path}")
    from cryptography.hazmat.primitives.serialization import Encoding

    _, own, others = _pkcs12(data, password, f"{where}={path}")
    certificates = [own, *others] if own is not None else others
    if not certificates:
        raise ConfigError(
            f"{where}={path} has no certificate; name the store with the authority that signs the brokers' certificates"
        )
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def identity(path: str, password: str | None, key_password: str | None, where: str) -> Identity:
    """The certificate and private key of a key store as PEM; ConfigError if it can't be read or has no key."""
    data = _read(path, where)
    if _is_pem(data):
        if password is not None:
            raise ConfigError(
                f"{where}={path} is PEM, where the password belongs to the key: set ssl.key.password, and remove "
                "ssl.keystore.password"
            )
        text = data.decode("utf-8", "replace")
        named = f"{where}={path}"
        return Identity(pem(text, "CERTIFICATE", named), pem(text, "PRIVATE KEY", named), key_password)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, own, others = _pkcs12(data, password, f"{where}={path}")
    if key is None or own is None:
        raise ConfigError(f"{where}={path} has no private key with its certificate; name the client's key store")
    chain = "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in (own, *others))
    return Identity(chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), None)


def read_text(path: str, where: str) -> str:
    """Read a text file that a setting names. Raises ConfigError if it cannot be read."""
    return _read(path, where).decode("utf-8", "replace")


def _normal(name: str, body: str) -> str:
    headers = "".join(f"{line.strip()}\n" for line in _HEADER.findall(body))
    base64 = re.sub(r"\s+", "", _HEADER.sub("", body))
    lines = "\n".join(base64[i : i + 64] for i in range(0, len(base64), 64))
    between = f"{headers}\n" if headers else ""
    return f"-----BEGIN {name}-----\n{between}{lines}\n-----END {name}-----\n"


def _read(path: str, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{where}={path} can't be read ({error.strerror}); name a file that this user may read"
        ) from None


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _pkcs12(data: bytes, password: str | None, named: str) -> tuple[Any, Any, list[Any]]:
    if data[:4] in (_JKS, _JCEKS):
        raise ConfigError(
            f"{named} is a JKS store, which Python's TLS can't read; convert it and name the new file: keytool "
            "-importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    if data[:1] != b"\x30":
        raise ConfigError(f"{named} is neither PEM nor PKCS12; give a PEM or PKCS12 store")
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates
    except ModuleNotFoundError:
        raise ConfigError(
            f"{named} is a PKCS12 store, which needs the package cryptography; install it with: "
            f"{install('pkcs12')}, or give PEM"
        ) from None
    try:
        key, own, others = load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(f"{named} can't be opened as PKCS12: its password is wrong, or the file is damaged") from None
    return key, own, others
