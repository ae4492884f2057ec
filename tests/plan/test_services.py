"""Storage, image, accounting, login, contract, tags: small parts, each with the property that it exists for."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from facts import names, versions
from plan import image
from plan.accounting import plan_accounting
from plan.contract import plan_contract
from plan.image import plan_image
from plan.login import bounded_name, plan_login
from plan.network import plan_network
from plan.storage import plan_storage
from plan.tags import tags
from settings.models import Settings
from tests.plan.build import Accounting, ExistingNetwork, Image, Network, Partition, example, nodeset, stack

DIGEST = "sha256:" + "a" * 64
PREFIX = "service.beta.kubernetes.io/aws-load-balancer"


def login_annotations(settings: Settings) -> dict[str, str]:
    return dict(plan_login(settings, plan_network(settings)).annotations)


def test_every_zone_with_nodes_has_exactly_one_mount_target() -> None:
    settings = stack({"far": nodeset(zone_id="usw2-az4"), "near": nodeset(zone_id="usw2-az1")})
    assert plan_storage(settings, plan_network(settings)).mount_targets == {
        "usw2-az1": "private-usw2-az1",
        "usw2-az2": "private-usw2-az2",
        "usw2-az4": "gpu-usw2-az4",
    }


def test_shared_is_open_to_all_users_and_homes_are_made_by_root_alone() -> None:
    claims = {c.mount: (c.name, c.mode) for c in plan_storage(example("dev"), plan_network(example("dev"))).claims}
    assert claims == {"/shared": ("shared", "1777"), "/home": ("home", "0755")}


def test_an_image_is_built_for_the_architecture_of_the_nodes_from_the_charts_own_base() -> None:
    image = plan_image(example("dev"))
    assert image.prebuilt is None
    assert image.platform == "linux/amd64"
    assert image.build_args["SLURMD_IMAGE"].rpartition(":")[2].startswith(versions.SLURM_SERIES)
    pinned = plan_image(stack(image=Image(base_digest=DIGEST, dlc_digest=DIGEST))).build_args
    assert pinned["SLURMD_IMAGE"].endswith(f"@{DIGEST}") and pinned["DLC_IMAGE"].endswith(f"@{DIGEST}")


def test_another_build_gets_another_tag_because_ecr_moves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "slurmd"
    shutil.copytree(image._CONTEXT_FOLDER, folder)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(image, "_CONTEXT_FOLDER", folder)
    before = plan_image(stack()).tag
    assert before.startswith("26.05.2-torch2.9-cu130-mpi-")
    (folder / "README.md").write_text("words")
    assert plan_image(stack()).tag == before
    pinned = stack(image=Image(dlc_digest=f"sha256:{'0' * 64}"))
    assert plan_image(pinned).tag != before
    (folder / "assert.d" / "99-new.sh").write_text("exit 0")
    assert plan_image(stack()).tag != before


def test_old_images_go_and_untagged_ones_first() -> None:
    rules = json.loads(plan_image(example("dev")).lifecycle_policy)["rules"]
    assert [(r["rulePriority"], r["selection"]["tagStatus"]) for r in rules] == [(1, "untagged"), (2, "any")]
    # ECR refuses a policy in which the rule for `any` is not the last.
    assert max(rules, key=lambda r: r["rulePriority"])["selection"]["tagStatus"] == "any"


def test_the_database_has_what_slurmdbd_asks_for_at_its_start() -> None:
    settings = stack(accounting=Accounting(enabled=True))
    plan = plan_accounting(settings, plan_network(settings))
    assert plan is not None
    assert plan.parameters["innodb_lock_wait_timeout"] == "900"
    assert int(plan.parameters["max_allowed_packet"]) >= 16 * 2**20
    assert "innodb_redo_log_capacity" not in plan.parameters, "MySQL's, and RDS refuses unknown ones"
    # From 11.6.2 on innodb_snapshot_isolation is on and would have to be turned off.
    assert tuple(int(n) for n in plan.engine_version.split(".")) < (11, 6)
    assert plan.parameter_family == f"mariadb{plan.engine_version}"
    assert len(plan.subnet_keys) >= 2, "a subnet group covers two zones"


def test_without_accounting_there_is_no_database() -> None:
    assert plan_accounting(example("dev"), plan_network(example("dev"))) is None


def test_the_login_load_balancer_has_the_annotations_without_which_nobody_gets_in() -> None:
    assert login_annotations(example("dev")) == {
        f"{PREFIX}-type": "external",
        f"{PREFIX}-name": "slurm-dev-login",
        f"{PREFIX}-scheme": "internet-facing",
        f"{PREFIX}-nlb-target-type": "ip",
        f"{PREFIX}-manage-backend-security-group-rules": "true",
        f"{PREFIX}-attributes": "load_balancing.cross_zone.enabled=true",
        f"{PREFIX}-target-group-attributes": "preserve_client_ip.enabled=true",
        f"{PREFIX}-listener-attributes.TCP-22": "tcp.idle_timeout.seconds=6000",
    }


def test_source_ranges_are_not_relied_upon_because_the_controller_ignores_them_beside_a_security_group() -> None:
    login = plan_login(example("dev"), plan_network(example("dev")))
    assert login.security_group_annotation == f"{PREFIX}-security-groups"
    assert not any("source-ranges" in key for key in login.annotations)
    assert login.allowed_cidrs == ("203.0.113.7/32",)


def test_public_subnets_of_the_users_own_are_named_because_their_tags_are_not_known() -> None:
    own = ExistingNetwork(
        vpc_id="vpc-0123456789abcdef0",
        private_subnet_ids={"usw2-az1": "subnet-00000001", "usw2-az2": "subnet-00000002"},
        public_subnet_ids={"usw2-az2": "subnet-00000008", "usw2-az1": "subnet-00000009"},
    )
    assert (
        login_annotations(stack(network=Network(existing=own)))[f"{PREFIX}-subnets"]
        == "subnet-00000009,subnet-00000008"
    )


@pytest.mark.parametrize("name", ["a", "slurm-dev", "x" * 26, "x" * 32, "with-a-dash-just-where-it-is-cut"])
def test_load_balancer_names_fit_and_differ_when_cut(name: str) -> None:
    made = login_annotations(stack(name=name))[f"{PREFIX}-name"]
    assert len(made) <= 32 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", made)
    assert made != bounded_name(f"{name[:-1]}q-login", 32)


def test_the_contract_is_what_the_walkthrough_has() -> None:
    contract = plan_contract(example("dev"))
    (nodeset_contract,) = contract.nodesets
    assert nodeset_contract.gres == "gpu:nvidia_l4:4"
    assert nodeset_contract.node_names == ("slinky-0", "slinky-1")
    assert (nodeset_contract.efa_interfaces, nodeset_contract.gpus_per_node) == (1, 4)
    assert (contract.slurm_version, contract.namespace, contract.accounting) == ("26.05.2", "slurm", False)


def test_a_nodeset_without_efa_promises_no_interface() -> None:
    (contract,) = plan_contract(stack({"a": nodeset(efa=False)})).nodesets
    assert contract.efa_interfaces == 0


def test_the_default_partition_is_the_one_that_says_so_or_the_only_one() -> None:
    two = stack({"b": nodeset(partition=Partition(default=True)), "a": nodeset()})
    assert [n.name for n in plan_contract(two).nodesets if n.is_default] == ["b"]
    assert [n.name for n in plan_contract(stack({"a": nodeset()})).nodesets if n.is_default] == ["a"]


def test_the_slurm_of_a_prebuilt_image_is_the_one_that_its_owner_names() -> None:
    prebuilt = Image(prebuilt=f"registry.example/slurmd@{DIGEST}", slurm_version="26.05.3")
    assert plan_contract(stack(image=prebuilt)).slurm_version == "26.05.3"


def test_users_tags_are_kept_and_ours_cannot_be_overwritten() -> None:
    made = tags(stack(tags={"team": "ml", "cluster": "other"}), component="Network")
    assert made["team"] == "ml"
    assert made["cluster"] == "test"
    assert not any(key.startswith("kubernetes.io/") for key in made)


def test_claims_are_those_that_the_slurm_chart_is_told_to_mount() -> None:
    assert {names.SHARED_CLAIM, names.HOME_CLAIM} == {
        c.name for c in plan_storage(example("dev"), plan_network(example("dev"))).claims
    }
