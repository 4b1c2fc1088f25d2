"""``python -m integration``."""

import sys

try:
    from .run import main
except ModuleNotFoundError as error:
    sys.exit(f"error: python -m integration needs {error.name}: pip install 'kafka-assignors[harness]'")

main()
