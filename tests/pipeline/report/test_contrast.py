"""The pipeline's page has the contrasts of WCAG 2, level AA, in both themes: its texts, its cells, its drawings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.drawing import PAGE, STYLE
from kafka_assignors.pipeline.report import page, svg
from tests.pipeline.report.test_page import EMPTY, much
from tests.support.contrast import THEMES, pairs, row
from tests.support.pages import PAGES


@pytest.fixture(scope="module")
def whole_page() -> str:
    """A page with all that a page can have: also cells of every heat, and bars of the coordinator's log."""
    summary, more = much()
    group = summary["groups"][0]
    summary["partitioners"] = [
        {**trial, "rule": f"rule {i}", "max_over_mean": 1 + i / 4}
        for i in range(9)
        for trial in summary["partitioners"][:2]
    ]
    few = [
        svg.DrawnInterval(
            "t", p, f"m{p}", 0, 5 * 10**9, kind, 900.0 * (p == 3), "coordlog" if p % 2 else "callback", 10**9, 2 * 10**9
        )
        for p in range(30)
        for kind in ("killed" if p % 3 else "left or expired",)
    ]
    summary["groups"] = [{**group, "group": "few", "overlap_ms": 3.0}, group]
    intervals = {**more.intervals, "few": few}
    return page.render(summary, replace(more, intervals=intervals, left_out={**more.left_out, "few": 0}))


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_and_every_shape_can_be_told_from_what_is_behind_it(whole_page: str, theme: str) -> None:
    every = list(pairs(whole_page, theme))

    assert [pair for pair in every if not pair.suffices] == []
    for shown in (".hot", "hot on", ".bar", ".mean", ".twice", ".cross", ".shown", ".share", ".moves", ".bad", "small"):
        assert any(shown in pair.where for pair in every), f"the page has no {shown}"


@pytest.mark.parametrize("theme", THEMES)
def test_so_can_those_of_an_empty_page_and_of_the_lines_that_are_drawn_as_png_alone(theme: str) -> None:
    drawn = svg.lines({f"rule {i}": [(3, 1.0), (12, 1.0 + i)] for i in range(12)})

    for made in (page.render(EMPTY, page.Details()), f"<style>{STYLE}{PAGE}</style><body>{drawn}</body>"):
        assert [pair for pair in pairs(made, theme) if not pair.suffices] == []


@pytest.mark.slow
def test_the_lowest_contrasts_are_on_the_page_of_measurements(whole_page: str) -> None:
    assert row("`report`", whole_page) in PAGES["docs/measurements.md"]
