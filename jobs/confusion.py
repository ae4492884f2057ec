"""How often the judges agree with people: samples whose first line says `#@ ... | verdict: PASS ...` against verdicts.

A sample of many jobs says `PER JOB: 41 PASS; 42,43 FAIL(...); 44 NOT-FINISHED`, one of many runs `FAIL x4`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from judges.detect import judge_any
from judges.verdict import Nodeset, Status

_STATUS: dict[str, Status] = {"PASS": "passed", "PASS-PENDING": "passed", "FAIL": "failed", "NOT-FINISHED": "error"}

_ORDER: tuple[Status, ...] = ("passed", "failed", "error", "no baseline", "skipped")


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """counts: {(what the sample says, what the judges say): how often}. wrong: a line per disagreement."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    wrong: list[str] = field(default_factory=list[str])

    def text(self) -> str:
        judged = [status for status in _ORDER if status in {pair[1] for pair in self.counts}]
        rows = [status for status in _ORDER if status in _STATUS.values()]
        lines = [f"{'sample says':<14}" + "".join(f"{status:>13}" for status in judged)]
        lines += [f"{row:<14}" + "".join(f"{self.counts[row, status]:>13}" for status in judged) for row in rows]
        right = sum(count for (wanted, judged_as), count in self.counts.items() if wanted == judged_as)
        return "\n".join([*lines, f"{right} of {self.counts.total()} as their samples say", *self.wrong])


def confusion(folder: Path, nodeset: Nodeset) -> Confusion:
    """Of all `*.txt` in the folder that carry a verdict; the judges do not see that line."""
    found = Confusion()
    for path in sorted(folder.glob("*.txt")):
        header, _, text = path.read_text(errors="replace").partition("\n")
        wanted = said(header)
        verdicts = judge_any(text, nodeset)[1] if wanted else []
        if len(verdicts) != len(wanted):
            found.wrong.append(f"{path.name}: {len(verdicts)} verdicts where the sample has {len(wanted)}")
        for status, verdict in zip(wanted, verdicts, strict=False):
            found.counts[status, verdict.status] += 1
            if status != verdict.status:
                found.wrong.append(f"{path.name}: {status} by the sample, but {verdict}")
    return found


def said(header: str) -> list[Status]:
    """The verdicts of a sample's first line; none of a file that is no sample."""
    verdict = re.match(r"#@ .*\| verdict: (.*?)(\||$)", header)
    if verdict is None:
        return []
    if jobs := re.findall(r"(\d+(?:,\d+)*) (PASS-PENDING|PASS|FAIL|NOT-FINISHED)", verdict[1]):
        return [_STATUS[word] for numbers, word in jobs for _ in numbers.split(",")]
    word = re.match(r"(PASS|FAIL)(?: x(\d+))?", verdict[1])
    return [_STATUS[word[1]]] * int(word[2] or 1) if word else []
