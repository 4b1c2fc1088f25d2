"""Codecs between Kafka's bytes and values: subscriptions, assignments, user data."""
