"""``python -m benchmarks.pipeline_pictures`` draws docs/img/pipeline.png, and runs examples/pipeline.ipynb.

Both show one real group on a real broker: three members, one that joins, one that is killed, and a hot key.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, send
from kafka_assignors.integration.topics import create_topics
from tests.support import notebook

from .page_pictures import IMAGES, ROOT, browser, shoot

NOTEBOOK = ROOT / "examples" / "pipeline.ipynb"
GROUP, TOPIC, PORT, RUN = "billing", "orders", 9092, "billing"
_ROUND = 1_500
"""Records between two changes of the group."""
_WINDOW, _LIMIT_S = "1180,1500", 600


def played(bootstrap: str, folder: Path) -> None:
    """A group's life with records before, between and after its changes."""
    create_topics(bootstrap, {TOPIC: 6})
    drawn = random.Random(7)

    def orders() -> list[Record]:
        keys = (b"wholesale" if drawn.random() < 0.3 else b"customer-%d" % drawn.randrange(400) for _ in range(_ROUND))
        return [Record(TOPIC, key) for key in keys]

    with MemberGroup(bootstrap, GROUP, folder, RUN) as group:
        for name in ("m1", "m2", "m3"):
            group.start(name, [TOPIC], ["range"])
        group.wait_stable()
        send(bootstrap, folder, RUN, "default", orders())
        group.start("m4", [TOPIC], ["range"])
        group.wait_stable()
        send(bootstrap, folder, RUN, "default", orders())
        group.kill("m2")
        group.wait_stable()
        send(bootstrap, folder, RUN, "default", orders())
        group.drain()


def page(bootstrap: str, history: Path, folder: Path) -> Path:
    """The pipeline's page of the topic, the group and its history."""
    made = folder / "pipeline.html"
    command = [sys.executable, "-m", "kafka_assignors", "report", "run", "--bootstrap", bootstrap, "--topics", TOPIC]
    options = ["--history", str(history), "--window", "1 second", "--out", str(folder / "tables"), "--html", str(made)]
    subprocess.run([*command, *options], check=True, timeout=_LIMIT_S)
    return made


def outputs(bootstrap: str) -> None:
    """Run the notebook, and keep what its cells show."""
    document = notebook.read(NOTEBOOK)
    names: dict[str, Any] = {}
    for number, (cell, shown) in enumerate(notebook.run(document, names), 1):
        notebook.keep(cell, shown, number)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert (names["bootstrap"], names["topic"], names["group"]) == (bootstrap, TOPIC, GROUP), names
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    """Play, analyse, draw; then the notebook."""
    chromium = browser()
    with tempfile.TemporaryDirectory() as made, start_broker("jvm", port=PORT) as broker:
        history = Path(made) / "history"
        history.mkdir()
        played(broker.bootstrap, history)
        shoot(chromium, page(broker.bootstrap, history, Path(made)), IMAGES / "pipeline.png", _WINDOW)
        outputs(f"localhost:{PORT}")


if __name__ == "__main__":
    main()
