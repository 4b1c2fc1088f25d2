"""The page's charts as PNG files, for chats, slides and CI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.errors import ConfigError

from . import svg
from .page import Details, records_per_partition

ROWS = 400
"""Maximum topic-partitions per timeline; the first ones."""


def write(said: Mapping[str, Any], more: Details, folder: Path) -> list[Path]:
    """Draw ``load.png``, and ``timeline-GROUP.png`` and ``what-if.png`` if there is data.

    Args:
        said: The result of `summary`.
        more: The result of `page.details`.
        folder: Created if absent.

    Returns:
        The files.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError("--png needs matplotlib: pip install 'kafka-assignors[spark]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    if said["topics"]:
        made.append(folder / "load.png")
        _load(Figure, said, made[-1])
    if said["partitioners"]:
        made.append(folder / "what-if.png")
        _what_if(Figure, said, made[-1])
    for group, intervals in more.intervals.items():
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in group)[:80]
        made.append(folder / f"timeline-{safe}.png")
        _timeline(Figure, group, intervals, made[-1])
    return made


def _load(figure: Any, said: Mapping[str, Any], path: Path) -> None:
    topics = sorted(said["topics"], key=lambda t: -t["max_over_mean"])[:8]
    drawing = figure(figsize=(10, 2.4 * len(topics)), layout="constrained")
    for topic, axes in zip(topics, drawing.subplots(len(topics), squeeze=False)[:, 0], strict=True):
        records = records_per_partition(topic)
        axes.bar(range(len(records)), records, color=svg.COLOURS[0], width=0.85 if len(records) <= svg.EACH else 1)
        axes.axhline(sum(records) / len(records), color="#444", linestyle="--", linewidth=1)
        axes.set_title(f"{_plain(topic['topic'])}: fullest / mean {topic['max_over_mean']:.2f} (bytes)", fontsize=10)
        axes.set_ylabel("records")
        axes.margins(x=0.01)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(path, dpi=120)


def _what_if(figure: Any, said: Mapping[str, Any], path: Path) -> None:
    names = list(dict.fromkeys(row["topic"] for row in said["partitioners"]))[:8]
    drawing = figure(figsize=(10, 3 * len(names)), layout="constrained")
    for name, axes in zip(names, drawing.subplots(len(names), squeeze=False)[:, 0], strict=True):
        rows = [row for row in said["partitioners"] if row["topic"] == name]
        for i, rule in enumerate(dict.fromkeys(row["rule"] for row in rows)):
            of_rule = sorted((row["partitions"], row["max_over_mean"]) for row in rows if row["rule"] == rule)
            axes.plot(*zip(*of_rule, strict=True), marker="o", label=rule, color=svg.COLOURS[i % len(svg.COLOURS)])
        axes.set_title(f"{_plain(name)}: fullest / mean partition", fontsize=10)
        axes.set_xlabel("partitions")
        axes.set_xticks(sorted({row["partitions"] for row in rows}))
        axes.set_ylim(bottom=1)
        axes.legend(fontsize=8, ncols=3)
        axes.spines[["top", "right"]].set_visible(False)
    drawing.savefig(path, dpi=120)


def _timeline(figure: Any, group: str, intervals: Any, path: Path) -> None:
    from matplotlib.patches import Patch

    tps = sorted({(iv.topic, iv.partition) for iv in intervals})[:ROWS]
    rows = {tp: i for i, tp in enumerate(tps)}
    drawn = [iv for iv in intervals if (iv.topic, iv.partition) in rows]
    colour = svg.colours(iv.member for iv in intervals)
    begin = min(iv.start_ns for iv in drawn)
    hexes = {name: _hex(css) for name, css in colour.items()}
    drawing = figure(figsize=(10, max(2.0, min(14.0, 0.22 * len(tps) + 1))), layout="constrained")
    axes = drawing.subplots()
    axes.barh(
        [rows[iv.topic, iv.partition] for iv in drawn],
        [(iv.end_ns - iv.start_ns) / 1e9 for iv in drawn],
        left=[(iv.start_ns - begin) / 1e9 for iv in drawn],
        color=[hexes[iv.member] for iv in drawn],
        edgecolor=["#c0252b" if iv.overlap_prev_ms > 0 else "none" for iv in drawn],
        height=0.8,
    )
    every = max(1, len(tps) // 40)
    axes.set_yticks(range(0, len(tps), every), [_plain(f"{svg.short(t)}-{p}") for t, p in tps[::every]], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.set_title(f"{_plain(svg.short(group, 60))}: who owned what", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=hexes[name], label=_plain(svg.short(name))) for name in list(colour)[:12]]
    axes.legend(handles=handles, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    drawing.savefig(path, dpi=120)


def _hex(css: str) -> Any:
    if css.startswith("#"):
        return css
    import colorsys

    hue, saturation, light = (float(word.rstrip("%")) for word in css[4:-1].split())
    return colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # else matplotlib parses it as mathematics
