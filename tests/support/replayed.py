"""Law A1 over a whole test run: every generation that our assignors led, in whatever test, replays to its bytes.

Each test judges its own history, many of them for other laws alone; here all histories that a run left below its
temporary folder are replayed once more, so that none is forgotten.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kafka_assignors.integration.checker.laws.findings import Findings
from kafka_assignors.integration.checker.laws.generations import replay
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.history import History


@dataclass
class Replayed:
    """What the histories of a run say.

    Args:
        histories: Folders with a group's coordinator log.
        generations: Committed generations with members.
        equal: Assignor -> generations that it led, whose replay equals what was committed.
        others: Leader's strategy -> generations that it led, which we cannot replay.
        cut: Histories that aren't whole.
        wrong: What differs, or couldn't be replayed: folder and sentence.
    """

    histories: int = 0
    cut: int = 0
    generations: int = 0
    equal: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For the end of the run."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.equal.items()))
        lines = [
            f"{self.equal.total()} of {self.generations} generations in {self.histories} histories were led by our "
            f"assignors and replayed equal: {counts or 'none'}"
        ]
        if self.cut:
            lines.append(f"{self.cut} of the histories aren't whole; what they have was replayed")
        if self.others:
            counts = ", ".join(f"{name} {count}" for name, count in self.others.most_common())
            lines.append(f"not replayable by us: {counts}")
        if self.wrong:
            lines.append("a test that invents or changes a history is marked `invented`; these are not:")
        return lines + [f"  {message}" for message in self.wrong]


INVENTED = ".invented"
"""A file that says of the folder it is in: no group left these histories, at least not like that."""


def replay_all(below: Path) -> Replayed:
    """Replay every history in a folder, at any depth."""
    summary, leave_out = Replayed(), [path.parent for path in below.rglob(INVENTED)]
    for folder in sorted({path.parent for path in below.rglob("*.coordlog.jsonl")}):
        # pytest also keeps a link to each test's last folder.
        if folder.resolve() != folder or any(folder.is_relative_to(invented_folder) for invented_folder in leave_out):
            continue
        summary.histories += 1
        history = History.load(folder)
        summary.cut += bool(history.problems)
        for record in RunRecord.of(history).groups.values():
            findings = Findings()
            replay(record, findings)
            numbers = {generation.number: generation for generation in record.generations}
            summary.generations += len(numbers)
            summary.wrong += [f"{folder}: {violation.message}" for violation in findings.violations]
            # Of a harness that was killed, as in some tests, not all is known; what is known must still be equal.
            summary.wrong += [f"{folder}: {reason}" for reason in findings.unknown if not history.problems]
            differing = {violation.witnesses[0].data["generation"] for violation in findings.violations}
            for number, generation in numbers.items():
                if not record.led_by_ours(generation):
                    summary.others[record.strategy_of_leader(generation)] += 1
                elif not findings.unknown and number not in differing:
                    summary.equal[generation.protocol] += 1
    return summary
