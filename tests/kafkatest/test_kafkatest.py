"""What `make kafkatest` does before and after ducktape: checks, selection, results. The tests themselves need root."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kafka_assignors.errors import ConfigError
from tests.kafkatest.__main__ import TOOLS, ducktape_globals
from tests.kafkatest.selection import collected, outcomes, selected
from tests.kafkatest.source import KafkaSource, pinned_version
from tests.support.programs import python, ran

ROOT = Path(__file__).resolve().parents[2]
PRINTED = "Discovered 4 tests to run\nCollected 4 tests:\n" + "".join(
    f"    <module=kafkatest.tests.client.consumer_test, cls=Assigning, function={function}, injected_args={arguments}, "
    'file=/s/consumer_test.py, ignore=False, cluster_spec=[{"num_nodes": 6}]>\n'
    for function, arguments in (
        ("test_valid", {"strategy": "a.B", "metadata_quorum": "ISOLATED_KRAFT", "use_new_coordinator": False}),
        ("test_valid", {"strategy": "a.B", "metadata_quorum": "ISOLATED_KRAFT", "group_protocol": "classic"}),
        ("test_valid", {"metadata_quorum": "ISOLATED_KRAFT", "group_protocol": "consumer"}),
        ("test_other", None),
    )
)


def checkout(folder: Path) -> Path:
    files = {
        "gradle.properties": "group=org.apache.kafka\n# a remark\nversion=4.3.0\nscalaVersion=2.13\n",
        "bin/kafka-run-class.sh": "",
        "tests/setup.py": 'setup(\n  install_requires=["ducktape==0.12.0",\n    "requests==2.31.0"],\n  zip_safe=0)\n',
        "tests/kafkatest/tests/client/consumer_test.py": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_checkout_knows_its_version_and_what_its_tests_need(tmp_path: Path) -> None:
    source = KafkaSource(checkout(tmp_path))

    assert (source.version, source.requirements) == ("4.3.0", ["ducktape==0.12.0", "requests==2.31.0"])


def test_a_folder_that_is_no_checkout_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    (checkout(tmp_path) / "tests/setup.py").unlink()

    with pytest.raises(ConfigError, match=f"KAFKA_SOURCE={tmp_path}: has no tests/setup.py; give a checkout"):
        KafkaSource(tmp_path)


def test_the_jars_are_the_newest_of_the_minor_version() -> None:
    pinned = ["3.9.1", "4.0.1", "4.3.0", "4.3.1", "4.3.10"]

    assert [pinned_version(source, pinned) for source in ("4.0.0-SNAPSHOT", "4.3.0")] == ["4.0.1", "4.3.10"]
    with pytest.raises(ConfigError, match=r"of Kafka 4\.5\.0, and no jars of a 4\.5 are pinned; .* 3\.9\.1, 4\.0\.1"):
        pinned_version("4.5.0", pinned)


def test_cases_are_read_and_selected_by_protocol_and_name() -> None:
    cases = collected(PRINTED)

    assert len(cases) == 4
    (classic,) = selected(cases, "classic", "")
    assert classic.name == "test_valid(strategy=a.B)"
    arguments = '{"strategy": "a.B", "metadata_quorum": "ISOLATED_KRAFT", "group_protocol": "classic"}'
    assert classic.symbol == f"/s/consumer_test.py::Assigning.test_valid@{arguments}"
    assert [case.name for case in selected(cases, "consumer", "")] == ["test_valid()"]
    assert selected(cases, "classic", "test_other") == []


def test_a_failure_is_told_with_its_reason(tmp_path: Path) -> None:
    row = {"cls_name": "Assigning", "function_name": "test_valid", "injected_args": {"n": 1}, "run_time_seconds": 61.4}
    failed = {"test_status": "FAIL", "summary": "AssertionError('9 rebalances')\nTraceback (most recent call last):\n"}
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"results": [{**row, "test_status": "PASS", "summary": ""}, {**row, **failed}]}))

    assert outcomes(report) == [
        "PASS     61 s  test_valid(n=1)",
        "FAIL     61 s  test_valid(n=1)",
        "               AssertionError('9 rebalances')",
    ]


def test_kafkatest_signals_our_member_and_no_shell_that_started_it() -> None:
    told = json.loads(ducktape_globals("ours"))["VerifiableConsumer"]
    shell = f"export LOG_DIR=/x; {told['exec_cmd']} --topic t | tee f"

    assert told["pids"] == f"pgrep -f '^{sys.executable} -m kafka_assignors.integration.verifiable_member'"
    assert not shell.startswith(told["exec_cmd"])
    assert ducktape_globals("java") == "{}"


@pytest.mark.parametrize(
    ("tool", "printed"), [("jps", "7 VerifiableConsumer\n"), ("jcmd", "7 org.apache.kafka.tools.VerifiableConsumer\n")]
)
def test_a_jvm_is_named_by_its_main_class(tool: str, printed: str, tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    ps.write_text(
        "#!/bin/sh\n"
        "echo '  7 /usr/bin/java -Xmx1G -cp /a.jar:/b.jar -Dl=x org.apache.kafka.tools.VerifiableConsumer --topic t'\n"
        "echo '  8 bash -c java -cp /a.jar kafka.Kafka'\n"
    )
    ps.chmod(0o755)
    done = ran("sh", "-c", TOOLS[tool], PATH=f"{tmp_path}:{os.environ['PATH']}", check=True)

    assert done.stdout == printed


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (None, [], "KAFKA_SOURCE is not set; it names a checkout of apache/kafka"),
        ("/nowhere", [], "KAFKA_SOURCE=/nowhere: has no gradle.properties; give a checkout of apache/kafka"),
        ("/nowhere", ["--protocol", "consumer"], "our members speak the classic protocol only; add --client java"),
    ],
)
def test_what_cannot_work_is_refused(source: str | None, options: list[str], message: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "KAFKA_SOURCE"}
    done = python(
        "-m", "tests.kafkatest", *options, env=environment | ({} if source is None else {"KAFKA_SOURCE": source})
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
