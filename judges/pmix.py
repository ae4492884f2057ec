"""Is PMIx there? A listing can only say no: the plugin is named by its file, before anything was loaded."""

from __future__ import annotations

import re

from judges.signs import explain
from judges.verdict import Verdict, error, failed, find, passed

_REMEDY = "the slurmd image must hold the libpmix that mpi_pmix opens; restart slurmd afterwards"
_RANK = re.compile(r"^(?:\s*\d+: )?pmix rank (\d+) of (\d+) namespace (\S+)", re.MULTILINE)


def judge_listing(text: str) -> Verdict:
    """`srun --mpi=list`. passed means that pmix is offered, not that it loads: see `judge_run`."""
    names = {word for line in text.splitlines() if re.match(r"^\s+\S+\s*$", line) for word in line.split()}
    if not names and "specific pmix" not in text:
        return error("no-listing", "this is no listing of MPI plugins")
    if any(re.fullmatch(r"pmix(_v\d+)?", name) for name in names):
        return passed("pmix is offered (only a run proves that it loads)", at=find(text, r"^\s+pmix"))
    return failed(
        "pmix-missing", f"pmix is not among {sorted(names)}", at=find(text, "MPI plugin types"), remedy=_REMEDY
    )


def judge_run(log: str, *, ranks: int) -> Verdict:
    """`pmix rank 3 of 8 namespace slurm.pmix.41.0`, printed by each task out of what the loaded plugin gave it."""
    found = list(_RANK.finditer(log))
    if not found:
        return explain(log) or failed(
            "pmix-missing", "no task got its rank from PMIx", at=find(log, r"error"), remedy=_REMEDY
        )
    worlds = {match[3] for match in found}
    numbers = sorted(int(match[1]) for match in found)
    if numbers != list(range(ranks)) or len(worlds) != 1:
        return failed(
            "mpi-singletons" if len(worlds) > 1 else "wrong-world-size",
            f"PMIx ranks {numbers} in {len(worlds)} namespace(s), not 0 to {ranks - 1} in one",
            at=find(log, "pmix rank"),
            remedy=_REMEDY,
        )
    return passed(f"pmix loaded and gave ranks 0 to {ranks - 1}", at=find(log, "pmix rank"))
