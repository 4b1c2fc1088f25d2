"""A function that gives tokens, as a user's for a cloud: it asks the identity server that the environment names."""

from __future__ import annotations

import os

from kafka_assignors.connection.oauth import Grant
from kafka_assignors.connection.oauth.endpoint import request_token

ENDPOINT, SECRET = "TEST_TOKEN_ENDPOINT", "TEST_TOKEN_SECRET"


def cloud(client: str) -> tuple[str, float]:
    """A token of the client that ``sasl.oauthbearer.config`` names, and when it expires."""
    token = request_token(Grant(os.environ[ENDPOINT], client, os.environ[SECRET]))
    return token.value, token.expires_at
