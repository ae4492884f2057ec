"""`python -m plan <stack> [--json]`: every decision that follows from a stack's settings, each with its reason.

For people (tables) and for review and other programs (JSON). Decides nothing itself and needs no Pulumi: what is
printed here is the very object that the components get.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from facts.hardware import INSTANCE_TYPES
from facts.prices import HOURS_PER_MONTH, PRICES_DATE
from plan import Plan, make_plan
from plan.charts import Json, ReleasePlan
from plan.costs import NOT_COUNTED, plan_costs
from plan.network import SubnetPlan, gpu_addresses_by_zone
from plan.nodegroups import TCP_ESTABLISHED_TIMEOUT_SECONDS, GpuNodegroupPlan, has_local_nvme
from plan.outputs import static_outputs
from settings.load import from_stack_file
from settings.models import GPU_NODES_FOR_LARGE, Settings
from settings.placement import decide_placement
from settings.problems import SettingsError

EXIT_SETTINGS = 2


def to_json(value: object) -> Json:
    """Dataclasses, mappings and sequences as plain JSON values."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in cast(Mapping[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [to_json(element) for element in cast(Iterable[object], value)]
    raise TypeError(f"a plan holds only plain values, not {type(value).__name__}")


def table(title: str, *columns: str, rows: Iterable[tuple[str, ...]], right: frozenset[str] = frozenset()) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


