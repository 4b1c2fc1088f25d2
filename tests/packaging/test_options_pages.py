"""What pages say about options is what the declarations say."""

from __future__ import annotations

import re

import pytest

from kafka_assignors.clients import aiokafka
from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.errors import ConfigError
from tests.support.options_page import FILE, page
from tests.support.pages import PAGES


def test_the_page_of_options_is_made_from_the_declarations() -> None:
    assert FILE.read_text("utf-8") == page(), "write it anew: python -m tests.support.options_page"


def test_the_page_of_clients_names_the_assignors_that_aiokafka_has_not() -> None:
    (row,) = [line for line in PAGES["docs/clients.md"].splitlines() if line.startswith("| aiokafka")]
    missing = set()
    for name in STRATEGIES:
        try:
            aiokafka.Assignor(name)
        except ConfigError as error:
            if "aiokafka does not support" in str(error):
                missing.add(name)

    assert set(re.findall("`(.+?)`", row.partition("all except")[2].partition(", because")[0])) == missing


def test_the_page_of_work_names_the_options_that_aiokafka_refuses() -> None:
    refuses = re.search(r"and refuses ([^.]*)\.", PAGES["docs/load.md"])
    options = STRATEGIES["weighted"].declared.of_consumers()

    assert refuses
    assert set(re.findall("`(.+?)`", refuses[1])) == set(aiokafka.WeightedAssignor.lacks)
    assert {name for name, each in options.items() if each.needs} == set(aiokafka.WeightedAssignor.lacks)
    for name in aiokafka.WeightedAssignor.lacks:
        with pytest.raises(ConfigError, match=f"WeightedAssignor has no option '{name}': aiokafka"):
            aiokafka.WeightedAssignor(**{name: None})
