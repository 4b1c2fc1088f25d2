"""What Spark's UI shows while a job runs: every page that a link leads to, and its REST API."""

from __future__ import annotations

import html
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Links that do something else than to show.
    "spark.ui.killEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
}
REST = (
    "environment", "jobs", "stages?details=true", "allexecutors", "storage/rdd", "sql?details=true&length=1000",
    "streaming/statistics",
)  # fmt: skip
PAGES = ("/jobs/", "/stages/", "/storage/", "/environment/", "/executors/", "/SQL/", "/StreamingQuery/")
_BETWEEN_S = 1.0
_LINK = re.compile(r'href="(/(?!static/)[^"#?]*(?:\?(?:id|executorId)=[^"#]*)?)"')  # without those that sort a table


@contextmanager
def shown(port: int) -> Iterator[dict[str, set[str]]]:
    """Look through the UI at that port, again and again; gives page -> all that it has shown."""
    seen: dict[str, set[str]] = {}
    over = threading.Event()

    def get(page: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=10) as answer:
            text: str = answer.read().decode()
        seen.setdefault(page, set()).add(text)
        return text

    def look() -> None:
        while not over.wait(_BETWEEN_S):
            with suppress(OSError, ValueError):  # not there yet, a word that it starts, or no more
                [application] = json.loads(get("/api/v1/applications"))
                _through(get, (f"/api/v1/applications/{application['id']}/{resource}" for resource in REST))
                _through(get, PAGES)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def _through(get: Callable[[str], str], pages: Iterable[str]) -> None:
    """Get these pages and all that they lead to."""
    waiting, met = list(pages), set[str]()
    while waiting:
        if (page := waiting.pop()) in met:
            continue
        met.add(page)
        with suppress(urllib.error.HTTPError):  # a job without SQL, or without a stream, lacks that tab
            waiting += map(html.unescape, _LINK.findall(get(page)))