def decisions(title: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    return table(title, "what", "decided", "why", rows=rows)


def listed(items: Iterable[str]) -> str:
    return ", ".join(items) or "none"


def addresses_text(subnet: SubnetPlan, needed: Mapping[str, int]) -> str:
    if subnet.addresses is None:
        return "yours"
    need = f" ({needed[subnet.zone_id]:,} needed)" if subnet.kind == "gpu" else ""
    return f"{subnet.addresses:,}{need}"


def network_tables(settings: Settings, plan: Plan) -> Iterable[Table]:
    network = plan.network
    needed = gpu_addresses_by_zone(settings)
    yield table(
        "Subnets",
        "subnet",
        "zone",
        "range",
        "addresses",
        "way out",
        rows=(
            (
                s.key,
                s.zone_id,
                s.cidr or s.existing_id or "",
                addresses_text(s, needed),
                "internet gateway" if s.kind == "public" else f"NAT in {s.nat_zone_id}" if s.nat_zone_id else "yours",
            )
            for s in network.subnets
        ),
        right=frozenset({"addresses"}),
    )
    if network.existing_vpc_id is not None:
        yield decisions("Network", [("VPC", network.existing_vpc_id, "yours: nothing is built in it")])
        return
    nodes = sum(group.nodes for group in plan.nodegroups)
    derived = f"{nodes} GPU nodes, {'below' if nodes < GPU_NODES_FOR_LARGE else 'at least'} {GPU_NODES_FOR_LARGE}"
    yield decisions(
        "Network",
        [
            ("VPC", network.vpc_cidr or "", "each zone has its own place in it: adding one moves none"),
            ("NAT gateways", listed(network.nat_zone_ids), "as set" if settings.network.nat else derived),
            ("gateway endpoints", listed(network.gateway_endpoints), "image layers come from S3, past the NAT gateway"),
            (
                "interface endpoints",
                listed(network.interface_endpoints),
                derived if settings.network.endpoints is None else "as set",
            ),
        ],
    )


def cluster_tables(settings: Settings, plan: Plan) -> Iterable[Table]:
    cluster, core = plan.cluster, plan.cluster.core
    chosen = settings.network.zone_ids is not None or settings.network.existing is not None
    yield decisions(
        "Cluster",
        [
            ("EKS", f"{cluster.name}, Kubernetes {cluster.version}", ""),
            ("public API endpoint", listed(cluster.public_access_cidrs), "private endpoint is always on"),
            (
                "administrators",
                listed(["the creator", *cluster.access_entries.values()]),
                "access entries, no aws-auth",
            ),
            (
                "control-plane logs",
                f"{listed(cluster.log_types)}; {cluster.log_retention_days} days",
                cluster.log_group_name,
            ),
            (
                "node role",
                listed(arn.rpartition("/")[2] for arn in cluster.node_policy_arns),
                "pods cannot reach it: one hop",
            ),
            (
                "core nodes",
                f"{core.nodes} x {core.instance_type} in {listed(k.partition('-')[2] for k in core.subnet_keys)}",
                "as set" if chosen else "first two zones that EKS takes, whatever the nodesets",
            ),
        ],
    )
    yield table(
        "EKS addons",
        "addon",
        "version",
        "identity (Pod Identity)",
        "when",
        "configuration",
        rows=(
            (
                addon.name,
                addon.version,
                listed(arn.rpartition("/")[2] for arn in addon.policy_arns) if addon.service_account else "",
                "before nodes" if addon.before_nodes else "after core nodes",
                addon.configuration or "",
            )
            for addon in cluster.addons
        ),
    )


def interface_text(group: GpuNodegroupPlan) -> str:
    """`ENA on card 0; efa-only on cards 0-31`."""
    cards = [i.network_card for i in group.interfaces if i.interface_type == "efa-only"]
    if not cards:
        return "ENA on card 0"
    span = f"card {cards[0]}" if len(cards) == 1 else f"cards {cards[0]}-{cards[-1]}"
    return f"ENA on card 0; {len(cards)} efa-only on {span}"


def placement_text(group: GpuNodegroupPlan) -> str:
    return "cluster group of our own" if group.placement.create else group.placement.existing_name or "none"


def nodeset_tables(settings: Settings, plan: Plan) -> Iterable[Table]:
    contracts = {contract.name: contract for contract in plan.contract.nodesets}
    for group in plan.nodegroups:
        contract, nodeset = contracts[group.name], settings.nodesets[group.name]
        hardware = INSTANCE_TYPES[group.instance_type]
        array = f"{hardware.nvme_count} x {hardware.nvme_gb_each} GB as RAID0"
        local_nvme = has_local_nvme(nodeset, hardware)
        volume = f"gp3 {group.root_volume_gib} GiB, {group.root_volume_iops} IOPS"
        timeout = group.tcp_established_timeout_seconds
        yield decisions(
            f"Nodeset {group.name}",
            [
                ("nodes", f"{group.nodes} x {group.instance_type}", f"{group.ami_type}; fixed size"),
                (
                    "zone",
                    group.zone_id,
                    "as set" if nodeset.zone_id else "first that offers the type, core zones before",
                ),
                ("GRES", contract.gres, "the type's GPUs, named as slurmd detects them"),
                ("interfaces", interface_text(group), "from the type's network cards"),
                ("placement group", placement_text(group), decide_placement(nodeset, hardware).why),
                ("capacity", group.capacity.reservation_id or "On-Demand", group.capacity.capacity_type),
                ("/local", array if local_nvme else "none", "instance store"),
                ("root volume", volume, "images unpack to the instance store" if local_nvme else "images unpack here"),
                (
                    "idle TCP connections",
                    f"forgotten after {timeout or TCP_ESTABLISHED_TIMEOUT_SECONDS} s",
                    "raised from the family's 350 s" if timeout else "the family's default",
                ),
                ("labels", listed(f"{k}={v}" for k, v in group.labels.items()), ""),
                (
                    "taint",
                    f"{group.taint['key']}={group.taint['value']}:NoSchedule",
                    "only slurmd and daemons tolerate it",
                ),
                (
                    "partition",
                    f"{contract.partition}, {contract.max_time}" + (", default" if contract.is_default else ""),
                    f"nodes {contract.node_names[0]} to {contract.node_names[-1]}",
                ),
                (
                    "job environment",
                    "\n".join(f"{k}={v}" for k, v in contract.job_environment.items()),
                    "GPUDirect RDMA: the plugin tunes itself" if hardware.gdr else "no GPUDirect RDMA on this family",
                ),
            ],
        )


def service_tables(plan: Plan) -> Iterable[Table]:
    image, storage, login = plan.image, plan.storage, plan.login
    rows = [
        (
            "slurmd image",
            image.prebuilt or f"{image.repository_name}:{image.tag}",
            "prebuilt: nothing is built" if image.prebuilt else f"built from {image.context} for {image.platform}",
        ),
        (
            "EFS",
            f"{storage.throughput_mode}, mount targets in {listed(storage.mount_targets)}",
            "one per zone with nodes",
        ),
        *((f"claim {c.name}", f"{c.mount}, mode {c.mode}", "access point without squash") for c in storage.claims),
        (
            "ssh",
            f"port {login.port} from {listed(login.allowed_cidrs)}",
            "by the load balancer's own security group",
        ),
        (
            "login key",
            "generated, secret output" if plan.slurm.generate_login_key else f"{len(plan.slurm.authorized_keys)} given",
            "",
        ),
        (
            "validation",
            f"within {plan.validation.timeout_seconds // 60} minutes" if plan.validation.enabled else "off",
            "its failure fails the deployment" if plan.validation.enabled else "as set",
        ),
    ]
    if plan.accounting is not None:
        database = plan.accounting
        rows.append(
            (
                "accounting",
                f"MariaDB {database.engine_version}, {database.instance_class}, {database.storage_gib} GiB"
                + (", two zones" if database.multi_az else ""),
                "what slurmdbd wants: " + listed(f"{k}={v}" for k, v in database.parameters.items()),
            )
        )
    yield decisions("Storage, image, access", rows)


def releases(plan: Plan) -> tuple[ReleasePlan, ...]:
    """All Helm releases, each behind those that it needs."""
    waiting = [*plan.operators.releases, *plan.observability.releases, plan.slurm.release]
    known, done = {release.name for release in waiting}, dict[str, ReleasePlan]()
    while waiting:
        ready = next((r for r in waiting if known.intersection(r.after) <= done.keys()), waiting[0])
        waiting.remove(ready)
        done[ready.name] = ready
    return tuple(done.values())


def release_table(plan: Plan) -> Table:
    return table(
        "Helm releases, in order",
        "release",
        "version",
        "namespace",
        "chart",
        "after",
        rows=(
            (r.name, r.version, r.namespace, r.chart if r.repo is None else f"{r.repo} {r.chart}", listed(r.after))
            for r in releases(plan)
        ),
    )


def cost_table(plan: Plan) -> Table:
    costs = plan_costs(plan)
    rows = [
        (i.name, f"{i.count:,}", "no price" if i.usd_per_hour is None else f"{i.usd_per_hour:,.2f}", i.note)
        for i in costs.items
    ]
    total = costs.total_usd_per_hour
    bound = " at least" if costs.unpriced else ""
    rows.append(("total", "", f"{total:,.2f}", f"{bound} {total * HOURS_PER_MONTH:,.0f} a month".strip()))
    title = f"USD per hour (list prices of {PRICES_DATE}, without {NOT_COUNTED})"
    return table(title, "item", "count", "USD/h", "note", rows=rows, right=frozenset({"count", "USD/h"}))


def show(settings: Settings, plan: Plan, console: Console) -> None:
    console.print(f"[bold]{escape(settings.name)}[/] in {escape(settings.region)}")
    for part in (
        *network_tables(settings, plan),
        *cluster_tables(settings, plan),
        *nodeset_tables(settings, plan),
        *service_tables(plan),
        release_table(plan),
        table(
            "Outputs known now",
            "output",
            "value",
            rows=((k, v if isinstance(v, str) else json.dumps(to_json(v))) for k, v in static_outputs(plan).items()),
        ),
        cost_table(plan),
    ):
        console.print(part)
    for warning in plan.warnings:
        console.print(f"[yellow]warning[/] {escape(warning)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plan", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("stack", help="reads Pulumi.<stack>.yaml")
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    options = parser.parse_args(arguments)
    stack: str = options.stack
    file = Path(f"Pulumi.{stack}.yaml")
    if not file.is_file():
        found = sorted(path.name.split(".")[1] for path in Path().glob("Pulumi.*.yaml"))
        print(f"{file}: no such file; stacks here: {listed(found)}", file=sys.stderr)
        return EXIT_SETTINGS
    try:
        settings = from_stack_file(file, stack)
        plan = make_plan(settings)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return EXIT_SETTINGS
    if options.json:
        print(json.dumps(to_json(plan), indent=2))
    else:
        show(settings, plan, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
