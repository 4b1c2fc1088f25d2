"""``python -m benchmarks.page_pictures`` draws docs/img again, from a kept history: no broker is started.

``run.png`` is the timeline of ``judge --png``, ``report.png`` the page of ``judge --page`` in headless Chromium, and
``side-by-side.png`` the first screen of a page of several assignors, as ``demo`` writes it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.report import Report, render_html, told_groups

ROOT = Path(__file__).parents[1]
HISTORIES = ROOT / "benchmarks" / "results" / "histories"
HISTORY = HISTORIES / "ours.cooperative-sticky.0.tar.xz"
COMPARED = ("range", "sticky", "cooperative-sticky")
IMAGES = ROOT / "docs" / "img"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_WINDOW, _COMPARED_WINDOW = "1320,1260", "1320,1050"
_LIMIT_S = 120
_LARGEST = 300_000  # bytes of a picture in the tree


def browser() -> str:
    """The browser's path.

    Raises:
        SystemExit: There is none on PATH.
    """
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise SystemExit(f"error: no {' or '.join(_BROWSERS)} on PATH; on Debian or Ubuntu: apt-get install chromium")
    return path


def compared_page(folder: Path) -> Path:
    """The page of kept histories of one scenario with several assignors."""
    groups = []
    for assignor in COMPARED:
        with tarfile.open(HISTORIES / f"ours.{assignor}.0.tar.xz") as kept:
            kept.extractall(folder / assignor, filter="data")
        history = History.load(folder / assignor)
        verdict = check(history)
        groups += [
            replace(group, title=assignor, about="Members join, restart, leave and are killed; the topic grows.")
            for group in told_groups(history, verdict)
        ]
    value = all(group.verdict.value for group in groups)
    page = folder / "side-by-side.html"
    page.write_text(render_html(Report("kafka-assignors", "kept runs", value, (), groups=tuple(groups))), "utf-8")
    return page


def shoot(chromium: str, page: Path, picture: Path, window: str) -> None:
    """One screen of a page as a picture."""
    shot = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={window}"]
    command = [chromium, *shot, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, timeout=_LIMIT_S, stderr=subprocess.DEVNULL)


def main() -> None:
    """Unpack, judge, draw. A folder with a short name, because the page shows it."""
    chromium = browser()
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "runs" / "cooperative-sticky"
        with tarfile.open(HISTORY) as kept:
            kept.extractall(folder, filter="data")
        judge = [sys.executable, "-m", "kafka_assignors.integration", "judge", "runs/cooperative-sticky"]
        drawn = ["--page", "report.html", "--png", str(IMAGES / "run.png")]
        subprocess.run([*judge, *drawn], cwd=made, check=True, timeout=_LIMIT_S)
        shoot(chromium, Path(made) / "report.html", IMAGES / "report.png", _WINDOW)
        shoot(chromium, compared_page(Path(made)), IMAGES / "side-by-side.png", _COMPARED_WINDOW)
    for path in sorted(IMAGES.glob("*.png")):
        if path.stat().st_size > _LARGEST:
            raise SystemExit(f"error: {path} has {path.stat().st_size:,} bytes; {_LARGEST:,} are the limit")


if __name__ == "__main__":
    main()
