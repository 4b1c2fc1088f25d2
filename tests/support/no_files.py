"""Puts what is no regular file where one is expected."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def linked(to: str) -> Callable[[Path], None]:
    """A link to a path, which may be nothing, itself or a device."""
    return lambda path: path.symlink_to(to)


def socketed(path: Path) -> None:
    """A socket that nobody listens at."""
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as ours:
            ours.bind(path.name)
    finally:
        os.chdir(before)
