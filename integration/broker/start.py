"""Starts a broker of any backend, or connects to one that already runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError, UnknownName

from .broker import Broker
from .cluster import Cluster
from .settings import KAFKA_VERSION

if TYPE_CHECKING:
    from .secured import Certificates

BACKENDS = ("jvm", "shared", "docker", "external")


def start_broker(  # options of one broker, given by name
    backend: str = "jvm",
    *,
    bootstrap: str | Connection | None = None,
    port: int | None = None,
    rack: str = "a",
    directory: Path | None = None,
    version: str = KAFKA_VERSION,
    timeout_s: float = 60,
    settings: Mapping[str, str] | None = None,
    certificates: Certificates | None = None,
) -> Broker:
    """Start a broker, or find the named one, and wait until it answers a Metadata request with a broker in it.

    Unless it is external, the broker ends with this process, however that ends (SIGKILL included).

    Args:
        backend: ``jvm`` (a child process; needs only pip's packages), ``shared`` (a server within a child process, as
            in a cluster of that backend: restarts in half a second, cannot be killed), ``docker`` (a container of
            `KAFKA_ASSIGNORS_IMAGE`, default ``apache/kafka:<version>``) or ``external``.
        bootstrap: ``host:port`` of the external broker, or a connection to it; only with that backend.
        port: Client port on 127.0.0.1; a free one by default.
        rack: Its ``broker.rack``.
        directory: Folder of data and log (``jvm`` only). By default a temporary folder that `close` removes. A named
            folder is kept, and the data in it are served again.
        version: Kafka's version; it must be pinned (``jvm``, ``shared``) or be the image's tag (``docker``).
        timeout_s: Seconds until it must be ready.
        settings: Broker settings that extend or replace the harness's own.
        certificates: Start a second listener for users, with these certificates for TLS, SCRAM-SHA-512 and ACLs:
            `Broker.secured` (``jvm`` and ``shared`` only).

    Raises:
        UnknownName: The backend or version is unknown.
        ConfigError: The arguments do not go together.
        PortTaken: `port` is in use; raised before anything starts.
        BrokerNotReady: The broker died or was too slow; the message has the end of its log.
        BrokerUnreachable: Nothing answers at `bootstrap`.
        DockerUnavailable: No Docker engine, or no image.
        MachineError: Java or jars are missing and cannot be fetched.
    """
    if backend not in BACKENDS:
        raise UnknownName("broker backend", backend, BACKENDS)
    if (backend == "external") != (bootstrap is not None):
        named = None if bootstrap is None else str(bootstrap)
        raise ConfigError(
            f"backend {backend!r} and bootstrap {named!r} exclude each other: only an external broker has an address "
            "(backend='external', bootstrap='host:port')"
        )
    if directory is not None and backend != "jvm":
        raise ConfigError(f"directory={str(directory)!r} is for backend 'jvm'; {backend!r} stores its data elsewhere")
    if certificates is not None and backend not in ("jvm", "shared"):
        raise ConfigError(f"a secured listener needs backend 'jvm' and 'shared', not {backend!r}")
    if backend == "external":
        from .external import ExternalBroker

        assert bootstrap is not None
        return ExternalBroker(bootstrap, timeout_s=min(timeout_s, 5))
    return Cluster(
        (rack,), backend=backend, version=version, timeout_s=timeout_s, settings=settings or {},
        certificates=certificates, port=port, directory=directory,
    )  # fmt: skip
