"""What README and quickstart tell to type, typed into a fresh shell: block by block, line by line, in their order.

A line is typed as it is printed, comments included. Only the port is another one, as other tests may have 9092. After
`up`, which goes on, the next lines go into a second terminal, as the pages say; first those that `up` itself prints.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_assignors.integration.broker.ports import free_ports
from tests.support.pages import blocks, example
from tests.support.places import ROOT
from tests.support.shell import Shell

PAGES = {
    "README.md": ["Install", "60 seconds"],
    "docs/quickstart.md": [
        "1. Set up", "2. Watch a group rebalance", "3. A broker to play with", "4. In your project", "Everything once",
    ],
}  # fmt: skip
"""Page -> the headings whose blocks of ``sh`` are typed: all that it has."""

NOT_TYPED = {
    "make setup": "the environment that runs the tests is what it makes",
    "make demo": "tests/integration/commands/test_cli.py plays it",
    "make test": "this is one of its tests",
    "pip install": "tests/packaging/test_wheel.py and .ci/release_check.py install into clean environments",
}
"""How a line begins that isn't typed -> why."""

SHOWS = {
    "test": r"verdict true.*",
    "judge": r"verdict true.*",
    "groups": r"(?s)group +state +assignor +members +lag +rebalanced\n.*billing +Stable +cooperative-sticky +2 .*ago",
    "why": r"billing: \d+ rebalances?.*; now generation \d+, 2 members, cooperative-sticky",
    "plan": r"(?s)billing: 2 members, 12 partitions, cooperative-sticky.*\nassignor +each gets +moves",
    "watch": r"(?s)billing: Stable, cooperative-sticky.*m1 .*m2 ",
}
"""Command -> what it shows."""

END_S = {"test": 150.0}
"""Seconds within which a command ends; a minute for all others."""


def typed(page: str) -> Iterator[str]:
    """The lines of a page that are typed."""
    for block in blocks("sh"):
        if block.page == page:
            assert block.heading in PAGES[page], f"{page}, line {block.line}: is it typed?"
            for line in block.code.splitlines():
                if not line.startswith(("#", *NOT_TYPED)):
                    yield line


def test_every_line_that_is_not_typed_has_its_reason() -> None:
    lines = [line for block in blocks("sh") if block.page in PAGES for line in block.code.splitlines()]

    assert all(any(line.startswith(begin) for line in lines) for begin in NOT_TYPED)
    for page in PAGES:
        assert {re.split(r"[ /]", line)[2] for line in typed(page)} == {"kafka-assignors"}, "all in .venv/bin"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that was set up; what is written there goes into a folder of the test."""
    folder = tmp_path / "kafka-assignors"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".venv", "runs", ".git"):
            (folder / path.name).symlink_to(path)
    assert (Path(sys.prefix) / "bin" / "kafka-assignors").exists(), (
        "the tests run in an environment like that of make setup"
    )
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def environment(tmp_path: Path) -> dict[str, str]:
    """A fresh shell's: what a login has, and where this test's own code is."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(tmp_path)}


@pytest.mark.broker
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param("README.md", id="readme", marks=pytest.mark.release("test_readme.py has each block alone")),
        # long: the commands of the README, with other words
        pytest.param("docs/quickstart.md", id="quickstart", marks=pytest.mark.long),
    ],
)
def test_what_is_printed_works_when_it_is_typed(page: str, checkout: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    lines = [line.replace("9092", str(port)) for line in typed(page)]
    with Shell(checkout, environment(tmp_path)) as first, Shell(checkout, environment(tmp_path)) as second:
        shell = first
        for line in lines:
            command = line.split()[1]
            shell.type(line)
            if command == "up":
                hints = shell.shown(r"in another terminal:\n(  .*\n)+", 60).partition("terminal:\n")[2].splitlines()
                shell = second
                for hint in hints:
                    _answers(shell, hint.strip())
            elif command == "watch":
                shell.shown(SHOWS[command], 60)
                shell.interrupt()
                assert shell.end(60)[0] == 130
            else:
                _shows(command, *shell.end(END_S.get(command, 60)))
        assert list(checkout.glob("runs/*/report.html")), "the page that quickstart speaks of"
        second.type(f"{sys.executable} -u -c '{_consumer(port)}'")
        second.shown(r"\d+ \d+ b'customer-\d+'", 60)
        second.interrupt()
        first.interrupt()
        assert first.end(60)[0] == 130


def _answers(shell: Shell, line: str) -> None:
    """Type a line that `up` printed."""
    code, shown = shell.run(line)
    if line.startswith("export"):
        assert (code, shown.strip()) == (0, "")
    else:
        _shows(next(name for name in SHOWS if f" {name}" in line), code, shown)


def _shows(command: str, code: int, shown: str) -> None:
    assert code == 0, shown
    assert re.search(SHOWS[command], shown), f"{command} shows:\n{shown}"


def _consumer(port: int) -> str:
    """README's consumer, which joins the group."""
    code = example("README.md", "KafkaConsumer").replace("localhost:9092", f"localhost:{port}")
    assert "'" not in code
    return code
