"""The exporter as a process, and what Prometheus would scrape from it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import jsonschema
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cli import SCHEMAS, without_progress
from tests.support.places import ROOT


def scraped(url: str) -> dict[tuple[str, Mapping[str, str]], float]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}  # type: ignore[misc]


@contextmanager
def exporting(*args: str, notes: str = "") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process; ended by SIGTERM, as a service is. `notes` is a pattern of what it says on stderr."""
    command = [sys.executable, "-m", "kafka_assignors", "exporter", *args, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            announcement = json.loads(line)
            jsonschema.validate(announcement, json.loads((SCHEMAS / "exporter.json").read_text("utf-8")))
            yield announcement["url"], process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                _, errors = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert process.returncode == 130, errors
    assert re.fullmatch(f"{notes}interrupted\n", without_progress(errors)), errors
