"""Wrong input to each command: its exit code, and one sentence that names what is wrong."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from kafka_assignors.errors import ConfigError, MachineError
from kafka_assignors.extras import install
from kafka_assignors.frame import options as common
from kafka_assignors.frame import running
from kafka_assignors.integration.commands import judge
from kafka_assignors.operator.cli.app import main
from kafka_assignors.pipeline import options
from tests.support.cli import cli
from tests.support.places import ROOT
from tests.support.programs import python

NOWHERE = ("-b", "127.0.0.1:1")
WRONG = {
    "wyh": (2, "why"),
    "why": (2, "GROUP"),
    "why g h": (2, "h"),
    "why g -b nowhere": (2, "host:port"),
    "why g -b localhost:0": (2, "localhost:0"),
    "why g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "why g -b 127.0.0.1:1 --last 0": (2, "--last"),
    "why g -b 127.0.0.1:1 --last many": (2, "--last"),
    "why g -b 127.0.0.1:1 --lst 3": (2, "--last"),
    "why g -b 127.0.0.1:1 --color blue": (2, "blue"),
    "why g --config /no/such/file": (2, "/no/such/file"),
    "why g -b 127.0.0.1:1 -X security.protokol=SSL": (2, "security.protocol"),
    "why g -b 127.0.0.1:1 -X security.protocol": (2, "security.protocol"),
    "why g --from /no/such/folder": (2, "/no/such/folder"),
    "why g --from kafka_assignors": (2, "no *.jsonl"),
    "why g --from topic:": (2, "topic:group-events"),
    "why g --from topic:t -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "watch --from /no/such/folder": (2, "/no/such/folder"),
    "watch --from topic:": (2, "topic:group-events"),
    "watch --from topic:t -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "exporter --from kafka_assignors": (2, "no *.jsonl"),
    "exporter --from topic:": (2, "topic:group-events"),
    "exporter --from topic:t -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "exporter --from kafka_assignors --delay 30s": (2, "--from"),
    "plan": (2, "GROUP"),
    "plan g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "plan g -b 127.0.0.1:1 -A stiky": (2, "stiky"),
    "plan g -b 127.0.0.1:1 -A sticky:parity": (2, "option=value"),
    "plan g -b 127.0.0.1:1 -A sticky:parity=scala": (2, "scala"),
    "plan g -b 127.0.0.1:1 -A range:speed=9": (2, "speed"),
    "plan g -b 127.0.0.1:1 --add -1": (2, "--add"),
    "plan g -b 127.0.0.1:1 --add m7,m7": (2, "given twice"),
    "plan g -b 127.0.0.1:1 --members 4": (2, "1..40"),
    "plan g -b 127.0.0.1:1 --members 9..1": (2, "A <= B"),
    "plan g -b 127.0.0.1:1 --members 1..4 --save f": (2, "--save"),
    "plan g -b 127.0.0.1:1 --add-partitions orders": (2, "TOPIC:COUNT"),
    "plan g -b 127.0.0.1:1 --add-partitions orders:x": (2, "orders:x"),
    "scale g -b 127.0.0.1:1 --pace 1e400": (2, "--pace must be a number of records per second, like 250, not inf"),
    "plan --replay /no/such/file": (3, "/no/such/file"),
    "plan --replay README.md": (2, "README.md"),
    "plan --replay pyproject.toml --json": (2, "pyproject.toml"),
    "up --topic orders": (2, "NAME:COUNT"),
    "up --nodes 0": (2, "--nodes"),
    "judge /no/such/folder": (2, "/no/such/folder"),
    "judge": (2, "PATH"),
    "test nosuch": (2, "nosuch"),
    "test churn --seeds x": (2, "--seeds"),
    "test churn --assignor nosuch": (2, "nosuch"),
    "test churn --group g": (2, "--group needs --service COMMAND"),
    "test churn --replicas 0": (2, "--replicas needs --service COMMAND"),
    "test churn --topic orders:3": (2, "--topic needs --service COMMAND"),
    "test churn --records README.md": (2, "--records needs --service COMMAND"),
    "test churn --env A=b": (2, "--env needs --service COMMAND"),
    "test churn --output done:3": (2, "--output needs --service COMMAND"),
    "test churn --exactly-once": (2, "--exactly-once needs --service COMMAND"),
    "test churn --service {bootstrap} --exactly-once": (2, "--exactly-once needs --output"),
    "test churn --service {bootstrap} --output done": (2, "--output 'done'"),
    "test churn --service {bootstrap} --output done:3 --records README.md": (2, "remove --records README.md"),
    "test churn --match json:loads": (2, "--match needs --service COMMAND"),
    "test churn --service {bootstrap} --match json:loads": (2, "--match json:loads needs --output"),
    "test churn --service {bootstrap} --output done:3 --match no_such:f": (2, "--match no_such:f"),
    "test churn --service {bootstrap} --records no_such_module:f": (2, "No module named 'no_such_module'"),
    "test churn --service {bootstrap} --records json:nothing": (2, "json:nothing"),
    "test churn --service {bootstrap} --output orders:3": (2, "the service reads this topic"),
    "test chaos --seeds 1..2 --topic orders:3": (2, "--topic needs --service COMMAND"),
    "test chaos --seeds 1..2 --service {bootstrap}": (2, "--service is for one run"),
    "test churn --surge 2": (2, "--surge 2 is for scenario roll"),
    "test roll --surge 6": (2, "--surge 6"),
    "test roll --surge some": (2, "--surge"),
    "test roll --grace 0": (2, "--grace 0"),
    "test pause --grace 5": (2, "--grace 5 is for scenarios roll and scale"),
    "test scale --sizes 3": (2, "--sizes '3'"),
    "test churn --sizes 3..8": (2, "--sizes 3..8 is for scenario scale"),
    "test roll --service {bootstrap} --replicas 2 --surge 3": (2, "--surge 3 is no number of new processes for 2"),
    "test chaos --seeds 1..2 --surge 1": (2, "--surge is for one run"),
    "test churn --service no-such-program": (2, "'no-such-program'"),
    "test churn --service cat": (2, "add {bootstrap}"),
    "test churn --service {bootstrap} -b 127.0.0.1:1": (2, "add {group}"),
    "test churn --service {bootstrap} --topic orders": (2, "--topic 'orders'"),
    "test churn --service {bootstrap} --topic orders:0": (2, "--topic 'orders:0'"),
    "test churn --service {bootstrap} --records /no/such/file": (2, "--records /no/such/file"),
    "test churn --service {bootstrap} --records /dev/null": (2, "--records /dev/null has no line"),
    "test churn --service {bootstrap} --env FOO": (2, "--env 'FOO'"),
    "test pause --service {bootstrap} --replicas 3": (2, "--replicas 3"),
    "test churn --service {bootstrap} --replicas 2": (2, "--replicas 2"),
    "test churn --service {bootstrap} --replicas many": (2, "--replicas"),
    "test churn --service {bootstrap} --assignor sticky": (2, "--assignor sticky"),
    "test churn --service {bootstrap} --client java": (2, "--client java"),
    "test proxy-faults --service {bootstrap}": (2, "add {replica}"),
    "test topics --service {bootstrap}": (2, "choose one of: churn, roll, "),
    "test stall --service {bootstrap}": (2, "choose one of: churn, roll, "),
    "watch g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "scale": (2, "GROUP"),
    "scale g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "scale g -b 127.0.0.1:1 --delay soon": (2, "--delay"),
    "scale g -b 127.0.0.1:1 --delay 2s": (2, "10s or more"),
    "scale g -b 127.0.0.1:1 --over -1s": (2, "--over"),
    "scale g -b 127.0.0.1:1 --over 20s": (2, "30s or more without --pace, not 20s"),
    "scale g -b 127.0.0.1:1 --pace 0": (2, "--pace"),
    "scale g -b 127.0.0.1:1 --least 0": (2, "--least"),
    "scale g -b 127.0.0.1:1 --least 4 --most 2": (2, "must be 4 or more"),
    "exporter g -b 127.0.0.1:1 --delay 2": (2, "10s or more"),
    "exporter g -b 127.0.0.1:1 --keda 9109": (2, "--delay 30s"),
    "exporter -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "exporter g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "exporter g -b 127.0.0.1:1 --port 70000": (2, "--port"),
    "exporter g -b 127.0.0.1:1 --prt 9": (2, "--port"),
    "exporter g -b 127.0.0.1:1 --otlp localhost:4318": (2, "http://"),
    "exporter g -b 127.0.0.1:1 --otlp http://": (2, "http://"),
    "exporter g -b 127.0.0.1:1 --otlp http://h:x": (2, "http://"),
    "exporter g -b 127.0.0.1:1 --otlp http://localhost:4318": (3, "127.0.0.1:1"),
    "keys": (2, "Missing command"),
    "keys adit": (2, "audit"),
    "keys growth --from 6": (2, "--to"),
    "keys growth --to 12": (2, "--from"),
    "keys growth --from 6 --to 0": (2, "0"),
    "keys place": (2, "topic"),
    "keys place orders": (2, "KEY"),
    "keys place orders k --partitions 0": (2, "--partitions"),
    "keys place orders zz --hex --partitions 6": (2, "'zz'"),
    "keys place orders k! --base64 --partitions 6": (2, "'k!'"),
    "keys place orders 00 --hex --base64 --partitions 6": (2, "remove one"),
    "keys place orders k -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "report page /no/such/folder": (2, "/no/such/folder"),
    "report run --topics orders": (2, "--out"),
    "explain O99": (2, "O99"),
    "explain restartd": (2, "restarted"),
    "doctor --grups": (2, "--groups"),
    "vote": (2, "GROUP"),
    "vote g -b 127.0.0.1:1": (3, "127.0.0.1:1"),
    "vote g -b 127.0.0.1:1 --offer m1": (2, "MEMBER=LIST"),
    "vote g -b 127.0.0.1:1 --offer m1=": (2, "MEMBER=LIST"),
    "vote g -b 127.0.0.1:1 --ading x": (2, "--adding"),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", WRONG)
@pytest.mark.usefixtures("impatient")
def test_wrong_input_is_one_sentence(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    code, names = WRONG[line]

    assert main(line.split()) == code

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1, said.err
    assert names in said.err


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (["--service", ""], "--service '' has no words; give the command"),
        (["--service", "worker 'x"], "no closing quotation; quote its words"),
        (["--service", "{bootstrap}", "--group", ""], "--group '' is empty"),
        (["--service", "{bootstrap}", "--topic", "my orders:3"], "--topic 'my orders:3' is not NAME:PARTITIONS"),
    ],
)
def test_a_wrong_value_that_is_empty_or_has_blanks_is_one_sentence(
    more: list[str], names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "churn", "--out", str(tmp_path / "out"), *more]) == 2

    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert output.err.startswith("error: ")
    assert names in output.err
    assert list(tmp_path.iterdir()) == []


READING = (
    "why g", "plan g", "vote g", "groups", "watch", "watch g", "scale g", "exporter", "exporter g",
    "keys place orders k", "keys audit orders",
)  # fmt: skip
"""Commands that ask a cluster, and write nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("line", READING)
@pytest.mark.usefixtures("impatient")
def test_the_cluster_of_the_variable_is_asked_and_told(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "127.0.0.1:1")

    assert main(line.split()) == 3
    note, failed = capsys.readouterr().err.splitlines()
    assert note == "note: asks 127.0.0.1:1, as KAFKA_BOOTSTRAP says"
    assert "127.0.0.1:1" in failed

    assert main([*line.split(), "-b", "127.0.0.1:2"]) == 3
    [failed] = capsys.readouterr().err.splitlines()
    assert "127.0.0.1:2" in failed


