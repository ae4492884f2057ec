"""The slurm chart's values: what of slurm.conf, GRES, partitions, pods, keys and images follows from the settings."""

from __future__ import annotations

import base64
import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from facts import names, versions
from plan.accounting import plan_accounting
from plan.charts import Json, ReleasePlan, Values
from plan.contract import plan_contract
from plan.network import plan_network
from plan.nodegroups import plan_nodegroups
from plan.slurm import CLIENT_ALIVE_SECONDS, SlurmPlan, plan_slurm, with_deploy_values
from settings.models import Login, Observability, Partition, Settings, Slurm
from settings.rules_slurm import OWNED_CGROUP_KEYS, OWNED_KEYS
from tests.plan import upstream
from tests.plan.build import Accounting, example, nodeset, stack

REPOSITORY = "123456789012.dkr.ecr.us-west-2.amazonaws.com/slurmd"
DIGEST = "sha256:" + "ab" * 32


def public_key(fill: bytes, comment: str) -> str:
    """A well-formed ed25519 key that nobody has the other half of."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", fill * 32))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {comment}"


KEYS = [public_key(b"a", "first"), public_key(b"b", "second")]
NLB_DEFAULT_IDLE_SECONDS = 350


def slurm(settings: Settings) -> SlurmPlan:
    network = plan_network(settings)
    nodegroups, accounting = plan_nodegroups(settings, network), plan_accounting(settings, network)
    return plan_slurm(settings, plan_contract(settings), nodegroups, accounting)


def slurm_release(settings: Settings) -> ReleasePlan:
    return slurm(settings).release


def deployed(settings: Settings, keys: list[str] = KEYS) -> Values:
    """The values as they reach the chart."""
    return with_deploy_values(
        slurm_release(settings).values,
        image_repository=REPOSITORY,
        image_digest=DIGEST,
        authorized_keys=keys,
        accounting_host="db.example" if settings.accounting.enabled else None,
    )


def at(values: Json, *path: str) -> Json:
    """The value at a path."""
    for key in path:
        assert isinstance(values, dict), path
        values = values[key]
    return values


def table(values: Json, *path: str) -> Values:
    found = at(values, *path)
    assert isinstance(found, dict), path
    return found


def lines(chart_map: Json) -> list[str]:
    """A chart's map as its template writes it: sorted, lists joined by commas, falsy values dropped without a word."""
    assert isinstance(chart_map, dict)
    return [
        f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in sorted(chart_map.items())
        if value
    ]


def slurm_conf(settings: Settings) -> list[str]:
    return lines(at(slurm_release(settings).values, "controller", "extraConfMap"))


def contains(whole: Json, part: Json) -> bool:
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    return whole == part


# What the walkthrough's cluster is


def test_the_values_for_dev_hold_all_that_the_walkthrough_says() -> None:
    walkthrough = json.loads(upstream.reference("operator-samples/01-walkthrough.values.json").read_text())
    walkthrough["loginsets"] = {names.LOGINSET: walkthrough["loginsets"]["slinky"]}  # ours has its own name
    assert contains(deployed(example("dev")), walkthrough)


def test_the_operators_result_for_the_walkthrough_is_what_our_values_come_to() -> None:
    result = upstream.reference("operator-samples/01-walkthrough.result.txt").read_text()
    values = deployed(example("dev"))
    _, _, extra = result.partition("### EXTRA CONFIG ###\n")
    assert set(extra.split("\n\n")[0].splitlines()) <= set(slurm_conf(example("dev")))
    configuration = " ".join(
        f"{key}={value}" for key, value in table(values, "nodesets", "slinky", "partition", "configMap").items()
    )
    assert f"PartitionName=slinky Nodes=slinky {configuration}\n" in result
    gres = lines(at(values, "nodesets", "slinky", "extraConfMap"))
    assert f"'Features=slinky {' '.join(gres)}'" in result


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_values_are_those_of_the_golden_file(name: str) -> None:
    upstream.compare_with_golden(f"{name}/slurm.yaml", slurm_release(example(name)).values)


# Keys that the chart has


def unknown_to_the_chart(values: Values, defaults: Values) -> list[str]:
    """nodesets and loginsets are empty in values.yaml; their entries are laid over the defaults beside them."""
    unknown = upstream.unknown_paths(values, defaults)
    for group in ("nodeset", "loginset"):
        for name, entry in table(values, f"{group}s").items():
            unknown += upstream.unknown_paths(entry, defaults[f"{group}Defaults"], f".{group}s.{name}")
    return unknown


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_every_key_is_one_that_the_chart_has(name: str) -> None:
    defaults = yaml.safe_load(upstream.reference("slinky-1.2.1/values/slurm.yaml").read_text())
    assert unknown_to_the_chart(deployed(example(name)), defaults) == []


