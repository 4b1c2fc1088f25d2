"""The bridge for confluent-kafka in a group that is hit at random, judged by the harness."""
