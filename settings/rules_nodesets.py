"""Rules of the nodesets: hardware, zone, GRES, EFA, placement, capacity, volumes, default partition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from facts.hardware import INSTANCE_TYPES, REFUSED_FAMILIES, InstanceType
from facts.names import GPU_RESOURCE
from facts.zones import OFFERINGS, regions_with, zones_of
from settings.models import Nodeset, Settings
from settings.placement import Decision, decide_efa, decide_placement
from settings.problems import Problem, listed, nearest, shown

# The slurmd image is 15 GB packed; packed and unpacked, with its predecessor during an update and the logs, it needs
# this.
ROOT_VOLUME_AT_LEAST_GIB: Final = 100
GPU_TYPES: Final = tuple(name for name, row in INSTANCE_TYPES.items() if row.gpus)
CPU_TYPES: Final = tuple(name for name, row in INSTANCE_TYPES.items() if not row.gpus)


def refused_type(path: str, given: str, known: tuple[str, ...], example: str) -> Problem:
    """The problem of a type that cannot be used, with the reason as far as its name tells it."""
    family = given.partition(".")[0]
    remedy = f"use another type, such as {example}"
    if given in INSTANCE_TYPES:
        why = f"{given} has no NVIDIA GPU"
    elif family in REFUSED_FAMILIES:
        why = f"{family} cannot be used: {REFUSED_FAMILIES[family]}"
    elif re.fullmatch(r"[a-z]+\d+[a-z]*g[a-z]*|a1", family):
        why = f"{family} cannot be used: it is arm64, the AMIs and images here are x86_64"
    else:
        why = "facts/hardware.py has no such instance type, and nothing is deployed whose numbers are not known"
        near = nearest(given, known)
        remedy = f"did you mean {near}?" if near else remedy
    return Problem(path=path, given=shown(given, ""), why=why, remedy=remedy)


def _hardware(nodeset: Nodeset) -> InstanceType | None:
    """The nodeset's GPU type when it is a known one; the others are the matter of `instance_type_is_usable` alone."""
    found = INSTANCE_TYPES.get(nodeset.instance_type)
    return found if found is not None and found.gpus else None