def test_a_key_that_the_chart_does_not_have_is_found() -> None:
    defaults = yaml.safe_load(upstream.reference("slinky-1.2.1/values/slurm.yaml").read_text())
    values = deployed(example("dev"))
    table(values, "nodesets", "slinky")["useResourceLimits"] = True
    table(values, "controller")["extraConfmap"] = {}
    assert unknown_to_the_chart(values, defaults) == [".controller.extraConfmap", ".nodesets.slinky.useResourceLimits"]


def test_no_text_stands_where_it_would_hide_a_map() -> None:
    assert not re.search(r'"(extraConf|config)":', json.dumps(deployed(example("prod"))))


# slurm.conf


@pytest.mark.parametrize(
    "line",
    [
        "GresTypes=gpu",
        "ReturnToService=2",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/affinity,task/cgroup",
        "PrologFlags=Contain",
        "MpiDefault=pmix",
        "PropagateResourceLimitsExcept=MEMLOCK",
    ],
)
def test_slurm_conf_has(line: str) -> None:
    assert line in slurm_conf(stack())


def test_a_job_sees_the_gpus_that_it_asked_for_and_no_others() -> None:
    cgroup = at(slurm_release(stack()).values, "configFiles", "cgroup.conf")
    assert isinstance(cgroup, str)
    assert cgroup.splitlines() == [
        "CgroupPlugin=cgroup/v2",
        "IgnoreSystemd=yes",
        "ConstrainCores=yes",
        "ConstrainRAMSpace=yes",
        "ConstrainDevices=yes",
    ]
    assert "TaskPlugin=task/affinity,task/cgroup" in slurm_conf(stack())


def test_gpus_are_found_by_the_driver() -> None:
    assert at(slurm_release(stack()).values, "configFiles", "gres.conf") == "AutoDetect=nvidia\n"


def test_jobs_are_only_counted_where_there_is_something_to_count_them_in() -> None:
    counting = {"JobAcctGatherType=jobacct_gather/cgroup", "AccountingStorageTRES=gres/gpu"}
    assert not counting & set(slurm_conf(stack()))
    assert counting <= set(slurm_conf(stack(accounting=Accounting(enabled=True))))


def test_the_users_lines_are_added_and_zero_survives_the_chart() -> None:
    extra = Slurm(extra_conf={"MinJobAge": 0, "SchedulerParameters": ("bf_continue", "defer"), "SlurmdDebug": "debug2"})
    written = slurm_conf(stack().model_copy(update={"slurm": extra}))
    assert {"MinJobAge=0", "SchedulerParameters=bf_continue,defer", "SlurmdDebug=debug2", "GresTypes=gpu"} <= set(
        written
    )


def test_what_is_derived_is_refused_from_users() -> None:
    settings = stack(accounting=Accounting(enabled=True))
    derived = table(slurm_release(settings).values, "controller", "extraConfMap")
    assert set(derived) <= set(OWNED_KEYS)
    cgroup = str(at(slurm_release(settings).values, "configFiles", "cgroup.conf"))
    assert {line.split("=")[0] for line in cgroup.splitlines()} <= set(OWNED_CGROUP_KEYS)


def test_cgroup_conf_takes_the_users_lines_but_keeps_its_own() -> None:
    extra = Slurm(extra_cgroup_conf={"ConstrainSwapSpace": "yes", "ConstrainDevices": "no"})
    values = slurm_release(stack().model_copy(update={"slurm": extra})).values
    cgroup = at(values, "configFiles", "cgroup.conf")
    assert isinstance(cgroup, str)
    assert "ConstrainSwapSpace=yes\n" in cgroup
    assert "ConstrainDevices=yes\n" in cgroup and "ConstrainDevices=no" not in cgroup


def test_more_nodes_than_the_operator_allows_are_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plan.slurm.OPERATOR_MAX_NODE_COUNT", 10)
    chosen = Partition(default=True)
    assert "MaxNodeCount" not in " ".join(slurm_conf(stack({"a": nodeset(nodes=10)})))
    assert "MaxNodeCount=12" in slurm_conf(stack({"a": nodeset(nodes=6, partition=chosen), "b": nodeset(nodes=6)}))


