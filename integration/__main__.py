"""``python -m integration``."""

from .run import main

main()
