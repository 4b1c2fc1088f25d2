"""examples/pipeline.ipynb, cell by cell, against a real broker: it shows what the topic and the group have."""

from __future__ import annotations

import re

import pytest

from kafka_assignors.integration.records import Record, send
from tests.support import notebook
from tests.support.places import ROOT

NOTEBOOK = ROOT / "examples" / "pipeline.ipynb"


@pytest.mark.long  # long: the notebook rarely changes; its outputs, which the test below reads, are of a run
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_the_notebook_runs(kafka_broker, kafka_topic, kafka_group, spark) -> None:
    topic, group = kafka_topic(partitions=6), kafka_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    records = [Record(topic, b"hot" if n % 3 else b"key-%d" % n) for n in range(300)]
    assert send(kafka_broker.bootstrap, group.folder, group.run, "default", records).acked == 300
    group.start("m2", [topic], ["range"])
    group.wait_stable()
    here = {"bootstrap": kafka_broker.bootstrap, "topic": topic, "group": group.group, "spark": spark}

    shown = "".join(said for _, said in notebook.run(notebook.read(NOTEBOOK), here, without=("parameters", "session")))

    assert re.search(rf"{topic} +6 +300\b", shown), shown
    assert "hot-key: " in shown
    assert re.search(r"\b2 +range +2 +join\b", shown), shown


def test_the_notebook_has_the_outputs_of_a_run() -> None:
    cells = [cell for cell in notebook.read(NOTEBOOK)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(cell["outputs"]) for cell in cells) >= 5
