"""Every rule across settings: what it refuses or warns of, and that it lets the good pass."""

# One case a line: the table is read across.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from facts.hardware import INSTANCE_TYPES
from facts.versions import ALL_CHARTS, DCGM_EXPORTER, KUBE_PROMETHEUS_STACK
from facts.zones import OFFERINGS, regions_with
from plan.tags import tags
from settings import rules_network, rules_nodesets, rules_platform, rules_slurm
from settings.load import from_stack_file
from settings.placement import EFA, PLACEMENT, Asked, Bought, Count, Efa, Verdict, decide_efa, decide_placement
from settings.problems import Problem
from settings.rules import RULES, findings, warnings
from settings.rules_nodesets import NODESET_RULES
from tests.settings.build import OWN_NETWORK, ROOT, Changes, told, unchecked

DIGEST = "sha256:" + "0a" * 32
ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/slurmd"
RESERVATION = {"reservation_id": "cr-0123456789abcdef0"}
BLOCK = {**RESERVATION, "kind": "block"}


class Case(NamedTuple):
    """A change, the path that is complained about, the end of the message, and whether it stops the deployment."""

    rule: Callable[..., Iterable[Problem]]
    changes: Changes
    path: str
    end: str
    fatal: bool = True


def nodeset(**keys: object) -> dict[str, Any]:
    return {"nodesets": {"slinky": keys}}


def two(first: Changes, second: Changes) -> dict[str, Any]:
    """Two nodesets of p5.48xlarge, `a` being the default."""
    base = {"instance_type": "p5.48xlarge", "nodes": 2}
    return {
        "nodesets": {
            "slinky": ...,
            "a": {**base, "partition": {"default": True}, **first},
            "b": {**base, **second},
        }
    }


def conf(**keys: object) -> dict[str, Any]:
    return {"slurm": {"extra_conf": keys}}


def cgroup(**keys: object) -> dict[str, Any]:
    return {"slurm": {"extra_cgroup_conf": keys}}


def own_network(**keys: object) -> dict[str, Any]:
    return {"network": {"existing": {**OWN_NETWORK, **keys}}}


N, P, W, S = rules_nodesets, rules_platform, rules_network, rules_slurm
SLINKY = "nodesets.slinky"
LARGE = {"nodesets": {"slinky": {"nodes": 16}}}