def test_a_changed_configuration_is_taken_up_without_a_restart() -> None:
    assert at(slurm_release(stack()).values, "controller", "inplaceReconfigure") is True


# Nodesets and partitions


def test_gres_devices_and_replicas_follow_from_the_instance_type() -> None:
    values = slurm_release(example("prod")).values
    assert at(values, "nodesets", "h100", "replicas") == 128
    assert at(values, "nodesets", "h100", "extraConfMap") == {"Gres": ["gpu:nvidia_h100_80gb_hbm3:8"]}
    devices = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    assert at(values, "nodesets", "h100", "slurmd", "resources") == {"limits": devices, "requests": devices}


def test_a_nodeset_without_efa_asks_for_none() -> None:
    values = slurm_release(stack({"plain": nodeset(efa=False)})).values
    assert at(values, "nodesets", "plain", "slurmd", "resources", "limits") == {"nvidia.com/gpu": 4}


def test_workers_tolerate_the_taint_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    taint = names.Taint(key="example.com/reserved", value="yes")
    monkeypatch.setattr(names, "GPU_TAINT", taint)
    assert at(slurm_release(stack()).values, "nodesets", "slinky", "podSpec", "tolerations") == [taint.toleration()]


def test_each_nodeset_is_bound_to_the_nodes_of_its_own_nodegroup() -> None:
    settings = stack({"a": nodeset(), "b": nodeset()})
    labels = {group.name: group.labels for group in plan_nodegroups(settings, plan_network(settings))}
    for name in ("a", "b"):
        selector = table(slurm_release(settings).values, "nodesets", name, "podSpec", "nodeSelector")
        assert selector[names.NODESET_LABEL] == name
        assert selector.items() <= labels[name].items()


def test_exactly_one_partition_is_the_default() -> None:
    for settings in (stack(), stack({"a": nodeset(), "b": nodeset(partition=Partition(default=True))})):
        values = slurm_release(settings).values
        flags = [at(values, "nodesets", name, "partition", "configMap", "Default") for name in settings.nodesets]
        assert sorted(map(str, flags)) == ["NO"] * (len(flags) - 1) + ["YES"]
        assert "partitions" not in values  # the chart's own `all` would be a second default


def mounts(values: Values, *path: str) -> dict[str, str]:
    listed = at(values, *path, "volumeMounts")
    assert isinstance(listed, list)
    return {str(at(mount, "mountPath")): str(at(mount, "name")) for mount in listed}


def volumes(values: Values, *path: str) -> dict[str, Values]:
    listed = at(values, *path, "podSpec", "volumes")
    assert isinstance(listed, list)
    return {str(at(volume, "name")): table(volume) for volume in listed}


def test_shared_folders_are_the_same_on_login_and_workers() -> None:
    values = slurm_release(stack()).values
    for entry, container in ((("nodesets", "slinky"), "slurmd"), (("loginsets", names.LOGINSET), "login")):
        mounted, offered = mounts(values, *entry, container), volumes(values, *entry)
        for path, claim in ((names.SHARED_MOUNT, names.SHARED_CLAIM), (names.HOME_MOUNT, names.HOME_CLAIM)):
            assert at(offered[mounted[path]], "persistentVolumeClaim", "claimName") == claim


def test_every_mount_has_its_volume() -> None:
    values = slurm_release(stack()).values
    assert set(mounts(values, "nodesets", "slinky", "slurmd").values()) == set(volumes(values, "nodesets", "slinky"))


def test_local_is_the_instance_store_where_it_is_used_and_scratch_elsewhere() -> None:
    def local(settings: Settings) -> Values:
        values = slurm_release(settings).values
        assert names.LOCAL_MOUNT in mounts(values, "nodesets", "slinky", "slurmd")
        return volumes(values, "nodesets", "slinky")["local"]

    assert at(local(stack()), "hostPath", "path") == names.LOCAL_HOST_PATH
    assert "emptyDir" in local(stack({"slinky": nodeset(local_nvme=False)}))


def test_shared_memory_is_half_of_the_node_unless_the_nodeset_says_otherwise() -> None:
    def size(settings: Settings) -> Json:
        return at(volumes(slurm_release(settings).values, "nodesets", "slinky")["shm"], "emptyDir")

    assert size(stack()) == {"medium": "Memory", "sizeLimit": "96Gi"}
    small = stack({"slinky": nodeset().model_copy(update={"shm_gib": 8})})
    assert size(small) == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert mounts(slurm_release(stack()).values, "nodesets", "slinky", "slurmd")["/dev/shm"] == "shm"


