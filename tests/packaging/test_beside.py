"""The wheel beside an application that has packages named like our folders: neither hides the other."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from tests.support.programs import python

pytestmark = pytest.mark.broker

APPLICATION = {
    "conftest.py": 'pytest_plugins = ["kafka_assignors.pytest_plugin"]',
    "producers/__init__.py": "mine = 1",
    "integration/__init__.py": "mine = 2",
    "pipeline/__init__.py": "mine = 3",
    "tests/__init__.py": "",
    "tests/integration/__init__.py": "mine = 4",
    "tests/integration/test_orders.py": """
import producers, integration, pipeline, tests.integration
import kafka_assignors, kafka_assignors.pipeline.cli
from kafka_assignors.integration.records import Record, send
from kafka_assignors.producers import partition_for_key


def test_both_are_there(wheel_folder):
    assert [m.mine for m in (producers, integration, pipeline, tests.integration)] == [1, 2, 3, 4]
    ours = [kafka_assignors, kafka_assignors.pipeline, kafka_assignors.integration, kafka_assignors.producers]
    assert all(m.__file__.startswith(wheel_folder) for m in ours)
    assert partition_for_key(b"kafka", 12) == 4


def test_a_group_is_judged(kafka_group, kafka_topic, kafka_broker):
    topic, group = kafka_topic(partitions=4), kafka_group()
    for name in ("m1", "m2"):
        group.start(name, [topic], ["cooperative-sticky"])
    group.wait_stable()
    send(kafka_broker.connection, group.folder, group.run, "default", [Record(topic, b"k%d" % n) for n in range(20)])
    group.drain(60)
""",
    "tests/conftest.py": """
import pytest


@pytest.fixture
def wheel_folder():
    return {folder!r}
""",
}


@pytest.mark.long  # long: an installation of its own; test_wheel.py proves that one name is installed
def test_an_application_with_the_same_names_uses_all_of_ours(wheel: Path, kafka_broker: Broker, tmp_path: Path) -> None:
    folder, application = tmp_path / "site", tmp_path / "application"
    zipfile.ZipFile(wheel).extractall(folder)
    for name, text in APPLICATION.items():
        path = application / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{folder!r}", repr(str(folder))))
    options = [
        "--kafka-backend=external",
        f"--kafka-bootstrap={kafka_broker.bootstrap}",
        "-q",
        "-p",
        "no:cacheprovider",
    ]

    done = python("-m", "pytest", *options, "-W", "ignore", within_s=200, cwd=application, PYTHONPATH=str(folder))

    assert "2 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
    for program in ("integration", "producers", "pipeline"):
        helped = python("-m", f"kafka_assignors.{program}", "--help", cwd=application, PYTHONPATH=str(folder))
        assert f"python -m kafka_assignors.{program}" in helped.stdout, helped.stdout + helped.stderr
