"""One value alone: its type, its shape, its bounds, and how each is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from settings.models import Partition, Section, Settings
from settings.shapes import KUBERNETES_VERSIONS, LOG_RETENTION_DAYS, PUBLIC_KEY_TYPES
from tests.settings.build import OWN_NETWORK, public_key, settings, told

NODESET = "nodesets.slinky"
COUNT = "count, fixed (an EKS nodegroup has 450 nodes at most)"
DIGEST = "sha256:" + "0a" * 32


def nodeset(**keys: object) -> dict[str, Any]:
    return {"nodesets": {"slinky": keys}}


def sections(model: type[BaseModel] = Section) -> list[type[BaseModel]]:
    return [kind for child in model.__subclasses__() for kind in (child, *sections(child))]


def test_the_fewest_lines_that_make_a_stack_are_a_nodeset_and_a_range_of_addresses() -> None:
    stack = settings({})
    assert stack.nodesets["slinky"].partition == Partition(default=None, max_time="24:00:00")
    assert (stack.cluster.version, stack.cluster.core.nodes, stack.network.vpc_cidr) == ("1.36", 2, "10.0.0.0/16")
    assert (stack.accounting.enabled, stack.observability.enabled, stack.validation.enabled) == (False, True, True)


def test_settings_cannot_be_changed_after_loading() -> None:
    stack = settings({})
    with pytest.raises(ValidationError):
        stack.nodesets["slinky"].nodes = 3
    assert isinstance(stack.login.allowed_cidrs, tuple)


@pytest.mark.parametrize("section", [Settings, *sections()], ids=lambda section: section.__name__)
def test_every_section_is_strict_closed_and_frozen_and_describes_its_fields(section: type[BaseModel]) -> None:
    config = section.model_config
    assert (config.get("strict"), config.get("extra"), config.get("frozen")) == (True, "forbid", True)
    assert config.get("hide_input_in_errors") is True
    assert [name for name, field in section.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (nodeset(nodes="2"), f"{NODESET}.nodes: got '2'; it must be a whole number; leave out the quotes"),
        (nodeset(nodes=2.5), f"{NODESET}.nodes: got 2.5; it must be a whole number; give a whole number such as 2"),
        (nodeset(nodes=True), f"{NODESET}.nodes: got true; it must be a whole number; give a whole number such as 2"),
        (nodeset(nodes=0), f"{NODESET}.nodes: got 0; {COUNT}; give 1 to 450"),
        (nodeset(nodes=451), "give 1 to 450"),
        (nodeset(nodes=...), f"{NODESET}.nodes: got nothing; {COUNT}; give it"),
        (
            nodeset(efa="yes"),
            f"{NODESET}.efa: got 'yes'; it must be true or false; write true or false, without quotes",
        ),
        (nodeset(partition={"max_time": 60}), 'max_time: got 60; it must be a text; put it in quotes: "60"'),
        (nodeset(capacity={"kind": "odcr", "reservation_id": "cr-01234567"}), "use 'on_demand' or 'block'"),
        (nodeset(capacity="cr-0123456789abcdef0"), "write its keys below it, indented (reservation_id and kind)"),
        (
            {"cluster": {"version": 1.30}},
            'reads a version such as 1.30 as the number 1.3; put it in quotes, like "1.36"',
        ),
        ({"cluster": {"core": {"nodes": 1}}}, "count over all zones, so that one may fail; give 2 to 60"),
        ({"login": {"allowed_cidrs": "203.0.113.7/32"}}, "it must be a list; write it like [203.0.113.7/32]"),
        ({"login": {"allowed_cidrs": []}}, "got an empty list; who may reach port 22 of the load balancer"),
        (
            {"login": {"allowed_cidrs": ...}},
            "login.allowed_cidrs: got nothing; who may reach port 22 of the load balancer",
        ),
        ({"login": ...}, "login.allowed_cidrs: got nothing; who may reach port 22 of the load balancer"),
        ({"nodesets": ...}, "nodesets: got an empty object; GPU nodesets by name; give 1 to 16 entries"),
        ({"region": ...}, "aws:region: got nothing; `aws:region` of the stack; give it, it has no default"),
        ({"storage": "elastic"}, "storage: got 'elastic'; it must be an object"),
        ({"storage": {"throughput": "elastik"}}, "did you mean elastic? use 'elastic' or 'bursting'"),
        (
            {"slurm": {"extra_conf": {"SchedulerParameters": True}}},
            'put it in quotes, as Slurm spells it (such as "YES")',
        ),
        ({"tags": {"cost": 17}}, 'tags.cost: got 17; it must be a text; put it in quotes: "17"'),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_the_right_one(changes: dict[str, Any], message: str) -> None:
    (problem,) = told(changes)
    assert message in problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            nodeset(zone="usw2-az1"),
            f"{NODESET}.zone: got 'usw2-az1'; {NODESET} has no key 'zone'; did you mean zone_id? the keys",
        ),
        (nodeset(gpus=4), f"{NODESET} has no key 'gpus'; the keys are instance_type, nodes, zone_id,"),
        (nodeset(partition={"time": "1"}), "did you mean max_time? the keys are default and max_time"),
        (
            {"network": {"zone_id": "usw2-az1"}},
            "network has no key 'zone_id'; did you mean zone_ids? the keys are vpc_cidr,",
        ),
        (
            {"cluster": {"instance_type": "m6i.2xlarge"}},
            "did you mean cluster.core.instance_type or nodesets.<name>.instance_type?",
        ),
        ({"nodset": {}}, "the settings have no key 'nodset'; did you mean nodesets? the keys are name, tags, network,"),
        ({"allowed_cidrs": []}, "did you mean login.allowed_cidrs?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(changes: dict[str, Any], message: str) -> None:
    (problem,) = told(changes)
    assert message in problem


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"name": "Slurm"}, "with a letter first and no hyphen last"),
        ({"name": "slurm-"}, "with a letter first and no hyphen last"),
        ({"nodesets": {"GPU": {"instance_type": "g6.12xlarge", "nodes": 1}}}, "no hyphen last"),
        (nodeset(zone_id="us-west-2a"), "write it like usw2-az1 (aws ec2 describe-availability-zones lists the ids)"),
        ({"network": {"vpc_cidr": "10.0.0.1/16"}}, "write 10.0.0.0/16 for the range or 10.0.0.1/32 for the address"),
        ({"network": {"vpc_cidr": "10.0.0.0"}}, "it must be an IPv4 range; write it like 203.0.113.7/32"),
        (
            {"network": {"vpc_cidr": "fd00::/56"}},
            "IPv6 is not supported, it must be an IPv4 range; write it like 203.0.113.7/32",
        ),
        (
            {"network": {"vpc_cidr": "10.0.0.256/24"}},
            "no address or prefix has such numbers; write it like 203.0.113.7/32",
        ),
        (
            {"network": {"vpc_cidr": "10.0.0.0/33"}},
            "no address or prefix has such numbers; write it like 203.0.113.7/32",
        ),
        (
            {"login": {"allowed_cidrs": ["203.0.113.7/24"]}},
            "write 203.0.113.0/24 for the range or 203.0.113.7/32 for the address",
        ),
        ({"cluster": {"version": "1.32"}}, 'use "1.36" or one of 1.33, 1.34, 1.35 and 1.36'),
        ({"cluster": {"version": "1.37"}}, 'use "1.36" or one of 1.33, 1.34, 1.35 and 1.36'),
        ({"cluster": {"log_retention_days": 100}}, "only for certain numbers of days; use 120"),
        ({"cluster": {"admin_role_arns": ["arn:aws:sts::123456789012:assumed-role/admin/me"]}}, "role/platform-admin"),
        ({"cluster": {"admin_role_arns": ["arn:aws:iam::123456789012:user/me"]}}, "role/platform-admin"),
        (nodeset(capacity={"reservation_id": "res-1"}), "write it like cr-0123456789abcdef0"),
        (nodeset(placement_group="Auto"), "the words are written in lower case; write auto"),
        (nodeset(placement_group="cluster"), "not the name of a group; use auto for a cluster group of our own"),
        (nodeset(placement_group=" mine"), "use auto, none or the name of a group that exists"),
        (nodeset(placement_group=""), "use auto, none or the name of a group that exists"),
        (nodeset(partition={"max_time": "1 day"}), "90 in quotes (minutes) or UNLIMITED"),
        ({"image": {"tag": "26.05.2 torch"}}, "128 at most"),
        ({"image": {"dlc_digest": "sha256:abc"}}, "write sha256: and 64 hex digits"),
        ({"image": {"prebuilt": f"x/y@{DIGEST}", "slurm_version": "26"}}, 'write it like "26.05.2"'),
        ({"accounting": {"instance_class": "m7g.large"}}, "write it like db.m7g.large"),
        (
            {"charts": {"mirror": "registry.example/charts"}},
            "write it like oci://registry.example/charts, without a slash at the end",
        ),
        ({"charts": {"mirror": "oci://registry.example/charts/"}}, "without a slash at the end"),
        ({"charts": {"folder": "oci://registry.example/charts"}}, "(an OCI registry goes in charts.mirror)"),
        ({"network": {"existing": {**OWN_NETWORK, "vpc_id": "vpc1"}}}, "write it like vpc-0123456789abcdef0"),
        (
            {"network": {"existing": {**OWN_NETWORK, "public_subnet_ids": {"usw2-az1": "sn-1"}}}},
            "write it like subnet-0123456789abcdef0",
        ),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_with_an_example(changes: dict[str, Any], end: str) -> None:
    (problem,) = told(changes)
    assert problem.endswith(end)


@pytest.mark.parametrize(
    "max_time", ["UNLIMITED", "90", "10080", "30:00", "24:00:00", "100:00:00", "7-00", "1-12:00", "7-00:00:00"]
)
def test_every_way_in_which_slurm_writes_a_time_is_accepted(max_time: str) -> None:
    assert told(nodeset(partition={"max_time": max_time})) == []


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_listed_kubernetes_version_is_accepted(version: str) -> None:
    assert told({"cluster": {"version": version}}) == []


@pytest.mark.parametrize("days", LOG_RETENTION_DAYS)
def test_every_retention_that_cloudwatch_takes_is_accepted(days: int) -> None:
    assert told({"cluster": {"log_retention_days": days}}) == []


@pytest.mark.parametrize("kind", PUBLIC_KEY_TYPES)
def test_every_kind_of_openssh_public_key_is_accepted(kind: str) -> None:
    assert told({"login": {"authorized_keys": [public_key(kind), public_key(kind, "")]}}) == []


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----", "that is a private key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "that is a private key"),
        (public_key()[:40], "what follows ssh-ed25519 is not such a key (cut off or wrapped when copied?)"),
        (public_key().replace(" ", "\n", 1), "it must be one line per list item"),
        ("ssh-ed25519", "what follows ssh-ed25519 is not such a key"),
        ("ssh-rsa " + public_key().split()[1], "what follows ssh-rsa is not such a key"),
        (public_key("ssh-dss"), "an OpenSSH public key begins with its type"),
        ('from="203.0.113.7" ' + public_key(), "an OpenSSH public key begins with its type"),
        ("~/.ssh/id_ed25519.pub", "an OpenSSH public key begins with its type"),
    ],
)
def test_what_is_no_public_key_is_refused_and_never_shown(key: str, why: str) -> None:
    (problem,) = told({"login": {"authorized_keys": [key]}})
    assert problem.startswith(f"login.authorized_keys[0]: got a text of {len(key)} characters (not shown); {why}")
    assert not any(len(part) > 20 and part in problem for part in key.split())


@pytest.mark.parametrize("schedule", ["0 * * * *", "*/15 2-6 1,15 * 0", "30 2 * * 1-5/2", None])
def test_a_schedule_that_kubernetes_takes_is_taken(schedule: str | None) -> None:
    assert settings({"validation": {"health_schedule": schedule}}).validation.health_schedule == schedule


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"health_schedule": "hourly"}, "a schedule has five fields: minute, hour, day, month and day of the week"),
        ({"health_schedule": "60 * * * *"}, "its minute goes from 0 to 59"),
        ({"health_schedule": "0 0 * * 7"}, "its day of the week goes from 0 to 6"),
        ({"health_schedule": "0 6-2 * * *"}, "its hour goes from 0 to 23"),
        ({"health_schedule": "*/0 * * * *"}, "'*/0' is no minute"),
        ({"suites": ["fast"]}, "use 'quick', 'full' or 'training'"),
        ({"suites": []}, "what runs, one after another"),
        ({"drain_failed_nodes": "yes"}, "it must be true or false"),
    ],
)
def test_a_validation_that_cannot_run_is_refused(validation: dict[str, Any], message: str) -> None:
    (problem,) = told({"validation": validation})
    assert message in problem
