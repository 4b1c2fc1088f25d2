"""The proxy's process; `FaultProxy` starts it.

Run by ``python -m kafka_assignors.integration.proxy.relay HISTORY RUN PORT:BEHIND…``.

It is a process of its own, so a harness that computes or stops at a breakpoint delays no heartbeats. Commands are JSON
lines on standard input; each is answered by a line when it is in force. End of input ends the process. The history
records a fault before it acts on a member, and its end before anything passes again.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_assignors.errors import KafkaAssignorsError
from kafka_assignors.history.writer import EventWriter

from .frames import FrameError, Frames, InFlight, request_of
from .rules import ANSWER, REQUEST, Cut, Delay, Drop, NetworkFault, Reset, fault_of

_BLOCK_BYTES = 1 << 16
_LOOK_S = 0.02
_QUEUED = 1000
"""Number of frames that one direction holds back before it stops reading."""
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Armed:
    """A fault that is in force, or whose effects aren't over. `number` is the caller's id of it."""

    def __init__(self, number: int, fault: NetworkFault, relay: Relay) -> None:
        self.number, self.fault = number, fault
        self.healed = asyncio.Event()
        self._relay = relay
        self._left = fault.limit
        self._expired = self._over = False
        self._met: Counter[str] = Counter()  # client id -> number of hits
        self._times = self._effects = 0

    @property
    def acts(self) -> bool:
        """Whether it may hit once more."""
        return not self.healed.is_set() and not self._expired and self._left != 0

    def begin(self, client_id: str) -> None:
        """Record the fault's begin before it first acts on a member. Later calls do nothing."""
        if client_id not in self._met:
            self._relay.write("fault_begin", client_id, self.fault)
            self._met[client_id] = 0

    def hit(self, *client_ids: str) -> None:
        """Count a hit before the fault acts. Call `release` when its effect is over."""
        for client_id in client_ids:
            self.begin(client_id)
            self._met[client_id] += 1
        self._times += 1
        self._effects += 1
        if self._left is not None:
            self._left -= 1
        self._relay.tell(hit=self.number, times=self._times)

    def part(self, client_id: str) -> None:
        """End the fault for a member whose name another process takes."""
        if client_id in self._met:
            self._relay.write("fault_end", client_id, self.fault, hits=self._met.pop(client_id))

    def release(self) -> None:
        """End one of its effects."""
        self._effects -= 1
        self._settle()

    def expire(self) -> None:
        """End its time. Frames that it delays still come when due."""
        self._expired = True
        self._settle()

    def heal(self) -> None:
        """Stop acting, and let delayed frames pass."""
        self._expired = True
        self._settle()  # records a cut's end before anything passes again
        self.healed.set()

    def _settle(self) -> None:
        if self.acts or self._effects or self._over:
            return
        self._over = True
        for client_id in tuple(self._met):
            self.part(client_id)
        self.healed.set()
        self._relay.over(self)


