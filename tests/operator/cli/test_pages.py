"""What the command says of itself: help, examples, the page of docs, explanations, first output."""

from __future__ import annotations

import json
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kafka_assignors.history.causes import KINDS
from kafka_assignors.integration.checker.laws import LAWS
from kafka_assignors.operator.cli.app import main
from kafka_assignors.operator.cli.explain import explanations
from tests.support import report_schemas
from tests.support.cli import SCHEMAS, answered, cli, commands
from tests.support.cli_page import FILE, page
from tests.support.explained import laws
from tests.support.pages import anchors
from tests.support.places import ROOT
from tests.support.programs import python

COMMANDS = commands()


def test_the_page_is_the_commands_own_help() -> None:
    assert FILE.read_text("utf-8") == page(), "write it anew: python -m tests.support.cli_page"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_with_an_example_of_itself(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its words and options are known to the command: the example is parsed, and not run."""
    assert main([*path.split(), "--help"]) == 0
    assert f"kafka-assignors {path}" in capsys.readouterr().out
    command = COMMANDS[path]
    words = shlex.split(command.epilog.partition(f"kafka-assignors {path}")[2])
    command.make_context(path, words)


@pytest.mark.slow
def test_help_comes_without_the_heavy_packages() -> None:
    """First output within 0.3 s: nothing is imported that takes long (no NumPy, no client, no Spark)."""
    code = (
        "import sys; from kafka_assignors.operator.cli.app import main; "
        "main(['--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = python("-c", code, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert not loaded & {"numpy", "scipy", "kafka", "pyspark", "psutil", "jinja2", "matplotlib", "pandas"}


@pytest.mark.slow
@pytest.mark.parametrize("line", ["why g", "plan g", "vote g", "exporter g", "keys place t k"])
def test_a_dead_broker_is_told_without_the_heavy_packages(line: str) -> None:
    """First output within 0.3 s here too: the cluster is asked before they are imported."""
    code = "import sys; from kafka_assignors.operator.cli.app import main; print(main(sys.argv[1:]), *sys.modules)"
    done = python("-c", code, *line.split(), "-b", "127.0.0.1:1", check=True)
    exit_code, *names = done.stdout.split()
    assert (exit_code, "127.0.0.1:1" in done.stderr) == ("3", True)
    assert not {name.partition(".")[0] for name in names} & {"numpy", "scipy", "kafka", "prometheus_client", "rich"}


def test_every_law_finding_and_cause_is_explained() -> None:
    known = explanations()
    assert [name for name, said in known.items() if said["kind"] == "law"] == list(LAWS)
    assert [name for name, said in known.items() if said["kind"] == "cause"] == list(KINDS)
    source = (ROOT / "pipeline" / "findings.py").read_text("utf-8")
    assert all(f'"{name}"' in source for name, said in known.items() if said["kind"] == "finding")
    for name, said in known.items():
        assert said["meaning"], name
        assert said["example"], name
        page, _, anchor = said["page"].partition("#")
        assert not anchor or anchor in anchors(page), name
        assert (ROOT / page).is_file(), name


def test_laws_are_explained_as_on_their_page() -> None:
    known = explanations()
    for law, said in laws().items():
        assert {**known[law], **said} == known[law], "write them anew: python -m tests.support.explained"


@pytest.mark.slow
def test_explanations_have_a_schema() -> None:
    assert answered("explain", cli("explain", "o1", "--json"))["name"] == "O1"
    done = cli("explain", "--json")
    jsonschema.validate(json.loads(done.stdout), json.loads((SCHEMAS / "explain.json").read_text("utf-8")))


@pytest.mark.slow
def test_the_doctor_names_what_lacks() -> None:
    well = answered("doctor", cli("doctor", "--json"))
    assert well["ok"] is True
    assert {"kafka-python", "prometheus_client", "opentelemetry-sdk", "pyspark", "Java"} <= {
        check["name"] for check in well["checks"]
    }
    sick = answered("doctor", cli("doctor", "--json", "-b", "127.0.0.1:1"), 1)
    [cluster] = [check for check in sick["checks"] if check["name"] == "cluster"]
    assert (cluster["ok"], "127.0.0.1:1" in cluster["found"]) == (False, True)
    assert answered("doctor", cli("doctor", "--json", KAFKA_BOOTSTRAP="127.0.0.1:1"), 1)["ok"] is False


@pytest.mark.slow
def test_the_doctor_asks_for_a_container_engine_that_may_be_absent() -> None:
    """Only one backend needs it: without it the answer is unknown, and the doctor still says yes."""
    told = answered("doctor", cli("doctor", "--json", DOCKER_HOST="tcp://127.0.0.1:1"))
    [engine] = [check for check in told["checks"] if check["name"] == "container engine"]
    assert (engine["ok"], engine["remedy"]) == (None, "not needed unless --backend docker")
    assert "127.0.0.1" in engine["found"]


@pytest.mark.slow
def test_judge_keys_and_watch_have_schemas(tmp_path: Any) -> None:
    (tmp_path / "a.jsonl").write_text("")
    assert answered("judge", cli("judge", str(tmp_path), "--json"), 4)["value"] is None
    growth = answered("keys-growth", cli("keys", "growth", "--from", "6", "--to", "12", "--json"))
    assert (growth["topic"], growth["keys"]) == (None, 20_000)
    assert 0.4 < growth["moved"]["java"] < 0.6, "twice the partitions move half the keys"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_the_options_of_output(path: str) -> None:
    """-q, -v and --color, once each, beside --json."""
    options = [opt for param in COMMANDS[path].params for opt in param.opts]
    for option in ("-q", "--quiet", "-v", "--verbose", "--color", "--json"):
        assert options.count(option) == 1, (path, option)


@pytest.mark.slow
def test_quiet_leaves_out_notes_and_progress_and_color_is_as_asked(tmp_path: Path) -> None:
    """Of a demo whose broker doesn't answer: its first heading, a note on a setting, and the error.

    Each waits for five seconds, so they do it together.
    """

    def demo(*options: str) -> subprocess.CompletedProcess[str]:
        out = ("--out", str(tmp_path / "-".join(("out", *options))))
        return cli("demo", "-b", "127.0.0.1:1", "-X", "acks=all", *out, *options, TERM="xterm-256color")

    asked: list[tuple[str, ...]] = [(), ("-q",), ("--color", "always")]
    with ThreadPoolExecutor(len(asked)) as pool:
        loud, quiet, colored = pool.map(lambda options: demo(*options), asked)
    assert {done.returncode for done in (loud, quiet, colored)} == {3}
    assert ("Broker" in loud.stdout, "note: acks" in loud.stderr, "\x1b[" in loud.stdout) == (True, True, False)
    assert (quiet.stdout, quiet.stderr.count("\n")) == ("", 1)
    assert "\x1b[" in colored.stdout
    assert cli("judge", "x", "--color", "sometimes").returncode == 2


def test_watch_tells_a_rebalance_as_why_does() -> None:
    why, watch = (json.loads((SCHEMAS / f"{name}.json").read_text()) for name in ("why", "watch"))
    assert watch["properties"]["rebalances"]["items"] == why["properties"]["rebalances"]["items"]


def test_the_schemas_of_report_are_made_from_the_tables() -> None:
    assert set(report_schemas.schemas()) == set(report_schemas.NAMES)
    for name in report_schemas.NAMES:
        written = (SCHEMAS / f"{name}.json").read_text("utf-8")
        assert written == report_schemas.text(name), "write them anew: python -m tests.support.report_schemas"


@pytest.mark.slow
def test_judge_and_keys_have_our_exit_codes(tmp_path: Any) -> None:
    (tmp_path / "a.jsonl").write_text("")
    assert cli("judge", str(tmp_path)).returncode == 4
    assert cli("judge", str(tmp_path / "none")).returncode == 2
    assert cli("keys", "growth", "--from", "6", "--to", "12").returncode == 0
    assert cli("keys", "growth", "--from", "0", "--to", "12").returncode == 2
    assert cli("keys", "audit").returncode == 2
