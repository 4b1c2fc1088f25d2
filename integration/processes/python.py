"""Runs a Python module in a child process."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

_RUN = """\
import sys
sys.path[:] = filter(None, sys.path)
import json, runpy
sys.path[:], sys.argv[:] = json.loads(sys.argv[1]), sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this process's import path and the working directory.

    User assignors are named as module:Class. The standard library comes first, so that a ``random.py`` in the working
    directory doesn't replace the standard one.
    """
    paths = sysconfig.get_paths()
    standard = {paths["stdlib"], paths["platstdlib"], str(Path(paths["platstdlib"]) / "lib-dynload")}
    first = [path for path in sys.path if path in standard or path.endswith(".zip")]
    rest = [path for path in dict.fromkeys([*filter(None, sys.path), str(Path.cwd())]) if path not in first]
    return [sys.executable, "-c", _RUN, json.dumps([*first, *rest]), module, *arguments]
