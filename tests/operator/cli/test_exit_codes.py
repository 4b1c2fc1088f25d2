"""The exit codes of every command: 0 help, 2 wrong usage, 3 no broker; and one line that says why."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from kafka.errors import UnsupportedCodecError

from kafka_assignors.errors import AccessRefused, ConfigError
from kafka_assignors.frame import COULD_NOT_RUN, NO, USAGE, YES
from kafka_assignors.frame.running import explained
from kafka_assignors.integration.errors import BrokerNotReady, NotAgreed
from kafka_assignors.operator.cli.app import main
from tests.support.cli import commands

LINES = {
    "plan": "plan g",
    "groups": "groups",
    "why": "why g",
    "vote": "vote g",
    "scale": "scale g",
    "exporter": "exporter g",
    "watch": "watch g --once",
    "up": "up",
    "demo": "demo --out {out}",
    "test": "test churn --out {out}",
    "judge": "judge {out}",
    "explain": "explain",
    "doctor": "doctor",
    "report run": "report run --topics t --out {out}",
    "report stream": "report stream --topics t --out {out}",
    "report page": "report page {out}",
    "keys place": "keys place t k",
    "keys audit": "keys audit t",
    "keys growth": "keys growth t --to 12",
}
"""Command -> its shortest line; ``{out}`` is a folder that doesn't exist."""
ANSWERS = {"doctor": NO}
"""For which a dead broker is an answer."""
WRONG = {
    "up": "up --topic orders",
    "judge": "judge /no/such/folder",
    "explain": "explain O99",
    "report page": "report page /no/such/folder",
}
"""Commands that ask no cluster -> a line with a wrong name or value."""
ASKING = [path for path, command in commands().items() if any(param.name == "bootstrap" for param in command.params)]


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker in the environment, and what waits for one gives up soon."""
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.setattr("kafka_assignors.pipeline.sources.brokers.TIMEOUT_MS", 500)


@pytest.fixture
def nowhere() -> str:
    """A loopback address at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


def words(line: str, tmp_path: Path) -> list[str]:
    return line.format(out=tmp_path / "out").split()


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What a failed command says: one line on stderr, and nothing else."""
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1, output.err
    return output.err


def test_every_command_has_a_line_here() -> None:
    assert LINES.keys() == commands().keys() == {*ASKING, *WRONG}


@pytest.mark.slow
@pytest.mark.parametrize("path", LINES)
def test_help_is_yes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "-h"):
        assert main([*path.split(), option]) == YES
        output = capsys.readouterr()
        assert (f"Usage: kafka-assignors {path}" in output.out, output.err) == (True, "")


@pytest.mark.parametrize("path", LINES)
def test_a_wrong_option_is_usage(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(LINES[path], tmp_path), "--nosuch"]) == USAGE
    error = one_line(capsys)
    assert "--nosuch" in error
    assert error.endswith(f"; see: kafka-assignors {path} --help\n")


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_value_is_usage(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(WRONG[path], tmp_path)) == USAGE
    assert WRONG[path].split()[-1] in one_line(capsys)


@pytest.mark.parametrize("path", ASKING)
def test_a_wrong_configuration_is_usage(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same options of the same cluster, checked before anything is asked or written."""
    lines = {
        "--config /no/such/file": "/no/such/file",
        "-b 127.0.0.1:1 -X security.protokol=SSL": "security.protocol",
        "-b nowhere": "host:port",
        "-b 127.0.0.1:1 --color blue": "blue",
    }
    for line, named in lines.items():
        assert main([*words(LINES[path], tmp_path), "--quiet", *line.split()]) == USAGE, line
        assert named in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", ASKING)
@pytest.mark.usefixtures("impatient")
def test_a_dead_broker_is_named(
    path: str, nowhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    code = main([*words(LINES[path], tmp_path), "--quiet", "--bootstrap", nowhere])
    assert code == ANSWERS.get(path, COULD_NOT_RUN)
    if path in ANSWERS:
        assert nowhere in capsys.readouterr().out
    else:
        assert nowhere in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


def test_only_an_error_that_has_lines_is_told_in_lines() -> None:
    """A name with a line end is no second line; the end of a broker's log and what a run would create are."""
    assert explained(ConfigError("group 'a\nb' is odd")) == (USAGE, "group 'a b' is odd")
    assert explained(AccessRefused("no\nright")) == (COULD_NOT_RUN, "no right")
    assert explained(BrokerNotReady("it died", "FATAL\nbye")) == (
        COULD_NOT_RUN,
        "it died; the end of its log:\nFATAL\nbye",
    )
    assert explained(NotAgreed("topics\nadd --confirm")) == (USAGE, "topics\nadd --confirm")
    lacking = UnsupportedCodecError("Libraries for snappy compression codec not found")
    assert explained(lacking) == (
        COULD_NOT_RUN,
        "the records are compressed by snappy, which kafka-python reads with a package: pip install python-snappy",
    )
