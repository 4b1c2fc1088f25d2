"""The page's drawings as PNG files, for chats, slides and CI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.drawing import png, short

from . import svg
from .page import Details, group_view, topic_view

TOPICS = 8
"""Maximum topics per file: those whose load is least balanced."""


def write(summary: Mapping[str, Any], more: Details, folder: Path) -> list[Path]:
    """Draw ``load.png``, and ``timeline-GROUP.png`` and ``what-if.png`` if there is data. Returns the files.

    The folder is created if absent.

    Raises:
        MachineError: resvg is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, list[tuple[str, str]]] = {}
    for topic in sorted(summary["topics"], key=lambda topic_row: -topic_row["max_over_mean"])[:TOPICS]:
        view = topic_view(topic, summary, more)
        for what, worst, drawing in (
            ("records", topic["record_max_over_mean"], view["bars"]),
            ("bytes", topic["max_over_mean"], view["byte_bars"]),
        ):
            if drawing:
                title = f"{short(topic['topic'], 60)}: {what}; fullest / mean {worst:.2f}"
                drawn.setdefault("load", []).append((title, drawing))
    rules: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in summary["partitioners"]:
        of_topic = rules.setdefault(row["topic"], {})
        of_topic.setdefault(row["rule"], []).append((row["partitions"], row["max_over_mean"]))
    for topic, of_topic in list(rules.items())[:TOPICS]:
        title = f"{short(topic, 60)}: fullest / mean partition (bytes)"
        drawn.setdefault("what-if", []).append((title, svg.lines(of_topic)))
    for group in summary["groups"]:
        if group["group"] in more.intervals:
            safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in group["group"])[:80]
            title = f"{short(group['group'], 60)}: who owned what"
            drawn[f"timeline-{safe}"] = [(title, group_view(group, summary, more)["timeline"])]
    for name, drawings in drawn.items():
        png(drawings, folder / f"{name}.png")
    return [folder / f"{name}.png" for name in drawn]