def test_huge_pages_are_not_asked_for() -> None:
    assert "hugepages" not in json.dumps(deployed(example("prod")))


def test_node_autoscalers_leave_workers_alone() -> None:
    annotations = table(slurm_release(stack()).values, "nodesets", "slinky", "metadata", "annotations")
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


# Control software


def test_control_pods_run_on_core_nodes() -> None:
    values = slurm_release(stack(accounting=Accounting(enabled=True))).values
    for entry in (("controller",), ("restapi",), ("accounting",), ("loginsets", names.LOGINSET)):
        assert at(values, *entry, "podSpec", "nodeSelector") == {names.ROLE_LABEL: names.ROLE_CORE}, entry


def test_the_controllers_state_lives_on_an_encrypted_volume_of_its_own() -> None:
    persistence = table(slurm_release(stack()).values, "controller", "persistence")
    assert persistence["storageClassName"] == names.STORAGE_CLASS


def test_keys_are_never_made_by_the_chart() -> None:
    values = slurm_release(stack()).values
    for key, (name, entry) in (("slurmKey", names.SLURM_KEY_SECRET), ("jwtKey", names.JWT_KEY_SECRET)):
        assert values[key] == {"create": False, "secretRef": {"name": name, "key": entry}}


def test_an_idle_ssh_session_outlives_the_load_balancers_patience() -> None:
    text = at(slurm_release(stack()).values, "loginsets", names.LOGINSET, "extraSshdConfig")
    assert isinstance(text, str)
    assert f"ClientAliveInterval {CLIENT_ALIVE_SECONDS}\n" in text
    assert CLIENT_ALIVE_SECONDS < NLB_DEFAULT_IDLE_SECONDS


def test_the_charts_login_service_stays_inside_the_cluster() -> None:
    values = slurm_release(stack()).values
    assert at(values, "loginsets", names.LOGINSET, "service", "spec", "type") == "ClusterIP"
    assert f"slurm-login-{names.LOGINSET}" == names.LOGIN_SERVICE


def images(values: Json) -> list[Values]:
    if isinstance(values, list):
        return [image for item in values for image in images(item)]
    if not isinstance(values, dict):
        return []
    own = [table(values, "image")] if "image" in values else []
    return own + [image for item in values.values() for image in images(item)]


def test_every_image_is_pinned_and_slurms_are_of_the_charts_series() -> None:
    found = images(deployed(example("prod")))
    assert len(found) >= 8
    for image in found:
        assert image.get("digest") or image.get("tag") not in (None, "latest"), image
        if str(image["repository"]).startswith(versions.SLINKY_IMAGES):
            assert str(image["tag"]).startswith(f"{versions.SLURM_SERIES}-"), image


def test_slurmctld_is_scraped_only_where_something_scrapes() -> None:
    def metrics(settings: Settings) -> Values:
        return table(slurm_release(settings).values, "controller", "metrics")

    assert at(metrics(stack()), "serviceMonitor", "enabled") is True
    without = stack(observability=Observability(enabled=False))
    assert metrics(without)["enabled"] is True
    assert at(metrics(without), "serviceMonitor", "enabled") is False
    assert "vendor" not in slurm_release(without).values


def test_slurm_waits_for_the_definitions_that_its_service_monitor_needs() -> None:
    assert slurm_release(stack()).after == ("slurm-operator", "kube-prometheus-stack")
    assert slurm_release(stack(observability=Observability(enabled=False))).after == ("slurm-operator",)


def test_accounting_names_the_secret_and_leaves_the_host_to_the_deployment() -> None:
    settings = stack(accounting=Accounting(enabled=True))
    storage = table(slurm_release(settings).values, "accounting", "storageConfig")
    assert storage["passwordKeyRef"] == dict(zip(("name", "key"), names.ACCOUNTING_SECRET, strict=True))
    assert "host" not in storage
    assert at(deployed(settings), "accounting", "storageConfig", "host") == "db.example"
    assert "accounting" not in deployed(stack())


# What the deployment adds


def test_the_image_reaches_every_nodeset_by_digest() -> None:
    values = deployed(stack({"a": nodeset(), "b": nodeset()}))
    for name in ("a", "b"):
        assert at(values, "nodesets", name, "slurmd", "image") == {"repository": REPOSITORY, "digest": DIGEST}


