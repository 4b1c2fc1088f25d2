"""Assignors and adapters, one client each: kafka-python, aiokafka, confluent-kafka; and the weights that they take."""
