"""A run's page and the pictures of the docs have the contrasts of WCAG 2, level AA, in both themes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kafka_assignors.drawing import PAGE, STYLE, colours
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.report.replicas_view import Replica
from kafka_assignors.integration.report.report import PlacementRow, Report, SparkResult, render_html, told_groups
from tests.support.contrast import GRAPHIC, TEXT, THEMES, Sheet, contrast, pairs, rgb, row
from tests.support.histories.story import Story, churn
from tests.support.pages import PAGES
from tests.support.places import ROOT

PICTURES = "docs/load.svg", "docs/optimum.svg"


def paused() -> Story:
    """Twelve members; a broken law, a zombie beside an owner, two owners, a fault, a wait in vain."""
    story = Story("range", {"t": 12, "u": 3})
    story.tell("step", name="many join", gap_ms=2000)
    story.start(*"abcdefghijkl").round().records(8).consume()
    story.tell("step", name="b is paused")
    story.pause("b").round()
    story.tell("step", name="b goes on")
    story.resume("b", notice_ms=200).round()
    story.tell("step", name="m joins")
    story.start("m").round().drop("revoke_begin", member="a").drop("revoke_end", member="a")
    story.tell("not_stable", waited_s=40, members=["a"], due=[], generation=4, topics=story.topics)
    return story


def whole_page() -> str:
    """A page with all that a page can have."""
    groups = []
    for story in (paused(), churn(), churn("cooperative-sticky")):
        verdict = check(story.history)
        (group,) = told_groups(story.history, verdict)
        groups.append(replace(group, title=f"{story.protocol} {len(groups)}", about="" if not groups else "churn"))
    groups[0] = replace(
        groups[0],
        note="a note",
        gave_up="why",
        replicas=(Replica("m1", 0, 1.0, 2.0, 9.0, False), Replica("m2", 1, None, 9.0, 9.0, True)),
    )
    rows = (PlacementRow("default", "t", (5, 9, 0), True), PlacementRow("sticky", "t", (1, 2, 3), False))
    spark = SparkResult(("topic", "records"), (("t", "9"),), (("placement = read-back", False, "9 and 8"),))
    facts = (("broker", "jvm"), ("took", "9 s"))
    return render_html(Report("all", "run", False, facts, rows, groups[1].verdict, tuple(groups), spark))


@pytest.fixture(scope="module")
def page() -> str:
    return whole_page()


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_every_text_and_every_shape_of_a_runs_page_can_be_told_from_what_is_behind_it(page: str, theme: str) -> None:
    every = list(pairs(page, theme))

    assert [pair for pair in every if not pair.suffices] == []
    for shown in (
        ".gap",
        ".overlap",
        ".fault",
        ".band",
        ".true",
        ".false",
        ".unknown",
        ".bad",
        ".best",
        ".dim",
        ".tick",
    ):
        assert any(shown in pair.where for pair in every), f"the page has no {shown}"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_docs_have_the_same_contrasts(name: str, theme: str) -> None:
    every = list(pairs((ROOT / name).read_text("utf-8"), theme))

    assert len(every) > 20
    assert [pair for pair in every if not pair.suffices] == []


def test_the_recorded_terminal_has_the_contrast_of_text() -> None:
    drawn = (ROOT / "docs/img/session.svg").read_text("utf-8")
    (ground,) = re.findall(r'<rect fill="(#\w+)"', drawn)
    shown = re.findall(r"\.session-r\d+ \{ fill: (#\w+)", drawn)

    assert len(shown) > 5
    assert [colour for colour in shown if contrast(rgb(colour), rgb(ground)) < TEXT] == []


@pytest.mark.slow
def test_the_lowest_contrasts_are_on_the_page_of_measurements(page: str) -> None:
    assert row("a judged run, the demo", page) in PAGES["docs/measurements.md"]


@pytest.mark.parametrize("theme", THEMES)
def test_any_number_of_members_has_colours_that_are_seen(theme: str) -> None:
    ground = rgb(Sheet(STYLE + PAGE).variables[theme]["--bg"])
    palette = colours(f"m{i:02}" for i in range(60))

    assert len(set(palette.values())) == 60
    assert min(contrast(rgb(colour), ground) for colour in palette.values()) >= GRAPHIC


def test_contrast_is_that_of_the_definition() -> None:
    """Black on white is 21; #767676 is the lightest grey that suffices on white, a well-known example."""
    white = rgb("#fff")
    assert contrast(rgb("#000"), white) == contrast(white, rgb("#000000")) == 21
    assert contrast(rgb("#767676"), white) == pytest.approx(4.54, abs=0.005)
    assert contrast(rgb("#777777"), white) == pytest.approx(4.48, abs=0.005)


STYLED = (
    "<style>:root { --bg:#fff; --fg:#111; --pale:#999; --bar:#5a8cc0; }\n%s</style>"
    "<body style='color:var(--fg)'>%s</body>"
)


@pytest.mark.parametrize(
    ("rules", "body", "theme", "refused"),
    [
        ("", "<p>well</p>", "light", ""),
        (".dim { color:var(--pale); }", "<p class='dim'>pale</p>", "light", "p.dim"),
        (".dim { color:var(--pale); }", "<div class='dim'><p>pale by what is around it</p></div>", "light", "p"),
        (".card { background:#aaa; } .on { color:#777; }", "<b class='card'><p class='on'>a</p></b>", "light", "p.on"),
        ("@media screen and (prefers-color-scheme:dark) { :root { --bg:#222; } }", "<p>black</p>", "dark", "p"),
        ("h1 { font-size:26px; color:var(--pale); }", "<h1>large</h1>", "light", "h1"),
        ("h1 { font-size:26px; color:#8a8a8a; }", "<h1>large, which needs less</h1>", "light", ""),
        ("svg .bar { fill:var(--bar); opacity:.4; }", "<svg><rect class='bar'/></svg>", "light", "rect.bar"),
        ("svg .bar { fill:#eee; stroke:var(--fg); }", "<svg><rect class='bar'/></svg>", "light", ""),
        ("svg .none { fill:transparent; }", "<svg><rect class='none'/></svg>", "light", ""),
        (
            "svg .bar { fill:var(--bar); } svg .hot { fill:#d9622b; }",
            "<svg><rect class='bar'/><rect class='hot'/></svg>", "light", "rect.hot on",
        ),
        (
            "svg text { fill:var(--fg); } svg text.in { fill:#fff; }",
            "<svg><rect fill='#e69f00' stroke='#000'/><text class='in'>5</text></svg>", "light", "text.in",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_noticed(rules: str, body: str, theme: str, refused: str) -> None:
    bad = [pair.where for pair in pairs(STYLED % (rules, body), theme) if not pair.suffices]

    assert len(bad) == bool(refused)
    assert not refused or bad[0].startswith(refused)
