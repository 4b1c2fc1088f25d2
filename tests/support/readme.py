"""The README's examples."""

from __future__ import annotations

import re

from tests.support.places import ROOT

README = (ROOT / "README.md").read_text("utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def example(word: str) -> str:
    """The one Python example of the README that has this word."""
    (block,) = (b for b in BLOCKS if word in b)
    return block
