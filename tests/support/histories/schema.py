"""The schema of a history's lines, and what is wrong with a line."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA: dict[str, Any] = json.loads(
    files("kafka_assignors.integration.history").joinpath("history.schema.json").read_text("utf-8")
)


VALIDATOR = Draft202012Validator(SCHEMA)
RULES: dict[str, dict[str, Any]] = {
    kind: rule["then"]
    for rule in SCHEMA["allOf"]
    for of_rule in [rule["if"]["properties"]["kind"]]
    for kind in of_rule.get("enum") or [of_rule["const"]]
}
"""Kind -> what is demanded of its events."""


def faults(line: str) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(json.loads(line))]
