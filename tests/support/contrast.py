"""Contrast of a page's colours by the definition of WCAG 2.2: of every text, and of every shape that tells something.

Reads the page as a browser does: its tags, its style sheet with the variables of both themes, colours that are
inherited. Where a drawing's text lies over its shapes is not looked at: there it needs an outline in the colour of the
page. A text of class ``in`` lies on the shape before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from math import floor
from typing import NamedTuple

THEMES = ("light", "dark")
TEXT, LARGE_TEXT, GRAPHIC = 4.5, 3.0, 3.0
"""Least contrasts: 1.4.3 Contrast (Minimum), and 1.4.11 Non-text Contrast. Level AA."""
DECORATION = {"grid", "topic", "ground", "back"}
"""Classes of shapes without which a drawing tells the same: lines between rows, backgrounds."""
_OVER = "hot"
"""Class of a shape that lies on the one before it: they differ, or an outline in between does from both."""
_SHAPES = {"rect", "path", "line", "circle", "polyline"}
_VOID = {"meta", "br", "link", "img"}
_SILENT = {"style", "title", "script"}
_INHERITED = ("color", "fill", "font-size", "font-weight")

Rgb = tuple[float, float, float]


def luminance(colour: Rgb) -> float:
    """Relative luminance, 0 to 1. Source: WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio, 1 to 21. Source: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def rgb(text: str) -> Rgb:
    """The colour of ``#rgb`` or ``#rrggbb``."""
    digits = text.removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def mixed(colour: Rgb, ground: Rgb, share: float) -> Rgb:
    """A colour that covers `share` of a ground."""
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(colour, ground, strict=True))
    return red, green, blue


class Pair(NamedTuple):
    """Two colours that a reader must tell apart, where they are, and the contrast that they need."""

    where: str
    contrast: float
    least: float

    @property
    def suffices(self) -> bool:
        """Whether the contrast is what level AA asks for."""
        return self.contrast >= self.least


@dataclass
class Element:
    """A tag of the page.

    Args:
        text: Its own words, without those of the tags inside.
        own: Its style by rules and attributes.
        inherited: The same of what is inherited, from all tags around it and its own.
    """

    tag: str
    attributes: Mapping[str, str]
    parent: Element | None
    text: str = ""
    children: list[Element] = field(default_factory=list)
    own: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> set[str]:
        """Its classes."""
        return set(self.attributes.get("class", "").split())

    @property
    def path(self) -> list[Element]:
        """The elements around it, from the outermost, and itself."""
        return [*(self.parent.path if self.parent else ()), self]

    def __str__(self) -> str:
        names = "".join(f".{name}" for name in sorted(self.classes))
        return f"{self.tag}{names} {self.text.strip()[:40]!r}" if self.text.strip() else f"{self.tag}{names}"


class _Tree(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        parent = self._open[-1] if self._open else None
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}, parent))
        if parent:
            parent.children.append(self.elements[-1])

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1].text += data


class _Rule(NamedTuple):
    selector: Sequence[str]  # compounds such as "svg", "text.mark", from the outermost
    style: Mapping[str, str]
    rank: tuple[int, int, int]  # classes, tags, place in the sheet