def instance_type_is_usable(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    if _hardware(nodeset) is None:
        path = f"nodesets.{name}.instance_type"
        yield refused_type(path, nodeset.instance_type, GPU_TYPES, "g6.12xlarge or p5.48xlarge")


def instance_type_is_offered(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    if settings.region not in OFFERINGS or _hardware(nodeset) is None:
        return
    given, zone = nodeset.instance_type, nodeset.zone_id
    offered = OFFERINGS[settings.region].get(given, ())
    if not offered:
        elsewhere = regions_with(given)
        yield Problem(
            path=f"nodesets.{name}.instance_type",
            given=shown(given, ""),
            why=f"no zone of {settings.region} offers it",
            remedy=f"take another type, or one of the regions {listed(elsewhere)}"
            if elsewhere
            else "take another type",
        )
    if zone is None:
        return
    if zone not in zones_of(settings.region):
        why = f"{settings.region} has no such zone"
        remedy = f"use one of {listed(offered or zones_of(settings.region))}"
    elif offered and zone not in offered:
        why, remedy = f"{zone} does not offer {given}", f"use {listed(offered, 'or')}"
    else:
        return
    yield Problem(path=f"nodesets.{name}.zone_id", given=shown(zone, ""), why=why, remedy=remedy)


def zone_has_a_subnet(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    existing = settings.network.existing
    if existing is None:
        return
    zones = tuple(existing.private_subnet_ids)
    offered = OFFERINGS.get(settings.region, {}).get(nodeset.instance_type, ())
    remedy = (
        "add the private subnet of such a zone to network.existing.private_subnet_ids, or take another type or zone"
    )
    if nodeset.zone_id is not None and nodeset.zone_id not in zones:
        path, given = f"nodesets.{name}.zone_id", nodeset.zone_id
        why = f"your network has private subnets in {listed(zones)} only"
    elif nodeset.zone_id is None and offered and not set(offered) & set(zones):
        path, given = f"nodesets.{name}.instance_type", nodeset.instance_type
        why = f"only {listed(offered)} offer it, and your network has private subnets in {listed(zones)}"
    else:
        return
    yield Problem(path=path, given=shown(given, ""), why=why, remedy=remedy)


def gres_is_what_the_hardware_has(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    hardware, gres = _hardware(nodeset), nodeset.gres
    if gres is None or hardware is None or hardware.gpu is None:
        return
    path, remedy = f"nodesets.{name}.gres", f"leave it out, {hardware.gres} is derived"
    found = re.fullmatch(r"gpu(?::(?P<type>[^:,\s]+))??(?::(?P<count>\d+))?", gres)
    if found is None:
        why = "it is not of the form gpu:<type>:<count>"
        yield Problem(path=path, given=shown(gres, path), why=why, remedy=remedy)
        return
    count = int(found["count"] or 1)
    if count != hardware.gpus:
        why = (
            f"three numbers must agree: gres says {count}, the worker's {GPU_RESOURCE} limit is {hardware.gpus} and "
            f"{hardware.name} has {hardware.gpus} GPUs (more makes slurmd invalid, fewer leaves GPUs unused)"
        )
        yield Problem(path=path, given=shown(gres, path), why=why, remedy=remedy)
    kind, detected = found["type"], hardware.gpu.gres
    if kind is None or kind == detected:
        return
    fits = kind.lower() in detected
    yield Problem(
        path=path,
        given=shown(gres, path),
        why=(
            f"the nodes will offer {detected!r}, so jobs that ask for gpu:{kind} will never run"
            if fits
            else f"GRES type {kind!r} cannot match the {hardware.gpu.product} of {hardware.name}, and slurmd drops it"
        ),
        remedy=f"use {detected!r} here and in jobs" if fits else f"use {detected!r} or leave gres out",
        fatal=not fits,
    )


def _of_decision(decision: Decision, path: str, given: str) -> Iterator[Problem]:
    if decision.verdict != "accept":
        yield Problem(
            path=path, given=given, why=decision.why, remedy=decision.remedy, fatal=decision.verdict == "refuse"
        )


def efa_fits_the_type(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    hardware = _hardware(nodeset)
    if hardware is None:
        return
    given = f"{shown(nodeset.efa, '')} with {nodeset.nodes} x {hardware.name}"
    yield from _of_decision(decide_efa(nodeset, hardware), f"nodesets.{name}.efa", given)


def placement_fits_the_capacity(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    hardware = _hardware(nodeset)
    if hardware is None:
        return
    bought = "" if nodeset.capacity is None else f" beside {nodeset.capacity.reservation_id}"
    given = f"{shown(nodeset.placement_group, '')}{bought}"
    yield from _of_decision(decide_placement(nodeset, hardware), f"nodesets.{name}.placement_group", given)


def capacity_fits_the_type_and_zone(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    hardware, capacity = _hardware(nodeset), nodeset.capacity
    if hardware is None or capacity is None:
        return
    if capacity.kind == "block" and not hardware.capacity_block:
        sold = listed(row.name for row in INSTANCE_TYPES.values() if row.capacity_block)
        yield Problem(
            path=f"nodesets.{name}.capacity.kind",
            given=f"{shown(capacity.kind, '')} with {hardware.name}",
            why=f"AWS sells Capacity Blocks only of {sold}",
            remedy="use on_demand for an On-Demand Capacity Reservation",
        )
    offered = OFFERINGS.get(settings.region, {}).get(hardware.name, ())
    if nodeset.zone_id is None and len(offered) > 1:
        yield Problem(
            path=f"nodesets.{name}.zone_id",
            given=f"nothing beside {capacity.reservation_id}",
            why=f"a reservation is good in its own zone only, and {listed(offered)} offer {hardware.name}",
            remedy="give the zone id of the reservation (aws ec2 describe-capacity-reservations)",
        )


def root_volume_holds_the_image(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    if nodeset.root_volume_gib < ROOT_VOLUME_AT_LEAST_GIB:
        yield Problem(
            path=f"nodesets.{name}.root_volume_gib",
            given=str(nodeset.root_volume_gib),
            why="the slurmd image is 15 GB packed and lies on the node packed, unpacked and, during an update, twice",
            remedy=f"give {ROOT_VOLUME_AT_LEAST_GIB} or more",
        )


def shm_leaves_memory(settings: Settings, name: str, nodeset: Nodeset) -> Iterator[Problem]:
    hardware = _hardware(nodeset)
    if hardware is None or nodeset.shm_gib is None:
        return
    half = hardware.memory_mib // 1024 // 2
    if nodeset.shm_gib > half:
        yield Problem(
            path=f"nodesets.{name}.shm_gib",
            given=str(nodeset.shm_gib),
            why=f"/dev/shm is memory, and {hardware.name} has {half * 2} GiB for the jobs as well",
            remedy=f"give {half} (half of it) or less",
        )


def exactly_one_default_partition(settings: Settings) -> Iterator[Problem]:
    chosen = [name for name, nodeset in settings.nodesets.items() if nodeset.partition.default]
    alone = len(settings.nodesets) == 1
    if len(chosen) > 1:
        yield Problem(
            path="nodesets",
            given=f"partition.default true in {listed(chosen)}",
            why="Slurm has one default partition, and the last of several would win",
            remedy="keep true in one of them",
        )
    only = next(iter(settings.nodesets.values()))
    if not chosen and not (alone and only.partition.default is None):
        yield Problem(
            path="nodesets",
            given=f"no partition.default true in {listed(settings.nodesets)}",
            why='jobs without -p end in "No partition specified or system default partition"',
            remedy=f"set nodesets.{next(iter(settings.nodesets))}.partition.default: true, or another one's",
        )


def shared_capacity_is_consistent(settings: Settings) -> Iterator[Problem]:
    """A reservation has one type and one zone, a cluster placement group one zone."""
    for (one, first), (two, second) in combinations(settings.nodesets.items(), 2):
        path = f"nodesets.{two}"
        if first.capacity and second.capacity and first.capacity.reservation_id == second.capacity.reservation_id:
            if first.instance_type != second.instance_type:
                yield Problem(
                    path=f"{path}.capacity.reservation_id",
                    given=f"{second.capacity.reservation_id}, as nodesets.{one} has it",
                    why=f"a reservation holds one type, not {first.instance_type} and {second.instance_type}",
                    remedy="give each nodeset the reservation of its own type",
                )
            elif first.zone_id != second.zone_id:
                yield Problem(
                    path=f"{path}.capacity.reservation_id",
                    given=f"{second.capacity.reservation_id}, as nodesets.{one} has it",
                    why="a reservation is in one zone, and the two nodesets name different ones",
                    remedy="give both the zone of the reservation",
                )
        named = first.placement_group not in ("auto", "none") and first.placement_group == second.placement_group
        if named and first.zone_id != second.zone_id:
            yield Problem(
                path=f"{path}.placement_group",
                given=f"{shown(second.placement_group, '')}, as nodesets.{one} has it",
                why="a cluster placement group is in one zone, and the two nodesets may be in different ones",
                remedy="give both nodesets the same zone_id, or one of them another group",
            )


NODESET_RULES: Final = (
    instance_type_is_usable,
    instance_type_is_offered,
    zone_has_a_subnet,
    gres_is_what_the_hardware_has,
    efa_fits_the_type,
    placement_fits_the_capacity,
    capacity_fits_the_type_and_zone,
    root_volume_holds_the_image,
    shm_leaves_memory,
)
NODESETS_RULES: Final = (exactly_one_default_partition, shared_capacity_is_consistent)