CASES = (
    # hardware and zones
    Case(N.instance_type_is_usable, nodeset(instance_type="g6.12xlarg"), f"{SLINKY}.instance_type", "whose numbers are not known; did you mean g6.12xlarge?"),
    Case(N.instance_type_is_usable, nodeset(instance_type="hpc7a.96xlarge"), f"{SLINKY}.instance_type", "it has no NVIDIA GPU; use another type, such as g6.12xlarge or p5.48xlarge"),
    Case(N.instance_type_is_usable, nodeset(instance_type="trn2.48xlarge"), f"{SLINKY}.instance_type", "image and collectives; use another type, such as g6.12xlarge or p5.48xlarge"),
    Case(N.instance_type_is_usable, nodeset(instance_type="g7.12xlarge"), f"{SLINKY}.instance_type", "(amazon-eks-ami, doc/usage/g7-ami.md); use another type, such as g6.12xlarge or p5.48xlarge"),
    Case(N.instance_type_is_usable, nodeset(instance_type="c8gn.16xlarge"), f"{SLINKY}.instance_type", "the AMIs and images here are x86_64; use another type, such as g6.12xlarge or p5.48xlarge"),
    Case(N.instance_type_is_usable, nodeset(instance_type="m6i.2xlarge"), f"{SLINKY}.instance_type", "m6i.2xlarge has no NVIDIA GPU; use another type, such as g6.12xlarge or p5.48xlarge"),
    Case(N.instance_type_is_offered, {"region": "ap-east-1", **nodeset(instance_type="p5.48xlarge")}, f"{SLINKY}.instance_type", "us-east-2, us-west-1 and us-west-2"),
    Case(N.instance_type_is_offered, nodeset(instance_type="p5en.48xlarge", zone_id="usw2-az1"), f"{SLINKY}.zone_id", "usw2-az1 does not offer p5en.48xlarge; use usw2-az2, usw2-az3 or usw2-az4"),
    Case(N.instance_type_is_offered, nodeset(zone_id="use1-az1"), f"{SLINKY}.zone_id", "us-west-2 has no such zone; use one of usw2-az1, usw2-az2, usw2-az3 and usw2-az4"),
    Case(N.zone_has_a_subnet, {**own_network(), **nodeset(zone_id="usw2-az3")}, f"{SLINKY}.zone_id", "or take another type or zone"),
    Case(N.zone_has_a_subnet, {**own_network(private_subnet_ids={"usw2-az1": "subnet-01234567", "usw2-az4": "subnet-11234567"}), **nodeset(instance_type="g5.12xlarge", zone_id="usw2-az3")}, f"{SLINKY}.zone_id", "or take another type or zone"),
    Case(N.zone_has_a_subnet, {"region": "ap-northeast-1", **nodeset(instance_type="p5en.48xlarge"), "network": {"existing": {**OWN_NETWORK, "private_subnet_ids": {"apne1-az1": "subnet-01234567", "apne1-az2": "subnet-11234567"}}}}, f"{SLINKY}.instance_type", "or take another type or zone"),
    # GRES
    Case(N.gres_is_what_the_hardware_has, nodeset(gres="gpu:nvidia_l4:8"), f"{SLINKY}.gres", "three numbers must agree: gres says 8, the worker's nvidia.com/gpu limit is 4 and g6.12xlarge has 4 GPUs (more makes slurmd invalid, fewer leaves GPUs unused); leave it out, gpu:nvidia_l4:4 is derived"),
    Case(N.gres_is_what_the_hardware_has, nodeset(gres="gpu:2"), f"{SLINKY}.gres", "leave it out, gpu:nvidia_l4:4 is derived"),
    Case(N.gres_is_what_the_hardware_has, nodeset(gres="gpu:h100:4"), f"{SLINKY}.gres", "GRES type 'h100' cannot match the NVIDIA L4 of g6.12xlarge, and slurmd drops it; use 'nvidia_l4' or leave gres out"),
    Case(N.gres_is_what_the_hardware_has, nodeset(gres="gpu:l4:4"), f"{SLINKY}.gres", "the nodes will offer 'nvidia_l4', so jobs that ask for gpu:l4 will never run; use 'nvidia_l4' here and in jobs", False),
    Case(N.gres_is_what_the_hardware_has, nodeset(gres="4 GPUs"), f"{SLINKY}.gres", "it is not of the form gpu:<type>:<count>; leave it out, gpu:nvidia_l4:4 is derived"),
    # EFA, placement, capacity
    Case(N.efa_fits_the_type, nodeset(instance_type="g6.xlarge", efa=True), f"{SLINKY}.efa", "the type has no EFA interface; leave efa out, or take a size that has one"),
    Case(N.efa_fits_the_type, nodeset(efa=False), f"{SLINKY}.efa", "NCCL will use TCP between the nodes, at a fraction of what EFA gives; leave efa out, so that the type's EFA is used", False),
    Case(N.efa_fits_the_type, nodeset(instance_type="g6.xlarge"), f"{SLINKY}.efa", "take a size with EFA for jobs on several nodes", False),
    Case(N.placement_fits_the_capacity, nodeset(placement_group="none"), f"{SLINKY}.placement_group", "or keep it to get capacity that a group cannot get", False),
    Case(N.placement_fits_the_capacity, nodeset(instance_type="p5.48xlarge", zone_id="usw2-az2", placement_group="mine", capacity=BLOCK), f"{SLINKY}.placement_group", "leave placement_group out, AWS places a block close together by itself"),
    Case(N.capacity_fits_the_type_and_zone, nodeset(zone_id="usw2-az1", capacity=BLOCK), f"{SLINKY}.capacity.kind", "p6-b200.48xlarge and p6-b300.48xlarge; use on_demand for an On-Demand Capacity Reservation"),
    Case(N.capacity_fits_the_type_and_zone, nodeset(capacity=RESERVATION), f"{SLINKY}.zone_id", "give the zone id of the reservation (aws ec2 describe-capacity-reservations)"),
    Case(N.shared_capacity_is_consistent, two({"zone_id": "usw2-az2", "capacity": RESERVATION}, {"zone_id": "usw2-az3", "capacity": RESERVATION}), "nodesets.b.capacity.reservation_id", "give both the zone of the reservation"),
    Case(N.shared_capacity_is_consistent, two({"zone_id": "usw2-az2", "capacity": RESERVATION}, {"instance_type": "p5en.48xlarge", "zone_id": "usw2-az2", "capacity": RESERVATION}), "nodesets.b.capacity.reservation_id", "a reservation holds one type, not p5.48xlarge and p5en.48xlarge; give each nodeset the reservation of its own type"),
    Case(N.shared_capacity_is_consistent, two({"placement_group": "mine", "zone_id": "usw2-az2"}, {"placement_group": "mine"}), "nodesets.b.placement_group", "give both nodesets the same zone_id, or one of them another group"),
    # volumes, partitions
    Case(N.root_volume_holds_the_image, nodeset(root_volume_gib=99), f"{SLINKY}.root_volume_gib", "give 100 or more"),
    Case(N.shm_leaves_memory, nodeset(shm_gib=97), f"{SLINKY}.shm_gib", "g6.12xlarge has 192 GiB for the jobs as well; give 96 (half of it) or less"),
    Case(N.exactly_one_default_partition, two({}, {"partition": {"default": True}}), "nodesets", "the last of several would win; keep true in one of them"),
    Case(N.exactly_one_default_partition, two({"partition": {}}, {}), "nodesets", "set nodesets.a.partition.default: true, or another one's"),
    Case(N.exactly_one_default_partition, nodeset(partition={"default": False}), "nodesets", "set nodesets.slinky.partition.default: true, or another one's"),
    # region, network, core nodes
    Case(W.region_is_known, {"region": "us-west2"}, "aws:region", "did you mean us-west-2?"),
    Case(W.region_is_known, {"region": "af-south-1"}, "aws:region", "it is no region that offers a GPU type of facts/hardware.py; did you mean ap-south-1?"),
    Case(W.vpc_range_is_usable, {"network": {"vpc_cidr": "10.0.0.0/15"}}, "network.vpc_cidr", "AWS makes no VPC wider than a /16; use a /16 to /20, such as 10.0.0.0/16"),
    Case(W.vpc_range_is_usable, {"network": {"vpc_cidr": "10.0.17.0/24"}}, "network.vpc_cidr", "smaller than AWS's smallest, a /28; use a /16 to /20, such as 10.0.16.0/20"),
    Case(W.vpc_range_is_usable, {"network": {"vpc_cidr": "169.254.0.0/16"}}, "network.vpc_cidr", "use a private range like 10.0.0.0/16"),
    Case(W.vpc_range_is_usable, {"network": {"vpc_cidr": "8.8.0.0/16"}}, "network.vpc_cidr", "whom the cluster could then not reach; use a private range like 10.0.0.0/16", False),
    Case(W.network_is_made_or_given, {"network": {"vpc_cidr": "10.1.0.0/16", "existing": OWN_NETWORK}}, "network.vpc_cidr", "leave out one of the two"),
    Case(W.network_is_made_or_given, {"network": {"nat": "single", "existing": OWN_NETWORK}}, "network.nat", "leave out one of the two"),
    Case(W.network_is_made_or_given, {"network": {"zone_ids": ["usw2-az1", "usw2-az2"], "existing": OWN_NETWORK}}, "network.zone_ids", "leave out one of the two"),
    Case(W.network_is_made_or_given, {"network": {"endpoints": False, "existing": OWN_NETWORK}}, "network.endpoints", "leave out one of the two"),
    Case(W.zones_can_hold_the_control_plane, {"network": {"zone_ids": ["usw2-az1", "usw2-az9"]}}, "network.zone_ids", "us-west-2 has no such zone; use usw2-az1, usw2-az2, usw2-az3 or usw2-az4"),
    Case(W.zones_can_hold_the_control_plane, {"region": "us-east-1", "network": {"zone_ids": ["use1-az1", "use1-az3"]}}, "network.zone_ids", "EKS puts no control plane into it; use use1-az1, use1-az2, use1-az4, use1-az5 or use1-az6"),
    Case(W.zones_can_hold_the_control_plane, {"network": {"zone_ids": ["usw2-az1", "usw2-az1"]}}, "network.zone_ids", "it stands there twice, and a zone counts once; name each zone once"),
    Case(W.zones_can_hold_the_control_plane, {"region": "us-east-1", **own_network(private_subnet_ids={"use1-az1": "subnet-01234567", "use1-az3": "subnet-11234567"})}, "network.existing.private_subnet_ids", "add a private subnet in another of them"),
    Case(W.subnets_are_distinct, own_network(public_subnet_ids={"usw2-az1": "subnet-01234567"}), "network.existing.public_subnet_ids.usw2-az1", "a subnet is in one zone and is private or public; give each its own subnet"),
    Case(W.core_type_is_usable, {"cluster": {"core": {"instance_type": "m6g.2xlarge"}}}, "cluster.core.instance_type", "it is arm64, the AMIs and images here are x86_64; use another type, such as m6i.2xlarge"),
    Case(W.core_type_is_usable, {"cluster": {"core": {"instance_type": "m6i.2xlarg"}}}, "cluster.core.instance_type", "did you mean m6i.2xlarge?"),
    Case(W.core_type_is_usable, {"cluster": {"core": {"instance_type": "g6.xlarge"}}}, "cluster.core.instance_type", "use a type such as m6i.2xlarge, and nodesets for GPUs"),
    Case(W.core_type_is_usable, {"region": "ap-east-1", "cluster": {"core": {"instance_type": "m7a.2xlarge"}}}, "cluster.core.instance_type", "ap-east-1 offers it in no two zones; take another type or other zones"),
    Case(W.core_nodes_cover_the_zones, {"network": {"zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}}, "cluster.core.nodes", "in a zone without a core node it can run nowhere; give 3 or more, or name fewer zones"),
    Case(W.large_clusters_have_ways_out, {**LARGE, "network": {"nat": "single"}}, "network.nat", "use per_zone, or leave it out", False),
    Case(W.large_clusters_have_ways_out, {**LARGE, "network": {"endpoints": False}}, "network.endpoints", "by all nodes at once when they start; leave it out", False),
    # tags, access
    Case(P.tags_are_allowed, {"tags": {"kubernetes.io/cluster/demo": "owned"}}, "tags.kubernetes.io/cluster/demo", "the load balancer controller stops when a second security group of a node has this tag; leave it out"),
    Case(P.tags_are_allowed, {"tags": {"AWS:team": "x"}}, "tags.AWS:team", "keys that begin with aws: are AWS's own; use another key"),
    Case(P.tags_are_allowed, {"tags": {"component": "x"}}, "tags.component", "use a key other than project, cluster, component and managed-by"),
    Case(P.tags_are_allowed, {"tags": {"team": "a;b"}}, "tags.team", "change the key or the value"),
    Case(P.tags_are_allowed, {"tags": {"t" * 129: ""}}, "tags." + "t" * 129, "change the key or the value"),
    Case(P.tags_are_allowed, {"tags": {f"t{i}": "" for i in range(41)}}, "tags", "give 40 or fewer"),
    Case(P.login_is_not_for_everybody, {"login": {"allowed_cidrs": ["0.0.0.0/0"]}}, "login.allowed_cidrs[0]", "it opens SSH to the whole world, or to most of it; give the addresses of your users, such as 203.0.113.7/32"),
    Case(P.login_is_not_for_everybody, {"login": {"allowed_cidrs": ["203.0.113.7/32", "128.0.0.0/1"]}}, "login.allowed_cidrs[1]", "such as 203.0.113.7/32"),
    Case(P.login_is_not_for_everybody, {"login": {"allowed_cidrs": ["203.0.113.7/32"] * 2}}, "login.allowed_cidrs", "it stands there twice, and AWS refuses the second rule; keep it once"),
    Case(P.login_is_not_for_everybody, {"login": {"allowed_cidrs": [f"203.0.113.{i}/32" for i in range(61)]}}, "login.allowed_cidrs", "AWS takes 60 ranges here; combine neighbouring ranges"),
    Case(P.login_is_not_for_everybody, {"login": {"allowed_cidrs": ["10.0.0.0/8"]}, "cluster": {"api_allowed_cidrs": ["203.0.113.7/32"]}}, "login.allowed_cidrs[0]", "give the public address that your users come from", False),
    Case(P.api_is_not_for_everybody, {"cluster": {"api_allowed_cidrs": ["0.0.0.0/0"]}}, "cluster.api_allowed_cidrs[0]", "give the addresses of your users, such as 203.0.113.7/32"),
    Case(P.api_is_not_for_everybody, {"cluster": {"api_allowed_cidrs": ["10.0.0.0/8"]}}, "cluster.api_allowed_cidrs[0]", "(inside the VPC the private endpoint serves); give public addresses"),
    Case(P.api_is_not_for_everybody, {"login": {"allowed_cidrs": ["192.168.1.0/24"]}}, "login.allowed_cidrs[0]", "give public addresses, or set cluster.api_allowed_cidrs"),
    Case(P.api_is_not_for_everybody, {"login": {"allowed_cidrs": [f"203.0.113.{i}/32" for i in range(41)]}}, "cluster.api_allowed_cidrs", "name the ranges that need the Kubernetes API"),
    Case(P.admin_roles_are_distinct, {"cluster": {"admin_role_arns": ["arn:aws:iam::123456789012:role/a"] * 2}}, "cluster.admin_role_arns", "EKS has one access entry per role; keep it once"),
    # image, charts, database, storage
    Case(P.image_belongs_to_the_chart, {"image": {"tag": "25.05.3-torch2.9"}}, "image.tag", "slurmd image 25.05.3 does not belong to chart 1.2.1 (Slurm 26.05): workers end in ImagePullBackOff or cannot register; begin the tag with 26.05.2"),
    Case(P.image_belongs_to_the_chart, {"image": {"tag": "latest"}}, "image.tag", "begin the tag with 26.05.2"),
    Case(P.image_belongs_to_the_chart, {"image": {"prebuilt": f"{ECR}@{DIGEST}"}}, "image.slurm_version", 'give the version inside, such as "26.05.2"'),
    Case(P.image_belongs_to_the_chart, {"image": {"prebuilt": f"{ECR}@{DIGEST}", "slurm_version": "25.11"}}, "image.slurm_version", "use an image with Slurm 26.05"),
    Case(P.image_belongs_to_the_chart, {"image": {"slurm_version": "26.05.2"}}, "image.slurm_version", "leave it out, or give image.prebuilt"),
    Case(P.image_belongs_to_the_chart, {"image": {"prebuilt": f"{ECR}@{DIGEST}", "slurm_version": "26.05", "tag": "26.05.2"}}, "image.tag", "leave out one of the two"),
    Case(P.prebuilt_image_is_a_digest, {"image": {"prebuilt": f"{ECR}:26.05.2", "slurm_version": "26.05.2"}}, "image.prebuilt", "(docker buildx imagetools inspect shows the digest)"),
    Case(P.prebuilt_image_is_a_digest, {"image": {"prebuilt": f"{ECR}:26.05.2@{DIGEST}", "slurm_version": "26.05.2"}}, "image.prebuilt", "leave out :26.05.2, and put the Slurm version into image.slurm_version"),
    Case(P.prebuilt_image_is_a_digest, {"image": {"prebuilt": f"{ECR.replace('us-west-2', 'us-east-1')}@{DIGEST}", "slurm_version": "26.05"}}, "image.prebuilt", "replicate the image to us-west-2", False),
    Case(P.charts_have_one_source, {"charts": {"mirror": "oci://registry.example/charts", "folder": "charts"}}, "charts", "leave out one of the two"),
    Case(P.database_is_large_enough, {"accounting": {"enabled": True, "instance_class": "db.t4g.medium"}}, "accounting.instance_class", "use db.m7g.large or larger"),
    Case(P.storage_keeps_up, {**LARGE, "storage": {"throughput": "bursting"}}, "storage.throughput", "use elastic", False),
    # slurm.conf, cgroup.conf
    Case(S.keys_are_the_users_own, conf(returntoservice=1), "slurm.extra_conf.returntoservice", "only 2 brings a replaced worker back by itself; leave it out"),
    Case(S.keys_are_the_users_own, conf(GresTypes=["gpu", "craynetwork"]), "slurm.extra_conf.GresTypes", "it follows from the nodesets; leave it out"),
    Case(S.keys_are_the_users_own, conf(PartitionName="all"), "slurm.extra_conf.PartitionName", "it follows from the nodesets; leave it out"),
    Case(S.keys_are_the_users_own, conf(AccountingStorageType="accounting_storage/none"), "slurm.extra_conf.AccountingStorageType", "it follows from accounting.enabled; leave it out"),
    Case(S.gres_types_name_the_gpus, conf(GresTypes=["craynetwork"]), "slurm.extra_conf.GresTypes", "it must contain 'gpu', because nodeset 'slinky' declares Gres=gpu:nvidia_l4:4 and Slurm drops every GRES of a type that is not listed, without a word; leave it out, it is derived"),
    Case(S.accounting_keys_have_accounting, conf(AccountingStorageEnforce=["associations"]), "slurm.extra_conf.AccountingStorageEnforce", "so every job would be refused; set accounting.enabled: true, or leave it out"),
    Case(S.accounting_keys_have_accounting, conf(AccountingStorageTRES="gres/gpu"), "slurm.extra_conf.AccountingStorageTRES", "without an accounting database; set accounting.enabled: true, or leave it out"),
    Case(S.accounting_keys_have_accounting, conf(PriorityWeightFairshare=1000), "slurm.extra_conf.PriorityWeightFairshare", "set accounting.enabled: true, or leave it out"),
    Case(S.enforcement_has_accounts, {"accounting": {"enabled": True}, **conf(AccountingStorageEnforce=["limits"])}, "slurm.extra_conf.AccountingStorageEnforce", "add accounts and users with sacctmgr before they submit jobs", False),
    Case(S.topology_has_a_file, conf(TopologyPlugin="topology/tree"), "slurm.extra_conf.TopologyPlugin", "topology/tree needs a topology file with something in it, and slurmctld ends without one; leave it out: the nodes of a nodeset are one flat network"),
    Case(S.slurm_conf_stays_whole, conf(SchedulerParameters="a,b  c"), "slurm.extra_conf.SchedulerParameters", "write a list for several items, without spaces in them"),
    Case(S.slurm_conf_stays_whole, conf(MinJobAge="60\nReturnToService=0"), "slurm.extra_conf.MinJobAge", "without spaces in them"),
    Case(S.slurm_conf_stays_whole, conf(MinJobAge=""), "slurm.extra_conf.MinJobAge", "a key without a value breaks the file; give a value or leave it out"),
    Case(S.slurm_conf_stays_whole, conf(DebugFlags=[]), "slurm.extra_conf.DebugFlags", "give a value or leave it out"),
    Case(S.slurm_conf_stays_whole, {"slurm": {"extra_conf": {"MinJobAge=60 X": "1"}}}, "slurm.extra_conf.MinJobAge=60 X", "write `Key: value`, one key a line"),
    Case(S.cgroup_conf_stays_whole, cgroup(AllowedRAMSpace="95 # percent"), "slurm.extra_cgroup_conf.AllowedRAMSpace", "without spaces in them"),
    Case(S.keys_are_not_given_twice, conf(MinJobAge=1, minjobage=2), "slurm.extra_conf.minjobage", "and one of them is lost; keep one"),
    Case(S.constraints_stay, cgroup(ConstrainDevices="no"), "slurm.extra_cgroup_conf.ConstrainDevices", "it is yes, so that a job sees the GPUs it asked for and no others; leave it out"),
    Case(S.constraints_stay, cgroup(cgroupplugin="disabled"), "slurm.extra_cgroup_conf.cgroupplugin", "without it nothing is constrained; leave it out"),
)  # fmt: skip


def name_of(case: Case) -> str:
    return f"{case.rule.__name__}-{case.path}"


def found_by(case: Case) -> list[Problem]:
    stack = unchecked(case.changes)
    if case.rule in NODESET_RULES:
        return [problem for name, item in stack.nodesets.items() for problem in case.rule(stack, name, item)]
    return list(case.rule(stack))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_each_rule_finds_what_it_is_for_and_says_what_to_do(case: Case) -> None:
    found = {problem.path: problem for problem in found_by(case)}
    assert case.path in found, found
    assert str(found[case.path]).endswith(case.end)
    assert found[case.path].fatal == case.fatal


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_stops_a_deployment_is_told_when_the_settings_are_loaded_and_the_rest_is_a_warning(case: Case) -> None:
    refused = told(case.changes)
    if case.fatal:
        assert any(line.startswith(f"{case.path}: ") and line.endswith(case.end) for line in refused)
    else:
        assert not any(line.startswith(f"{case.path}: ") and line.endswith(case.end) for line in refused)
        assert any(line.startswith(f"{case.path}: ") for line in warnings(unchecked(case.changes)))


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {*RULES, *NODESET_RULES}


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_the_example_stacks_are_neither_refused_nor_warned_of(stack: str) -> None:
    settings = from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack)
    assert findings(settings, ROOT) == []
    assert settings.name == f"slurm-{stack}"


@pytest.mark.parametrize("name", [name for name, row in INSTANCE_TYPES.items() if row.gpus])
def test_every_gpu_type_can_be_a_nodeset_somewhere_and_its_derived_gres_is_accepted(name: str) -> None:
    region = regions_with(name)[0]
    core = next(c for c in ("m6i.2xlarge", "m7i.2xlarge") if c in OFFERINGS[region])
    gres = INSTANCE_TYPES[name].gres
    assert (
        told({"region": region, "cluster": {"core": {"instance_type": core}}, **nodeset(instance_type=name, gres=gres)})
        == []
    )


# The two decision tables, row by row: what is decided, and which group the nodes go into.
PLACEMENT_ROWS: dict[tuple[Efa, Asked, Bought], tuple[Verdict, str]] = {
    ("on", "auto", "nothing"): ("accept", "own"),
    ("on", "auto", "reservation"): ("accept", "none"),
    ("on", "auto", "block"): ("accept", "none"),
    ("on", "none", "nothing"): ("warn", "none"),
    ("on", "none", "reservation"): ("accept", "none"),
    ("on", "none", "block"): ("accept", "none"),
    ("on", "named", "nothing"): ("accept", "named"),
    ("on", "named", "reservation"): ("accept", "named"),
    ("on", "named", "block"): ("refuse", "none"),
    ("off", "auto", "nothing"): ("accept", "none"),
    ("off", "auto", "reservation"): ("accept", "none"),
    ("off", "auto", "block"): ("accept", "none"),
    ("off", "none", "nothing"): ("accept", "none"),
    ("off", "none", "reservation"): ("accept", "none"),
    ("off", "none", "block"): ("accept", "none"),
    ("off", "named", "nothing"): ("accept", "named"),
    ("off", "named", "reservation"): ("accept", "named"),
    ("off", "named", "block"): ("refuse", "none"),
}
GROUPS = {"auto": "auto", "none": "none", "named": "mine"}
CAPACITIES: dict[Bought, Changes | None] = {"nothing": None, "reservation": RESERVATION, "block": BLOCK}


def test_the_placement_table_lists_every_combination() -> None:
    assert set(PLACEMENT) == set(product(get_args(Efa), get_args(Asked), get_args(Bought)))
    assert set(PLACEMENT_ROWS) == set(PLACEMENT)


@pytest.mark.parametrize("row", PLACEMENT_ROWS, ids="-".join)
def test_placement_is_decided_as_the_table_says_for_the_settings_that_a_user_writes(
    row: tuple[Efa, Asked, Bought],
) -> None:
    efa, asked, bought = row
    changes = nodeset(
        instance_type="p5.48xlarge",
        zone_id="usw2-az2",
        efa=efa == "on",
        placement_group=GROUPS[asked],
        capacity=CAPACITIES[bought],
    )
    settings = unchecked(changes)
    decision = decide_placement(settings.nodesets["slinky"], INSTANCE_TYPES["p5.48xlarge"])
    assert (decision.verdict, decision.group) == PLACEMENT_ROWS[row]
    path = f"{SLINKY}.placement_group: "
    assert any(line.startswith(path) for line in told(changes)) == (decision.verdict == "refuse")
    assert any(line.startswith(path) for line in warnings(settings)) == (decision.verdict == "warn")


def test_nothing_is_said_about_placement_of_a_single_node() -> None:
    settings = unchecked(nodeset(placement_group="none", nodes=1))
    assert decide_placement(settings.nodesets["slinky"], INSTANCE_TYPES["g6.12xlarge"]).verdict == "accept"


def test_the_efa_table_lists_every_combination() -> None:
    assert set(EFA) == set(product((None, True, False), (True, False), get_args(Count)))


@pytest.mark.parametrize("efa", [None, True, False])
@pytest.mark.parametrize("instance_type", ["g6.12xlarge", "g6.xlarge"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_efa_is_decided_by_the_type_and_warned_of_only_where_several_nodes_would_use_tcp(
    efa: bool | None, instance_type: str, nodes: int
) -> None:
    settings = unchecked(nodeset(instance_type=instance_type, nodes=nodes, efa=efa))
    hardware = INSTANCE_TYPES[instance_type]
    expected = "accept"
    if efa and not hardware.efa_interfaces:
        expected = "refuse"
    elif nodes > 1 and not (hardware.efa_interfaces and efa is not False):
        expected = "warn"
    assert decide_efa(settings.nodesets["slinky"], hardware).verdict == expected


def test_every_decision_that_is_not_an_acceptance_says_what_to_do() -> None:
    assert [d for d in (*PLACEMENT.values(), *EFA.values()) if (d.verdict != "accept") != bool(d.remedy)] == []


def charts_in(folder: Path, left_out: Iterable[str] = ()) -> None:
    for chart in ALL_CHARTS:
        if chart.name not in left_out:
            (folder / f"{chart.name}-{chart.version}.tgz").touch()


def test_a_folder_with_all_charts_is_accepted_wherever_the_project_is(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    charts_in(tmp_path / "charts")
    assert told({"charts": {"folder": "charts"}}, root=tmp_path) == []
    assert told({"charts": {"folder": str(tmp_path / "charts")}}) == []


def test_all_charts_that_a_folder_lacks_are_named(tmp_path: Path) -> None:
    charts_in(tmp_path, left_out=("cert-manager", "slurm", "dcgm-exporter"))
    (problem,) = told({"charts": {"folder": str(tmp_path)}})
    assert "it lacks cert-manager-v1.16.2.tgz, slurm-1.2.1.tgz and dcgm-exporter-4.8.2.tgz; " in problem


def test_charts_of_monitoring_are_not_asked_for_when_there_is_none(tmp_path: Path) -> None:
    charts_in(tmp_path, left_out=(KUBE_PROMETHEUS_STACK.name, DCGM_EXPORTER.name))
    assert told({"charts": {"folder": str(tmp_path)}, "observability": {"enabled": False}}) == []
    assert len(told({"charts": {"folder": str(tmp_path)}})) == 1


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (problem,) = told({"charts": {"folder": "nowhere"}}, root=tmp_path)
    assert problem.endswith("there is no such folder; make it with the archives of all charts in it")


def test_settings_that_slurm_leaves_to_the_user_are_accepted() -> None:
    assert (
        told(conf(SchedulerParameters=["bf_max_job_test=500", "defer"], MinJobAge=60, TopologyPlugin="topology/flat"))
        == []
    )
    assert told(conf(SlurmctldParameters=["idle_on_node_suspend"])) == []
    assert (
        told({"accounting": {"enabled": True}, **conf(AccountingStorageEnforce=["limits"], PriorityWeightFairshare=9)})
        == []
    )
    assert told(cgroup(AllowedRAMSpace="95")) == []


def test_the_tag_keys_that_are_refused_are_those_that_the_plan_sets() -> None:
    assert set(tags(unchecked({}), component="x")) == set(rules_platform.OWN_TAG_KEYS)
