"""Which package a Python client lacks to read compressed records."""

from __future__ import annotations

import re

_PACKAGES = {
    "kafka": {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"},
    "aiokafka": dict.fromkeys(("snappy", "lz4", "zstd"), "cramjam"),
}
"""The client's import name -> codec -> package; both read gzip without one, librdkafka reads all four.

Source: dpkp/kafka-python ``codec.py``; aio-libs/aiokafka ``codec.py``.
"""


def missing_codec(error: BaseException) -> str | None:
    """The message for records in a codec that the client has no package for; None for any other error.

    kafka-python's and aiokafka's ``UnsupportedCodecError`` are identified by their class and their text.

    >>> missing_codec(ValueError("zstd")) is None
    True
    """
    client = type(error).__module__.partition(".")[0]
    if type(error).__name__ != "UnsupportedCodecError" or client not in _PACKAGES:
        return None
    named = re.search(r"\b(snappy|lz4|zstd)\b", str(error))
    if named is None:
        return None
    package = _PACKAGES[client][named[1]]
    reader = {"kafka": "kafka-python"}.get(client, client)
    return f"the records are compressed by {named[1]}, which {reader} reads with a package: pip install {package}"
