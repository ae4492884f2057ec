"""nccl-tests output -> verdict: one world of the right size, every row right, complete, consistent, on EFA, and fast
enough.

The order of the rules is the order in which a failure explains the next one: a run of singletons also has absurd
numbers, a cut table also lacks its summary. Line formats: NVIDIA/nccl-tests src/util.cu at v2.19.6, and older ones
without the `root` column.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import get_args

from judges.baselines import Placement, find_baseline
from judges.signs import explain, judged_with_signs
from judges.transport import Process, judge_transport
from judges.verdict import Line, Nodeset, Verdict, combine, error, failed, find, is_model, passed

# busbw = algbw * factor: what the slowest link must carry, so that it can be held against the hardware. These send each
# byte that many times past every other rank; broadcast, reduce and sendrecv have the factor 1.
_PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}
_REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
_HEADER = re.compile(
    r"^# nThread .* minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\).* validation: (\d+)", re.MULTILINE
)
_RANK = re.compile(
    r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]+)\]\s*(.*)$",
    re.MULTILINE,
)
_COLLECTIVE = re.compile(r"Collective test starting:\s*(?:\S*/)?(\w+?)_perf", re.IGNORECASE)
_OUT_OF_BOUNDS = re.compile(r"^# Out of bounds values\s*:\s*(\S+)\s+(\w+)", re.MULTILINE)
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*(\S+)", re.MULTILINE)
_REDUCED = re.compile(r"# Reducing maxBytes to (\d+) due to memory limitation")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One half of a row. time in microseconds, bandwidths in GB/s; wrong None = not validated (`N/A`)."""

    placement: Placement
    time: float
    algbw: float
    busbw: float
    wrong: float | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One message size of the table, as the line says it."""

    size_bytes: int
    redop: str
    measurements: tuple[Measurement, ...]
    line: Line


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One line of the device list."""

    rank: int
    process: Process
    device: int
    bus_id: str
    gpu: str


def parse_rows(log: str) -> tuple[list[Row], list[Line]]:
    """(rows, lines that begin like a row and are none: a cut or torn log)."""
    rows: list[Row] = []
    torn: list[Line] = []
    for number, text in enumerate(log.split("\n"), 1):
        fields = re.sub(r"^\s*(\[\w+\]:|\d+: )", "", text).split()  # torchrun's and srun's rank prefix
        if len(fields) < 3 or not (fields[0].isdigit() and fields[1].isdigit() and fields[2].isidentifier()):
            continue
        row = _row(fields, Line(number=number, text=text))
        if row:
            rows.append(row)
        else:
            torn.append(Line(number=number, text=text))
    return rows, torn


def _row(fields: list[str], line: Line) -> Row | None:
    head = 5 if len(fields) > 4 and re.fullmatch(r"-?\d+", fields[4]) and len(fields) != 12 else 4
    values = fields[head:]
    if len(values) < 8:
        return None
    try:
        halves = [
            Measurement(
                placement=placement,
                time=float(part[0]),
                algbw=float(part[1]),
                busbw=float(part[2]),
                wrong=None if part[3].upper() == "N/A" else float(part[3]),
            )
            for placement, part in zip(get_args(Placement), (values[0:4], values[4:8]), strict=True)
        ]
    except ValueError:
        return None
    return Row(size_bytes=int(fields[0]), redop=fields[3], measurements=tuple(halves), line=line)


def parse_ranks(log: str) -> list[Rank]:
    """The device list: `#  Rank  0 Group  0 Pid 2100 on slinky-0 device 0 [0000:38:00] NVIDIA L4`."""
    return [
        Rank(rank=int(m[1]), process=(m[3], int(m[2])), device=int(m[4]), bus_id=m[5], gpu=m[6].strip())
        for m in _RANK.finditer(log)
    ]


def judge_nccl(log: str, *, nodeset: Nodeset, collective: str) -> Verdict:
    """collective: `all_reduce`, `all_gather` ... as the job asked for it."""
    if not log.strip():
        return error("empty-log", "the log is empty", remedy="see whether the job started, and where its output went")
    return judged_with_signs(log, lambda: _judge_run(log, nodeset, collective))


def _judge_run(log: str, nodeset: Nodeset, collective: str) -> Verdict:
    ranks = parse_ranks(log)
    world = _judge_world(log, ranks, nodeset)
    if world.status != "passed":
        return world
    table = _judge_table(log, collective, len(ranks))
    if table.status != "passed":
        return table
    processes = {rank.process for rank in ranks}
    transport = judge_transport(log, efa_interfaces=nodeset.efa_interfaces, nodes=nodeset.nodes, processes=processes)
    return combine(world, table, transport, judge_bandwidth(parse_rows(log)[0], nodeset=nodeset, collective=collective))


