"""Kafka's bytes and ours: subscriptions, assignments, user data <-> values."""
