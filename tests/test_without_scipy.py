"""Without SciPy everything is placed alike; only a plan's check says what it could not prove, and what to install."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafka_assignors.core.sticky import maxflow
from kafka_assignors.extras import install
from tests.support import unaided
from tests.support.hidden import without
from tests.support.places import ROOT
from tests.support.programs import python


@pytest.mark.slow
@pytest.mark.release("test_maxflow.py places alike by both ways")
def test_a_python_without_scipy_places_alike_and_says_what_is_not_proven(tmp_path: Path) -> None:
    path = os.pathsep.join((without(tmp_path, ["scipy"]), str(ROOT)))
    done = python("-m", "tests.support.unaided", within_s=240, PYTHONPATH=path)
    assert (done.stderr, done.returncode) == ("", 0)
    alone = json.loads(done.stdout)

    assert alone["scipy"] is False
    assert alone["edges"] > maxflow.LARGE
    assert {name: alone[name] for name in ("digests", "edges")} == unaided.placements()
    assert maxflow._scipy.cache_info().currsize, "with SciPy, flows of that size are SciPy's"
    assert alone["by count"] == {"optimal": True, "breaches": []}
    assert alone["by work"]["text"] == str(unaided.plan(unaided.SMALL_GROUP, "weighted", weights=unaided.WORKS))
    assert len(alone["by work"]["breaches"]) >= 1
    for breach in alone["by work"]["breaches"]:
        assert breach.startswith("solver: ")
        assert breach.endswith(f" is not proven: only a solver can check it; run: {install('solver')}")
