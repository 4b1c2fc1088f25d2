"""A page as its tags tell it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser


class Wellformed(HTMLParser):
    """Fails on an element that isn't closed in order; keeps what a page is made of.

    Args:
        page: Its HTML, or SVG.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str] = []
        self.classes: Counter[str] = Counter()
        self.fetched: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As the parser calls it."""
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "br"):  # which HTML doesn't close
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As the parser calls it."""
        self.tags.append(tag)
        self.values += [value or "" for _, value in attrs]
        self.classes.update(
            class_name for name, value in attrs if name == "class" for class_name in (value or "").split()
        )
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        """As the parser calls it."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """As the parser calls it."""
        self.text += data
