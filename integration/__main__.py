"""``python -m kafka_assignors.integration``."""

import sys

from kafka_assignors.extras import install

try:
    from .commands.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"error: python -m kafka_assignors.integration needs {error.name}: {install('harness')}")

if __name__ == "__main__":
    sys.exit(main())
