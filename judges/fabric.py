"""`fi_info -p efa` -> verdict: as many EFA devices as the instance type has."""

from __future__ import annotations

import re

from judges.verdict import Verdict, error, failed, find, passed

_REMEDY = "the slurmd pod must hold vpc.amazonaws.com/efa; the EFA device plugin must tolerate the GPU nodes' taint"
_DOMAIN = re.compile(r"\bdomain:\s*(\S+)")


def judge_fi_info(text: str, *, efa_interfaces: int) -> Verdict:
    """Several entries belong to one device (`rdmap0s29-rdm`, `rdmap0s29-dgrm`): devices are counted, not lines."""
    if line := find(text, r"fi_getinfo: -\d+|No data available"):
        return failed("no-efa", "libfabric sees no EFA device in the container", at=line, remedy=_REMEDY)
    if line := find(text, r"fi_info: (command )?not found|No such file"):
        return failed(
            "no-libfabric", "fi_info is not in the image", at=line, remedy="/opt/amazon/efa of the slurmd image"
        )
    if (line := find(text, r"^provider:")) and not find(text, r"^provider:\s*efa\b"):
        return failed("no-efa", "libfabric offers another provider than efa", at=line, remedy=_REMEDY)
    devices = {re.sub(r"-(rdm|dgrm|direct)$", "", match[1]) for match in _DOMAIN.finditer(text)}
    if not devices:
        return error("unknown-output", "this is no output of fi_info")
    if len(devices) != efa_interfaces:
        return failed(
            "efa-count",
            f"{len(devices)} EFA devices ({', '.join(sorted(devices))}), the instance type has {efa_interfaces}",
            at=find(text, "domain:"),
            remedy="the pod's vpc.amazonaws.com/efa limit and the launch template's network interfaces",
        )
    return passed(f"{len(devices)} EFA devices", at=find(text, "domain:"))
