"""The command line as a user meets it: what it prints, its exit codes, its errors, and what it leaves behind."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.broker.secured import Certificates
from kafka_assignors.integration.topics import Topics
from tests.support.cli import valid
from tests.support.connection.least import NEEDED
from tests.support.histories.story import seal
from tests.support.integration.commands import LIMIT_S, integration, spawn
from tests.support.places import ROOT
from tests.support.producers.reading import read_whole
from tests.support.programs import ran


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def await_line(process: subprocess.Popen[str], pattern: str) -> str:
    """Read the output until a line matches; fail when the process ends before, or is ended at the deadline."""
    assert process.stdout is not None
    seen = []
    late = threading.Timer(LIMIT_S, process.kill)  # a process that says nothing more would keep the loop waiting
    late.start()
    try:
        for line in process.stdout:
            seen.append(line)
            if re.search(pattern, line):
                return line
    finally:
        late.cancel()
    pytest.fail(f"no line like {pattern!r}; exit {process.wait()}:\n{''.join(seen)}")


@pytest.mark.slow
@pytest.mark.release("test_exit_codes.py has a dead broker")
def test_unreachable_broker_is_one_sentence(tmp_path: Path) -> None:
    """Each waits for five seconds, so they do it together."""
    demo, run = (["--out", str(tmp_path / name)] for name in ("demo", "run"))
    commands = [["demo", *demo], ["run", "churn", *run], ["watch", "billing"]]

    def refused(command: list[str]) -> subprocess.CompletedProcess[str]:
        return integration(*command, "--bootstrap", "127.0.0.1:1", timeout_s=60)

    with ThreadPoolExecutor(len(commands)) as pool:
        for done in pool.map(refused, commands):
            assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
            assert done.stderr.startswith("error: ")
            assert "127.0.0.1:1" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("run", "nosuch"), ["nosuch", "churn", "election", "kip-54-1"]),
        (("run", "churn", "--assignor", "nosuch"), ["nosuch", "range", "cooperative-sticky"]),
        (("run", "churn", "--assignor", "no.such:Thing"), ["no.such:Thing", "module:Class"]),
        (("demo", "--backend", "nosuch"), ["nosuch", "jvm", "docker", "external"]),
    ],
)
def test_unknown_name_lists_the_known_ones(args: tuple[str, ...], names: list[str], tmp_path: Path) -> None:
    done = integration(*args, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert all(name in done.stderr for name in names), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_port_taken_is_said_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = integration("up", "--port", str(port))
    assert done.returncode == 3
    assert str(port) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_run_never_mixes_with_another_ones_history(tmp_path: Path) -> None:
    (tmp_path / "kept.jsonl").write_text("{}\n")
    done = integration("run", "churn", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "not empty" in done.stderr


@pytest.mark.slow
def test_judge_names_what_is_missing(tmp_path: Path) -> None:
    assert "is not a folder" in integration("judge", str(tmp_path / "none")).stderr
    done = integration("judge", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path} has no *.jsonl history, at any depth\n"


@pytest.mark.slow
@pytest.mark.invented
def test_judge_takes_several_histories_at_any_depth(tmp_path: Path) -> None:
    """False beats unknown; each history once; a page is of one history."""
    kept = ROOT / "benchmarks" / "results" / "histories" / "ours.cooperative-sticky.0.tar.xz"
    folders = [tmp_path / "a" / "deep" / "history", tmp_path / "b", tmp_path / "c"]
    for folder in folders[:2]:
        folder.mkdir(parents=True)
        with tarfile.open(kept) as archive:
            archive.extractall(folder, filter="data")
    folders[2].mkdir()
    (folders[2] / "empty.jsonl").write_text("")

    two = integration("judge", str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "a"))
    assert (two.returncode, two.stdout.splitlines()[-1]) == (0, "2 histories: 2 true")
    every = integration("judge", str(tmp_path), "--json")
    answers = [valid("judge", json.loads(line)) for line in every.stdout.splitlines()]
    assert [(each["folder"], each["value"]) for each in answers] == [
        (str(folder), value) for folder, value in zip(folders, (True, True, None), strict=True)
    ]
    assert every.returncode == 4
    log = next(folders[1].glob("*.coordlog.jsonl"))
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    one, other = next(r for r in rows if r["kind"] == "generation_committed" and len(r["members"]) == 3)["members"][:2]
    other["assigned"].append(one["assigned"][0])
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seal(log)
    assert integration("judge", str(tmp_path)).returncode == 1
    pages = integration("judge", str(tmp_path), "--page", str(tmp_path / "page.html"))
    assert (pages.returncode, "--page is for one history, and 3 were found" in pages.stderr) == (2, True)


# long: plays a scenario; test_judge_takes_several_histories_at_any_depth damages a kept history,
# history/test_integrity.py has seals
@pytest.mark.long
@pytest.mark.broker
@pytest.mark.invented
def test_judge_rejects_a_damaged_history(kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition of the coordinator's log is doubled: exit 4, it was changed; had it been written so: 1.

    Both commands append to the page of a CI job.
    """
    out, page = tmp_path / "out", tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert (
        integration(
            "run", "range-skew", "--bootstrap", kafka_broker.bootstrap, "--confirm", "--out", str(out)
        ).returncode
        == 0
    )
    log = next((out / "history").glob("*.coordlog.jsonl"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    last = [row for row in lines if row["kind"] == "generation_committed" and len(row["members"]) == 3][-1]
    one, other = (m for m in last["members"][:2])
    other["assigned"].append(one["assigned"][0])
    log.write_text("".join(json.dumps(row) + "\n" for row in lines))
    done = integration("judge", str(out))
    assert done.returncode == 4, done.stdout
    assert f"{log.name}: its lines differ from the sealed ones" in done.stdout
    seal(log)
    done = integration("judge", str(out), "--json")
    assert done.returncode == 1, done.stdout
    laws = {v["law"] for v in json.loads(done.stdout)["violations"]}
    assert "O2" in laws
    played, *judged = page.read_text("utf-8").split("### kafka-assignors ")[1:]
    assert played.startswith("test `range-skew`: ✓ true\n")
    assert [text.split(":")[-1] for text in (judged[0].splitlines()[0], judged[1].splitlines()[0])] == [
        " ? UNKNOWN", " ✗ FALSE",
    ]  # fmt: skip
    assert "- unknown: `" in judged[0]
    assert "- **O2**: `" in judged[1]


@pytest.mark.broker
# long: handled as SIGINT is
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_up_ends_with_its_broker(how: signal.Signals, started: list[subprocess.Popen[str]]) -> None:
    process = spawn(started, "up", "--topic", "orders:6")
    where = re.search(r"127\.0\.0\.1:\d+", await_line(process, "Ctrl-C"))
    assert where
    await_line(process, "kafka_assignors plan GROUP")
    with closing(Topics(where[0])) as topics:
        assert topics.counts(["orders"]) == {"orders": 6}
    children = family(process)
    assert children, "up runs no broker"
    process.send_signal(how)
    assert process.wait(30) == 130
    assert psutil.wait_procs(children, timeout=5)[1] == []


@pytest.mark.long  # long: test_footprint.py interrupts a run, the test above `up`; a demo ends by the same code
@pytest.mark.broker
def test_interrupted_demo_leaves_nothing(started: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """Ctrl-C while members run: the members and the broker end with it."""
    process = spawn(started, "demo", "--out", str(tmp_path / "out"))
    await_line(process, "generation")
    children = family(process)
    assert any(
        "kafka_assignors.integration.members.clients.kafka_python" in " ".join(c.cmdline())
        for c in children
        if c.is_running()
    )
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert psutil.wait_procs(children, timeout=5)[1] == []


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.spark
def test_a_demo_whose_spark_is_too_slow_keeps_all_else(tmp_path: Path) -> None:
    """Spark cannot start within a second; `test_demo.py` has the short form."""
    out = tmp_path / "out"
    done = integration("demo", "--spark", "--spark-timeout", "1", "--out", str(out), timeout_s=280)

    assert done.returncode == 3, done.stdout + done.stderr
    assert "error: the Spark job did not end within 1 s" in done.stderr
    assert done.stdout.count("verdict true") == 4
    assert "All verdicts but Spark's: true." in done.stdout
    assert f"Histories: {out / 'history'}" in done.stdout
    assert "did not end within 1 s" in (out / "report.html").read_text("utf-8")
    assert integration("judge", str(out / "history")).returncode == 0
    running = [c for c in psutil.process_iter(["cmdline"]) if str(out) in " ".join(c.info["cmdline"] or ())]
    assert running == []


DEMO = (sys.executable, "-m", "kafka_assignors.integration", "demo")
ONE_GROUP = (sys.executable, "-c", """
import sys
from kafka_assignors.integration.commands import cli, demo

demo.QUICK_ASSIGNORS = ("cooperative-sticky",)
sys.exit(cli.main())
""", "demo")  # fmt: skip
"""The short demo with the group of one assignor."""


@pytest.mark.broker
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("options", "verdicts", "drawings"),
    [
        # placement, 1 assignor
        pytest.param(
            (), 2, 15 + 1, id="one group", marks=pytest.mark.release("test_demo.py has its stages, without a broker")
        ),
        # placement, 3 assignors; long: more of the same groups
        pytest.param((), 4, 15 + 3, id="short", marks=pytest.mark.long),
        # placement, 4 assignors, election, 3 worked examples.
        # long: more groups, and Spark, whose answer about a run the demo reads in tests/pipeline/test_run.py
        pytest.param(
            ("--full", "--spark-timeout", "1200"), 9, 15 + 8, id="full", marks=[pytest.mark.spark, pytest.mark.long]
        ),
    ],
)
def test_demo_is_true_from_end_to_end(options: tuple[str, ...], verdicts: int, drawings: int, tmp_path: Path) -> None:
    """The main job in a pipe, on a secured broker, with exactly its rights: plain lines, every verdict true, Spark
    agrees if it is asked, one self-contained page; all published; nothing is left; no secret is printed or kept.
    """
    out = tmp_path / "out"
    with start_broker(certificates=Certificates()) as broker:
        assert broker.secured is not None
        user = broker.secured.user("player", NEEDED["demo --events-topic"])
        with user.file() as config:
            done = ran(
                *(ONE_GROUP if verdicts == 2 else DEMO), *options, "--out", str(out), "--config", str(config),
                "--confirm", "--events-topic", "events", within_s=1740, TERM="dumb",
            )  # fmt: skip
        kept = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
        assert not any(secret in done.stdout + done.stderr or secret.encode() in kept for secret in user.secrets)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "left at" not in done.stderr
        lines = [line for path in (out / "history").rglob("*.jsonl") for line in path.read_bytes().splitlines()]
        assert sorted(r.value for r in read_whole(broker, "events", len(lines))) == sorted(lines)
    assert f"{len(lines)} events are in topic events" in done.stdout
    assert "\x1b[" not in done.stdout
    assert done.stdout.count("verdict true") == verdicts
    page = out / "report.html"
    assert f"Page: {page}\nHistories: {out / 'history'}\n" in done.stdout
    html = page.read_text("utf-8")
    assert html.count("</svg>") >= drawings
    assert not re.search(r"(src|href)\s*=|<script|@import", html)
    if "--full" not in options:
        return
    assert "placement = read-back: true" in done.stdout
    assert "group_timeline = the checker's intervals: true" in done.stdout
    for stage in ("spark", "keys", "placement", "group_timeline", "findings"):
        assert f"... Spark: {stage} …" in done.stdout
    assert f"Page without Spark: {page}" in done.stdout
