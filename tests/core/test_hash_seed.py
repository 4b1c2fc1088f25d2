"""One answer under every PYTHONHASHSEED and every order of members."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

SEEDS = ("0", "1", "2", "42", "1234", "4294967295")

DIGEST = """
import hashlib, itertools, json, random, sys
from kafka_assignors.core import strategies
from tests.support.assignors import fuzz, golden

order, every = random.Random(sys.argv[1]), int(sys.argv[2])
digest, rounds = hashlib.sha256(), 0
for file, name in (("range", "range"), ("roundrobin", "roundrobin"), ("sticky", "sticky"),
                   ("cooperative_sticky", "cooperative-sticky"), ("java_defects", "")):
    for step in itertools.islice(golden.steps(file, name), 0, None, every):
        order.shuffle(step.row["members"])
        digest.update(json.dumps(golden.assign(step), sort_keys=True).encode())
        rounds += 1
for seed in range(0, 100, every):
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        reading = fuzz.draw(seed).reading(name)
        strategy = strategies.strategy(name)
        others = ({"parity": "java"}, {"goals": ["spread", "balance", "racks", "moves"]}) if "sticky" in name else ()
        for each in (strategy, *(strategy.with_options(**options) for options in others)):
            answer, facts = each.assign(reading)
            digest.update(json.dumps([answer, [fact.text for fact in facts]]).encode())
            rounds += 1
print(rounds, digest.hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_equal_digests_of_the_vectors_and_of_random_groups_under_six_seeds(every):
    """In the long form of all the vectors, else of every seventh."""
    root = ROOT
    running = [
        subprocess.Popen(
            [sys.executable, "-c", DIGEST, seed, str(every)],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in SEEDS
    ]
    try:
        answers = [(process.communicate(timeout=240)[0], process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()

    assert {code for _, code in answers} == {0}
    assert len({text for text, _ in answers}) == 1
    rounds, digest = answers[0][0].split()
    some = [len(range(0, count, every)) for count in (442, 442, 853, 977, 19, *(100,) * (1 + 1 + 3 + 3))]
    assert int(rounds) == sum(some)
    assert len(digest) == 64
