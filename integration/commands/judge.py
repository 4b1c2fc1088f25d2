"""The command that judges kept histories, and how a verdict is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_assignors.errors import ConfigError
from kafka_assignors.frame import Output, command
from kafka_assignors.output import printable

from .common import Png, Require, exit_code

if TYPE_CHECKING:
    from ..checker import Verdict
    from ..report.report import GroupResult
    from ..report.service_view import ServiceView

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: kafka-assignors judge runs/20260131-080000")
@command
def judge(
    common: Output,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders with kept histories (*.jsonl), at any depth.")
    ],
    page: Annotated[Path | None, typer.Option(help="Write the page again to this file.")] = None,
    png: Png = None,
    require: Require = None,
) -> int:
    """Judge kept histories again; needs no broker. With --json, a line per history."""
    # NumPy and the laws take longer to import than the options.
    from ..checker import check, known_laws
    from ..history import History
    from ..report import ci_summary
    from ..report.report import Report, render_html, told_groups
    from ..report.service_view import kept_service_view

    folders = list(dict.fromkeys(folder for path in paths for folder in _histories(path)))
    if len(folders) > 1 and (page or png):
        raise ConfigError(
            f"{'--page' if page else '--png'} is for one history, and {len(folders)} were found; name one of them"
        )
    known_laws(require or ())
    values, others = [], []
    for folder in folders:
        history = History.load(folder)
        verdict = check(history, require or ())
        groups, view = told_groups(history, verdict), kept_service_view(history)
        if page is not None:
            report = Report(f"judged: {paths[0].name}", str(paths[0]), verdict.value, (), groups=groups, service=view)
            page.write_text(render_html(report), "utf-8")
        draw(png, groups)
        if not common.as_json:
            tell_service(view, groups)
        show(verdict, folder, common.as_json)
        values.append(verdict.value)
        if verdict.value is not True:
            reasons = [f"{v.law}: {v.message}" for v in verdict.violations] or verdict.unknown
            others.append((str(folder), verdict.value, next(iter(reasons), "")))
    value = False if False in values else None if None in values else True
    words = {True: "true", False: "false", None: "unknown"}
    counts = ", ".join(f"{values.count(value)} {word}" for value, word in words.items() if value in values)
    if len(values) > 1 and not common.as_json:
        print(f"{len(values)} histories: {counts}")
    if ci_summary.is_wanted():
        if len(values) > 1:
            text = ci_summary.judged_runs(f"{len(values)} histories: {counts}", others)
        else:
            text = ci_summary.judged_run(verdict, history, folder)
        ci_summary.append(ci_summary.head("judge", " ".join(map(str, paths)), value) + text)
    return exit_code(value)


def tell_service(view: ServiceView | None, groups: Sequence[GroupResult]) -> None:
    """Print what became of a service's records, how long its processes took to start and to stop, and why it stood."""
    from ..report.replicas_view import replica_lines
    from ..report.service_view import stop_lines

    lines = [] if view is None else [*view.lines()]
    lines += [line for group in groups for line in replica_lines(group.replicas)]
    lines += [] if view is None else [line for group in groups for line in stop_lines(group.row)]
    for line in lines:
        print(printable(line))


def _histories(path: Path) -> list[Path]:
    """The folders with a history, below a folder or the folder itself."""
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; name the history folder of a run, or one above it")
    folders = sorted({file.parent for file in path.rglob("*.jsonl")})
    if not folders:
        raise ConfigError(f"{path} has no *.jsonl history, at any depth")
    return folders


def draw(file: Path | None, groups: Sequence[GroupResult]) -> None:
    """Draw the timeline of the first group that has one."""
    if file is None:
        return
    from kafka_assignors import drawing

    drawn = next((group for group in groups if group.timeline is not None), None)
    if drawn is None or drawn.timeline is None:
        raise ConfigError(f"--png {file}: no member ever owned a partition, so there is no timeline")
    word = {True: "true", False: "FALSE", None: "unknown"}[drawn.verdict.value]
    below = [("", drawn.work_svg)] if drawn.work_svg else []
    drawing.png([(f"{drawn.title}: verdict {word}", drawn.svg), *below], file)


def show(verdict: Verdict, folder: Path, as_json: bool, figures: Mapping[str, Any] | None = None) -> None:
    """Print a verdict, with figures of the run if there are any, and where its history is kept."""
    if as_json:
        answer = {
            "value": verdict.value,
            "laws": dict(verdict.checked),
            "skipped": {law: dict(reasons) for law, reasons in verdict.skipped.items()},
            "violations": [
                {"law": v.law, "message": v.message, "witnesses": [json.loads(w.to_json()) for w in v.witnesses]}
                for v in verdict.violations
            ],
            "unknown": list(verdict.unknown),
            "folder": str(folder),
            **(figures or {}),
        }
        print(json.dumps(answer))
    else:
        from ..report.report import verdict_lines

        print("\n".join(verdict_lines(verdict)))
        if figures is not None:
            print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()))
        print(printable(f"kept in {folder}"))