class Relay:
    """All connections, the members by name, and the faults in force."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._members: dict[str, dict[str, Any]] = {}  # client id -> group, member, incarnation
        self._armed: list[Armed] = []
        self._connections: set[RelayedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, port: int, behind: int) -> asyncio.Server:
        """Listen on one node's behalf. OSError if the port is taken."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                broker = await asyncio.open_connection("127.0.0.1", behind)
            except OSError:
                abort(writer)  # the node is down, so its port must look closed
                return
            connection = RelayedConnection(self, (reader, writer), broker)
            self._connections.add(connection)
            try:
                await connection.run()
            finally:
                self._connections.discard(connection)

        return await asyncio.start_server(accept, "127.0.0.1", port)

    def obey(self, command: dict[str, Any]) -> None:
        """Execute a command. KafkaAssignorsError if it can't be done."""
        what = command.pop("do")
        if what == "admit":
            client_id = command["member"]
            for armed in self._armed:
                armed.part(client_id)
            self._members[client_id] = command
            for armed in self._armed:
                if isinstance(armed.fault, Cut) and armed.acts and armed.fault.of(client_id):
                    armed.begin(client_id)
        elif what == "apply":
            self._apply(Armed(command.pop("number"), fault_of(command.pop("fault"), command), self))
        else:
            for armed in [armed_fault for armed_fault in self._armed if armed_fault.number in command["numbers"]]:
                armed.heal()
                for connection in tuple(self._connections):
                    connection.heal(armed)

    def judge(self, client_id: str, api: str, side: str) -> Armed | None:
        """The first fault that matches this frame, counted as a hit; None: no fault does."""
        for armed in self._armed:
            if armed.acts and armed.fault.hits(client_id, api, side):
                armed.hit(client_id)
                return armed
        return None

    def cut_off(self, client_id: str) -> Armed | None:
        """The cut that blocks a member now, or None."""
        cuts = (a for a in self._armed if isinstance(a.fault, Cut) and a.acts and a.fault.of(client_id))
        return next(cuts, None)

    def over(self, armed: Armed) -> None:
        """Remove a fault whose effects are over, and report it."""
        self._armed = [other for other in self._armed if other is not armed]
        self.tell(over=armed.number)

    def write(self, kind: str, client_id: str, fault: NetworkFault, **data: Any) -> None:
        """Write a fault event. A client that is no member of a group appears by its client id alone."""
        who = self._members.get(client_id, {})
        self._writer.write(kind, **who, fault=fault.name, target=client_id, params=fault.params, **data)

    def refuse(self, client_id: str | None, error: FrameError) -> None:
        """Report bytes that aren't Kafka's."""
        who = self._members.get(client_id or "", {})
        self._writer.write("error", **who, error="FrameError", fatal=False, message=f"the proxy met {error}")

    @staticmethod
    def tell(**fields: Any) -> None:
        """Print a line for the caller."""
        print(json.dumps(fields), flush=True)

    def _apply(self, armed: Armed) -> None:
        fault = armed.fault
        self._armed.append(armed)
        if isinstance(fault, Cut):
            connected = {c.client_id for c in self._connections if c.client_id is not None}
            for client_id in sorted(connected | set(self._members)):
                if fault.of(client_id):
                    armed.begin(client_id)
        if fault.duration_ms is not None:
            asyncio.get_running_loop().call_later(fault.duration_ms / 1000, armed.expire)
        if isinstance(fault, Reset) and fault.api is None:
            task = asyncio.create_task(self._reset_all(armed, fault))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reset_all(self, armed: Armed, fault: Reset) -> None:
        while armed.acts:
            meant = [c for c in self._connections if c.client_id is not None and fault.of(c.client_id)]
            if not meant:  # a member may be about to connect
                await _either(armed.healed, _LOOK_S)
                continue
            armed.hit(*sorted({c.client_id or "" for c in meant}))
            for connection in meant:
                connection.reset()
            armed.release()
            if armed.acts:
                await _either(armed.healed, fault.every_ms / 1000)


