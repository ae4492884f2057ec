"""Hold facts/hardware.py and facts/zones.json against the EC2 API's answers that moto carries.

`python -m tools.facts_from_moto` prints every difference and exits with 1 when there is one; `--write` rewrites
facts/zones.json first (no hand would keep 900 offerings right). hardware.py is edited by hand: its rows carry
judgements (GRES name, GPUDirect RDMA) that EC2 does not know. A test calls `differences()`. moto is a development
dependency.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from facts.hardware import INSTANCE_TYPES, InstanceType
from facts.zones import DATA_FILE

EC2Data = dict[str, Any]  # DescribeInstanceTypes as JSON: checked by reading it, not by types


def _resources() -> Path:
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("moto is not installed: pip install -r requirements-dev.txt")
    return Path(spec.origin).parent / "ec2" / "resources"


def _load(path: Path) -> Any:
    with gzip.open(path) as stream:
        return json.load(stream)


@cache
def instance_types() -> dict[str, EC2Data]:
    """Every instance type that EC2 described, by name."""
    return cast("dict[str, EC2Data]", _load(_resources() / "instance_types.json.gz"))


def _gbps(performance: str) -> float:
    """`Up to 12.5 Gigabit` -> 12.5, `4x 100 Gigabit` -> 400."""
    found = re.fullmatch(r"(?:Up to )?(?:(\d+)x )?([\d.]+) Gigabit", performance)
    if found is None:
        raise ValueError(f"network performance {performance!r}: a form not seen before")
    return float(found[2]) * int(found[1] or 1)


def _ec2_view(row: EC2Data) -> dict[str, object]:
    network, gpus = row["NetworkInfo"], row.get("GpuInfo", {}).get("Gpus", [])
    disks = row.get("InstanceStorageInfo", {}).get("Disks", [])
    cards = network["NetworkCards"]
    efa_cards = tuple(card["NetworkCardIndex"] for card in cards if "efa-only" in card.get("InterfaceTypes", ()))
    return {
        "arch": tuple(row["ProcessorInfo"]["SupportedArchitectures"]),
        "vcpus": row["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": row["MemoryInfo"]["SizeInMiB"],
        "gpus": sum(gpu["Count"] for gpu in gpus),
        "gpu": gpus[0]["Name"] if gpus else None,
        "gpu_memory_mib": gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else None,
        "nvme": (disks[0]["Count"], disks[0]["SizeInGB"]) if disks else (0, 0),
        "efa_cards": efa_cards,
        "efa_interfaces": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "network_gbps": _gbps(network["NetworkPerformance"]),
        "short_conntrack": network["ConnectionTrackingConfiguration"]["DefaultTcpEstablishedTimeout"] == 350,
        "capacity_block": "capacity-block" in row["SupportedUsageClasses"],
        "card0": (cards[0]["MaximumNetworkInterfaces"], network["Ipv4AddressesPerInterface"]),
        "placement": "cluster" in row["PlacementGroupInfo"]["SupportedStrategies"],
    }


def _our_view(row: InstanceType) -> dict[str, object]:
    return {
        "arch": (row.arch,),
        "vcpus": row.vcpus,
        "memory_mib": row.memory_mib,
        "gpus": row.gpus,
        "gpu": row.gpu.ec2_name if row.gpu else None,
        "gpu_memory_mib": row.gpu.memory_mib if row.gpu else None,
        "nvme": (row.nvme_count, row.nvme_gb_each),
        "efa_cards": row.efa_cards,
        "efa_interfaces": row.efa_interfaces,
        "network_gbps": float(row.network_gbps),
        "short_conntrack": row.short_conntrack,
        "capacity_block": row.capacity_block,
        "card0": (row.enis, row.ips_per_eni),
        "placement": True,  # the plan puts every EFA type into a cluster placement group
    }


def hardware_differences() -> list[str]:
    """`type.field: ours, EC2's` for every disagreement."""
    described = instance_types()
    found: list[str] = []
    for name, row in INSTANCE_TYPES.items():
        if name not in described:
            found.append(f"{name}: EC2 does not describe it")
            continue
        theirs = _ec2_view(described[name])
        found += [f"{name}.{k}: {v!r}, EC2 says {theirs[k]!r}" for k, v in _our_view(row).items() if v != theirs[k]]
    return found


def zones_data() -> dict[str, object]:
    """What facts/zones.json must hold: per region its zones, and our types by the zones that offer them."""
    regions: dict[str, object] = {}
    for path in sorted((_resources() / "instance_type_offerings" / "availability-zone-id").glob("*.json.gz")):
        zones_by_type: dict[str, set[int]] = defaultdict(set)
        prefix = ""
        zones: set[int] = set()
        for offering in _load(path):
            prefix, _, number = offering["Location"].rpartition("-az")
            zones.add(int(number))
            if offering["InstanceType"] in INSTANCE_TYPES:
                zones_by_type[offering["InstanceType"]].add(int(number))
        if not any(INSTANCE_TYPES[name].gpus for name in zones_by_type):
            continue
        types_by_zones: dict[str, list[str]] = defaultdict(list)
        for name in INSTANCE_TYPES:
            if name in zones_by_type:
                types_by_zones[" ".join(str(n) for n in sorted(zones_by_type[name]))].append(name)
        regions[path.name.removesuffix(".json.gz")] = {
            "prefix": f"{prefix}-az",
            "zones": " ".join(str(n) for n in sorted(zones)),
            "offered": {key: " ".join(types_by_zones[key]) for key in sorted(types_by_zones)},
        }
    return regions


def zones_text() -> str:
    return json.dumps(zones_data(), indent=1) + "\n"


def differences() -> list[str]:
    found = hardware_differences()
    if DATA_FILE.read_text() != zones_text():
        found.append("facts/zones.json: differs from moto's offerings; run python -m tools.facts_from_moto --write")
    return found


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        DATA_FILE.write_text(zones_text())
    problems = differences()
    print("\n".join(problems) or "facts agree with moto's EC2 data")
    sys.exit(1 if problems else 0)
