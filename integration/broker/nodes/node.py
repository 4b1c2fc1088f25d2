"""One Kafka node as a child process: its folder, formatted storage, JVM, and the watchdog that ends both."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_assignors.connection.properties import render
from kafka_assignors.errors import NotEnoughSpace
from kafka_assignors.jvm import Java, java, kafka_jars

from ...errors import NotSupported
from ...processes.child import ChildProgram
from ..diagnosis import not_ready
from ..settings import LOGGER_FLAGS, Route, uuid_base64
from .prepared import class_data, formatted_storage, storage

_KILL_TIMEOUT_S = 10
_NEEDED_BYTES = 16_000_000  # for the log of a starting node, its metadata and some topics
_FULL_BYTES = 100_000


class LocalNode:
    """The part of a `Place` on this machine that does not depend on its process: a folder, a log, no own network."""

    host = "127.0.0.1"

    java: Java

    def __init__(self, directory: Path, log_path: Path, formatted: Path) -> None:
        self.directory, self.log_path = directory, log_path
        self._formatted = formatted
        self._address = ""

    @property
    def data(self) -> Path:
        """Kafka's ``log.dirs``."""
        return self.directory / "data"

    @property
    def traces(self) -> str:
        """Its Java and its log."""
        return f"{self.java}, log {self.log_path}"

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of `log_path`."""
        return tail(self.log_path, lines)

    def format(self, node_id: int = 1, cluster_id: str | None = None) -> None:
        """Give the node an empty, formatted data folder unless it has one. By default the cluster id is new."""
        if not (self.data / "meta.properties").exists():
            storage(self.data, self._formatted, node_id, cluster_id or uuid_base64())

    def listeners(self, port: int, controller_port: int, route: Route) -> dict[str, str]:  # noqa: ARG002 - a Place's
        """No settings beside those of `broker_settings`."""
        return {}

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the properties that the next `launch` reads."""
        file = self.directory / "server.properties"
        file.touch(mode=0o600)  # a secured listener's key is in it
        file.write_text(render(settings))

    def disconnect(self) -> None:
        """Raise NotSupported."""
        raise NotSupported(f"the broker at {self._address} has no network to be cut off from; use the backend docker")

    def connect(self) -> None:
        """Do nothing: the node is never cut off."""


class NodeProcess(LocalNode):
    """A node's folder and its JVM, which ends with this process; a `Place`.

    Args:
        version: Kafka's version; it must be pinned.
        directory: Folder of data and log, kept. None: a temporary folder, removed by `close` or with this process.

    Raises:
        MachineError: Java or jars are missing and cannot be fetched, or the disk is full.
    """

    def __init__(self, version: str, directory: Path | None, jvm_flags: Sequence[str]) -> None:
        jars = kafka_jars(version)
        self.java = java()
        self.version = version
        formatted = formatted_storage(self.java, jars, version)
        flags = (*class_data(self.java, jars, version), *jvm_flags, *LOGGER_FLAGS)
        self._command = [str(self.java.executable), *flags, "-cp", os.pathsep.join(map(str, jars)), "kafka.Kafka"]
        self._temporary = directory is None
        require_space(Path(tempfile.gettempdir()) if directory is None else directory)
        folder = Path(tempfile.mkdtemp(prefix="kafka-broker-")) if directory is None else directory.resolve()
        super().__init__(folder, folder / "broker.log", formatted)
        self._jvm: ChildProgram | None = None

    @property
    def runs(self) -> bool:
        """Whether the JVM exists, paused or not."""
        return self._jvm is not None and self._jvm.runs

    def pids(self) -> list[int]:
        """Ids of the watchdog and the JVM; empty after they ended."""
        return [] if self._jvm is None else self._jvm.pids()

    def launch(self, address: str) -> None:
        """Start a JVM on the folder and return at once. `address` is for messages."""
        self._address = address
        command = [*self._command, str(self.directory / "server.properties")]
        # start the next watchdog first, so that a watchdog guards the folder at all times
        before, self._jvm = (
            self._jvm,
            ChildProgram(command, self.log_path, folder=self.directory, remove=self._temporary),
        )
        if before is not None:
            before.release()

    def check_alive(self) -> None:
        """Raise BrokerNotReady, with the end of the log, if the JVM has ended."""
        if self._jvm is not None and (code := self._jvm.returncode) is not None:
            log_end = self.log_tail()
            if shutil.disk_usage(self.directory).free < _FULL_BYTES:
                log_end += f"\nNo space left on device: {self.directory}"  # the log may have no room for this message
            raise not_ready(
                f"the broker at {self._address} ended with exit code {code} before it was ready ({self.java})", log_end
            )

    def stop(self, timeout_s: float) -> bool:
        """Send SIGTERM, on which Kafka hands its leaders over. False: `timeout_s` seconds passed, so it got SIGKILL."""
        if self._jvm is None:
            return True
        self.resume()  # a paused process would not receive SIGTERM
        self._jvm.terminate()
        try:
            self._jvm.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """Send SIGKILL to the JVM, and wait until it is gone."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm.wait(_KILL_TIMEOUT_S)

    def pause(self) -> None:
        """Send SIGSTOP to the JVM: its sockets stay open and nothing answers."""
        if self._jvm is not None:
            self._jvm.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to the JVM. No effect on a running one."""
        if self._jvm is not None:
            self._jvm.signal(signal.SIGCONT)

    def close(self) -> None:
        """Send SIGKILL to the JVM, because Kafka recovers its log. Remove a temporary folder."""
        if self._jvm is not None:
            self._jvm.close()
            self._jvm = None
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


def tail(log: Path, lines: int) -> str:
    """The last lines of a log; empty if the file does not exist yet."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 400 * lines))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def require_space(folder: Path) -> None:
    """Check that a folder has room for a node's data and log. NotEnoughSpace if it has not."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < _NEEDED_BYTES:
        raise NotEnoughSpace(
            f"{folder} has {free} bytes free and a broker needs {_NEEDED_BYTES} to start; make room, or name another "
            "folder (directory=, or TMPDIR)"
        )
