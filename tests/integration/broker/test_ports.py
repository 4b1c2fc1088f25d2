"""Ports: what is held for a proxy is nobody else's."""

from __future__ import annotations

import random
import socket
import sys
from typing import Any

import pytest

from kafka_assignors.integration.broker import ports
from kafka_assignors.integration.errors import PortTaken

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is held")


def test_a_held_port_is_offered_to_nobody_and_its_owner_may_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = ports.free_ports(1)
    only: Any = lambda *_: [port]
    with ports.hold([port]), monkeypatch.context() as patched:
        patched.setattr(random, "sample", only)
        with pytest.raises(PortTaken, match="fewer than 1 free ports"):
            ports.free_ports(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with socket.create_server(("127.0.0.1", port)):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    monkeypatch.setattr(random, "sample", only)

    assert ports.free_ports(1) == [port]
