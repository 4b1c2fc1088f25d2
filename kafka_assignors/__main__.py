"""``python -m kafka_assignors``, and the script ``kafka-assignors``."""

from __future__ import annotations

import sys

from .extras import install


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from .operator.cli.app import main as run
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is missing; install it by: {install('cli')}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