def _judge_world(log: str, ranks: list[Rank], nodeset: Nodeset) -> Verdict:
    """One world of all ranks, on all nodes, each on its own GPU of the expected kind."""
    world = nodeset.nodes * nodeset.gpus_per_node
    headers = list(_HEADER.finditer(log))
    zeros = [rank for rank in ranks if rank.rank == 0]
    if len(headers) > 1 and len(zeros) > 1:
        return failed(
            "mpi-singletons",
            f"{len(zeros)} separate runs of {len(ranks) // len(zeros)} rank(s) each instead of one of {world}: "
            "MPI was not wired",
            at=find(log, r"singletons will be started") or find(log[headers[1].start() :], r"# nThread"),
            remedy="srun --mpi=pmix, and an MPI that is linked to the libpmix.so.2 which Slurm's plugin opens",
        )
    if not headers:
        return explain(log) or failed(
            "no-benchmark", "nccl-tests printed no header: it did not start", at=find(log, r"error")
        )
    numbers = [rank.rank for rank in ranks]
    if sorted(numbers) != list(range(world)):
        return explain(log) or failed(
            "wrong-world-size",
            f"{len(set(numbers))} ranks, not the {world} that were asked for",
            at=find(log, r"# +Rank"),
            remedy="one task per GPU and --mpi=pmix; see that all nodes of the job took part",
        )
    hosts: dict[str, set[str]] = {}
    for rank in ranks:
        hosts.setdefault(rank.process[0], set()).add(rank.bus_id)
    shared = [host for host, devices in hosts.items() if len(devices) != nodeset.gpus_per_node]
    if len(hosts) != nodeset.nodes or shared:
        return failed(
            "wrong-placement",
            f"ranks sit on {len(hosts)} hosts (asked: {nodeset.nodes}) with "
            f"{sorted(len(d) for d in hosts.values())} GPUs each "
            f"(asked: {nodeset.gpus_per_node})",
            at=find(log, r"# +Rank"),
            remedy="--ntasks-per-node must be the number of GPUs, and each task must see all GPUs of its node",
        )
    foreign = [rank for rank in ranks if not is_model(rank.gpu, nodeset.gres)]
    if foreign:
        return failed(
            "wrong-gpu",
            f"rank {foreign[0].rank} has a {foreign[0].gpu}, the nodeset offers {nodeset.gres}",
            at=find(log, re.escape(foreign[0].gpu)),
        )
    return passed(f"{world} ranks on {nodeset.nodes} nodes")


def _judge_table(log: str, collective: str, world: int) -> Verdict:
    """Complete, validated, right, and of this collective over this many ranks."""
    rows, torn = parse_rows(log)
    header = _HEADER.search(log)
    assert header is not None, "judged after the world, which needs a header"
    summary, average = _OUT_OF_BOUNDS.search(log), _AVERAGE.search(log)
    wrong = [(row, half) for row in rows for half in row.measurements if half.wrong]
    if wrong:
        row, half = max(wrong, key=lambda pair: pair[1].wrong or 0)
        total = sum(half.wrong or 0 for _, half in wrong)
        return failed(
            "wrong-values",
            f"{total:g} wrong values, {half.wrong:g} of them at {row.size_bytes} B {half.placement}",
            at=row.line,
            remedy="the data is corrupt: find the GPU or link by the pairwise check; GPUs without NVLink need "
            "NCCL_P2P_DISABLE=1",
        )
    if summary and (summary[1] != "0" or summary[2].upper() != "OK"):
        return failed(
            "wrong-values", f"out of bounds values: {summary[1]} {summary[2]}", at=find(log, r"# Out of bounds")
        )
    unchecked = [row for row in rows if any(half.wrong is None for half in row.measurements)]
    if header[5] == "0" or unchecked:
        return failed(
            "not-validated",
            "validation was off (#wrong is N/A): a fast wrong answer would look the same",
            at=unchecked[0].line if unchecked else find(log, r"# nThread"),
            remedy="run with -c 1",
        )
    if torn or not rows or not summary or not average:
        return explain(log) or failed(
            "cut-log",
            "the table or its summary is incomplete: the run did not finish, or its log was cut",
            at=torn[0] if torn else (rows[-1].line if rows else None),
            remedy="see the job's state; a hang after the first rows is a matter of P2P or of a lost peer",
        )
    if incomplete := _missing_sizes(log, header, rows):
        return incomplete
    return _inconsistent(log, rows, collective, world, float(average[1])) or passed(f"#wrong 0 in {len(rows)} rows")


