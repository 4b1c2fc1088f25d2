"""``python -m kafka_assignors.integration``."""

import sys

try:
    from .commands.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"error: python -m kafka_assignors.integration needs {error.name}: pip install 'kafka-assignors[harness]'")

if __name__ == "__main__":
    sys.exit(main())
