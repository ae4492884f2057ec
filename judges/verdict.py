"""What a judge says, and how several sayings become one.

Owns the verdict and the small helpers that find its evidence. Does not own any rule: those stand in one module per
thing judged. Standard library only and Python 3.10: this package is mounted into a pod whose Python we do not choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, Protocol, TypeAlias

# failed: it ran and is wrong. error: no verdict was possible. no baseline: right, but the number has nothing to be held
# against.
Status: TypeAlias = Literal["passed", "failed", "error", "skipped", "no baseline"]
_WEIGHT: dict[Status, int] = {"failed": 4, "error": 3, "no baseline": 2, "passed": 1, "skipped": 0}


class Nodeset(Protocol):
    """The facts of a nodeset that judges need; `plan.contract.NodesetContract` has them all."""

    @property
    def instance_type(self) -> str: ...
    @property
    def nodes(self) -> int: ...
    @property
    def gpus_per_node(self) -> int: ...
    @property
    def gres(self) -> str: ...
    @property
    def efa_interfaces(self) -> int: ...
    @property
    def node_names(self) -> tuple[str, ...]: ...


def is_model(gpu: str, gres: str) -> bool:
    """Is `NVIDIA L4` what `gpu:nvidia_l4:4` offers? As Slurm spells names (lower case, `_` for a blank); L40S is no
    L4.
    """
    return gres.count(":") < 2 or gpu.lower().replace(" ", "_") == gres.split(":")[1].lower()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """cause: short stable name for machines. line: number of the evidence in the judged text, from 1.

    value, limit and unit belong to verdicts about a number (`busbw 3.1 < 3.5 GB/s`). blames: (node, what is wrong with
    it) where the evidence is about that node alone.
    """

    status: Status
    cause: str
    reason: str
    evidence: str = ""
    line: int | None = None
    remedy: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    blames: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        where = f" [line {self.line}: {self.evidence.strip()}]" if self.line else ""
        return f"{self.status}: {self.reason}{where}" + (f" -> {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the judged text that decides something."""

    number: int
    text: str


def passed(reason: str, *, at: Line | None = None) -> Verdict:
    return _verdict("passed", "ok", reason, at, "")


def failed(cause: str, reason: str, *, at: Line | None = None, remedy: str = "") -> Verdict:
    return _verdict("failed", cause, reason, at, remedy)


def error(cause: str, reason: str, *, at: Line | None = None, remedy: str = "") -> Verdict:
    return _verdict("error", cause, reason, at, remedy)


def skipped(cause: str, reason: str) -> Verdict:
    return _verdict("skipped", cause, reason, None, "")


def _verdict(status: Status, cause: str, reason: str, at: Line | None, remedy: str) -> Verdict:
    evidence, line = (at.text.strip()[:400], at.number) if at else ("", None)
    return Verdict(status=status, cause=cause, reason=reason, evidence=evidence, line=line, remedy=remedy)


def worst_of_nodes(verdicts: Mapping[str, Verdict]) -> Verdict:
    """As `worst` over one verdict per node, and every node that failed is blamed for what it did itself."""
    blames = tuple((name, verdict.reason) for name, verdict in verdicts.items() if verdict.status == "failed")
    return replace(worst(verdicts.values()), blames=blames)


def find(text: str, pattern: str) -> Line | None:
    """The first line in which the pattern occurs, whatever its case."""
    return find_compiled(text, re.compile(pattern, re.IGNORECASE | re.MULTILINE))


def find_compiled(text: str, rule: re.Pattern[str]) -> Line | None:
    """As `find`. One search over the whole text: logs of a thousand ranks have many lines."""
    match = rule.search(text)
    if match is None:
        return None
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", start)
    return Line(number=text.count("\n", 0, start) + 1, text=text[start : end if end >= 0 else None])


def blocks(text: str, rule: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str, int]]:
    """(match, text from there to the next match, line number) of each place where a block begins."""
    heads = list(rule.finditer(text))
    for head, following in zip_longest(heads, heads[1:]):
        yield head, text[head.start() : following.start() if following else None], text.count("\n", 0, head.start()) + 1


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole out of its parts: the first of the heaviest kind. Nothing judged is an error, not a pass.

    A skipped part neither helps nor hurts; a whole of nothing but skipped parts is skipped.
    """
    parts = tuple(verdicts)
    if not parts:
        return error("nothing-judged", "no verdict was given on anything")
    return max(parts, key=lambda verdict: _WEIGHT[verdict.status])


def combine(*verdicts: Verdict) -> Verdict:
    """As `worst`, but a passed whole tells what each part found, with the evidence and the number of the last one."""
    chosen = worst(verdicts)
    if chosen.status != "passed":
        return chosen
    shown = [verdict for verdict in verdicts if verdict.status == "passed" and verdict.line]
    return replace(shown[-1] if shown else chosen, reason="; ".join(verdict.reason for verdict in verdicts))