class RelayedConnection:
    """A client's connection and the one to its broker, each a reader and a writer."""

    def __init__(
        self,
        relay: Relay,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.client_id: str | None = None
        self._relay = relay
        self._source = {REQUEST: client[0], ANSWER: broker[0]}
        self._sink = {REQUEST: broker[1], ANSWER: client[1]}
        self._flight = InFlight()
        # frame (None: the end), the fault that delays it, and until when by the loop's clock
        self._queues: dict[str, asyncio.Queue[tuple[bytes | None, Armed | None, float]]] = {
            side: asyncio.Queue(_QUEUED) for side in (REQUEST, ANSWER)
        }
        self._late: list[Armed] = []  # the fault of each delayed frame
        self._gone: set[str] = set()  # sides whose source has closed
        self._silent: dict[str, Armed] = {}  # side on which nothing passes any more -> its fault
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Pass frames until either end is gone."""
        self._tasks = [
            asyncio.create_task(step(side)) for side in (REQUEST, ANSWER) for step in (self._read, self._write)
        ]
        writers = self._tasks[1::2]
        try:
            # A reader at its end leaves its frames to the writer. One that failed or was cancelled ends all.
            waiting = set(self._tasks)
            while not any(writer.done() for writer in writers):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if any(task.cancelled() or task.exception() for task in done):
                    break
        finally:
            for task in self._tasks:
                task.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
            self._clear()
            if any(isinstance(result, FrameError | OSError) for result in results):
                self.reset()
            for writer in self._sink.values():
                writer.close()
        for result in results:
            if isinstance(result, FrameError):
                self._relay.refuse(self.client_id, result)
            elif isinstance(result, Exception) and not isinstance(result, OSError):
                raise result

    def reset(self) -> None:
        """End it with a TCP reset at both ends."""
        for writer in self._sink.values():
            abort(writer)
        for task in self._tasks:
            task.cancel()

    def heal(self, armed: Armed) -> None:
        """End the connection if the fault has swallowed its frames: they are lost, so the member must reconnect."""
        if armed in self._silent.values():
            self.reset()

    async def _read(self, side: str) -> None:
        frames = Frames()
        while data := await self._source[side].read(_BLOCK_BYTES):
            for frame in frames.feed(data):
                await self._take(side, frame)
        self._gone.add(side)
        if side not in self._silent:
            await self._queues[side].put((None, None, 0))
        elif side == REQUEST:
            self.reset()  # the member has given up the connection

    async def _take(self, side: str, frame: bytes) -> None:
        if side == REQUEST:
            request = request_of(frame)
            self.client_id = request.client_id
            self._flight.sent(request)
        else:
            request = self._flight.answered(frame)
        if side in self._silent:
            return
        armed = self._relay.judge(request.client_id or "", request.api, side)
        due = 0.0
        if armed is not None:
            if isinstance(armed.fault, Drop):
                self._silent[side] = armed
                return
            if isinstance(armed.fault, Reset):
                self.reset()
                armed.release()
                return
            assert isinstance(armed.fault, Delay)
            due = asyncio.get_running_loop().time() + armed.fault.ms / 1000
            self._late.append(armed)
        await self._queues[side].put((frame, armed, due))

    async def _write(self, side: str) -> None:
        queue, sink = self._queues[side], self._sink[side]
        while True:
            frame, armed, due = await queue.get()
            if armed is not None:
                await _either(armed.healed, due - asyncio.get_running_loop().time())
            was_cut_off = await self._gate()
            if armed is not None:
                self._late.remove(armed)
                armed.release()
            if frame is None or (was_cut_off and side in self._gone):
                return
            sink.write(frame)
            await sink.drain()

    async def _gate(self) -> bool:
        """Wait while the member is cut off. Return whether it was."""
        was_cut_off = False
        while (cut := self._relay.cut_off(self.client_id or "")) is not None:
            was_cut_off = True
            cut.begin(self.client_id or "")
            await cut.healed.wait()
        return was_cut_off

    def _clear(self) -> None:
        """Drop all frames held back, and end the effects of their faults."""
        for armed in (*self._late, *self._silent.values()):
            armed.release()
        self._late.clear()
        self._silent.clear()


def abort(writer: asyncio.StreamWriter) -> None:
    """End a connection with a TCP reset."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most this many seconds."""
    if seconds > 0:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


async def main(arguments: Sequence[str]) -> int:
    """Serve until standard input ends."""
    history, run, *routes = arguments
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    with EventWriter(Path(history), run, "proxy") as writer:
        relay = Relay(writer)
        servers = []
        for route in routes:
            port, behind = map(int, route.split(":"))
            try:
                servers.append(await relay.serve(port, behind))
            except OSError as error:
                relay.tell(command=0, taken=port, error=str(error))
                return 2
        relay.tell(command=0, ready=True)
        while line := await commands.readline():
            what = json.loads(line)
            number = what.pop("command")
            try:
                relay.obey(what)
            except KafkaAssignorsError as error:
                relay.tell(command=number, error=str(error))
            else:
                relay.tell(command=number, done=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
