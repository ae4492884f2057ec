from __future__ import annotations

from dataclasses import replace

import pytest

from components.foundation import Foundation, FoundationArgs
from components.shared_storage import SharedStorage, SharedStorageArgs
from plan import plan_foundation
from plan.network import plan_network
from plan.storage import StoragePlan, plan_storage
from tests.plan.build import example
from tests.recorder import NODES, before, built, network_ids, on_kubernetes
from tools.recording import Record

FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
VOLUME = "kubernetes:core/v1:PersistentVolume"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


def dev_plan() -> StoragePlan:
    return plan_storage(example("dev"), plan_network(example("dev")))


def storage_of(plan: StoragePlan) -> Record:
    return built(
        lambda: SharedStorage(
            "efs",
            SharedStorageArgs(plan=plan, network=network_ids(plan.mount_targets.values()), nodes=NODES),
            on_kubernetes(),
        )
    )


@pytest.fixture(scope="module")
def storage() -> Record:
    return storage_of(dev_plan())


@pytest.fixture(scope="module")
def foundation() -> Record:
    return built(lambda: Foundation("base", FoundationArgs(plan=plan_foundation(example("dev"))), on_kubernetes()))


def test_the_file_system_is_encrypted_elastic_and_backed_up(storage: Record) -> None:
    inputs = storage.one(FILE_SYSTEM).inputs
    assert (inputs["encrypted"], inputs["throughputMode"]) == (True, "elastic")
    assert storage.one("aws:efs/backupPolicy:BackupPolicy").inputs["backupPolicy"] == {"status": "ENABLED"}


def test_a_protected_file_system_cannot_be_destroyed_by_the_stack(storage: Record) -> None:
    assert storage_of(replace(dev_plan(), protect=True)).one(FILE_SYSTEM).protect
    assert not storage.one(FILE_SYSTEM).protect


def test_there_is_one_mount_target_per_zone_with_nodes(storage: Record) -> None:
    targets = storage.of("aws:efs/mountTarget:MountTarget")
    assert {r.name: r.inputs["subnetId"] for r in targets} == {
        f"efs-{zone}": f"{key}-id" for zone, key in dev_plan().mount_targets.items()
    }


def test_only_nodes_may_mount(storage: Record) -> None:
    rule = storage.one("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule").inputs
    assert (rule["referencedSecurityGroupId"], rule["fromPort"], rule["toPort"]) == ("sg-cluster", 2049, 2049)
    assert "cidrIpv4" not in rule
    assert all(t.inputs["securityGroups"] == ["efs-id"] for t in storage.of("aws:efs/mountTarget:MountTarget"))


def test_access_points_squash_nobody_because_users_are_told_apart_by_uid(storage: Record) -> None:
    points = {r.name: r.inputs for r in storage.of("aws:efs/accessPoint:AccessPoint")}
    assert points.keys() == {f"efs-{claim.name}" for claim in dev_plan().claims}
    assert not any("posixUser" in inputs for inputs in points.values())
    assert points["efs-shared"]["rootDirectory"]["path"] == "/shared"


def test_claim_and_volume_find_each_other_and_no_class_comes_between(storage: Record) -> None:
    for claim in dev_plan().claims:
        volume, pvc = storage.one(VOLUME, f"efs-{claim.name}"), storage.one(CLAIM, f"efs-{claim.name}")
        assert volume.inputs["spec"]["storageClassName"] == pvc.inputs["spec"]["storageClassName"] == ""
        assert pvc.inputs["spec"]["volumeName"] == volume.inputs["metadata"]["name"]
        reference = volume.inputs["spec"]["claimRef"]
        assert (reference["namespace"], reference["name"]) == ("slurm", pvc.inputs["metadata"]["name"])
        assert volume.inputs["spec"]["csi"]["volumeHandle"] == f"efs-id::efs-{claim.name}-id"
        assert volume.inputs["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume.urn in pvc.depends_on


def test_no_pod_can_mount_before_the_mount_targets_answer(storage: Record) -> None:
    for volume in storage.of(VOLUME):
        assert {("aws:efs/mountTarget:MountTarget", f"efs-{zone}") for zone in dev_plan().mount_targets} <= before(
            storage, volume
        )


def test_the_namespaces_of_the_plan_are_made_under_their_own_names(foundation: Record) -> None:
    made = {r.inputs["metadata"]["name"] for r in foundation.of("kubernetes:core/v1:Namespace")}
    assert made == set(plan_foundation(example("dev")).namespaces)


def test_claims_without_a_class_get_encrypted_gp3_in_the_zone_of_their_pod(foundation: Record) -> None:
    storage_class = foundation.one("kubernetes:storage.k8s.io/v1:StorageClass").inputs
    assert storage_class["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert storage_class["parameters"]["encrypted"] == "true"
    assert storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    assert storage_class["provisioner"] == "ebs.csi.aws.com"
