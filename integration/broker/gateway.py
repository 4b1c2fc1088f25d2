"""A JVM that executes Python's calls over py4j. It runs under a watchdog and listens only on 127.0.0.1.

It accepts only clients that know its token, which it creates, and ends with this process, however that ends.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_assignors.extras import install
from kafka_assignors.jvm import java, kafka_jars

from ..errors import HarnessError
from ..processes.child import ChildProgram

try:
    from py4j import protocol
    from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway, find_jar_path
except ImportError as error:
    raise HarnessError(f"live calls need py4j; run: {install('harness')}") from error

_GREETING = "greeting"


class Gateway:
    """A JVM with Kafka's jars and py4j's server, started with JVM options `flags`. See `LiveJava` for the rest."""

    def __init__(self, version: str, flags: Sequence[str], timeout_s: float) -> None:
        jar = find_jar_path()
        if not jar:
            raise HarnessError("py4j is installed without its jar; run: pip install --force-reinstall py4j")
        # py4j's jar goes last: class data archived for Kafka's jars fits a class path that begins with them
        class_path = os.pathsep.join([*map(str, kafka_jars(version)), jar])
        command = [str(java().executable), *flags, "-cp", class_path, "py4j.GatewayServer", "--enable-auth", "0"]
        self._client: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-java-")
        self.directory = Path(self._folder.name)
        # The JVM prints port and token to standard output, which we redirect to a file that only this user can read.
        into = ["sh", "-c", 'exec "$@" > "$0"', str(self.directory / _GREETING), *command]
        self._jvm = ChildProgram(into, self.log_path, folder=self.directory, remove=True)
        try:
            port, token = self._greeting(timeout_s)
            parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
            self._gateway: Any = JavaGateway(gateway_parameters=parameters)
            self._client = _Client(gateway_parameters=parameters)
            self._gateway.set_gateway_client(self._client)
        except BaseException:
            self.close()
            raise

    @property
    def classes(self) -> Any:
        """Java's packages and classes by name: ``classes.java.util.Properties()``."""
        return self._gateway.jvm

    @property
    def log_path(self) -> Path:
        """The JVM's standard error."""
        return self.directory / "java.log"

    @property
    def returncode(self) -> int | None:
        """The JVM's exit code, 128 + n after signal n; None while it runs."""
        return self._jvm.returncode

    def await_end(self, timeout_s: float) -> None:
        """Wait until the JVM has ended, for at most `timeout_s` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._jvm.wait(timeout_s)

    def array(self, of: Any, items: Sequence[Any]) -> Any:
        """A Java array: ``array(classes.java.lang.String, ["a", "b"])``."""
        made = self._gateway.new_array(of, len(items))
        for i, item in enumerate(items):
            made[i] = item
        return made

    def pids(self) -> list[int]:
        """Ids of the watchdog and the JVM while they run."""
        return self._jvm.pids()

    def close(self) -> None:
        """End the JVM. Safe to call twice."""
        if self._client is not None:
            self._gateway.close()
            # Otherwise py4j reports each Java object that Python collects later to the dead JVM, and logs each failure
            # with a traceback from within the garbage collector.
            self._client.is_connected = False
            self._client = None
        self._jvm.close()
        self._folder.cleanup()

    def _greeting(self, timeout_s: float) -> tuple[int, str]:
        """Read port and token: the two lines that the JVM prints."""
        deadline = time.monotonic() + timeout_s
        greeting = self.directory / _GREETING
        while True:
            ended = self.returncode is not None
            port, newline, token = greeting.read_text().partition("\n") if greeting.exists() else ("", "", "")
            if newline and token.endswith("\n"):
                return int(port), token.strip()
            if ended or time.monotonic() > deadline:
                output = self.log_path.read_text(errors="replace").strip()[-1000:] or "nothing"
                what = (
                    f"ended with exit code {self.returncode}" if ended else f"reported no port within {timeout_s:g} s"
                )
                raise HarnessError(f"the JVM for live calls {what}; its output: {output}")
            time.sleep(0.01)


class _Client(GatewayClient):
    """py4j's client, which raises Java's exceptions itself.

    Once PySpark has made a session in this process, it replaces py4j's function for that in every gateway. Its function
    looks the exception up in Spark's own JVM, which does not know it (pyspark/errors/exceptions/captured.py).
    """

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Send a command like py4j's client, and raise if the answer is an exception."""
        answer = super().send_command(command, retry, binary)
        if not binary and protocol.is_error(answer)[0] and answer[1:2] == protocol.REFERENCE_TYPE:
            kind, target, name, *_ = [*command.split("\n", 3), "", ""]
            # py4j's convention: an object and a method, or None and a class
            called = (None, target) if f"{kind}\n" == protocol.CONSTRUCTOR_COMMAND_NAME else (target, name)
            protocol.get_return_value(answer, self, *called)
        return answer
