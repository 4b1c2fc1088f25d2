"""What a Python service loads when it starts, by PYTHONPATH: see `kafka_assignors_recorder`."""