def _missing_sizes(log: str, header: re.Match[str], rows: list[Row]) -> Verdict | None:
    """Each size of the sweep in its row. Collectives that split a message over the ranks round its size down."""
    low, high, step = int(header[1]), int(header[2]), int(header[3])
    if reduced := _REDUCED.search(log):
        high = min(high, int(reduced[1]))
    wanted: list[int] = []
    while low <= high and (step > 1 or header[4] == "bytes") and len(wanted) <= len(rows):
        wanted.append(low)
        low = low * step if header[4] == "factor" else low + step
    found = [row.size_bytes for row in rows]
    if len(found) == len(wanted) and all(0.95 * want <= have <= want for have, want in zip(found, wanted, strict=True)):
        return None
    return failed(
        "cut-log",
        f"the sweep from {header[1]} to {header[2]} B has {len(found)} rows ({found[0]} to {found[-1]} B), and "
        "not each size once",
        at=rows[-1].line,
        remedy="run it again; a table of two mixed runs or of a killed one proves nothing",
    )


def _inconsistent(log: str, rows: list[Row], collective: str, world: int, average: float) -> Verdict | None:
    """The columns must follow from each other for the collective and the world that were asked for."""
    named = _COLLECTIVE.search(log)
    if named and named[1] != collective:
        return failed(
            "wrong-collective", f"this is {named[1]}, not {collective}", at=find(log, "Collective test starting")
        )
    factor = _PASSES[collective] * (world - 1) / world if collective in _PASSES else 1.0
    for row in rows:
        if (row.redop != "none") != (collective in _REDUCING):
            return failed("wrong-collective", f"redop {row.redop} does not belong to {collective}", at=row.line)
        for half in row.measurements:
            if not all(math.isfinite(number) and number > 0 for number in (half.time, half.algbw)):
                return failed("inconsistent", f"no bandwidth at {row.size_bytes} B {half.placement}", at=row.line)
            if abs(half.busbw - half.algbw * factor) > 0.02 + 0.01 * half.busbw:
                return failed(
                    "inconsistent",
                    f"busbw {half.busbw:g} is not algbw {half.algbw:g} x {factor:.3f}, "
                    f"as {collective} over {world} ranks has it",
                    at=row.line,
                    remedy="the log is of another collective or of another number of ranks",
                )
            speed = row.size_bytes / half.time / 1000
            if abs(half.algbw - speed) > 0.02 + 0.02 * speed:
                return failed(
                    "inconsistent", f"algbw {half.algbw:g} is not {row.size_bytes} B in {half.time:g} us", at=row.line
                )
    numbers = [half.busbw for row in rows for half in row.measurements]
    mean = sum(numbers) / len(numbers)
    if abs(mean - average) > 0.02 + 0.02 * mean:
        return failed(
            "inconsistent", f"the average {average:g} is not that of the rows ({mean:.3g})", at=find(log, "# Avg bus")
        )
    return None


def judge_bandwidth(rows: list[Row], *, nodeset: Nodeset, collective: str) -> Verdict:
    """Each row that has a baseline against its floor; none has one: `no baseline`, with the number that would need
    it.
    """
    checked: list[Verdict] = []
    for row in rows:
        for half in row.measurements:
            known = find_baseline(nodeset.instance_type, nodeset.nodes, collective, row.size_bytes, half.placement)
            if known is None:
                continue
            where = f"busbw {half.busbw:g} GB/s at {_size(row.size_bytes)} {half.placement}"
            if half.busbw < known.floor:
                verdict = failed(
                    "below-floor",
                    f"{where} is below the floor of {known.floor:g} ({known.source})",
                    at=row.line,
                    remedy="see that no other job shares the nodes; then the pairwise check, which names the slow node",
                )
            else:
                verdict = passed(f"{where}, floor {known.floor:g}", at=row.line)
            checked.append(replace(verdict, value=half.busbw, limit=known.floor, unit="GB/s"))
    if checked:
        slow = [verdict for verdict in checked if verdict.status == "failed"]
        return slow[0] if slow else checked[-1]
    row = max(rows, key=lambda row: row.size_bytes)
    peak = row.measurements[0].busbw
    return Verdict(
        status="no baseline",
        cause="no-baseline",
        reason=f"{collective} over {nodeset.nodes}x {nodeset.instance_type}: busbw {peak:g} GB/s at "
        f"{_size(row.size_bytes)}, right and complete, but with nothing to be held against",
        evidence=row.line.text.strip(),
        line=row.line.number,
        remedy="measure it on known-good nodes and add a row with its source to judges/baselines.py",
        value=peak,
        unit="GB/s",
    )


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % factor == 0 and size_bytes >= factor:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"
