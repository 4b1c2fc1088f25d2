"""Ports on 127.0.0.1: free ones are found, and held until a server listens there."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from ..errors import PortTaken

_FIRST, _LAST = 20_000, 32_000
"""Below the range of outgoing connections (32768 and up on Linux, 49152 on macOS). In that range, the system could give
a broker's port to a client that keeps reconnecting to the stopped broker."""


def free_ports(count: int) -> list[int]:
    """Distinct ports where nothing listens now. PortTaken if there are fewer than `count`."""
    sockets: list[socket.socket] = []
    try:
        for port in random.sample(range(_FIRST, _LAST), 500):
            candidate = _bound(port, reuse=False)  # refuses a port that `hold` has bound
            if candidate is not None:
                sockets.append(candidate)
            if len(sockets) == count:
                return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
    raise PortTaken(
        f"fewer than {count} free ports between {_FIRST} and {_LAST} on 127.0.0.1; stop the programs that use them"
    )


def hold(ports: Iterable[int]) -> ExitStack:
    """Reserve ports until the returned stack is closed: `free_ports` skips them, and connections to them are refused.

    The intended server may still listen on them if it sets SO_REUSEADDR, as servers do. Linux only: elsewhere nobody
    else could listen on a bound port, so nothing is reserved.
    """
    reservations = ExitStack()
    for port in ports if sys.platform == "linux" else ():
        socket_ = reservations.enter_context(socket.socket())
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # taken since `free_ports` found it; the server that wants it will fail with a message
            socket_.bind(("127.0.0.1", port))
    return reservations


def require_free(port: int) -> None:
    """Check a port that the user named. PortTaken if something listens on it, or it isn't a valid port."""
    if not 0 < port < 65536:
        raise PortTaken(f"port {port} is not a port; name one from 1 to 65535")
    socket_ = _bound(port)
    if socket_ is None:
        raise PortTaken(
            f"port {port} on 127.0.0.1 is in use; stop the program that listens there, or name another port"
        )
    socket_.close()


def _bound(port: int, reuse: bool = True) -> socket.socket | None:
    s = socket.socket()
    if reuse:  # like Java: a port whose last connections are in TIME_WAIT is free
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("127.0.0.1", port))
        s.listen(1)
    except OSError:
        s.close()
        return None
    return s
