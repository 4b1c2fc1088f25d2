"""The process that stands between a service's processes and the brokers; `WireTap` starts it.

Run by ``python -m kafka_assignors.integration.proxy.tap_relay``.

Each process has ports of its own, one per broker, and the answers that name brokers name these. Every frame goes on as
it is, but for those ports; what it says about the group is written to the process's file before it goes on. Bytes that
aren't Kafka's go on, too: that is written as not read. Commands are JSON lines on standard input; each is answered by
a line. End of input ends the process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

from .addresses import NAMING, readdressed
from .conversation import Conversation, Names
from .frames import FrameError, Frames
from .relay import abort
from .wire_process import Row, WireProcess

_BLOCK_BYTES = 1 << 16
_END_S = 5.0
"""How long the connections of a process that has ended may take to end."""


class TappedProcess:
    """The ports, connections and file of one process of the service."""

    def __init__(self, group: str, rows: Path, log: Path) -> None:
        self.group, self.names = group, Names()
        self.ports: dict[int, int] = {}  # a broker's advertised port -> ours
        self.failure = ""  # why not all rows are in the file
        self._log = log
        self._file: IO[bytes] = rows.open("ab", buffering=0)
        self._process = WireProcess(self.names)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._numbers = count()

    async def listen(self, routes: Mapping[int, int]) -> None:
        """Open a port for each broker; `routes`: advertised port -> port to connect to."""
        for advertised, target in routes.items():
            server = await asyncio.start_server(self._accepting(target), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[advertised] = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more connections, and wait for the end of those that there are: the process has ended."""
        for server in self._servers:
            server.close()
        if self._connections:
            _, left = await asyncio.wait(self._connections, timeout=_END_S)
            for task in left:
                task.cancel()
            if left:
                self.failure = f"{len(left)} of its connections did not end with it, within {_END_S:g} s"
        self.write(self._process.ended())
        self._file.close()

    def _accepting(self, target: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await self._serve(reader, writer, target)
            finally:
                self._connections.discard(task)

        return accept

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            abort(writer)  # the broker is down, so its port must look closed
            return
        number = next(self._numbers)
        connection = TappedConnection(self, self._process, number, reader)
        self._process.opened(number)
        both = (
            asyncio.create_task(connection.pass_on(reader, broker_writer, connection.asked)),
            asyncio.create_task(connection.pass_on(broker_reader, writer, connection.answered)),
        )
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._process.closed(number)
            for task in both:
                task.cancel()
            results = await asyncio.gather(*both, return_exceptions=True)
            broken = any(isinstance(result, OSError) for result in results)
            for end in (writer, broker_writer):
                if broken:
                    abort(end)
                end.close()

    def write(self, rows: list[Row]) -> None:
        """Write rows, with the wall clock and the length of the process's log."""
        if not rows:
            return
        apart_ns = time.time_ns() - time.monotonic_ns()
        more = {}
        with suppress(OSError):
            more["log_bytes"] = self._log.stat().st_size
        lines = [json.dumps({"ts_ns": row["mono_ns"] + apart_ns, **row, **more}) for row in rows]
        try:
            self._file.write("".join(f"{line}\n" for line in lines).encode())
        except OSError as error:  # which is not the service's
            self.failure = f"what its connections show could not be written: {error}"


class TappedConnection:
    """One connection: its frames, and what they say."""

    def __init__(self, tapped: TappedProcess, process: WireProcess, number: int, client: asyncio.StreamReader) -> None:
        self._tapped, self._process, self._number, self._client = tapped, process, number, client
        self._conversation = Conversation(tapped.group, tapped.names)
        self._followed = True

    async def pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, look: Callable[[bytes], bytes]
    ) -> None:
        """Pass frames on until the source ends; `look` sees each and returns what goes on."""
        frames = Frames()
        while data := await source.read(_BLOCK_BYTES):
            if self._followed:
                try:
                    whole = frames.feed(data)
                except FrameError as error:
                    self._give_up(error)
                else:
                    sink.write(b"".join(map(look, whole)))
                data = b""  # it is passed on, or among the rest
            if not self._followed:
                sink.write(frames.rest() + data)
            await sink.drain()

    def asked(self, frame: bytes) -> bytes:
        """Write what a client's frame says."""
        if self._followed:
            try:
                call, now_ns = self._conversation.asked(frame), time.monotonic_ns()
                rows = self._process.asked(self._number, self._conversation.client_id, call, now_ns)
            except FrameError as error:
                self._give_up(error)
            except Exception as error:  # a defect of the reader's is not the service's
                self._not_read(error)
            else:
                self._tapped.write(rows)
        return frame

    def answered(self, frame: bytes) -> bytes:
        """Write what a broker's frame says, and name our ports in it."""
        if self._followed:
            try:
                reply = self._conversation.answered(frame)
                ended = self._client.at_eof()  # whoever has ended gets no answer
                rows = [] if ended else self._process.answered(reply, time.monotonic_ns())
            except FrameError as error:
                self._give_up(error)
                return frame
            except Exception as error:  # as above
                self._not_read(error)
            else:
                self._tapped.write(rows)
            if self._conversation.answered_api in NAMING:
                return readdressed(frame, self._tapped.ports)
        return frame

    def _give_up(self, error: FrameError) -> None:
        """The stream can't be followed any further: from here on bytes pass as they come."""
        self._followed = False
        self._tapped.write(self._process.not_read(str(error), time.monotonic_ns()))

    def _not_read(self, error: Exception) -> None:
        reason = f"a frame, on which the reader failed: {type(error).__name__}: {error}"
        self._tapped.write(self._process.not_read(reason, time.monotonic_ns()))


class TapRelay:
    """All processes of the service, by number."""

    def __init__(self) -> None:
        self._tapped: dict[int, TappedProcess] = {}

    async def obey(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a command and return its answer."""
        number = command["number"]
        if command["do"] == "listen":
            tapped = TappedProcess(command["group"], Path(command["rows"]), Path(command["log"]))
            self._tapped[number] = tapped
            await tapped.listen(dict(command["routes"]))
            return {"ports": list(tapped.ports.values())}
        tapped = self._tapped.pop(number)
        await tapped.close()
        return {"error": tapped.failure} if tapped.failure else {}


async def main() -> int:
    """Serve until standard input ends."""
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    relay = TapRelay()
    while line := await commands.readline():
        try:
            answer = await relay.obey(json.loads(line))
        except OSError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
