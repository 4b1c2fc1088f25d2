"""OAUTHBEARER: where a client's tokens come from, how they are read, kept and given to each client.

A `Grant` names the source: an identity server's token endpoint (OIDC client credentials), or a function of the user's,
for the identity of a cloud. `tokens` gets them, once for all clients of a process, and renews them before they expire.
"""

from __future__ import annotations

from .cached import CachedTokens, tokens
from .grant import Grant
from .providers import aiokafka_provider, kafka_python_provider, oauth_cb
from .token import Token, of_answer

__all__ = [
    "CachedTokens", "Grant", "Token", "aiokafka_provider", "kafka_python_provider", "oauth_cb", "of_answer", "tokens",
]  # fmt: skip
