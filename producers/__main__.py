"""``python -m kafka_assignors.producers``: the commands of ``kafka-assignors keys``."""

import sys

from kafka_assignors.extras import install

try:
    from kafka_assignors.frame import guarded

    from .commands import app
except ModuleNotFoundError as error:
    sys.exit(f"error: python -m kafka_assignors.producers needs {error.name}: {install('cli')}")

if __name__ == "__main__":
    sys.exit(guarded(app, name="python -m kafka_assignors.producers"))
