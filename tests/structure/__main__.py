"""``python -m tests.structure``: print the figures; exit code 1 if one is above its limit."""

from __future__ import annotations

import sys
from graphlib import CycleError

from tests.structure.figures import FLOORS, LINES, MODULES, PACKAGES, PARAMETERS, VERBS, House


def main() -> int:
    house, bad = House(), 0
    for package in PACKAGES:
        try:
            floors = house.floors(package)
        except CycleError as error:
            print(f"{package}: rooms import each other: {' -> '.join(error.args[1])}")
            bad += 1
            continue
        print(f"{package}: {len(floors)} floors (at most {FLOORS})")
        for number, rooms in reversed(list(enumerate(floors, 1))):
            print(f"  {number}  {'  '.join(room.removeprefix(package + '.') for room in rooms)}")
        bad += len(floors) > FLOORS
    lines = house.lines()
    print(f"lines: {', '.join(f'{package} {count:,}' for package, count in lines.items())}: {sum(lines.values()):,}")
    fullest = sorted(((house.modules(folder), folder) for folder in house.folders), reverse=True)
    print(f"modules in a folder (at most {MODULES}): {', '.join(f'{folder} {count}' for count, folder in fullest[:5])}")
    bad += fullest[0][0] > MODULES
    print("circles of imports: " + (" -> ".join(house.circle) or "none"))
    bad += bool(house.circle)
    doubled = list(house.doubled_classes())
    print(f"class names in two modules or more without their reason: {len(doubled)}")
    print("".join(f"  {line}\n" for line in doubled), end="")
    long = list(house.long_functions())
    print(f"functions above {LINES} lines or {PARAMETERS} parameters without their reason: {len(long)}")
    print("".join(f"  {line}\n" for line in long), end="")
    verbs = list(house.verbs())
    print(f"values named with a verb ({', '.join(sorted(VERBS))}): {len(verbs)}")
    print("".join(f"  {line}\n" for line in verbs), end="")
    return int(bad > 0 or bool(long) or bool(doubled) or bool(verbs))


if __name__ == "__main__":
    sys.exit(main())
