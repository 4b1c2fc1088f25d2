"""``python -m kafka_assignors.pipeline``. spark-submit also runs this file, hence the absolute import."""

import sys

from kafka_assignors.extras import install

try:
    from kafka_assignors.frame import guarded
    from kafka_assignors.pipeline.cli import app
except ModuleNotFoundError as error:
    sys.exit(f"error: python -m kafka_assignors.pipeline needs {error.name}: {install('spark')}")

if __name__ == "__main__":
    sys.exit(guarded(app, name="python -m kafka_assignors.pipeline"))
