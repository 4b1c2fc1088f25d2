"""Tokens in the form that each Python client asks for them. A client is imported only when it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from .cached import CachedTokens

Extensions = Mapping[str, str]


def kafka_python_provider(tokens: CachedTokens, extensions: Extensions) -> Any:
    """For kafka-python's ``sasl_oauth_token_provider``. `extensions` come beside those of the token."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.token().value

        def extensions(self) -> dict[str, str]:
            return {**extensions, **tokens.token().extensions}

    return KafkaPythonTokens()


def aiokafka_provider(tokens: CachedTokens, extensions: Extensions) -> Any:
    """For aiokafka's ``sasl_oauth_token_provider``; a token is got in another thread, so that the loop goes on."""
    from aiokafka.abc import AbstractTokenProvider

    class AiokafkaTokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return (await asyncio.get_running_loop().run_in_executor(None, tokens.token)).value

        def extensions(self) -> dict[str, str]:
            return {**extensions, **tokens.token().extensions}

    return AiokafkaTokens()


def oauth_cb(tokens: CachedTokens, extensions: Extensions) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """For confluent-kafka's ``oauth_cb``."""

    def give(_config: str) -> tuple[str, float, str, dict[str, str]]:
        token = tokens.token()
        return token.value, token.expires_at, token.subject or "", {**extensions, **token.extensions}

    return give
