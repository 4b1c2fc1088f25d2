"""The fixtures of kafka-assignors, opted into."""

pytest_plugins = ["kafka_assignors.pytest_plugin"]
