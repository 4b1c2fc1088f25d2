"""A broker as a child process: real Kafka, from pip's packages and pinned jars alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from kafka_assignors.jvm import cache_folder, java, kafka_jars
from kafka_assignors.jvm.cache import one_at_a_time

from ..errors import BrokerNotReady, BrokerUnreachable
from . import Broker
from .ports import free_ports, require_free
from .ready import await_ready
from .settings import JVM_FLAGS, LOGGER_FLAGS, broker_settings, render, uuid_base64

_WATCHDOG = Path(__file__).with_name("watchdog.py")
_STOP_TIMEOUT_S = 15


class JvmBroker(Broker):
    """One KRaft node in a JVM of its own, which ends with this process; see `start_broker` for the arguments."""

    def __init__(
        self,
        *,
        port: int | None,
        rack: str,
        directory: Path | None,
        version: str,
        timeout_s: float,
        settings: Mapping[str, str],
    ) -> None:
        if port is not None:
            require_free(port)
        self._class_path = os.pathsep.join(map(str, kafka_jars(version)))
        self._java = java()
        self._temporary = directory is None
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-broker-")) if directory is None else directory.resolve()
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._jvm_pid: int | None = None
        try:
            self._prepare(version)
            for attempt in range(3):
                chosen, controller_port = (port, *free_ports(1)) if port is not None else free_ports(2)
                self._configure(chosen, controller_port, rack, settings)
                super().__init__(f"127.0.0.1:{chosen}", "jvm", version)
                try:
                    self._start()
                    return
                except BrokerNotReady as error:
                    # between choosing a port and the JVM's bind another process may have taken it
                    if attempt == 2 or "Address already in use" not in error.log_tail:
                        raise
        except BaseException:
            self.close()
            raise

    @property
    def log_path(self) -> Path:
        """The broker's log file."""
        return self._directory / "broker.log"

    def pids(self) -> list[int]:
        """The watchdog and the JVM."""
        if self._process is None or self._process.poll() is not None or self._jvm_pid is None:
            return []
        return [self._process.pid, self._jvm_pid]

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of `log_path`."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(0, self.log_path.stat().st_size - 400 * lines))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def kill(self) -> None:
        """SIGKILL to the JVM."""
        self._order(b"kill\n", timeout_s=10)

    def restart(self) -> None:
        """A clean stop if it runs, then a new JVM. After `kill` it waits for its old session to end first (3 s)."""
        try:
            self._order(b"stop\n", timeout_s=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._start()

    def close(self) -> None:
        """SIGKILL to the JVM: nothing needs a clean end, as Kafka recovers its log."""
        if self._process is not None:
            self._close_pipes()
            self._process.wait()
            self._process = None
        if self._temporary:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _prepare(self, version: str) -> None:
        """Give the node an empty, formatted data folder unless it has one."""
        data = self._directory / "data"
        if (data / "meta.properties").exists():
            return
        data.mkdir(parents=True, exist_ok=True)
        template = self._template(version)
        shutil.copy(template / "bootstrap.checkpoint", data / "bootstrap.checkpoint")
        ids = {"version": "1", "cluster.id": uuid_base64(), "directory.id": uuid_base64(), "node.id": "1"}
        (data / "meta.properties").write_text(render(ids))

    def _template(self, version: str) -> Path:
        """What ``StorageTool format`` makes, made once: it costs a JVM run of 1 s, and only the ids differ."""
        template = cache_folder() / f"kafka-format-{version}"
        if (template / "bootstrap.checkpoint").exists():
            return template
        with one_at_a_time(cache_folder() / "kafka-format.lock"), tempfile.TemporaryDirectory() as scratch:
            if (template / "bootstrap.checkpoint").exists():
                return template
            data = Path(scratch, "data")
            config = Path(scratch, "server.properties")
            config.write_text(render(broker_settings(port=9092, controller_port=9093, data=str(data), rack="a")))
            command = [
                *self._java_command(),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                uuid_base64(),
                "-c",
                str(config),
            ]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
            )
            if done.returncode:
                said = (done.stdout + done.stderr).strip()
                raise BrokerNotReady(f"StorageTool format of Kafka {version} ended with {done.returncode}", said)
            template.mkdir(parents=True, exist_ok=True)
            part = template / ".part"
            shutil.copy(data / "bootstrap.checkpoint", part)
            part.replace(template / "bootstrap.checkpoint")
        return template

    def _configure(self, port: int, controller_port: int, rack: str, settings: Mapping[str, str]) -> None:
        data = str(self._directory / "data")
        ours = broker_settings(port=port, controller_port=controller_port, data=data, rack=rack)
        (self._directory / "server.properties").write_text(render({**ours, **settings}))

    def _java_command(self) -> list[str]:
        return [str(self._java.executable), *JVM_FLAGS, *LOGGER_FLAGS, "-cp", self._class_path]

    def _start(self) -> None:
        watchdog = [sys.executable, "-I", "-S", str(_WATCHDOG)]
        if self._temporary:
            watchdog += ["--remove", str(self._directory)]
        command = [*watchdog, *self._java_command(), "kafka.Kafka", str(self._directory / "server.properties")]
        if self._process is not None:
            self._close_pipes()
        with self.log_path.open("ab") as log:
            # a pipe would fill up when nobody reads it, and freeze the JVM
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # out of the terminal's process group: Ctrl-C is for this process, which then ends the broker in order
                start_new_session=True,
                cwd=self._directory,
            )
        line = _pipe(self._process.stdout).readline()
        self._jvm_pid = int(line) if line else None
        try:
            await_ready(self.bootstrap, self._timeout_s, self._check_alive)
        except BrokerUnreachable as error:
            tail = self.log_tail()
            self.kill()
            raise BrokerNotReady(f"{error} ({self._java}, log {self.log_path})", tail) from error

    def _check_alive(self) -> None:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise BrokerNotReady(
                f"the broker at {self.bootstrap} ended with exit code {code} before it was ready ({self._java})",
                self.log_tail(),
            )

    def _order(self, order: bytes, timeout_s: float) -> None:
        """Send the watchdog an order that ends the JVM, and wait until both are gone."""
        if self._process is None or self._process.poll() is not None:
            return
        with contextlib.suppress(BrokenPipeError):  # it ended on its own just now
            pipe = _pipe(self._process.stdin)
            pipe.write(order)
            pipe.flush()
        self._process.wait(timeout_s)

    def _close_pipes(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
