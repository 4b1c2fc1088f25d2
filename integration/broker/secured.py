"""A listener for users beside the harness's own, with TLS, SCRAM-SHA-512 and ACLs.

The harness keeps its plain listener on 127.0.0.1, which permits everything. Users of the secured listener may do only
what `Secured.allow` grants; Kafka's own StandardAuthorizer enforces it. Each broker gets new certificates and
passwords, which end with it.
"""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from kafka_assignors.connection import Connection, Right
from kafka_assignors.errors import ConfigError
from kafka_assignors.extras import install

from ..errors import BrokerNotReady

LISTENER = "SECURED"
MECHANISM = "SCRAM-SHA-512"
ADMIN = "admin"
"""The user who may do everything."""
_TIMEOUT_S = 20.0
_TICK_S = 0.05


class Certificates:
    """The certificate authority of one run, and the broker's certificate for the hosts `names`.

    An `expired` certificate ended yesterday. ConfigError if trustme isn't installed.
    """

    def __init__(self, names: Sequence[str] = ("localhost", "127.0.0.1"), *, expired: bool = False) -> None:
        try:
            import trustme
            from cryptography.hazmat.primitives.serialization import (
                Encoding,
                NoEncryption,
                PrivateFormat,
                load_pem_private_key,
            )
        except ModuleNotFoundError as error:
            raise ConfigError(f"a secured broker needs {error.name}, which is missing: {install('harness')}") from None
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        authority = trustme.CA()
        issued = authority.issue_cert(*names, not_before=now - 2 * day, not_after=now - day if expired else now + day)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        self.ca = authority.cert_pem.bytes().decode()
        """The authority that clients must trust, PEM."""
        self.chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
        # Kafka accepts only PKCS8
        self.key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def with_secured(settings: Mapping[str, str], port: int, certificates: Certificates) -> dict[str, str]:
    """Add a secured listener for users on 127.0.0.1 to a node's settings."""
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        **settings,
        "listeners": f"{settings['listeners']},{LISTENER}://127.0.0.1:{port}",
        "advertised.listeners": f"{settings['advertised.listeners']},{LISTENER}://localhost:{port}",
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},{LISTENER}:SASL_SSL",
        f"{prefix}.sasl.enabled.mechanisms": MECHANISM,
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{prefix}.ssl.keystore.type": "PEM",
        f"{prefix}.ssl.keystore.certificate.chain": certificates.chain,
        f"{prefix}.ssl.keystore.key": certificates.key,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # nodes, controllers and the harness connect in plain text from this machine
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
        "allow.everyone.if.no.acl.found": "false",
    }


class Secured:
    """The secured listener of a broker or cluster, and its users.

    `bootstrap` has the secured listeners, `behind` the harness's own: ``host:port``, separated by commas. `ca` is the
    authority that clients must trust, PEM. BrokerNotReady if the administrator can't log in.
    """

    def __init__(self, bootstrap: str, behind: str, ca: str) -> None:
        self.bootstrap, self.behind, self._ca = bootstrap, behind, ca
        self._passwords: dict[str, str] = {}
        self.admin = self.user(ADMIN)
        """A connection of the user who may do everything."""

    def user(self, name: str, rights: Iterable[Right] = ()) -> Connection:
        """Create a user with these rights alone, wait until every node accepts the login. BrokerNotReady if not."""
        password = self._passwords[name] = secrets.token_urlsafe(16)
        with closing(self._asking()) as admin:
            errors = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, MECHANISM, password)])
        if errors[name] is not None:
            raise BrokerNotReady(f"user {name!r} can't be created: {errors[name]}")
        self.allow(name, rights)
        connection = Connection(self.bootstrap, "SASL_SSL", MECHANISM, name, password, ca=self._ca)
        for address in self.bootstrap.split(","):
            self._until_let_in(connection.at(address))
        return connection

    def allow(self, name: str, rights: Iterable[Right]) -> None:
        """Grant rights to a user."""
        if acls := [_acl(name, right) for right in rights]:
            with closing(self._asking()) as admin:
                failed = admin.create_acls(acls)["failed"]
            if failed:
                raise ConfigError(f"the permissions of user {name!r} can't be set: {failed}")

    def _asking(self) -> Any:
        return KafkaAdminClient(bootstrap_servers=self.behind.split(","), client_id="kafka-assignors-users")

    def _until_let_in(self, connection: Connection) -> None:
        """Wait until the user can log in at one node. Each node learns of a user separately."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                KafkaAdminClient(**connection.kafka_python(), bootstrap_timeout_ms=1000).close()
                return
            except KafkaError as error:
                if time.monotonic() > deadline:
                    raise BrokerNotReady(
                        f"{connection} does not accept user {connection.username!r} within {_TIMEOUT_S:g} s: {error}"
                    ) from error
            time.sleep(_TICK_S)


def _acl(user: str, right: Right) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if right.prefixed else ACLResourcePatternType.LITERAL
    kind = ResourceType[_upper(right.kind)]
    resource = ResourcePattern(kind, right.name, pattern)
    return ACL(f"User:{user}", "*", ACLOperation[_upper(right.operation)], ACLPermissionType.ALLOW, resource)


def _upper(name: str) -> str:
    """``DescribeConfigs`` -> ``DESCRIBE_CONFIGS``."""
    return "".join(f"_{c}" if c.isupper() else c for c in name).lstrip("_").upper()
