"""What the drawings of all pages share: colours, style sheet, and the same SVG as a PNG file."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from .errors import MachineError
from .extras import install
from .output import printable

# Hues of the Okabe-Ito palette, as dark or light as a contrast of 3 on the backgrounds of both themes needs, and far
# apart for colour-blind readers. Its reds are left out: a partition without an owner is red.
COLOURS = ("#0072b2", "#bd8619", "#00915f", "#2897e2", "#826b01", "#8f3ef4", "#8b918f", "#d07e46")
STYLE = """\
:root { color-scheme:light dark;
  --bg:#fff; --fg:#1b1f24; --dim:#667080; --line:#d9dee5; --card:#f6f8fa; --ok:#0a7d45; --bad:#c0252b;
  --unknown:#96690a; --bar:#5a8cc0; --hot:#d9622b; --gap:#e0566b; --twice:#c0252b; --fault:#f2b701; --heat:#f0b08f; }
@media screen and (prefers-color-scheme:dark) { :root {
  --bg:#14171b; --fg:#e6e9ee; --dim:#98a2b0; --line:#30363f; --card:#1c2026; --ok:#4cc38a; --bad:#ff7b7f;
  --unknown:#e2b34a; --bar:#5f8fc0; --hot:#f08a4b; --gap:#c94a5c; --twice:#ff7b7f; --heat:#8a4520; } }
svg text { fill:var(--fg); font-size:11px; font-family:system-ui,sans-serif; }
svg .title { font-size:15px; }
svg .dim { fill:var(--dim); }
svg .grid { stroke:var(--line); }
svg .topic { stroke:var(--line); stroke-width:1.5; }
svg .mark { stroke:var(--fg); stroke-dasharray:3 3; opacity:.5; }
svg .mean { stroke:var(--fg); stroke-dasharray:3 3; }
svg .tick { stroke:var(--dim); }
svg text.mark { opacity:1; fill:var(--dim); font-size:10px; }
svg text.tick { fill:var(--dim); font-size:10px; }
svg .hit { font-size:10px; font-weight:600; }
svg text.mark,svg text.tick,svg .hit { stroke:var(--bg); stroke-width:3; stroke-dasharray:none; paint-order:stroke; }
svg .bar { fill:var(--bar); }
svg .hot { fill:var(--hot); stroke:var(--bg); stroke-width:2; paint-order:stroke; }
svg .ground { fill:var(--bg); }
svg .none { fill:transparent; }
svg .gap { fill:var(--gap); }
svg .overlap { fill:var(--twice); stroke:var(--fg); stroke-width:1.2; }
svg .fault { fill:var(--fault); fill-opacity:.17; stroke:var(--unknown); }
svg .twice { fill:none; stroke:var(--bad); stroke-width:2; }
svg .cross { fill:var(--bad); font-size:15px; font-weight:700; stroke:var(--bg); stroke-width:3; paint-order:stroke; }
"""
"""Style sheet of the drawings: the variables of both themes, and the drawings' classes. Paper has the light theme."""
PAGE = """\
* { box-sizing:border-box; }
body { background:var(--bg); color:var(--fg); font:15px/1.5 system-ui,sans-serif; margin:0 auto; max-width:1260px; padding:28px 24px 60px; }
h1 { font-size:26px; margin:0 0 2px; } h2 { font-size:21px; margin:44px 0 8px; border-bottom:1px solid var(--line); padding-bottom:4px; } h3 { font-size:16px; margin:28px 0 6px; }
h1,h2,h3,li,p { overflow-wrap:anywhere; } p { margin:4px 0 10px; max-width:1080px; } .dim,small { color:var(--dim); } small { font-size:12px; }
code { font:13px ui-monospace,monospace; background:var(--card); padding:1px 4px; border-radius:3px; overflow-wrap:anywhere; }
.true,.ok,.ok b { color:var(--ok); } .false,.bad,.bad b { color:var(--bad); } .unknown { color:var(--unknown); } .true,.false,.unknown { font-weight:600; } span.true,span.false,span.unknown { white-space:nowrap; }
.lead { font-size:17px; } ul.lead { margin:4px 0 10px; padding-left:22px; font-size:15px; }
.tiles { display:flex; flex-wrap:wrap; gap:12px; margin:18px 0 8px; } .tile { background:var(--card); border-radius:8px; padding:10px 16px; flex:1 1 130px; } .tile b { display:block; font-size:22px; font-weight:600; font-variant-numeric:tabular-nums; white-space:nowrap; } .tile span { color:var(--dim); font-size:13px; }
details { margin:8px 0; } summary { cursor:pointer; color:var(--dim); } details.broken { background:var(--card); border-left:4px solid var(--bad); border-radius:4px; padding:8px 14px; } .broken summary { font-weight:600; color:var(--fg); } details ul { margin:6px 0 2px; padding-left:20px; }
.none { border-left:4px solid var(--ok); background:var(--card); border-radius:4px; padding:8px 14px; }
table { border-collapse:collapse; margin:6px 0 14px; font-variant-numeric:tabular-nums; } th,td { border-bottom:1px solid var(--line); padding:4px 16px 4px 0; text-align:left; vertical-align:top; }
th { color:var(--dim); font-weight:500; vertical-align:bottom; } td.n,th.n { text-align:right; } td.n { white-space:nowrap; } td.name { min-width:9em; overflow-wrap:anywhere; }
.many th,.many td { padding-right:10px; }
tr.sum td { border-top:2px solid var(--line); font-weight:600; }
.best { font-weight:600; color:var(--ok); }
.share { display:inline-block; height:10px; background:var(--hot); border-radius:2px; vertical-align:0; min-width:1px; } .moves { background:var(--bar); }
.scroll { overflow-x:auto; background:linear-gradient(to right,var(--bg) 12px,transparent) 0 0/30px 100% no-repeat local,linear-gradient(to left,var(--bg) 12px,transparent) 100% 0/30px 100% no-repeat local,linear-gradient(to right,var(--dim),transparent) 0 0/9px 100% no-repeat,linear-gradient(to left,var(--dim),transparent) 100% 0/9px 100% no-repeat; }
.wide::before { content:"↔ scroll sideways"; display:none; position:sticky; left:0; width:max-content; color:var(--dim); font-size:12px; }
svg { display:block; max-width:none; margin:2px 0; } svg rect:hover { filter:brightness(1.2); }
@media screen and (max-width:640px) { .wide::before { display:block; } } @media screen and (max-width:1175px) { .fixed::before { display:block; } }
@media (max-width:640px) { body { padding:16px 12px 40px; font-size:14px; } h1 { font-size:21px; } h2 { font-size:18px; margin-top:32px; }
  .tiles { gap:8px; } .tile { padding:8px 12px; flex:1 1 120px; } .tile b { font-size:18px; white-space:normal; } th,td { padding-right:10px; } }
@media print { body { max-width:none; padding:0; font-size:12px; -webkit-print-color-adjust:exact; print-color-adjust:exact; }
  h2,h3 { break-after:avoid; } table,svg,details,.tiles { break-inside:avoid; } .scroll { overflow:visible; background:none; } svg { max-width:100%; height:auto; } }
"""  # noqa: E501 (rules of CSS)
"""Style sheet of the pages around their drawings: wide, on a phone, and on paper."""
_TITLE_PX, _MARGIN_PX, _ZOOM = 24, 12, 1.3
_SHADES = 0.14, 0.2, 0.28
"""Relative luminances (WCAG 2) of further colours: on white and on the dark background their contrast is at least 3."""
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour per name: those of `COLOURS`, then clearly distinct hues."""
    palette = {}
    for i, name in enumerate(sorted(set(names))):
        palette[name] = COLOURS[i] if i < len(COLOURS) else _shade(i * 137.5 % 360 / 360, _SHADES[i % len(_SHADES)])
    return palette


def _shade(hue: float, luminance: float) -> str:
    """The colour of a hue, 0 to 1, that has a relative luminance: it grows with the lightness, which is bisected."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        rgb = colorsys.hls_to_rgb(hue, middle, 0.45)
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
        brightness = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        low, high = (middle, high) if brightness < luminance else (low, middle)
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, low, 0.45))


def short(name: str, limit: int = 26) -> str:
    """Shorten a name in its middle, because the ends distinguish names.

    >>> short("a-very-long-topic-name-indeed-with-a-suffix", 15)
    'a-very-…-suffix'
    """
    if len(name) <= limit:
        return name
    keep = limit - 1
    return f"{name[: keep - keep // 2]}…{name[len(name) - keep // 2 :]}"


def axis_time(seconds: float, tick: float) -> str:
    """A time on an axis, in the largest unit in which all multiples of its tick are whole.

    >>> axis_time(70, 10), axis_time(90, 30), axis_time(600, 300), axis_time(3600, 900), axis_time(14400, 14400)
    ('70 s', '90 s', '10 min', '60 min', '4 h')
    >>> axis_time(1.5, 0.5), axis_time(0.02, 0.01)
    ('1,500 ms', '20 ms')
    """
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if tick >= size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1000:,.0f} ms"


