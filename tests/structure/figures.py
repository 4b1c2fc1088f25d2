"""The figures of the house: modules per folder, floors per package, circles of imports, long functions.

A folder's *rooms* are its modules and sub-folders. A room stands on the floor above all rooms of its folder that it
imports, itself or by what is in it; what imports none stands on the first floor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "kafka_assignors"
PACKAGES = (PACKAGE, f"{PACKAGE}.producers", f"{PACKAGE}.integration", f"{PACKAGE}.pipeline")
MODULES, FLOORS, LINES, PARAMETERS = 12, 7, 60, 6
_CLIENTS = "the assignor of one name for two clients"
TWINS = {
    **dict.fromkeys(("Assignor", "RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "_Sticky"), _CLIENTS),
    **dict.fromkeys(("CompactStickyAssignor", "CoPartitionedAssignor", "WeightedAssignor", "LagAssignor"), _CLIENTS),
    "PartitioningProducer": "the producer of two clients",
    "ClientMissing": "no class can be both an AttributeError and an ImportError",
    "Record": "both are documented names: a record for a partitioner, and one for the harness to send",
}
"""Class name -> why two classes have it."""
VERBS = frozenset({"found", "said", "told", "known", "held", "each"})
"""Words that don't say what a value is: values are named with nouns."""
OUTSIDE = {
    "kafka_assignors.errors.known": "a public attribute of a public error",
    "kafka_assignors.operator.cli.doctor.found": "a field of the JSON that doctor prints",
}
"""Module.name -> why it keeps a verb: others see it under this name."""


class House:
    """The modules of the distribution and what they import."""

    @cached_property
    def imports(self) -> Mapping[str, frozenset[str]]:
        """Module -> modules of ours that it imports; the face of a package counts as what it hands on."""
        graph = grimp.build_graph(PACKAGE, cache_dir=None)
        ours = [name for name in graph.modules if path_of(name).is_file()]  # a folder of data files is no package
        return {name: frozenset(graph.find_modules_directly_imported_by(name)) for name in ours}

    @cached_property
    def folders(self) -> frozenset[str]:
        """Packages, by their dotted names."""
        return frozenset(name for name in self.imports if path_of(name).name == "__init__.py")

    def rooms(self, folder: str) -> list[str]:
        """Modules and packages directly in a folder."""
        return sorted(name for name in self.imports if name.rpartition(".")[0] == folder)

    def modules(self, folder: str) -> int:
        """How many modules a folder has beside its sub-folders; an ``__init__`` counts if it defines something."""
        defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree(folder).body)
        return sum(name not in self.folders for name in self.rooms(folder)) + defines

    def floors(self, folder: str) -> list[list[str]]:
        """The rooms of a folder, floor by floor from the ground.

        Raises:
            CycleError: Rooms of the folder import each other in a circle; the error's arguments name them.
        """
        rooms = self.rooms(folder)
        if folder == PACKAGE:  # the packages beside it are houses of their own
            rooms = [room for room in rooms if room not in PACKAGES]
        needs = {room: {other for other in rooms if other != room and self._needs(room, other)} for room in rooms}
        floor: dict[str, int] = {}
        for room in TopologicalSorter(needs).static_order():
            floor[room] = 1 + max((floor[other] for other in needs[room]), default=0)
        return [[room for room in rooms if floor[room] == n] for n in range(1, max(floor.values(), default=0) + 1)]

    def _needs(self, room: str, other: str) -> bool:
        within = [name for name in self.imports if name == room or name.startswith(f"{room}.")]
        return any(to == other or to.startswith(f"{other}.") for name in within for to in self.imports[name])

    @cached_property
    def circle(self) -> Sequence[str]:
        """Modules that import each other in a circle; empty if there are none."""
        faces = {name for name in self.folders if not _defines(name)}
        try:
            TopologicalSorter({name: to - faces for name, to in self.imports.items() if name not in faces}).prepare()
        except CycleError as error:
            return list(error.args[1])
        return ()

    def lines(self) -> Mapping[str, int]:
        """Package -> lines of its modules."""
        counts = dict.fromkeys(PACKAGES, 0)
        for name in self.imports:
            package = next((one for one in PACKAGES[1:] if f"{name}.".startswith(f"{one}.")), PACKAGE)
            counts[package] += path_of(name).read_text("utf-8").count("\n")
        return counts

    def doubled_classes(self) -> Iterator[str]:
        """Class names that stand in two modules or more, but for `TWINS`; and twins that no longer are."""
        places: dict[str, list[str]] = {}
        for name in sorted(self.imports):
            for node in ast.walk(tree(name)):
                if isinstance(node, ast.ClassDef) and name not in (modules := places.setdefault(node.name, [])):
                    modules.append(name)
        for class_name, modules in sorted(places.items()):
            if (len(modules) > 1) != (class_name in TWINS):
                yield f"{class_name}: {', '.join(modules)}"

    def verbs(self) -> Iterator[str]:
        """Variables, parameters, fields, attributes and functions that are named with a verb, but for `OUTSIDE`."""
        for name in sorted(self.imports):
            for node in ast.walk(tree(name)):
                bound = _bound(node)
                if bound.strip("_") in VERBS and f"{name}.{bound}" not in OUTSIDE:
                    yield f"{name}:{getattr(node, 'lineno', 0)}: {bound}"

    def long_functions(self) -> Iterator[str]:
        """Functions above the limits without a comment beside their ``def`` that says why.

        Options of a constructor and of a command aren't counted: a user spells each of them out by name.
        """
        for name in sorted(self.imports):
            lines = path_of(name).read_text("utf-8").split("\n")
            for node in ast.walk(tree(name)):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1 - _docstring(node)
                given = [*node.args.posonlyargs, *node.args.args]
                command = any("command" in ast.unparse(decorator) for decorator in node.decorator_list)
                given += node.args.kwonlyargs if node.name != "__init__" else []
                parameters = [parameter.arg for parameter in given if parameter.arg not in ("self", "cls")]
                why = any("#" in line for line in lines[node.lineno - 2 : node.body[0].lineno - 1])
                if (length > LINES or (len(parameters) > PARAMETERS and not command)) and not why:
                    yield f"{name}.{node.name}: {length} lines, {len(parameters)} parameters"


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0


def _bound(node: ast.AST) -> str:
    """The name that a node gives to a value; empty if it gives none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
    return ""


def _defines(name: str) -> bool:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in tree(name).body)


def path_of(name: str) -> Path:
    """The file of a module, where it stands in the repository."""
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def tree(name: str) -> ast.Module:
    """A module, parsed."""
    return ast.parse(path_of(name).read_text("utf-8"))
