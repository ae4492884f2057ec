"""Did every rank speak EFA? NCCL falls back to TCP without an error, with exit code 0 and correct results.

Judged per process by NCCL's own lines (key: host and pid), never by a grep over the whole log: half of the ranks on
EFA, or libfabric over TCP, look right to a grep. Lines that decide: `NET/OFI Selected provider is X` and what NCCL
then uses. Lines that do not: `Bootstrap : Using eth0` (the rendezvous is always TCP) and the listing `NET/Socket :
Using [0]eth0`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from judges.verdict import Line, Verdict, failed, find, passed, skipped

# Also behind torchrun's `[default0]:` and srun's `0: `; two processes may write into one line, so a line can hold
# several.
_PREFIX = re.compile(r"([A-Za-z0-9][\w.-]*):(\d+):(\d+) \[-?\d+\] ")
_PROVIDER = re.compile(r"NET/OFI Selected provider is ([^\s,]+)", re.IGNORECASE)  # older plugins: `Provider`, no fabric
_NOT_OFI = re.compile(
    r"Using network (Socket|IB)\b|(?:Initialized|Assigned) NET plugin (Socket|IB)\b|via NET/(Socket|IB)/", re.IGNORECASE
)
_PLUGIN_MISSING = r"No plugin found|Could not find:? libnccl-net|libnccl-net\S*: cannot open shared object"
_NO_PROVIDER = r"NET/OFI No eligible providers were found|aws-ofi-nccl initialization failed"

Process = tuple[str, int]  # host, pid


@dataclass
class _Seen:
    providers: dict[str, Line] = field(default_factory=dict[str, Line])
    fallback: Line | None = None


def nccl_messages(log: str) -> Iterator[tuple[Process, str, int]]:
    """(process, message, line number) of each NCCL message in the log."""
    for number, line in enumerate(log.split("\n"), 1):
        if "NCCL" not in line:
            continue
        prefixes = list(_PREFIX.finditer(line))
        for prefix, following in zip(prefixes, [*prefixes[1:], None], strict=False):
            message = line[prefix.end() : following.start() if following else None]
            if "NCCL" in message:
                yield (prefix[1], int(prefix[2])), message, number


def judge_transport(log: str, *, efa_interfaces: int, nodes: int, processes: Collection[Process] | int) -> Verdict:
    """processes: those that the log itself names as ranks, or how many there must be."""
    if nodes < 2:
        return skipped("one-node", "one node: nothing crosses the fabric")
    if not efa_interfaces:
        return skipped("no-efa", "this nodeset has no EFA interface")
    seen: dict[Process, _Seen] = {}
    for process, message, number in nccl_messages(log):
        entry = seen.setdefault(process, _Seen())
        if provider := _PROVIDER.search(message):
            entry.providers.setdefault(provider[1].lower(), Line(number=number, text=message))
        elif entry.fallback is None and _NOT_OFI.search(message):
            entry.fallback = Line(number=number, text=message)
    if not seen:
        return failed(
            "transport-not-shown",
            "no line of NCCL says what carried the data, and silence is what a fallback to TCP looks like",
            remedy="run with NCCL_DEBUG=INFO (and no NCCL_DEBUG_FILE or NCCL_DEBUG_SUBSYS without INIT and NET)",
        )
    total = processes if isinstance(processes, int) else len(processes)
    for process, entry in sorted(seen.items()):
        for provider, line in entry.providers.items():
            if provider.split(";")[0] != "efa":
                return failed(
                    "provider-not-efa",
                    f"libfabric's provider is {provider}, not efa, on {process[0]} pid {process[1]}",
                    at=line,
                    remedy="FI_PROVIDER=efa; the slurmd pod must hold vpc.amazonaws.com/efa (fi_info -p efa in "
                    "the pod)",
                )
    fallen = {process: entry.fallback for process, entry in seen.items() if entry.fallback}
    silent = find(log, _PLUGIN_MISSING) or find(log, _NO_PROVIDER)
    if fallen:
        return _fallback(log, f"{len(fallen)} of {total} ranks", next(iter(fallen.values())))
    on_efa = {process for process, entry in seen.items() if entry.providers}
    missing = total - len(on_efa) if isinstance(processes, int) else len(set(processes) - on_efa)
    if missing > 0:
        if silent:
            return _fallback(log, f"{missing} of {total} ranks", silent)
        lacking = sorted((set(seen) if isinstance(processes, int) else set(processes)) - on_efa)
        who = ", ".join(f"{host} pid {pid}" for host, pid in lacking[:4]) or "ranks that print nothing"
        return failed(
            "transport-partial",
            f"only {total - missing} of {total} ranks selected efa; not: {who}",
            remedy="compare the nodes that lack it: fi_info -p efa, and the library path of the OFI plugin",
        )
    if len(on_efa) > total:
        return failed("too-many-ranks", f"{len(on_efa)} processes selected efa where {total} ranks were asked for")
    first = min((line for process in on_efa for line in seen[process].providers.values()), key=lambda line: line.number)
    return passed(f"efa on {total} of {total} ranks", at=first)


def _fallback(log: str, share: str, line: Line) -> Verdict:
    """Sockets carry the data: say why, if the log tells."""
    if why := find(log, _PLUGIN_MISSING):
        return failed(
            "plugin-not-found",
            f"NCCL uses sockets on {share}: the OFI plugin libnccl-net.so was not found",
            at=why,
            remedy="the plugin's folder must be in ld.so.conf.d or LD_LIBRARY_PATH of the slurmd image",
        )
    if why := find(log, _NO_PROVIDER):
        return failed(
            "socket-transport",
            f"NCCL uses sockets on {share}: the OFI plugin found no EFA device",
            at=why,
            remedy="the slurmd pod must hold vpc.amazonaws.com/efa; then see fi_info -p efa in the pod",
        )
    return failed(
        "socket-transport",
        f"NCCL uses sockets, not EFA, on {share}",
        at=line,
        remedy="see that NCCL_NET and NCCL_NET_PLUGIN are not forced, then fi_info -p efa in the pod",
    )
