"""Installs the recorder in a Python process whose PYTHONPATH begins with this folder, then goes on as without it."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - loaded in every process of a service

try:
    from kafka_assignors_recorder import install  # type: ignore[import-not-found]

    install()
except Exception as error:  # a defect of the recorder's is not the service's
    if sys.stderr is not None:
        print(f"kafka-assignors: this process is not recorded: {type(error).__name__}: {error}", file=sys.stderr)

# The interpreter imports one ``sitecustomize``: the one that it would have found without this folder is run here.
sys.path[:] = [place for place in sys.path if place != _HERE]
_ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _ours  # the interpreter looks for it there after this line
