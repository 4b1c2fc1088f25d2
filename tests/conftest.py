"""What the whole suite shares: the broker fixtures, tests of Docker where there is none, law A1 over all histories."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import settings

from tests.support.examples import PROFILE
from tests.support.replayed import INVENTED, Replayed, replay_all
from tests.support.workers import workers

# How long one example takes says more of the machine than of the law; what hangs meets pytest's timeout.
settings.register_profile("dev", deadline=None, max_examples=25)
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(PROFILE)

pytest_plugins = ["kafka_assignors.pytest_plugin"]

NEEDS = {
    "broker": {"kafka_broker", "kafka_cluster", "kafka_group", "kafka_topic", "kafka_admin", "secured_broker"},
    "jvm": {"kafka_java", "leader", "java"},
    "spark": {"spark"},
}
"""Marker -> the fixtures that make a test need it."""
LONGEST_FIRST = ("spark", "kafka_cluster", "broker", "docker", "jvm")
"""Markers and fixtures that tests of several processes begin with: none is left alone with a long one at the end.

pytest-xdist gives each process neighbours: the first one has all of Spark and of the cluster, and starts them once.
"""

PURE_TESTS = os.environ.pop("PURE_TESTS", None)
"""File with the result of the tests without a broker, if `make test` ran them. A test's own run of pytest has none."""

PURE_FILES = os.environ.pop("PURE_FILES", None)
"""Where the first run of `make test` names the files whose tests need no broker; the second one does not read these."""

os.environ.pop("GITHUB_STEP_SUMMARY", None)  # commands that tests run would append to the page of the suite's own job

REPLAYED = pytest.StashKey[Replayed]()
NOT_RUN = "docker: "
"""How the reason begins why a test of Docker was skipped."""


@functools.cache
def docker_problem() -> str | None:
    """Why no broker can run in a container here, or None. Pulls an image that is missing."""
    from kafka_assignors.integration.broker.nodes import docker as backend
    from kafka_assignors.integration.errors import DockerUnavailable

    if problem := backend.docker_problem():
        return problem
    import docker

    with contextlib.closing(docker.from_env()) as client:
        try:
            backend.require_image(client, backend.image_name())
        except DockerUnavailable as error:
            return str(error)
    return None


def pytest_configure(config: pytest.Config) -> None:
    # A script's background job is started with Ctrl-C and SIGQUIT ignored, as would be every process of a test.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand a process of pytest-xdist what its environment no longer has."""
    node.workerinput["pure_files"], node.workerinput["first"] = PURE_FILES, PURE_TESTS is None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    given = getattr(config, "workerinput", {})
    if given.get("first", True) or collection_path.suffix != ".py":
        return None
    return str(collection_path) in _lines(given["pure_files"]) or None


@functools.cache
def _lines(file: str | None) -> frozenset[str]:
    return frozenset(Path(file).read_text("utf-8").splitlines() if file and Path(file).is_file() else ())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what a test needs by its fixtures; of several processes, the longest files begin."""
    for item in items:
        if any(mark.args == () for mark in item.iter_markers("release")):
            raise pytest.UsageError(f"{item.nodeid}: release(reason) names what `make test` has instead")
        fixtures = {*getattr(item, "fixturenames", ())}
        for marker in (marker for marker, needed in NEEDS.items() if fixtures & needed):
            item.add_marker(marker)
    if given := getattr(config, "workerinput", None):
        if given["pure_files"] and given["first"] and given["workerid"] == "gw0":
            files = {item.path for item in items} - {item.path for item in items if _rank(item) < len(LONGEST_FIRST)}
            Path(given["pure_files"]).write_text("".join(f"{file}\n" for file in sorted(files)), "utf-8")
        ranks: dict[str, int] = {}
        for item in items:
            ranks[_file(item)] = min(_rank(item), ranks.get(_file(item), len(LONGEST_FIRST)))
        items.sort(key=lambda item: ranks[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> int:
    fixtures = getattr(item, "fixturenames", ())
    needed = [n for n, name in enumerate(LONGEST_FIRST) if name in fixtures or item.get_closest_marker(name)]
    return min(needed, default=len(LONGEST_FIRST))


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
    pytest.skip(f"{NOT_RUN}{problem}")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Tell where a test keeps histories that no group left: by a file, as the run may have several processes."""
    if item.get_closest_marker("invented") is not None:
        (getattr(item, "funcargs", {})["tmp_path"] / INVENTED).touch()


class _Markers(dict[str, bool]):
    """The names in an expression of markers, for a test that has some."""

    def __missing__(self, name: str) -> bool:
        return False


def _brokers(config: pytest.Config, *beside: str) -> bool:
    """Tests are asked for whose markers are ``broker`` and those beside it."""
    markers = _Markers(dict.fromkeys(("broker", *beside), True))
    return not config.option.markexpr or bool(eval(config.option.markexpr, {"__builtins__": {}}, markers))


def _whole(config: pytest.Config) -> bool:
    """Nothing with a broker was left out but the tests for a release and the long ones."""
    some = config.option.keyword or not _brokers(config) or getattr(config.option, "lf", False)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not some


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that isn't there has a third of a second to answer, not five."""
    from kafka_assignors.integration.broker import external, ready

    patient = ready.await_ready

    def soon(where: Any, timeout_s: float, *more: Any) -> Any:
        return patient(where, min(timeout_s, 0.3), *more)

    for module in (external, ready):
        monkeypatch.setattr(module, "await_ready", soon)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers(any(_brokers(config, *beside) for beside in ((), ("release",), ("long",))))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A generation that our assignors led and that doesn't replay (law A1) fails the run, whatever its test judged.

    So does a whole run in which they led none: then the law was never put to the test.
    """
    factory = getattr(session.config, "_tmp_path_factory", None)
    worker = hasattr(session.config, "workerinput")  # of pytest-xdist, whose folder is in that of the run
    if factory is None or worker or session.config.option.collectonly:
        return
    found = session.config.stash[REPLAYED] = replay_all(factory.getbasetemp().resolve())
    if _whole(session.config) and not found.equal:
        found.wrong.append("in the whole run our assignors led no generation")
    if found.wrong and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(REPLAYED, None)
    if found is not None and (found.histories or found.wrong):
        terminalreporter.section("law A1 over all histories", bold=True, red=bool(found.wrong))
        for line in found.lines():
            terminalreporter.line(line)
    if PURE_TESTS:
        suite = ElementTree.parse(PURE_TESTS).getroot()[0].attrib
        terminalreporter.section("the tests without a broker, which ran first")
        counts = ", ".join(f"{suite[name]} {name}" for name in ("tests", "failures", "errors", "skipped"))
        terminalreporter.line(f"{counts}; {float(suite['time']):.0f} s")
    skipped = {report.nodeid: str(report.longrepr) for report in terminalreporter.getreports("skipped")}
    if not_run := {nodeid: why.partition(NOT_RUN)[2] for nodeid, why in skipped.items() if NOT_RUN in why}:
        terminalreporter.section("NOT RUN: docker", sep="!", red=True, bold=True)
        for nodeid in not_run:
            terminalreporter.line(f"  {nodeid}")
        reason = next(iter(not_run.values())).rstrip("')")
        terminalreporter.line(f"{len(not_run)} tests of the docker backend did not run: {reason}.")
        terminalreporter.line("Set up Docker to run them; REQUIRE_DOCKER=1 makes this an error.")