@pytest.mark.slow
@pytest.mark.parametrize("line", READING)
@pytest.mark.usefixtures("impatient")
def test_without_a_named_cluster_the_usual_address_is_asked_and_told(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    assert common.DEFAULT_BOOTSTRAP == "localhost:9092"
    monkeypatch.setattr(common, "DEFAULT_BOOTSTRAP", "127.0.0.1:1")  # where nobody listens

    assert main(line.split()) == 3

    output = capsys.readouterr()
    assert output.out == ""
    told, failed = output.err.splitlines()
    assert "asks 127.0.0.1:1" in told
    assert "KAFKA_BOOTSTRAP" in told
    assert failed.startswith("error: ")
    assert "127.0.0.1:1" in failed


def test_a_page_of_tables_that_do_not_exist_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "page", str(tmp_path / "tables")]) == 2
    assert "it has no complete run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_where_to_write_is_tried_and_nothing_is_left(tmp_path: Path) -> None:
    """A command that fails later leaves no empty folders; one that writes creates them."""
    (tmp_path / "there").mkdir()
    options.out_folder(str(tmp_path / "a" / "b"))
    options.png_folder(str(tmp_path / "charts"))
    options.out_folder(str(tmp_path / "there"))
    assert options.page_file(None, str(tmp_path / "a" / "b")) == tmp_path / "a" / "b" / "report.html"
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    with pytest.raises(ConfigError, match="cannot be written to"):
        options.out_folder("/proc/nowhere")