def _declarations(text: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in re.split(r";(?![^(]*\))", text) if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


class Sheet:
    """The style sheets of a page: variables per theme, and the rules of the screen at full width."""

    def __init__(self, text: str) -> None:
        self.variables: dict[str, dict[str, str]] = {theme: {} for theme in THEMES}
        self.rules: list[_Rule] = []
        for media, selectors, body in _blocks(text):
            if selectors == ":root":
                for theme in THEMES if not media else ("dark",) if "dark" in media else ():
                    self.variables[theme] |= _declarations(body)
            elif not media:
                for selector in selectors.split(","):
                    compounds = [*selector.replace("::before", "").split()]
                    if ":" not in selector.replace("::before", ""):
                        rank = (
                            selector.count("."),
                            sum(not c.startswith((".", "*")) for c in compounds),
                            len(self.rules),
                        )
                        self.rules.append(_Rule(compounds, _declarations(body), rank))
        self.rules.sort(key=lambda rule: rule.rank)

    def style(self, element: Element) -> dict[str, str]:
        """What the page's rules and the element's own attributes say, without what it inherits."""
        names = ("fill", "stroke", "stroke-width", "fill-opacity", "opacity")
        out = {name: element.attributes[name] for name in names if name in element.attributes}
        for rule in self.rules:
            if _matches(rule.selector, element.path):
                out |= rule.style
        return out | _declarations(element.attributes.get("style", ""))

    def colour(self, value: str, theme: str) -> Rgb | None:
        """A colour as the theme has it; None: no colour, or a pattern, whose parts are shapes of their own."""
        value = re.sub(r"var\((--[\w-]+)\)", lambda match: self.variables[theme][match[1]], value)
        if share := re.fullmatch(r"color-mix\(in srgb,(#\w+) (\d+)%,(#\w+)\)", value):
            return mixed(rgb(share[1]), rgb(share[3]), int(share[2]) / 100)
        first = re.match(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b", value)
        if first is None and value.split(" ")[0] not in ("", "none", "transparent", "inherit") and "(" not in value:
            raise ValueError(f"no colour that is known here: {value!r}")
        return rgb(first[0]) if first else None


def _blocks(text: str, media: str = "") -> Iterator[tuple[str, str, str]]:
    """(media query, selectors, declarations) of each rule."""
    at = 0
    while (begin := text.find("{", at)) >= 0:
        depth, end = 1, begin + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        head, body = text[at:begin].strip(), text[begin + 1 : end - 1]
        if head.startswith("@media"):
            yield from _blocks(body, head)
        else:
            yield media, head, body
        at = end


def _matches(selector: Sequence[str], path: Sequence[Element]) -> bool:
    """Whether the last compound fits the last element, and those before fit elements around it, in order."""
    if not path or not _fits(selector[-1], path[-1]):
        return False
    at = len(path) - 2
    for compound in reversed(selector[:-1]):
        while at >= 0 and not _fits(compound, path[at]):
            at -= 1
        if at < 0:
            return False
        at -= 1
    return True


def _fits(compound: str, element: Element) -> bool:
    tag, *classes = compound.split(".")
    return tag in ("", "*", element.tag) and set(classes) <= element.classes


def pairs(page: str, theme: str) -> Iterator[Pair]:
    """Every text and every shape of a page, or of a picture, with its contrast."""
    elements = _Tree(page).elements
    sheet = Sheet("".join(element.text for element in elements if element.tag == "style"))
    for element in elements:  # those around an element come before it
        element.own = sheet.style(element)
        own = {name: element.own[name] for name in _INHERITED if element.own.get(name, "inherit") != "inherit"}
        element.inherited = {**(element.parent.inherited if element.parent else {}), **own}
    for element in elements:
        if _SILENT & {outer.tag for outer in element.path}:
            continue
        ground = _ground(sheet, element, theme)
        if element.text.strip():
            yield _text(sheet, element, ground, theme)
        if element.tag in _SHAPES and not element.classes & DECORATION:
            yield from _shape(sheet, element, ground, theme)
        if "share" in element.classes and (colour := sheet.colour(element.own["background"], theme)):
            yield Pair(str(element), contrast(colour, _ground(sheet, element.parent, theme)), GRAPHIC)


def _ground(sheet: Sheet, element: Element | None, theme: str) -> Rgb:
    """The colour behind an element: the nearest background around it."""
    while element is not None:
        colour = sheet.colour(element.own.get("background", ""), theme)
        if colour is not None:
            return colour
        # A picture of its own has a rectangle behind all it shows.
        for child in element.children:
            if child.tag == "rect" and "back" in child.classes:
                return sheet.colour(child.own["fill"], theme) or (1.0, 1.0, 1.0)
        element = element.parent
    return rgb(sheet.variables[theme].get("--bg", "#fff"))


def _text(sheet: Sheet, element: Element, ground: Rgb, theme: str) -> Pair:
    inherited, in_drawing = element.inherited, "svg" in {outer.tag for outer in element.path}
    colour = sheet.colour(inherited["fill" if in_drawing else "color"], theme)
    assert colour is not None, element
    size = float(inherited.get("font-size", "15px").removesuffix("px"))
    bold = inherited.get("font-weight") in ("600", "700", "bold") or element.tag in ("h1", "h2", "h3", "b")
    large = size >= 24 or (bold and size >= 18.66)
    if "in" in element.classes and element.parent:
        siblings = element.parent.children
        ground = sheet.colour(siblings[siblings.index(element) - 1].own["fill"], theme) or ground
    shown = mixed(colour, ground, float(element.own.get("opacity", 1)))
    return Pair(str(element), contrast(shown, ground), LARGE_TEXT if large else TEXT)


def _shape(sheet: Sheet, element: Element, ground: Rgb, theme: str) -> Iterator[Pair]:
    """The better of a shape's fill and its outline, as either shows where it is."""
    own = element.own
    share = float(own.get("opacity", 1))
    fill = sheet.colour(own.get("fill", "#000"), theme)
    stroke = sheet.colour(own.get("stroke", "none"), theme)
    visible = []
    if fill is not None and element.tag != "line":
        visible.append(contrast(mixed(fill, ground, share * float(own.get("fill-opacity", 1))), ground))
    if stroke is not None:
        visible.append(contrast(mixed(stroke, ground, share), ground))
    if visible:
        yield Pair(str(element), max(visible), GRAPHIC)
    if _OVER in element.classes and element.parent and fill is not None:
        siblings = element.parent.children
        under = sheet.colour(siblings[siblings.index(element) - 1].own["fill"], theme)
        assert under is not None
        between = min(contrast(stroke, fill), contrast(stroke, under)) if stroke is not None else 1.0
        yield Pair(f"{element} on the shape below", max(contrast(fill, under), between), GRAPHIC)


def lowest(page: str, theme: str) -> tuple[float, float]:
    """The lowest contrast of a page's texts, and of its shapes."""
    every = list(pairs(page, theme))
    texts = [pair.contrast for pair in every if not _graphic(pair)]
    return min(texts), min((pair.contrast for pair in every if _graphic(pair)), default=21.0)


def row(name: str, page: str) -> str:
    """The row of a page in the table of docs/measurements.md: the lowest contrasts, cut to two digits."""
    figures = (figure for theme in THEMES for figure in lowest(page, theme))
    return f"| {name} | {' | '.join(f'{floor(figure * 100) / 100:.2f}' for figure in figures)} |"


def _graphic(pair: Pair) -> bool:
    return pair.where.split(".")[0].split(" ")[0] in _SHAPES or ".share" in pair.where
