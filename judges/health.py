"""What nodes report about themselves from inside a job -> verdict. Format of the jobs `node` and `storage`: `node
<name> <key> <values>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from judges.fabric import judge_fi_info
from judges.signs import judged_with_signs
from judges.verdict import Line, Nodeset, Verdict, failed, is_model, passed, worst, worst_of_nodes

BOUNDLESS_KIB = 2**33  # 8 TiB; the largest GPU node has 4
MINIMUM_SHM_MIB = 8 * 1024  # NCCL and data workers share it; the container's default is 64 MiB
MAXIMUM_GPU_CELSIUS = 85
_LINE = re.compile(r"^node (\S+) (\S+) ?(.*)$", re.MULTILINE)

Reports = Mapping[str, Mapping[str, list[Line]]]


def parse_reports(log: str) -> Reports:
    """{node: {key: lines}}; the text of a line is what follows the key."""
    reports: dict[str, dict[str, list[Line]]] = {}
    for match in _LINE.finditer(log):
        number = log.count("\n", 0, match.start()) + 1
        reports.setdefault(match[1], {}).setdefault(match[2], []).append(Line(number=number, text=match[3].strip()))
    return reports


def judge_node_report(log: str, *, nodeset: Nodeset) -> Verdict:
    """Every node of the nodeset, each with all that a job needs."""
    return judged_with_signs(log, lambda: _judge_reports(log, nodeset))


def _judge_reports(log: str, nodeset: Nodeset) -> Verdict:
    reports = parse_reports(log)
    if missing := sorted(set(nodeset.node_names) - set(reports)):
        return failed(
            "node-silent", f"no report from {', '.join(missing)}", remedy="the job ran on other or fewer nodes"
        )
    whole = worst_of_nodes({name: _judge_node(name, reports[name], nodeset) for name in nodeset.node_names})
    if whole.status != "passed":
        return whole
    efa = f", {nodeset.efa_interfaces} EFA devices" if nodeset.efa_interfaces else ""
    return passed(f"{nodeset.nodes} nodes with {nodeset.gpus_per_node} GPUs{efa}, limits and shared folder right")


def _judge_node(name: str, report: Mapping[str, list[Line]], nodeset: Nodeset) -> Verdict:
    return worst(
        (
            _judge_gpus(name, report.get("gpu", []), nodeset),
            _judge_efa(name, report.get("efa", []), nodeset),
            _judge_memlock(name, report.get("memlock", []), nodeset),
            _judge_shm(name, report.get("shm_mib", [])),
            _judge_shared(name, report.get("shared", [])),
        )
    )


def _judge_gpus(name: str, lines: list[Line], nodeset: Nodeset) -> Verdict:
    """`0, NVIDIA L4, 0, 31, 16, 16`: index, name, uncorrected ECC errors, temperature, PCIe width now and at most."""
    rows = [(line, [part.strip() for part in line.text.split(",")]) for line in lines]
    gpus = [(line, fields) for line, fields in rows if len(fields) == 6 and fields[0].isdigit()]
    if len(gpus) != nodeset.gpus_per_node:
        return failed(
            "gpu-count",
            f"{name} shows {len(gpus)} of {nodeset.gpus_per_node} GPUs",
            at=lines[0] if lines else None,
            remedy="nvidia-smi -L in the slurmd pod and on the host; a GPU that fell off the bus needs a new instance",
        )
    for line, (index, model, ecc, celsius, width, full) in gpus:
        if not is_model(model, nodeset.gres):
            return failed(
                "wrong-gpu", f"GPU {index} of {name} is a {model}, the nodeset offers {nodeset.gres}", at=line
            )
        if ecc.isdigit() and int(ecc) > 0:
            return failed(
                "gpu-ecc",
                f"GPU {index} of {name} has {ecc} uncorrected memory errors",
                at=line,
                remedy="replace the node",
            )
        if celsius.isdigit() and int(celsius) >= MAXIMUM_GPU_CELSIUS:
            return failed(
                "gpu-hot",
                f"GPU {index} of {name} is at {celsius} C",
                at=line,
                remedy="drain it and see what runs there",
            )
        if width.isdigit() and full.isdigit() and int(width) < int(full):
            return failed(
                "gpu-pcie",
                f"GPU {index} of {name} runs on {width} of {full} PCIe lanes",
                at=line,
                remedy="replace the node",
            )
    return passed(f"{name}: {len(gpus)} GPUs")


def _judge_efa(name: str, lines: list[Line], nodeset: Nodeset) -> Verdict:
    if not nodeset.efa_interfaces:
        return passed(f"{name}: no EFA asked for")
    verdict = judge_fi_info("\n".join(line.text for line in lines), efa_interfaces=nodeset.efa_interfaces)
    if verdict.status == "passed":
        return verdict
    return failed(
        "no-efa" if not lines else verdict.cause,
        f"{name}: {verdict.reason}",
        at=lines[0] if lines else None,
        remedy=verdict.remedy,
    )


def _judge_memlock(name: str, lines: list[Line], nodeset: Nodeset) -> Verdict:
    if not lines:
        return failed("locked-memory-limit", f"{name} did not tell its locked-memory limit")
    limit = lines[0].text
    # A node's container runtime cannot be told "unlimited" (plan/nodegroups.py): its limit is more than any memory.
    enough = limit == "unlimited" or (limit.isdigit() and int(limit) >= BOUNDLESS_KIB)
    if enough or not nodeset.efa_interfaces:
        return passed(f"{name}: locked memory {lines[0].text}")
    return failed(
        "locked-memory-limit",
        f"{name} may lock {lines[0].text} KiB only: EFA cannot pin its buffers",
        at=lines[0],
        remedy="PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, unlimited memlock in the container; then "
        "restart slurmd",
    )


def _judge_shm(name: str, lines: list[Line]) -> Verdict:
    if lines and lines[0].text.isdigit() and int(lines[0].text) >= MINIMUM_SHM_MIB:
        return passed(f"{name}: /dev/shm {lines[0].text} MiB")
    return failed(
        "shm-too-small",
        f"/dev/shm of {name} has {lines[0].text if lines else 'unknown'} MiB, {MINIMUM_SHM_MIB} are needed",
        at=lines[0] if lines else None,
        remedy="mount a Memory emptyDir on /dev/shm of the slurmd pods",
    )


def _judge_shared(name: str, lines: list[Line]) -> Verdict:
    if lines and lines[0].text == "writable":
        return passed(f"{name}: shared folder writable")
    return failed(
        "shared-folder",
        f"{name} cannot write and read back on the shared folder",
        at=lines[0] if lines else None,
        remedy="the claim's mount in the slurmd pod; EFS mount target and port 2049",
    )
