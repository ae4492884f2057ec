"""The Kubernetes stand-in refuses what a cluster would refuse, and keeps what it accepted."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from localcloud import kubernetes
from localcloud.kubernetes import RELEASE, EksCluster, Provider
from localcloud.provider import UNKNOWN, ProviderError, Urn

ARN = "arn:aws:eks:us-west-2:123456789012:cluster/demo"
SLINKY = "oci://ghcr.io/slinkyproject/charts"
HTTP_CHARTS = {
    "cert-manager": ("v1.16.2", "https://charts.jetstack.io"),
    "aws-load-balancer-controller": ("3.5.0", "https://aws.github.io/eks-charts"),
    "kube-prometheus-stack": ("88.5.3", "https://prometheus-community.github.io/helm-charts"),
}
NLB: dict[str, Any] = {
    "type": "LoadBalancer",
    "loadBalancerClass": "service.k8s.aws/nlb",
    "ports": [{"port": 22}],
    "selector": {"a": "b"},
}
POD: dict[str, Any] = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}


def kubeconfig(arn: str = ARN) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": arn, "user": "u"}}],
            "clusters": [{"name": arn, "cluster": {"server": "https://demo.invalid"}}],
        }
    )


class Api:
    """The provider as the engine drives it: check, then create."""

    def __init__(self, state: Path) -> None:
        self.provider: Any = Provider(state)
        self.provider.configure({"kubeconfig": kubeconfig()})

    def urn(self, token: str, name: str = "x") -> Urn:
        return Urn(f"urn:pulumi:dev::p::{token}::{name}", b"seed")

    def inputs(self, api: str, kind: str, body: dict[str, Any], **meta: Any) -> tuple[Urn, dict[str, Any]]:
        token = f"kubernetes:{'core/v1' if api == 'v1' else api}:{kind}"
        return self.urn(token), {"apiVersion": api, "kind": kind, **({"metadata": meta} if meta else {}), **body}

    def failures(self, api: str, kind: str, body: dict[str, Any], **meta: Any) -> dict[str, str]:
        urn, inputs = self.inputs(api, kind, body, **meta)
        return {f.property: f.reason for f in self.provider.check(urn, {}, inputs)[1]}

    def make(self, api: str, kind: str, body: dict[str, Any], **meta: Any) -> tuple[str, dict[str, Any]]:
        urn, inputs = self.inputs(api, kind, body, **meta)
        checked, failures = self.provider.check(urn, {}, inputs)
        assert not failures, failures
        return self.provider.create(urn, checked, False)

    def install(self, chart: str, namespace: str, values: dict[str, Any] | None = None, **more: Any) -> str:
        inputs: dict[str, Any] = {"name": chart, "namespace": namespace, "values": values or {}, **more}
        if chart in HTTP_CHARTS:
            version, repo = HTTP_CHARTS[chart]
            inputs |= {"chart": chart, "version": version, "repositoryOpts": {"repo": repo}}
        else:
            inputs |= {"chart": f"{SLINKY}/{chart}", "version": "1.2.1"}
        checked, failures = self.provider.check(self.urn(RELEASE), {}, inputs)
        assert not failures, failures
        return self.provider.create(self.urn(RELEASE), checked, False)[0]

    def delete(self, api: str, kind: str, id: str) -> None:
        self.provider.delete(self.inputs(api, kind, {})[0], id, {"apiVersion": api, "kind": kind})

    def uninstall(self, id: str) -> None:
        self.provider.delete(self.urn(RELEASE), id, {})

    def slinky(self, values: dict[str, Any] | None = None) -> str:
        for namespace in ("cert-manager", "slinky", "slurm"):
            self.make("v1", "Namespace", {}, name=namespace)
        self.install("cert-manager", "cert-manager", {"crds": {"enabled": True}})
        self.install("slurm-operator-crds", "slinky")
        self.install("slurm-operator", "slinky")
        return self.install("slurm", "slurm", values or {"loginsets": {"slinky": {}}, "nodesets": {"slinky": {}}})


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    monkeypatch.setattr(kubernetes, "eks_cluster", lambda *_: EksCluster("demo", "us-west-2", "1.36", "1"))
    return Api(tmp_path)


# -- what is wrong with one object


def test_a_property_that_the_sdk_does_not_have_is_refused_at_any_depth(api: Api) -> None:
    spec = {"ports": [{"port": 22, "targetPrt": 22}]}
    assert "no property targetPrt" in api.failures("v1", "Service", {"spec": spec}, name="a")["spec.ports[0].targetPrt"]


def test_a_kind_that_the_sdk_does_not_have_needs_a_crd(api: Api) -> None:
    with pytest.raises(ProviderError, match=r"no matches for kind ServiceMonitor.*kube-prometheus-stack"):
        api.make("monitoring.coreos.com/v1", "ServiceMonitor", {"spec": {}}, name="a", namespace="default")


def test_a_custom_resource_of_a_kind_that_kubernetes_itself_would_have_is_refused(api: Api) -> None:
    assert "no resource type kubernetes:batch/v1:Jobb" in api.failures("batch/v1", "Jobb", {}, name="a")[""]


@pytest.mark.parametrize(
    ("kind", "name"), [("Namespace", "Slurm"), ("ConfigMap", "a_b"), ("Service", "a.b"), ("Secret", "a" * 254)]
)
def test_a_name_outside_rfc_1123_is_refused(api: Api, kind: str, name: str) -> None:
    assert "RFC 1123" in api.failures("v1", kind, {}, name=name)["metadata.name"]


def test_a_label_longer_than_63_is_refused(api: Api) -> None:
    assert "metadata.labels.a" in api.failures("v1", "ConfigMap", {}, name="a", labels={"a": "b" * 64})


def test_secret_data_that_is_not_base64_is_refused(api: Api) -> None:
    assert "stringData" in api.failures("v1", "Secret", {"data": {"k": "plain text"}}, name="a")["data.k"]


def test_a_config_map_over_one_mebibyte_is_refused(api: Api) -> None:
    assert "at most 1048576" in api.failures("v1", "ConfigMap", {"data": {"k": "x" * 2**20 + "x"}}, name="a")["data"]


def test_a_job_whose_pods_restart_always_is_refused(api: Api) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
    assert "spec.template.spec.restartPolicy" in api.failures("batch/v1", "Job", {"spec": spec}, name="a")


def test_a_mount_of_a_volume_that_the_pod_lacks_is_refused(api: Api) -> None:
    pod = {**POD, "containers": [{"name": "a", "image": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}
    found = api.failures("batch/v1", "Job", {"spec": {"template": {"spec": pod}}}, name="a")
    assert "no volume of that name" in found["spec.template.spec.containers[0].volumeMounts"]


def test_a_selector_that_misses_its_own_template_is_refused(api: Api) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "c"}}, "spec": POD}}
    assert "spec.selector" in api.failures("apps/v1", "DaemonSet", {"spec": spec}, name="a")


def test_patches_are_refused(api: Api) -> None:
    assert "no patches" in api.failures("v1", "ServicePatch", {}, name="a")["kind"]


# -- what is wrong with an object in this cluster


def test_an_object_needs_its_namespace(api: Api) -> None:
    with pytest.raises(ProviderError, match=r"no such namespace, only default"):
        api.make("v1", "ConfigMap", {"data": {}}, name="a", namespace="slurm")


def test_a_cluster_scoped_object_has_no_namespace(api: Api) -> None:
    with pytest.raises(ProviderError, match="belongs to no namespace"):
        api.make("v1", "Namespace", {}, name="a", namespace="default")


def test_a_second_object_of_the_same_name_is_refused(api: Api) -> None:
    api.make("v1", "ConfigMap", {"data": {}}, name="a")
    with pytest.raises(ProviderError, match="ConfigMap default/a already exists"):
        api.make("v1", "ConfigMap", {"data": {}}, name="a")


def test_what_a_chart_made_cannot_be_made_again(api: Api) -> None:
    api.slinky()
    with pytest.raises(ProviderError, match="already exists, made by release slurm/slurm"):
        api.make("v1", "Secret", {}, name="slurm-auth-slurm", namespace="slurm")


VOLUME: dict[str, Any] = {
    "accessModes": ["ReadWriteMany"],
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"},
}


def claim(**more: Any) -> dict[str, Any]:
    requests = {"requests": {"storage": "1Gi"}}
    return {"spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": requests, **more}}


def test_a_claim_binds_the_volume_that_it_names(api: Api) -> None:
    api.make("v1", "PersistentVolume", {"spec": VOLUME}, name="shared")
    assert api.make("v1", "PersistentVolumeClaim", claim(volumeName="shared"), name="c")[1]["status"] == {
        "phase": "Bound"
    }
    with pytest.raises(ProviderError, match=r"bound to PersistentVolumeClaim default/c already"):
        api.make("v1", "PersistentVolumeClaim", claim(volumeName="shared"), name="d")
    with pytest.raises(ProviderError, match="would stay Terminating"):
        api.delete("v1", "PersistentVolume", "shared")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (claim(volumeName="other"), "no such PersistentVolume"),
        (claim(volumeName="shared", storageClassName="gp3"), "storage class 'gp3' is not its volume's ''"),
        (claim(volumeName="shared", accessModes=["ReadWriteOncePod"]), "does not offer ReadWriteOncePod"),
        (claim(), "no StorageClass ''"),
        (claim(storageClassName="gp3"), "no StorageClass 'gp3'"),
    ],
)
def test_a_claim_that_would_stay_pending_is_refused(api: Api, wanted: dict[str, Any], message: str) -> None:
    api.make("v1", "PersistentVolume", {"spec": VOLUME}, name="shared")
    with pytest.raises(ProviderError, match=message):
        api.make("v1", "PersistentVolumeClaim", wanted, name="c")


def test_a_load_balancer_needs_its_controller(api: Api) -> None:
    with pytest.raises(ProviderError, match="no load balancer controller is installed"):
        api.make("v1", "Service", {"spec": NLB}, name="login")


def test_a_load_balancer_needs_a_class_that_the_controller_serves(api: Api) -> None:
    api.install("aws-load-balancer-controller", "kube-system", {"enableServiceMutatorWebhook": False})
    with pytest.raises(ProviderError, match=r"serves class service\.k8s\.aws/nlb"):
        api.make("v1", "Service", {"spec": {**NLB, "loadBalancerClass": None}}, name="login")


def test_a_load_balancer_gets_one_stable_host_name(api: Api) -> None:
    api.install("aws-load-balancer-controller", "kube-system", {"enableServiceMutatorWebhook": False})
    id, state = api.make("v1", "Service", {"spec": NLB}, name="login")
    host = state["status"]["loadBalancer"]["ingress"][0]["hostname"]
    assert host.startswith("login-") and host.endswith(".elb.us-west-2.amazonaws.com")
    urn, inputs = api.inputs("v1", "Service", {"spec": NLB}, name="login", namespace="default")
    changed = {**inputs, "spec": {**NLB, "ports": [{"port": 2222}]}}
    assert api.provider.update(urn, id, inputs, state, changed, False)["status"] == state["status"]
    with pytest.raises(ProviderError, match=r"spec\.loadBalancerClass: the API server refuses"):
        api.provider.update(urn, id, inputs, state, {**inputs, "spec": {**NLB, "loadBalancerClass": "x"}}, False)
    with pytest.raises(ProviderError, match="nothing would clean up Service default/login"):
        api.uninstall("kube-system/aws-load-balancer-controller")


# -- deletions


def test_a_namespace_with_something_in_it_is_not_deleted(api: Api) -> None:
    api.make("v1", "Namespace", {}, name="slurm")
    api.make("v1", "ConfigMap", {"data": {}}, name="a", namespace="slurm")
    with pytest.raises(ProviderError, match=r"Namespace slurm still holds 1 objects \(ConfigMap slurm/a\)"):
        api.delete("v1", "Namespace", "slurm")
    api.delete("v1", "ConfigMap", "slurm/a")
    api.delete("v1", "Namespace", "slurm")


def test_crds_and_operator_stay_while_a_slurm_cluster_exists(api: Api) -> None:
    release = api.slinky()
    with pytest.raises(ProviderError, match="removing its CRDs would delete"):
        api.uninstall("slinky/slurm-operator-crds")
    with pytest.raises(ProviderError, match="nothing would clean up"):
        api.uninstall("slinky/slurm-operator")
    for id in (release, "slinky/slurm-operator", "slinky/slurm-operator-crds"):
        api.uninstall(id)
    api.delete("v1", "Namespace", "slurm")


def test_crds_that_helm_keeps_outlive_their_chart(api: Api) -> None:
    api.install("kube-prometheus-stack", "default")
    api.make("monitoring.coreos.com/v1", "ServiceMonitor", {"spec": {}}, name="a")
    api.uninstall("default/kube-prometheus-stack")
    api.make("monitoring.coreos.com/v1", "ServiceMonitor", {"spec": {}}, name="b")


# -- releases


def test_a_release_needs_its_namespace(api: Api) -> None:
    with pytest.raises(ProviderError, match="no such namespace"):
        api.install("cert-manager", "cert-manager")
    api.install("cert-manager", "cert-manager", createNamespace=True)


def test_a_release_name_is_taken_once(api: Api) -> None:
    api.install("cert-manager", "default")
    with pytest.raises(ProviderError, match="cannot re-use a name that is still in use"):
        api.install("cert-manager", "default")


def test_the_operator_needs_cert_managers_crds(api: Api) -> None:
    api.install("cert-manager", "default", {"crds": {"enabled": False}})
    with pytest.raises(ProviderError, match=r"Certificate in cert-manager\.io"):
        api.install("slurm-operator", "default")
    api.install("slurm-operator", "default", {"certManager": {"enabled": False}})


def test_slurm_needs_its_crds_and_its_operator(api: Api) -> None:
    with pytest.raises(ProviderError, match="no matches for kind Controller"):
        api.install("slurm", "default")
    api.install("slurm-operator-crds", "default")
    with pytest.raises(ProviderError, match="install slurm-operator first"):
        api.install("slurm", "default")


def test_slurm_needs_the_secrets_and_claims_that_it_names(api: Api) -> None:
    volumes = [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]
    for values, path in (
        ({"slurmKey": {"create": False, "secretRef": {"name": "k"}}}, "values.slurmKey.secretRef.name"),
        ({"nodesets": {"a": {"podSpec": {"volumes": volumes}}}}, "values.nodesets.a.podSpec.volumes"),
        ({"controller": {"persistence": {"existingClaim": "c"}}}, "values.controller.persistence.existingClaim"),
    ):
        fresh = Api(api.provider.state_dir / path)
        with pytest.raises(ProviderError, match=f"{path}: got .*pods would hang"):
            fresh.slinky(values)


def test_a_slurm_release_leaves_the_objects_that_the_operator_makes(api: Api) -> None:
    api.slinky()
    for token, name in (
        ("kubernetes:core/v1:Service", "slurm-controller"),
        ("kubernetes:core/v1:Service", "slurm-restapi"),
        ("kubernetes:core/v1:Service", "slurm-login-slinky"),
        ("kubernetes:slinky.slurm.net/v1beta1:NodeSet", "slurm-worker-slinky"),
        ("kubernetes:slinky.slurm.net/v1beta1:LoginSet", "slurm-login-slinky"),
    ):
        assert api.provider.read(api.urn(token), f"slurm/{name}", {}, {}), name


def test_an_upgrade_follows_the_values_but_not_where_the_webhook_refuses(api: Api) -> None:
    id = api.slinky()
    urn, state = api.urn(RELEASE), api.provider.read(api.urn(RELEASE), id, {}, {})
    assert state is not None
    old = {**state[0], "chart": f"{SLINKY}/slurm"}
    new = {**old, "values": {"nodesets": {"other": {}}}}
    after = api.provider.update(urn, id, old, state[1], new, False)
    assert after["status"] == {**state[1]["status"], "revision": 2}
    assert (
        api.provider.read(api.urn("kubernetes:slinky.slurm.net/v1beta1:NodeSet"), "slurm/slurm-worker-slinky", {}, {})
        is None
    )
    with pytest.raises(ProviderError, match=r"values\.clusterName: the operator's webhook refuses"):
        api.provider.update(urn, id, new, after, {**new, "values": {"clusterName": "b"}}, False)


# -- plans


def test_a_nameless_object_keeps_the_name_that_it_was_given_first(api: Api) -> None:
    urn, inputs = api.inputs("v1", "ConfigMap", {"data": {"a": "b"}})
    first, _ = api.provider.check(urn, {}, inputs)
    name = first["metadata"]["name"]
    assert len(name) == len("x-") + 8
    again, _ = api.provider.check(Urn(urn.text, b"other"), first, inputs)
    assert again == first
    diff = api.provider.diff(urn, "", first, {}, {**again, "data": {"a": "c"}})
    assert diff.replaces == ["data.a"] and not diff.delete_before_replace


@pytest.mark.parametrize(
    ("api_version", "kind", "old", "new", "path"),
    [
        ("v1", "ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "data.a"),
        ("v1", "Secret", {"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}, "stringData.a"),
        (
            "batch/v1",
            "Job",
            {"spec": {"template": {"spec": {"hostNetwork": True}}}},
            {"spec": {"template": {}}},
            "spec.template.spec",
        ),
        (
            "v1",
            "Service",
            {"metadata": {"name": "a", "namespace": "x"}},
            {"metadata": {"name": "a", "namespace": "y"}},
            "metadata.namespace",
        ),
    ],
)
def test_what_cannot_change_is_replaced(api: Api, api_version: str, kind: str, old: Any, new: Any, path: str) -> None:
    urn, base = api.inputs(api_version, kind, {}, name="a")
    diff = api.provider.diff(urn, "a", {**base, **old}, {}, {**base, **new})
    assert diff.replaces == [path]
    assert diff.delete_before_replace == (path != "metadata.namespace")


def test_a_changed_label_is_an_update(api: Api) -> None:
    urn, base = api.inputs("v1", "ConfigMap", {"data": {"a": "1"}}, name="a")
    diff = api.provider.diff(urn, "a", base, {}, {**base, "metadata": {"name": "a", "labels": {"b": "c"}}})
    assert diff.changes == ["metadata.labels"] and not diff.replaces


def test_a_preview_knows_the_inputs_and_nothing_else(api: Api) -> None:
    urn, inputs = api.inputs("v1", "Service", {"spec": NLB}, name="login", namespace="default")
    id, state = api.provider.create(urn, inputs, True)
    assert (id, state["status"], state["metadata"]["uid"]) == ("", UNKNOWN, UNKNOWN)
    assert not (api.provider.state_dir / "kubernetes").exists()


# -- the store


def test_a_refresh_shows_what_somebody_edited_and_what_is_gone(api: Api) -> None:
    id, state = api.make("v1", "Secret", {"stringData": {"key": "old"}}, name="s")
    urn, inputs = api.inputs("v1", "Secret", {"stringData": {"key": "old"}}, name="s", namespace="default")
    with api.provider.cluster.data() as content:
        content.objects["/Secret/default/s"]["data"] = {"key": base64.b64encode(b"new").decode()}
    found = api.provider.read(urn, id, inputs, state)
    assert found is not None and found[0] == {**inputs, "stringData": {"key": "new"}}
    api.delete("v1", "Secret", id)
    assert api.provider.read(urn, id, inputs, state) is None


def test_another_process_finds_everything_again(api: Api) -> None:
    id, state = api.make("v1", "ConfigMap", {"data": {"a": "b"}}, name="a")
    urn, inputs = api.inputs("v1", "ConfigMap", {"data": {"a": "b"}}, name="a", namespace="default")
    assert Api(api.provider.state_dir).provider.read(urn, id, inputs, {}) == (inputs, state)


def test_a_refused_change_leaves_no_trace(api: Api) -> None:
    api.make("v1", "ConfigMap", {"data": {}}, name="a")
    file = api.provider.cluster.path
    before = file.read_text()
    with pytest.raises(ProviderError):
        api.make("v1", "PersistentVolumeClaim", claim(volumeName="none"), name="c")
    assert file.read_text() == before and list(file.parent.iterdir()) == [file]


# -- which cluster


def test_a_kubeconfig_that_names_no_eks_cluster_is_refused(tmp_path: Path) -> None:
    for text, message in (("{}", "no current context"), (kubeconfig("minikube"), "got cluster minikube")):
        with pytest.raises(ProviderError, match=message):
            Provider(tmp_path).configure({"kubeconfig": text})
    with pytest.raises(ProviderError, match="kubeconfig: not set"):
        Provider(tmp_path).configure({})


def test_a_cluster_that_aws_does_not_have_is_unreachable(tmp_path: Path) -> None:
    api = Api(tmp_path)
    with pytest.raises(ProviderError, match="unreachable: no EKS cluster demo in us-west-2"):
        api.make("v1", "Namespace", {}, name="slurm")
