"""The faults in the page of services, from their table: ``python -m tests.support.faults_page`` writes it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.live.services import CLIENTS, FAULTS, Fault
from tests.support.places import ROOT

FILE = ROOT / "docs" / "service.md"
HEAD = "| planted fault | what the service does | named by | played with |"


def page() -> str:
    """The page, with the table as it should be."""
    text = FILE.read_text("utf-8")
    before, _, rest = text.partition(HEAD)
    _, _, after = rest.partition("\n\n")
    return "\n".join((f"{before}{HEAD}", "|---|---|---|---|", *rows())) + f"\n\n{after}"


def rows() -> Iterator[str]:
    """A row for each fault."""
    for name, fault in FAULTS.items():
        yield f"| {name} | {fault.does} | {_named_by(fault)} | {_played(fault)} |"


def _named_by(fault: Fault) -> str:
    if not fault.found_by:
        return f"unknown: “{fault.unknown}”"
    also = [f"{_link(fault.also)} before a first read"] if fault.also else []
    others = [f"{_link(law)} with {client}" for client, law in fault.otherwise.items()]
    missing = [f"not with {client}: {fault.untold}" for client in CLIENTS if client not in fault.programs]
    return "; ".join((_link(fault.found_by), *also, *others, *missing))


def _link(law: str) -> str:
    return f"[{law}](laws.md#{law.lower()})"


def _played(fault: Fault) -> str:
    return f"`{fault.scenario}`" + (", `--exactly-once`" if fault.exactly_once else "")


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
