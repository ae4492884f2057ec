"""The build of nccl-tests -> verdict: all programs, for this GPU, against the system's MPI."""

from __future__ import annotations

import re

from judges.signs import explain
from judges.verdict import Line, Verdict, combine, failed, find, passed

PROGRAMS = 11  # nccl-tests src/Makefile, BIN_FILES_LIST
_PROGRAM = re.compile(r"^(?P<mode>[-bcdlps][-rwxsStT]{9}\S* .*?\s)?(?P<path>\S*?(?P<name>\w+_perf))\s*$", re.MULTILINE)
_MPI = re.compile(r"libmpi\.so\S*\s*=>\s*(\S+|not found)")


def judge_build(log: str, *, cuda_arch: str = "") -> Verdict:
    """cuda_arch: `sm_89`; judged where the log tells the architectures."""
    missing = [
        line for line in _lines(log, r"=> not found") if "libcuda.so.1" not in line.text
    ]  # that one is the host's
    if missing:
        return failed(
            "library-missing",
            "a library of nccl-tests is not in the image",
            at=missing[0],
            remedy="rebuild the slurmd image",
        )
    mpi = _MPI.search(log)
    if mpi is None:
        return explain(log) or failed(
            "not-built", "nothing shows which MPI nccl-tests is linked to", at=find(log, r"error|Error \d")
        )
    if mpi[1].startswith("/opt/amazon"):
        return failed(
            "wrong-mpi",
            f"nccl-tests is linked to {mpi[1]}, whose PMIx is not Slurm's",
            at=find(log, _MPI.pattern),
            remedy="MPI_HOME of the distribution's OpenMPI, and no /opt/amazon/openmpi in ld.so.conf or "
            "LD_LIBRARY_PATH",
        )
    return combine(
        _judge_programs(log), _judge_arch(log, cuda_arch), passed(f"libmpi is {mpi[1]}", at=find(log, _MPI.pattern))
    )


def _judge_programs(log: str) -> Verdict:
    found = {match["name"]: match for match in _PROGRAM.finditer(log)}
    if len(found) != PROGRAMS:
        return failed(
            "programs-missing",
            f"{len(found)} of {PROGRAMS} programs were built: {', '.join(sorted(found))}",
            at=find(log, r"_perf\s*$"),
        )
    for name, match in found.items():
        words = (match["mode"] or "").split()
        size = words[4] if len(words) > 4 else "1"
        if words and (words[0][3] != "x" or size == "0"):
            return failed("program-broken", f"{name} is empty or cannot be run", at=find(log, rf"{name}\s*$"))
    return passed(f"{PROGRAMS} programs")


def _judge_arch(log: str, cuda_arch: str) -> Verdict:
    told = re.search(r"^CUDA architectures: (.*)$", log, re.MULTILINE)
    if told and cuda_arch and cuda_arch not in told[1].split():
        return failed(
            "wrong-arch", f"built for {told[1]}, the GPUs are {cuda_arch}", at=find(log, "CUDA architectures")
        )
    return passed(f"for {cuda_arch}" if told else "architectures not told")


def _lines(log: str, pattern: str) -> list[Line]:
    return [Line(number=n, text=text) for n, text in enumerate(log.split("\n"), 1) if re.search(pattern, text)]
