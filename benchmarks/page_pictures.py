"""``python -m benchmarks.page_pictures`` draws docs/img again, from a kept history: no broker is started.

``run.png`` is the timeline of ``judge --png``, ``report.png`` the page of ``judge --page`` in headless Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "benchmarks" / "results" / "histories" / "ours.cooperative-sticky.0.tar.xz"
IMAGES = ROOT / "docs" / "img"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_WINDOW = "1180,1260"
_LIMIT_S = 120
_LARGEST = 300_000  # bytes of a picture in the tree


def browser() -> str:
    """The browser's path.

    Raises:
        SystemExit: There is none on PATH.
    """
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        raise SystemExit(f"error: no {' or '.join(_BROWSERS)} on PATH; on Debian or Ubuntu: apt-get install chromium")
    return found


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
        shot = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={_WINDOW}"]
        where = [f"--screenshot={IMAGES / 'report.png'}", (Path(made) / "report.html").as_uri()]
        subprocess.run([chromium, *shot, *where], check=True, timeout=_LIMIT_S, stderr=subprocess.DEVNULL)
    for path in sorted(IMAGES.glob("*.png")):
        if path.stat().st_size > _LARGEST:
            raise SystemExit(f"error: {path} has {path.stat().st_size:,} bytes; {_LARGEST:,} are the limit")


if __name__ == "__main__":
    main()
