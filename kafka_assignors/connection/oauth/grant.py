"""Where tokens come from, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Grant:
    """The source of a client's tokens: either `endpoint`, or `function`.

    Args:
        endpoint: URL of an identity server's token endpoint, for the OIDC grant of client credentials.
        client_id, client_secret: The client's credentials there.
        scope: What the token is for; None: the identity server's default.
        function: ``module:function`` of the user.
        argument: Text that the function is called with.
        extensions: SASL extensions that go with the token, as ``name=value,…``.
        ca: Certificates that the endpoint's must be of, as PEM; None for the machine's.
    """

    endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    function: str | None = None
    argument: str = ""
    extensions: str | None = None
    ca: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.function or f"client {self.client_id!r}"

    @property
    def named_extensions(self) -> dict[str, str]:
        """`extensions` as a mapping."""
        pairs = (pair.partition("=") for pair in (self.extensions or "").split(",") if pair)
        return {name.strip(): value for name, _, value in pairs}
