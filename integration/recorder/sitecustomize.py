"""Installs the recorder in a Python process whose PYTHONPATH begins with this folder, then goes on as without it."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - loaded in every process of a service


def _record() -> None:
    try:
        from kafka_assignors_recorder import install  # type: ignore[import-not-found]

        install()
    except Exception as error:  # a defect of the recorder's is not the service's
        if sys.stderr is not None:
            print(f"kafka-assignors: this process is not recorded: {type(error).__name__}: {error}", file=sys.stderr)


def _go_on() -> None:
    """Run the ``sitecustomize`` that the interpreter would have found without this folder: it imports one alone."""
    sys.path[:] = [place for place in sys.path if place != _HERE]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours  # the interpreter looks for it there afterwards


if __name__ == "sitecustomize":
    _record()
    _go_on()