def legend(entries: Iterable[tuple[str, str]], width: int, top: float) -> tuple[list[str], float]:
    """A legend of (attributes of the coloured square, label) as SVG elements, and where it ends, in px.

    Its rows are `width` px wide, the first at `top` px.
    """
    out, x, y = [], 0.0, top + 4
    for look, label in entries:
        wide = 32 + 5.8 * len(label)
        if x > 0 and x + wide > width:
            x, y = 0.0, y + 18
        out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="12" rx="2" {look}/>')
        out.append(f'<text x="{x + 17:.0f}" y="{y + 10:.0f}">{escaped(label)}</text>')
        x += wide
    return out, y + 18


def shown(value: Any) -> Any:
    """What a page shows of a value, for Jinja's ``finalize``: text is `printable`, and markup stays as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def escaped(text: str) -> Markup:
    """Text in a drawing, `printable`: SVG is XML, which has no control characters, not even as references."""
    return escape(printable(text))


def png(drawings: Sequence[tuple[str, str]], path: Path) -> None:
    """Write SVG drawings below each other to a PNG file, in the colours of the light theme.

    A drawing is its title, which may be empty, and SVG with its width and height in px.

    Raises:
        MachineError: resvg is not installed.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise MachineError(f"a PNG needs resvg; run: {install('harness')}") from error
    parts, width, top = [], 0, _MARGIN_PX
    for title, drawing in drawings:
        match = re.match(r'<svg width="(\d+)" height="(\d+)"', drawing)
        assert match is not None
        if title:
            parts.append(f'<text class="title" x="{_MARGIN_PX}" y="{top + 14}">{escaped(title)}</text>')
            top += _TITLE_PX
        parts.append(f'<g transform="translate({_MARGIN_PX} {top})">{drawing}</g>')
        width, top = max(width, int(match[1])), top + int(match[2]) + _MARGIN_PX
    size = f'width="{width + 2 * _MARGIN_PX}" height="{top}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'
    light = dict(re.findall(r"--(\w+):(#\w+)", STYLE.partition("}")[0]))
    style = re.sub(r"var\(--(\w+)\)", lambda name: light[name[1]], STYLE[STYLE.index("svg ") :])
    fonts = [str(font) for font in files("font_roboto").joinpath("files").iterdir()]
    made = svg_to_bytes(
        _NO_XML.sub("\ufffd", svg), background=light["bg"], zoom=_ZOOM, style_sheet=style,
        font_files=fonts, sans_serif_family="Roboto",
    )  # fmt: skip
    path.write_bytes(made)
