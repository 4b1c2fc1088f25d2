"""Validate command line options. A `ConfigError` names the option, its value and a valid one.

All of this runs before Spark starts and, except for `only_run`, before anything is read.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError, NoSuchGroup
from kafka_assignors.producers import PRESETS

from .load import weights
from .sources import brokers
from .storage.tables import FORMATS


def topic_names(topics: str) -> list[str]:
    """The distinct names in ``--topics``."""
    names = _listed(topics)
    if not names:
        raise ConfigError(f"--topics {topics!r} names no topic; write --topics orders,payments")
    return names


def group_names(groups: str | None) -> list[str]:
    """The distinct names in ``--group``; none without it."""
    names = _listed(groups)
    if groups is not None and not names:
        raise ConfigError(f"--group {groups!r} names no group; write --group billing,audit")
    return names


def _listed(words: str | None) -> list[str]:
    """The distinct words between commas."""
    return list(dict.fromkeys(word.strip() for word in (words or "").split(",") if word.strip()))


def reference(name: str) -> str | None:
    """``--reference``: a preset of `producers`, or None for ``none``."""
    if name != "none" and name not in PRESETS:
        raise ConfigError(f"--reference {name!r} is not a rule; known: {', '.join(PRESETS)}, none")
    return None if name == "none" else name


def share(value: float) -> float:
    """``--hot-key-share``."""
    if not 0 < value <= 1:
        raise ConfigError(f"--hot-key-share {value} is not a share; give more than 0 and at most 1, such as 0.2")
    return value


def length(window: str) -> timedelta:
    """``--window``, which must be a duration."""
    match = re.fullmatch(r"([1-9]\d*) (millisecond|second|minute|hour|day)s?", window)
    if match is None:
        raise ConfigError(f"--window {window!r} is not a duration; write '10 seconds', '1 minute' or '1 hour'")
    return timedelta(**{f"{match[2]}s": int(match[1])})


def local(where: str) -> Path | None:
    """The path of a folder on this machine; None for a URI of another file system."""
    if where.startswith("file:"):
        return Path(url2pathname(urlparse(where).path))
    # As in Hadoop: hdfs:/x and dbfs:/x are URIs too. A single letter is a Windows drive.
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", where) else Path(where)


def absolute(where: str) -> str:
    """The absolute form of a path, for a JVM with another working directory."""
    folder = local(where)
    return where if folder is None else str(folder.resolve())


def history_folder(history: str) -> str:
    """``--history`` as a path for the JVM; it must contain histories."""
    if folder := local(history):
        if not folder.is_dir():
            raise ConfigError(f"--history {history!r} is not a folder; give the folder of a run with its *.jsonl files")
        if next(folder.rglob("*.jsonl"), None) is None:
            raise ConfigError(f"--history {history!r} has no *.jsonl file; give the folder of a run")
    return absolute(history)


def out_folder(out: str) -> str:
    """``--out`` as a path for the JVM; the folder is tested for writing, and may not exist."""
    if folder := local(out):
        _require_writing(folder, f"--out {out!r}", "folder")
    return absolute(out)


def page_file(html: str | None, out: str) -> Path:
    """``--html``, its folder tested for writing; by default a file beside the tables."""
    path = local(html or f"{out}/report.html")
    if path is None:
        raise ConfigError(
            f"--html {html or 'report.html in --out'!r} is not on this machine; name a local file by --html"
        )
    if path.is_dir():
        raise ConfigError(f"--html {str(path)!r} is a folder; name a file in it, such as {str(path / 'report.html')!r}")
    _require_writing(path.parent, f"--html {str(path)!r}", "file")
    return path.resolve()


def png_folder(png: str) -> Path:
    """``--png``, tested for writing; it may not exist."""
    path = local(png)
    if path is None:
        raise ConfigError(f"--png {png!r} is not on this machine; name a local folder")
    _require_writing(path, f"--png {png!r}", "folder")
    return path.resolve()


def batch_size(records: int) -> int:
    """``--max-records``."""
    if records < 1:
        raise ConfigError(f"--max-records {records} would read no records; give 1 or more, such as 1000000")
    return records


def partition_counts(counts: str | None) -> list[int]:
    """The distinct partition counts in ``--what-if``."""
    words = _listed(counts)
    for word in words:
        if not re.fullmatch(r"[1-9]\d{0,4}", word):
            raise ConfigError(
                f"--what-if {counts!r}: {word!r} is not a partition count from 1 to 99999; write 12,24,48"
            )
    return sorted(set(map(int, words)))


def moment(option: str, text: str | None, now: datetime) -> int | None:
    """``--since`` and ``--until``: a time or an age, as milliseconds since the epoch.

    >>> moment("--since", "2026-01-02T03:00", datetime(2026, 1, 3, tzinfo=timezone.utc))
    1767322800000
    >>> moment("--since", "2 hours", datetime(2026, 1, 3, tzinfo=timezone.utc))
    1767391200000
    """
    if text is None:
        return None
    if ago := re.fullmatch(r"([1-9]\d*) (second|minute|hour|day|week)s?", text.strip()):
        return round((now - timedelta(**{f"{ago[2]}s": int(ago[1])})).timestamp() * 1000)
    try:
        at = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is not a time; write 2026-01-31, 2026-01-31T08:00 (UTC) or an age, such as '2 hours'"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def offset_ranges(text: str | None) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """``--offsets``: first and last offset (inclusive) of topic-partitions.

    >>> offset_ranges("orders:0=100-199,orders:1=5-")
    {TopicPartition(topic='orders', partition=0): (100, 199), TopicPartition(topic='orders', partition=1): (5, None)}
    """
    ranges: dict[TopicPartition, tuple[int | None, int | None]] = {}
    for word in (word.strip() for word in (text or "").split(",")):
        match = re.fullmatch(r"([\w.-]+):(\d+)=(\d*)-(\d*)", word)
        if match is None and text is not None:
            raise ConfigError(
                f"--offsets {text!r}: {word!r} is not a range; write TOPIC:PARTITION=FIRST-LAST, orders:0=5-9"
            )
        if match is not None:
            first, last = (int(number) if number else None for number in match.groups()[2:])
            ranges[TopicPartition(match[1], int(match[2]))] = first, last
    return ranges


def part(since: str | None, until: str | None, offsets: str | None, sample: float, isolation: str) -> brokers.Part:
    """The bounds of ``--since``, ``--until``, ``--offsets``, ``--sample`` and ``--isolation`` on the records."""
    if not 0 < sample <= 1:
        raise ConfigError(f"--sample {sample} is not a share; give more than 0 and at most 1, such as 0.1")
    if isolation not in brokers.ISOLATION:
        raise ConfigError(f"--isolation {isolation!r} is not known; known: {', '.join(brokers.ISOLATION)}")
    now = datetime.now(timezone.utc)
    from_ms, to_ms = moment("--since", since, now), moment("--until", until, now)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise ConfigError(f"--since {since!r} is not before --until {until!r}; swap them")
    return brokers.Part(from_ms, to_ms, offset_ranges(offsets), sample, isolation)


def known_format(name: str) -> str:
    """``--format``."""
    if name not in FORMATS:
        raise ConfigError(f"--format {name!r} is not known; known: {', '.join(FORMATS)}")
    return name


def at_least(option: str, least: int, value: int | None) -> int | None:
    """Validate the minimum of an optional number."""
    if value is not None and value < least:
        raise ConfigError(f"{option} {value} is too small; give {least} or more")
    return value


def weights_target(file: str | None, unit: str, minutes: int) -> weights.Target:
    """``--weights`` and its related options."""
    if unit not in weights.COUNTED:
        raise ConfigError(f"--weights-unit {unit!r} is not known; known: {', '.join(weights.COUNTED)}")
    if minutes < 1:
        raise ConfigError(f"--weights-minutes {minutes} would expire at once; give 1 or more")
    if file is None:
        return weights.Target(None, unit, minutes)
    path = local(file)
    if path is None:
        raise ConfigError(f"--weights {file!r} is not on this machine: only a local file can be replaced atomically")
    path = path.resolve()
    _require_writing(path.parent, f"--weights {file!r}", "file")
    weights.previous(path)
    return weights.Target(path, unit, minutes)


def only_run(counts: Mapping[str, int], where: str) -> str:
    """The only run of a history, from its events per run; `where` is the option with its value."""
    if not counts:
        raise ConfigError(f"{where} has no readable event; is it the history of a run?")
    if len(counts) > 1:
        raise ConfigError(f"{where} has {len(counts)} runs ({', '.join(sorted(counts))}); name one by --run")
    return next(iter(counts))


def check_groups(wanted: Iterable[str], groups: Collection[str]) -> None:
    """Reject a ``--group`` that the coordinator's log does not contain."""
    if absent := [name for name in wanted if name not in groups]:
        raise NoSuchGroup(
            f"--group: __consumer_offsets has no records of {', '.join(map(repr, absent))}; is the name correct, and "
            "was the group active recently? A KIP-848 group writes other records there"
        )


def _require_writing(folder: Path, option: str, what: str) -> None:
    """Reject an option with a value that cannot be written to; a `what` is named instead."""
    try:
        _try_writing(folder)
    except OSError as error:
        raise ConfigError(f"{option} cannot be written to ({error.strerror}); name another {what}") from None


def _try_writing(folder: Path) -> None:
    """Write into a folder, which may not exist, and leave nothing: who writes there later creates it."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    finally:
        with contextlib.suppress(OSError):  # another process uses it meanwhile
            for path in made:
                path.rmdir()
