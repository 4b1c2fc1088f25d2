"""Faults of a group's members: they are killed, paused, stop polling, or change their subscription."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection

from kafka_assignors.errors import ConfigError

from .running import STOP_S, TICK_S, RunningMembers


class MemberFaults:
    """The faults of a group's members. The history records each before it acts and when it is over.

    A kill is recorded after SIGKILL: before it, the process may still consume and commit, however late the signal.
    Methods raise ConfigError if no running member has the name; those that wait also raise MemberDied if a member ends
    unasked.
    """

    def __init__(self, members: RunningMembers) -> None:
        self._members = members

    def kill(self, name: str) -> None:
        """End a member with SIGKILL. The coordinator notices when the session ends."""
        process = self._members.get(name)
        self._members.count_from_here()
        process.kill()
        named = process.named("kill")
        self._members.write("fault_begin", **named)
        self._members.ended(name, STOP_S)
        self._members.write("fault_end", **named)

    def interrupt(self, name: str) -> None:
        """Send a bridged member SIGINT. If its application ends by it, `wait_end` waits for that.

        Raises:
            NotSupported: Its client isn't ``bridge``.
        """
        process = self._members.get(name)
        self._members.count_from_here()
        self._members.write("fault_begin", **process.named("interrupt"))
        process.interrupt()
        self._members.write("fault_end", **process.named("interrupt"))

    def pause(self, name: str) -> None:
        """Freeze a member (SIGSTOP), which is evicted when its session ends. ConfigError if it is paused already."""
        process = self._members.get(name)
        if process.paused:
            raise ConfigError(f"{self._members.named(name)} is already paused")
        self._members.count_from_here()
        named = process.named("pause")
        self._members.write("fault_begin", **named)
        process.pause()
        if (now := process.named("pause")) != named:  # a service has just made its consumer anew
            self._members.write("fault_end", **named)
            self._members.write("fault_begin", **now)

    def pause_at_work(self, name: str, timeout_s: float = 15) -> None:
        """Like `pause`, but while the member works on consumed records, before it begins to commit them.

        This needs records, and work that takes a while: the member is paused only once it reports work.

        Raises:
            NotStable: The member was never at work before the deadline.
        """
        process = self._members.get(name)

        def began_to_commit() -> bool:
            return not process.at_work

        def caught() -> bool:
            met = process.at_work
            if met:
                self.pause(name)
                process.catch_up()
                if began_to_commit():
                    self.resume(name)
                    met = False
            return met

        self._wait(name, caught, "processed no record within {}; send records", timeout_s)

    def overwork(self, name: str, timeout_s: float = 15) -> None:
        """Wait while a member works longer than its poll interval. It leaves the group although heartbeats continue.

        Its ``app_work_ms`` must exceed its ``max_poll_interval_ms``. The history reports a stall, from when the member
        is found at work until its commit is accepted or refused.

        Raises:
            NotStable: The member was never at work, or its commit wasn't answered, before the deadline.
        """
        process = self._members.get(name)
        self._wait(name, lambda: process.at_work, "processed no record within {}; send records", timeout_s)
        self._members.count_from_here()
        begun = self._members.write("fault_begin", **process.named("stall"))
        self._wait(name, lambda: process.answered_ns > begun.mono_ns, "committed nothing within {}", timeout_s)
        self._members.write("fault_end", **process.named("stall"))

    def stall(self, name: str, timeout_s: float = 15) -> None:
        """Make a member stop polling while heartbeats continue: it leaves the group after ``max_poll_interval_ms``.

        It stops between two polls, which needs records; a member that was just started stops before its first poll.

        Raises:
            NotSupported: Its client doesn't take this command.
            NotStable: It still polls after `timeout_s`.
        """
        process = self._members.get(name)
        self._members.count_from_here()
        process.stall()
        self._wait(name, lambda: process.stalled, "still polls after {}; send records", timeout_s)

    def stall_assign(self, name: str) -> None:
        """Make a member stall the next time it assigns as leader, and return at once.

        Its heartbeats stop too, as kafka-python's do while it assigns, so it leaves the group when its session ends.
        `wait_stalled` waits for the stall, `kill` ends the member in it, `resume` ends the stall.

        Raises:
            NotSupported: Its client doesn't take this command.
        """
        process = self._members.get(name)
        self._members.count_from_here()
        process.command("stall-assign")

    def wait_stalled(self, name: str, timeout_s: float = 15) -> None:
        """Wait until a member stalls in its assign.

        Raises:
            NotStable: It didn't by the deadline: it may not be the leader, or there was no rebalance.
        """
        process = self._members.get(name)
        self._wait(name, lambda: process.stalled, "was not asked to assign within {}", timeout_s)

    def resume(self, name: str) -> None:
        """Let a paused (SIGCONT) or stalled member continue. ConfigError if it is neither."""
        process = self._members.get(name)
        if not (process.paused or process.stalled):
            raise ConfigError(f"{self._members.named(name)} is not paused")
        self._members.count_from_here()
        paused = process.paused
        process.resume()
        process.stalled = False  # the member itself reports a stall's end
        if paused:
            self._members.write("fault_end", **process.named("pause"))

    def subscribe(self, name: str, topics: Collection[str] = (), *, pattern: str | None = None) -> None:
        """Change a member's subscription in place. It takes effect between two polls, which needs records.

        Raises:
            ConfigError: Not exactly one of `topics` and `pattern` is given.
            NotSupported: Its client doesn't take this command.
        """
        process = self._members.get(name)
        if isinstance(topics, str) or bool(topics) == bool(pattern):
            raise ConfigError(f"member {name!r} needs a list of topics or a pattern, not {topics!r} and {pattern!r}")
        self._members.count_from_here()
        wanted = {"pattern": pattern} if pattern else {"topics": sorted(topics)}
        named = {"member": name, "incarnation": process.config.incarnation, "target": name}
        self._members.write("admin_change", change="subscribe", **named, subscription=wanted)
        process.command(f"subscribe {json.dumps(wanted)}")
        process.topics, process.pattern = tuple(sorted(topics)), pattern

    def wait_end(self, name: str, timeout_s: float = 15) -> str:
        """Wait until a member has ended on its own, as a fenced member must. Return how, with its last output.

        Raises:
            NotStable: It still runs after `timeout_s`.
        """
        process = self._members.get(name)
        deadline = time.monotonic() + timeout_s
        while process.returncode is None:
            if time.monotonic() > deadline:
                raise self._members.missed(f"{self._members.named(name)} still runs after {timeout_s:g} s", timeout_s)
            self._members.check_alive(name)
            time.sleep(TICK_S)
        self._members.ended(name, STOP_S)
        return process.epitaph()

    def wait_committing(self, timeout_s: float = 30) -> None:
        """Wait until every member with partitions has committed since this call: it has found brokers and coordinator.

        This needs records.

        Raises:
            NotStable: Some had not by the deadline; the message names them.
        """
        since_ns = time.monotonic_ns()

        def silent() -> list[str]:
            running = [p for p in self._members if not (p.paused or p.stalled)]
            return sorted(p.config.member for p in running if p.owned and p.committed_ns <= since_ns)

        self._members.wait_until(
            lambda: not silent(),
            lambda: f"not committing after {timeout_s:g} s in group {self._members.group!r}: {', '.join(silent())}",
            timeout_s,
        )

    def _wait(self, name: str, condition: Callable[[], bool], failure: str, timeout_s: float) -> None:
        """Wait for what a member reports. `failure` says of it what happened instead, ``{}`` standing for the limit."""
        message = f"{self._members.named(name)} {failure.format(f'{timeout_s:g} s')}"
        self._members.wait_until(condition, lambda: message, timeout_s)