def test_the_planned_values_are_not_changed_by_the_deployment() -> None:
    values = slurm_release(stack()).values
    before = copy.deepcopy(values)
    with_deploy_values(
        values, image_repository=REPOSITORY, image_digest=DIGEST, authorized_keys=KEYS, accounting_host=None
    )
    assert values == before


def test_a_changed_key_rolls_the_login_pods() -> None:
    def checksum(keys: list[str]) -> Json:
        return at(deployed(stack(), keys), "loginsets", names.LOGINSET, "metadata", "annotations", "checksum/keys")

    assert checksum(KEYS) == checksum(list(KEYS))
    assert checksum(KEYS) != checksum(KEYS[:1])
    written = at(deployed(stack()), "loginsets", names.LOGINSET, "rootSshAuthorizedKeys")
    assert written == f"{KEYS[0]}\n{KEYS[1]}\n"


def test_a_login_key_is_made_only_for_a_user_who_gave_none() -> None:
    assert slurm(stack()).generate_login_key
    given = stack(login=Login(allowed_cidrs=("203.0.113.7/32",), authorized_keys=(KEYS[0],)))
    assert not slurm(given).generate_login_key
    assert slurm(given).authorized_keys == (KEYS[0],)


# What the real chart makes of it


def of_kind(objects: list[Values], kind: str) -> Values:
    (found,) = (item for item in objects if item["kind"] == kind)
    return found


def test_rendered_by_helm_the_cluster_is_the_walkthroughs_and_more(tmp_path: Path) -> None:
    sample = json.loads(upstream.reference("operator-samples/01-walkthrough.values.json").read_text())
    release = slurm_release(example("dev"))
    ours = upstream.rendered(release, deployed(example("dev")), tmp_path)
    theirs = upstream.rendered(release, sample, tmp_path)

    controller, their_controller = of_kind(ours, "Controller"), of_kind(theirs, "Controller")
    conf, their_conf = (str(at(c, "spec", "extraConf")).splitlines() for c in (controller, their_controller))
    assert set(their_conf) < set(conf)
    assert conf == slurm_conf(example("dev"))
    assert at(controller, "spec", "inplaceReconfigure") is at(their_controller, "spec", "inplaceReconfigure") is True

    worker, their_worker = of_kind(ours, "NodeSet"), of_kind(theirs, "NodeSet")
    assert at(worker, "metadata", "name") == at(their_worker, "metadata", "name") == "slurm-worker-slinky"
    for path in (("replicas",), ("extraConf",), ("partition",), ("slurmd", "resources"), ("scalingMode",)):
        assert at(worker, "spec", *path) == at(their_worker, "spec", *path), path
    pod, their_pod = (at(w, "spec", "template", "spec") for w in (worker, their_worker))
    assert at(pod, "tolerations") == at(their_pod, "tolerations")
    assert at(pod, "hostname") == at(their_pod, "hostname")
    assert table(their_pod, "nodeSelector").items() <= table(pod, "nodeSelector").items()


def test_rendered_by_helm_the_files_reach_slurm_as_they_are(tmp_path: Path) -> None:
    objects = upstream.rendered(slurm_release(example("dev")), deployed(example("dev")), tmp_path)
    (extra,) = (o for o in objects if at(o, "metadata", "name") == "slurm-config-extra")
    assert at(extra, "data", "gres.conf") == "AutoDetect=nvidia\n"
    assert "ConstrainDevices=yes\n" in str(at(extra, "data", "cgroup.conf"))


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_rendered_by_helm_no_key_is_made_and_nothing_changes_from_one_time_to_the_next(
    name: str, tmp_path: Path
) -> None:
    release, values = slurm_release(example(name)), deployed(example(name))
    objects = upstream.rendered(release, values, tmp_path)
    assert [at(o, "metadata", "name") for o in objects if o["kind"] == "Secret"] == ["slurm-sssd-conf"]
    assert objects == upstream.rendered(release, values, tmp_path)


def test_rendered_by_helm_slurmdbd_gets_the_database(tmp_path: Path) -> None:
    objects = upstream.rendered(slurm_release(example("prod")), deployed(example("prod")), tmp_path)
    accounting = of_kind(objects, "Accounting")
    assert at(accounting, "spec", "storageConfig", "host") == "db.example"
    assert at(of_kind(objects, "Controller"), "spec", "accountingRef", "name") == "slurm"
