"""Java's own Kafka classes, live: a small JVM with Kafka's jars, driven over py4j without a compiler.

>>> with LiveJava() as java:                                                # doctest: +SKIP
...     java.classes.org.apache.kafka.common.utils.Utils.murmur2(b"21")
-973932308
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

from kafka_assignors.jvm import java, kafka_jars

from .broker import KAFKA_VERSION
from .broker.settings import LOGGER_FLAGS
from .errors import HarnessError

_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *LOGGER_FLAGS)
_END_S = 5


class LiveJava:
    """A JVM that calls what Python asks it to; a context manager. It ends with this process, however that ends.

    It listens on 127.0.0.1 alone, and obeys only who knows a token that it makes itself.

    Args:
        version: Kafka's version; it must be pinned.
        timeout_s: Seconds until the JVM must answer.

    Raises:
        UnknownName: That version is not pinned.
        MachineError: Java or jars are missing and cannot be fetched.
        HarnessError: py4j is missing, or the JVM does not start; its last words are in the message.

    Cost: 0.5 s to start; about 0.2 ms a call.
    """

    def __init__(self, version: str = KAFKA_VERSION, timeout_s: float = 30) -> None:
        py4j, jar = _py4j()
        found = java()
        class_path = os.pathsep.join([jar, *map(str, kafka_jars(version))])
        server = ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM
        self._process = subprocess.Popen(
            [str(found.executable), *_FLAGS, "-cp", class_path, *server],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self._gateway: Any = None
        try:
            port, token = self._greeting(timeout_s)
            parameters = py4j.GatewayParameters(port=port, auth_token=token, auto_convert=True)
            self._gateway = py4j.JavaGateway(gateway_parameters=parameters)
        except BaseException:
            self.close()
            raise

    @property
    def classes(self) -> Any:
        """Java's packages and classes by name: ``classes.java.util.Properties()``.

        Python's bytes become ``byte[]``, None null; lists, sets and dicts become Java's. What Java throws arrives as
        ``py4j.protocol.Py4JJavaError`` with Java's stack trace.
        """
        return self._gateway.jvm

    def array(self, of: Any, items: Sequence[Any]) -> Any:
        """A Java array: ``array(classes.java.lang.String, ["a", "b"])``."""
        made = self._gateway.new_array(of, len(items))
        for i, item in enumerate(items):
            made[i] = item
        return made

    def producer(self, bootstrap: str, **settings: object) -> Any:
        """Java's own ``KafkaProducer`` of bytes; the caller closes it.

        Args:
            bootstrap: ``host:port``, several with commas.
            settings: Its configuration, ``_`` for ``.``: ``linger_ms=5``.
        """
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        properties = self.classes.java.util.Properties()
        ours = {"bootstrap.servers": bootstrap, "key.serializer": serializer, "value.serializer": serializer}
        for name, value in {**ours, **{name.replace("_", "."): v for name, v in settings.items()}}.items():
            properties.setProperty(name, str(value).lower() if isinstance(value, bool) else str(value))
        return self.classes.org.apache.kafka.clients.producer.KafkaProducer(properties)

    def pids(self) -> list[int]:
        """The JVM's process, none when it ended."""
        return [self._process.pid] if self._process.poll() is None else []

    def close(self) -> None:
        """End the JVM; may be called twice."""
        if self._gateway is not None:
            self._gateway.close()
            # Else Java objects that Python collects later on would still be reported, to nobody, and each failure be
            # logged with its traceback, from within the garbage collector.
            self._gateway._gateway_client.is_connected = False
            self._gateway = None
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()  # on which it ends itself
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _greeting(self, timeout_s: float) -> tuple[int, str]:
        """Port and token: the first lines that the JVM prints. The rest is read and dropped, or its pipe would fill."""
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_drain, args=(_pipe(self._process.stdout), lines), daemon=True).start()
        deadline = time.monotonic() + timeout_s
        try:
            first, second = (lines.get(timeout=max(0.0, deadline - time.monotonic())) for _ in range(2))
            return int(first), second.decode().strip()
        except (queue.Empty, ValueError) as error:
            said = self._last_words()
            raise HarnessError(
                f"the JVM for live calls gave no port within {timeout_s:g} s; it said: {said}"
            ) from error

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may be ending right now
            self._process.wait(0.5)
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()[-1000:] or "nothing"

    def __enter__(self) -> LiveJava:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _py4j() -> tuple[Any, str]:
    """The library, and the jar that its wheel brings."""
    try:
        from py4j import java_gateway
    except ImportError as error:
        raise HarnessError("live calls need py4j; run: pip install 'kafka-assignors[harness]'") from error
    jar = java_gateway.find_jar_path()
    if not jar:
        raise HarnessError("py4j is installed without its jar; run: pip install --force-reinstall py4j")
    return java_gateway, jar


def _drain(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with pipe:
        for _ in range(2):
            lines.put(pipe.readline())
        while pipe.read(4096):
            pass


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
