"""What the whole suite shares: the broker fixtures, and what happens to tests of Docker where there is none."""

from __future__ import annotations

import functools
import os
import signal

import pytest
from hypothesis import settings

# How long one example takes says more of the machine than of the law; what hangs meets pytest's timeout.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

pytest_plugins = ["integration.fixtures"]

NOT_RUN = pytest.StashKey[dict[str, str]]()


@functools.cache
def docker_problem() -> str | None:
    from integration.broker.docker import backend_problem

    return backend_problem()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_RUN] = {}
    # A script's background job is started with Ctrl-C ignored, and so would be every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for an engine and an image once, before the first test: a pull must not count against a test's time."""
    if not session.config.option.collectonly and any(item.get_closest_marker("docker") for item in session.items):
        docker_problem()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A skip must not look green: it is told at the end, and is an error where Docker is required."""
    if item.get_closest_marker("docker") is None:
        return
    problem = docker_problem()
    if problem is None:
        return
    if os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(f"REQUIRE_DOCKER=1, but {problem}", pytrace=False)
    item.config.stash[NOT_RUN][item.nodeid] = problem
    pytest.skip(problem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not_run := config.stash[NOT_RUN]:
        terminalreporter.section("NOT RUN: docker", sep="!", red=True, bold=True)
        for nodeid in not_run:
            terminalreporter.line(f"  {nodeid}")
        reason = next(iter(not_run.values()))
        terminalreporter.line(f"{len(not_run)} tests of the docker backend did not run: {reason}.")
        terminalreporter.line("Set up Docker to run them; REQUIRE_DOCKER=1 makes this an error.")