@pytest.mark.slow
def test_the_program_ends_with_the_code_and_prints_no_traceback() -> None:
    """As a process of its own: also without a terminal, in ASCII, with a closed pipe, without its extras."""
    without = "import sys; sys.modules['{}'] = None; from kafka_assignors.__main__ import main; sys.exit(main())"

    def bare(module: str, *args: str) -> tuple[int, str]:
        done = python("-c", without.format(module), *args)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(4) as pool:
        no_typer = pool.submit(bare, "typer", "why", "g")
        no_kafka = pool.submit(bare, "kafka", "why", "g", *NOWHERE)
        no_prometheus = pool.submit(bare, "prometheus_client", "exporter", "g", *NOWHERE)
        no_otlp = pool.submit(bare, "opentelemetry", "exporter", "g", *NOWHERE, "--otlp", "http://localhost:4318")
        ascii_ = pool.submit(cli, "why", "gr\u00fcn", *NOWHERE, PYTHONIOENCODING="ascii", LC_ALL="C")
        nothing = pool.submit(cli)
    assert no_typer.result()[0] == 3
    assert install("cli") in no_typer.result()[1]
    assert no_kafka.result()[0] == 3
    assert install("kafka-python") in no_kafka.result()[1]
    assert no_prometheus.result()[0] == 3
    assert install("exporter") in no_prometheus.result()[1]
    assert no_otlp.result()[0] == 3
    assert install("otlp") in no_otlp.result()[1]
    assert (ascii_.result().returncode, ascii_.result().stderr.count("\n")) == (3, 1)
    assert nothing.result().returncode == 2
    assert "why" in nothing.result().stdout
    for said in (no_typer.result()[1], no_kafka.result()[1], ascii_.result().stderr):
        assert "Traceback" not in said


