"""What came of each scenario of the suite, and is it what was expected?

table.py REQUIREMENTS RESULTS EXPECTED REVISION...: of each revision, the scenarios are those of the suite's own list, the
results what it has written, the expected failures those of `EXPECTED/expected-failures-REVISION.yaml`. Exits with 1 if
anything is not as expected, be it that something passes.
"""

import json
import re
import sys
from pathlib import Path


def listed(file):
    """The scenarios of each side that the suite runs for a revision, and those of them that it does not score."""
    scenarios, unscored, side, named = {"server": [], "client": []}, set(), None, None
    for line in file.read_text().splitlines():
        if key := re.match(r"(\w+):\s*$", line):
            side = key[1]
        elif item := re.match(r"\s*- scenario: (\S+)", line):
            named = item[1]
        elif leg := re.match(r"\s+leg: (\w+)", line):
            scenarios[leg[1]].append(named)
            unscored.add((leg[1], named))
        elif (item := re.match(r"\s*- (\S+)\s*$", line)) and side in scenarios:
            scenarios[side].append(item[1])
    return scenarios, unscored


def expected(file):
    """The failures that are expected of each side: whole scenarios, or `scenario:check`."""
    failures, side = {"server": set(), "client": set()}, None
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if key := re.fullmatch(r"(server|client):(\s*\[\])?", line):
            side = key[1]
        elif item := re.fullmatch(r"\s+- (\S+)", line):
            failures[side].add(item[1])
        elif line:
            sys.exit(f"{file}:{number}: neither a side nor an item: {line}")
    return failures


def results(folder):
    """The checks of each scenario."""
    found = {}
    for file in sorted(folder.glob("**/checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[^/]*$", "", str(file.parent.relative_to(folder)))
        found[name.removeprefix("server-") if folder.name == "server" else name] = json.loads(file.read_text())
    return found


def verdict(scenario, checks, expected):
    """One word for the table, and what is wrong with it."""
    if checks is None:
        return "missing", ["the suite has written no result"]
    bad = {}
    for check in checks:
        # What should be, as well as what must be.
        if check["status"] in ("FAILURE", "WARNING"):
            bad.setdefault(check["id"], check.get("errorMessage") or check.get("description"))
    good = {check["id"] for check in checks if check["status"] == "SUCCESS"} - bad.keys()
    if scenario in expected:
        return ("expected", []) if bad else ("passed", ["it passes, and was expected to fail"])
    ours = {entry.split(":", 1)[1] for entry in expected if entry.startswith(f"{scenario}:")}
    wrong = [f"{check}: {why}" for check, why in bad.items() if check not in ours]
    wrong += [f"{check}: it passes, and was expected to fail" for check in sorted(ours & good)]
    if wrong:
        return "FAILED", wrong
    return ("expected" if bad else "passed"), []


def main():
    requirements, outcome, ours, *revisions = sys.argv[1:]
    cells, wrong, rows, unscored = {}, [], [], set()
    for revision in revisions:
        scenarios, extra = listed(Path(requirements, f"{revision}.yaml"))
        failures = expected(Path(ours, f"expected-failures-{revision}.yaml"))
        unscored |= extra
        for side, names in scenarios.items():
            found = results(Path(outcome, revision, side))
            unknown = {entry.split(":")[0] for entry in failures[side]} - set(names)
            wrong += [f"{side} {name} {revision}: the suite has no such scenario" for name in sorted(unknown)]
            for name in names:
                word, why = verdict(name, found.get(name), failures[side])
                cells[side, name, revision] = word
                wrong += [f"{side} {name} {revision}: {line}" for line in why]
                if (side, name) not in rows:
                    rows.append((side, name))
    width = max(len(name) for _, name in rows)
    print(" " * 8 + "scenario".ljust(width), *(revision.ljust(10) for revision in revisions), sep="  ")
    for side, name in sorted(rows, key=lambda row: row[0] != "server"):
        words = [cells.get((side, name, revision), "-").ljust(10) for revision in revisions]
        print(side.ljust(8) + name.ljust(width), *words, "not scored" if (side, name) in unscored else "", sep="  ")
    for revision in revisions:
        words = [word for (_, _, of), word in cells.items() if of == revision]
        counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words, key=str.lower)))
        print(f"{revision}: {counts}")
    if wrong:
        print(f"\nNot as expected; all that was said is in {outcome}:", *wrong, sep="\n  ")
    sys.exit(bool(wrong))


main()