def test_a_damaged_plan_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"format": "kafka-assignors live plan", "version": 1, "group": "g", "plans": [{}]}))
    assert main(["plan", "--replay", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


@pytest.mark.slow
def test_help_and_answers_need_no_unicode() -> None:
    for args in (["--help"], ["explain"], ["explain", "T1"], ["doctor"]):
        done = cli(*args, PYTHONIOENCODING="ascii", LC_ALL="C")
        assert (done.returncode, done.stderr) == (0, ""), args
        assert done.stdout.isascii()


def test_a_closed_pipe_is_no_defect() -> None:
    """The reader goes before anything is written."""
    with subprocess.Popen(
        [sys.executable, "-m", "kafka_assignors", "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_an_interrupted_command_says_so(how: signal.Signals) -> None:
    """The broker accepts and never answers; the command is interrupted once it has asked."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(60)
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-m", "kafka_assignors", "why", "g", "-b", where], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            asked, _ = silent.accept()
            with asked:
                process.send_signal(how)
                said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, ("", "interrupted\n"))


@pytest.mark.parametrize(("where", "what"), [(judge, "_histories"), (running, "require_color")])
def test_an_interrupt_before_a_command_can_tell_it_is_told(
    where: ModuleType, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begins(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, what, begins)
    monkeypatch.setattr(running, "_told_of_interrupt", [])  # once per process
    assert main(["judge", "runs"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("named", [True, False])
def test_what_fails_as_a_command_is_interrupted_is_no_answer(
    named: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it closes what it has made, or in a library that takes the interrupt for a failure."""

    def begins(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            if named:
                raise MachineError("Spark did not start") from interrupt
            raise MachineError("Spark did not end")  # noqa: B904 - as in a `finally`

    monkeypatch.setattr(judge, "_histories", begins)
    monkeypatch.setattr(running, "_told_of_interrupt", [])
    assert main(["judge", "runs"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


KEPT = ROOT / "benchmarks" / "results" / "histories" / "ours.cooperative-sticky.0.tar.xz"
ANSWERS = (
    "--help", "--version", "explain", "explain O1", "explain O1 --json", "doctor", "doctor --json", "plan --help",
    "keys growth --from 6 --to 12", "keys growth --from 6 --to 12 --json",
    "keys place orders a b --partitions 6", "judge {run}", "judge {run} --json",
)  # fmt: skip
"""Command lines that need no broker and answer; ``{run}`` is a kept history."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kept history."""
    folder = tmp_path_factory.mktemp("run")
    with tarfile.open(KEPT) as kept:
        kept.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.release("test_closed_streams.py has streams that take nothing")
def test_a_full_disk_is_one_sentence(run: Path) -> None:
    def written(line: str) -> tuple[int, str]:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "kafka_assignors", *line.format(run=run).split()], stdin=subprocess.DEVNULL,
                stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
            )  # fmt: skip
        return done.returncode, done.stderr

    with ThreadPoolExecutor(2) as pool:
        for line, found in zip(ANSWERS, pool.map(written, ANSWERS), strict=True):
            code, told = found[0], [text for text in found[1].splitlines() if not re.fullmatch(r".*: \d+ s", text)]
            assert (code, told) == (3, ["error: [Errno 28] No space left on device"]), line


@pytest.mark.slow
def test_ctrl_c_at_any_moment_ends_in_one_word_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    """At drawn moments while our program runs: before and after it, the interpreter alone answers to signals.

    As it ends, the interpreter gives each signal back its default, and a late alarm would kill it.
    """
    program = (
        "import signal, sys; signal.signal(signal.SIGALRM, signal.default_int_handler); "
        "from kafka_assignors.__main__ import main; "
        "signal.setitimer(signal.ITIMER_REAL, {after}); code = main(); "
        "signal.signal(signal.SIGALRM, signal.SIG_IGN); sys.exit(code)"
    )
    draw = random.Random(15)

    def hit(case: tuple[int, str, float]) -> tuple[str, int, str, list[str]]:
        number, line, after = case
        own = tmp_path / str(number)
        own.mkdir()
        done = python("-c", program.format(after=after), *line.format(run=run).split(), TMPDIR=str(own))
        return f"{line} after {after:.3f} s", done.returncode, done.stderr, [each.name for each in own.iterdir()]

    cases = [(i, line, draw.uniform(0.001, 1.2)) for i, line in enumerate(ANSWERS * 2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(hit, cases))

    for line, code, said, left in found:
        assert left == [], line
        assert code in (0, 130), (line, code, said)
        if code == 130:
            assert said.startswith("interrupted"), (line, said)
            assert said.count("\n") == 1, (line, said)
    assert any(code == 130 for _, code, _, _ in found)
