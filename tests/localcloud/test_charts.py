"""Values that a pinned chart does not read, and releases that Helm or the operator would stop at, are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localcloud import charts
from tools.chart_facts import chart_facts

SLURM = "oci://ghcr.io/slinkyproject/charts/slurm"
# A nodeset and a loginset as the project's own walkthrough needs them: every path here is in the chart.
WALKTHROUGH: dict[str, Any] = {
    "controller": {"extraConfMap": {"GresTypes": ["gpu"], "ReturnToService": 2}, "inplaceReconfigure": True},
    "configFiles": {"gres.conf": "AutoDetect=nvidia\n"},
    "loginsets": {"slinky": {"enabled": True, "service": {"spec": {"type": "ClusterIP"}}}},
    "nodesets": {
        "slinky": {
            "replicas": 2,
            "extraConfMap": {"Gres": ["gpu:nvidia_l4:4"]},
            "slurmd": {"image": {"repository": "r", "digest": "d"}, "resources": {"limits": {"nvidia.com/gpu": 4}}},
            "podSpec": {
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "nodeSelector": {"role": "gpu"},
            },
            "partition": {"enabled": True, "configMap": {"Default": "YES"}},
        }
    },
}


def failures(values: dict[str, Any], name: str = "slurm", kubernetes: str = "1.36", **release: Any) -> dict[str, str]:
    """What is wrong with a release of chart `name` from its home, but for what `release` says otherwise."""
    home, version = charts.HOMES[name], charts.facts(name)["version"]
    at = {"chart": f"{home}/{name}"} if home.startswith("oci") else {"chart": name, "repositoryOpts": {"repo": home}}
    inputs = {**at, "version": version, "values": values, **release}
    return {f.property: f.reason for f in charts.check(inputs, kubernetes)}


def test_the_walkthroughs_values_are_all_known() -> None:
    assert failures(WALKTHROUGH) == {}


@pytest.mark.parametrize("chart", charts.HOMES)
def test_each_chart_is_accepted_from_its_home_at_its_version_only(chart: str) -> None:
    assert failures({}, chart) == {}
    assert "the local cloud knows" in failures({}, chart, version="9.9.9")["version"]
    assert "newest that day" in failures({}, chart, version=None)["version"]


@pytest.mark.parametrize(
    ("values", "path", "nearest"),
    [
        ({"controller": {"gresTypes": ["gpu"]}}, "values.controller.gresTypes", "controller.extraConfMap"),
        (
            {"controller": {"inplaceReconfig": True}},
            "values.controller.inplaceReconfig",
            "controller.inplaceReconfigure",
        ),
        ({"slurmKeyRef": {}}, "values.slurmKeyRef", "slurmKey"),
        ({"nodesets": {"a": {"image": {}}}}, "values.nodesets.a.image", ""),
        ({"nodesets": {"a": {"taintKubeNodes": True}}}, "values.nodesets.a.taintKubeNodes", ""),
        ({"loginsets": {"a": {"sssdConf": ""}}}, "values.loginsets.a.sssdConf", ""),
        ({"partitions": {"p": {"nodesets": ["ALL"], "enable": True}}}, "values.partitions.p.enable", ".enabled"),
        ({"controller": {"metrics": {"serviceMonitors": {}}}}, "values.controller.metrics.serviceMonitors", "Monitor"),
    ],
)
def test_a_value_that_the_chart_does_not_read_is_refused(values: dict[str, Any], path: str, nearest: str) -> None:
    found = failures(values)
    assert list(found) == [path]
    assert "Helm ignores it silently" in found[path] and nearest in found[path].partition("nearest:")[2]


@pytest.mark.parametrize(
    ("chart", "values", "path"),
    [
        ("cert-manager", {"crd": {"enabled": True}}, "values.crd"),
        ("slurm-operator", {"operator": {"nodeSelectors": {}}}, "values.operator.nodeSelectors"),
        ("aws-load-balancer-controller", {"clustername": "a"}, "values.clustername"),
        ("aws-efa-k8s-device-plugin", {"tolerration": []}, "values.tolerration"),
        ("nvidia-device-plugin", {"nfd": {"workers": {}}}, "values.nfd.workers"),
        ("dcgm-exporter", {"serviceMonitor": {"labels": {}}}, "values.serviceMonitor.labels"),
        (
            "kube-prometheus-stack",
            {"prometheus": {"prometheusSpec": {"retentions": 1}}},
            "values.prometheus.prometheusSpec.retentions",
        ),
        ("kube-prometheus-stack", {"grafana": {"adminPasswort": 1}}, "values.grafana.adminPasswort"),
        (
            "kube-prometheus-stack",
            {"prometheus-node-exporter": {"toleration": []}},
            'values["prometheus-node-exporter"].toleration',
        ),
    ],
)
def test_every_chart_and_subchart_knows_its_values(chart: str, values: dict[str, Any], path: str) -> None:
    assert list(failures(values, chart)) == [path]


def test_free_maps_take_anything() -> None:
    assert (
        failures({"podAnnotations": {"a/b": "c"}, "nodeSelector": {"role": "core"}}, "aws-load-balancer-controller")
        == {}
    )
    assert (
        failures(
            {"grafana": {"grafana.ini": {"server": {"root_url": "x"}}}, "alertmanager": {"config": {"x": 1}}},
            "kube-prometheus-stack",
        )
        == {}
    )


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ({"nodesets": {"a": {"podSpec": {"toleration": []}}}}, "values.nodesets.a.podSpec.toleration", "no property"),
        ({"nodesets": {"a": {"slurmd": {"volumeMount": []}}}}, "values.nodesets.a.slurmd.volumeMount", "no property"),
        ({"nodesets": {"a": {"slurmd": {"image": {"tagg": "1"}}}}}, "values.nodesets.a.slurmd.image.tagg", "an image"),
        (
            {"nodesets": {"a": {"podSpec": {"nodeSelector": {"x": True}}}}},
            "values.nodesets.a.podSpec.nodeSelector.x",
            "not a str",
        ),
        ({"controller": {"metrics": {"enabled": "true"}}}, "values.controller.metrics.enabled", "true or false"),
        ({"controller": []}, "values.controller", "takes a map"),
        ({"imagePullSecrets": "x"}, "values.imagePullSecrets", "takes a list"),
    ],
)
def test_a_known_value_of_the_wrong_kind_is_refused(values: dict[str, Any], path: str, message: str) -> None:
    assert message in failures(values)[path]


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        (
            {"partitions": {"p": {"enabled": True, "nodesets": ["a"]}}},
            "values.partitions.p.nodesets",
            "no such nodeset",
        ),
        (
            {"partitions": {"p": {"enabled": True, "nodesets": ["a"]}}, "nodesets": {"a": {"enabled": False}}},
            "values.partitions.p.nodesets",
            "or it is disabled",
        ),
        ({"partitions": {"p": {"nodesets": []}}}, "values.partitions.p", "at least one nodeset"),
        ({"nodesets": {"a": {"extraConf": "Gres=gpu:4 Fast"}}}, "values.nodesets.a.extraConf", "'Fast' has no `=`"),
        ({"nodesets": {"a": {"extraConfMap": {"Features": "a b"}}}}, "values.nodesets.a.extraConf", "'b' has no `=`"),
        ({"nodesets": {"A_b": {}}}, "values.nodesets.A_b", "becomes a host name"),
        ({"configFiles": {"slurm.conf": ""}}, 'values.configFiles["slurm.conf"]', "webhook refuses"),
        ({"prologScripts": {"a.sh": "exit 0"}}, 'values.prologScripts["a.sh"]', "begin with #!"),
    ],
)
def test_what_the_slurm_chart_or_its_operator_stops_at_is_refused(
    values: dict[str, Any], path: str, message: str
) -> None:
    assert message in failures(values)[path]


def test_a_node_selector_holds_text_in_every_chart() -> None:
    found = failures({"nodeSelector": {"gpu": True}}, "aws-load-balancer-controller")
    assert "not a str" in found["values.nodeSelector.gpu"]


def test_a_cluster_too_old_for_the_chart_is_refused() -> None:
    assert "needs Kubernetes >= 1.29.0-0, the cluster has 1.28" in failures({}, kubernetes="1.28")["chart"]
    assert failures({}, kubernetes="1.29") == {}


def test_a_misspelled_home_is_refused_and_a_mirror_is_not() -> None:
    assert SLURM in failures({}, chart="oci://ghcr.io/slinky/charts/slurm")["chart"]
    assert failures({}, chart="oci://mirror.example/charts/slurm") == {}
    wrong = failures({}, "cert-manager", repositoryOpts={"repo": "https://charts.jetstack.io/stable"})
    assert "https://charts.jetstack.io" in wrong["repositoryOpts.repo"]
    assert failures({}, "cert-manager", repositoryOpts={"repo": "https://mirror.example/x"}) == {}
    assert "repositoryOpts.repo" in failures({}, "cert-manager", repositoryOpts={})
    assert "table of charts" in failures({}, chart=f"{SLURM}m")["chart"]


def test_an_archive_must_be_there_and_be_the_known_version(tmp_path: Path) -> None:
    archive = tmp_path / "slurm-1.2.1.tgz"
    assert "no such file" in failures({}, chart=str(archive))["chart"]
    for path in (archive, tmp_path / "slurm-1.2.0.tgz"):
        path.touch()
    assert failures({}, chart=str(archive), version=None) == {}
    assert "slurm-1.2.1.tgz" in failures({}, chart=str(tmp_path / "slurm-1.2.0.tgz"))["chart"]


def test_crds_follow_their_switch() -> None:
    assert charts.crds("cert-manager", {}, False) == []
    assert {c.kind for c in charts.crds("cert-manager", {"crds": {"enabled": True}}, False)} >= {
        "Issuer",
        "Certificate",
    }
    assert {c.kind for c in charts.crds("kube-prometheus-stack", {}, False)} >= {"ServiceMonitor", "PrometheusRule"}
    assert charts.crds("kube-prometheus-stack", {"crds": {"enabled": False}}, False) == []
    assert {c.kind for c in charts.crds("slurm-operator-crds", {}, False)} == {
        "Accounting", "Controller", "LoginSet", "NodeSet", "RestApi", "Token",
    }  # fmt: skip
    assert not any(c.kept for c in charts.crds("slurm-operator-crds", {}, False))


def test_objects_have_the_names_that_chart_and_operator_give() -> None:
    made = charts.objects("slurm", "slurm", "slurm", WALKTHROUGH)
    names = {f"{o['kind']}/{charts.at(o, 'metadata.name')}": o for o in made}
    assert names.keys() >= {
        "Controller/slurm", "RestApi/slurm", "NodeSet/slurm-worker-slinky", "LoginSet/slurm-login-slinky",
        "Service/slurm-controller", "Service/slurm-restapi", "Service/slurm-login-slinky",
        "Service/slurm-workers-slurm", "ConfigMap/slurm-config-extra", "Secret/slurm-auth-slurm",
    }  # fmt: skip
    assert charts.at(names["Service/slurm-login-slinky"], "spec.type") == "ClusterIP"
    assert charts.at(charts.objects("slurm", "prod", "slurm", {})[0], "metadata.name") == "prod-slurm"


def test_facts_hold_names_only() -> None:
    """No text of a chart: every leaf is one of the markers."""

    def leaves(tree: Any) -> set[str]:
        return {tree} if isinstance(tree, str) else {leaf for below in tree.values() for leaf in leaves(below)}

    for chart in charts.HOMES:
        assert leaves(charts.facts(chart)["values"]) <= {
            "*",
            "{}",
            "[]",
            "bool",
            ".",
            "=nodesetDefaults",
            "=loginsetDefaults",
        }
        assert json.dumps(charts.facts(chart)["source"]).startswith('"https://')


def test_the_reader_finds_values_templates_and_crds(tmp_path: Path) -> None:
    for path, text in {
        "Chart.yaml": "name: demo\nversion: 1.0.0\nhome: https://demo.invalid\n",
        "values.yaml": (
            "image: {tag: a}\nflag: true\nmap: {}\nlist: []\ntext: b\nempty: null\nwhole: {a: 1}\nlabels: {a: b}\n"
        ),
        "templates/a.yaml": "{{ .Values.hidden.key }}{{- toYaml .Values.whole }}",
        "templates/crd.yaml": (
            "# {{- if .Values.crds.enabled }}\nkind: CustomResourceDefinition\nspec:\n  group: demo.invalid\n"
            "  names:\n    kind: Demo\n  scope: Namespaced\n  versions:\n    - name: v1\n"
        ),
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    found = chart_facts(tmp_path)
    assert found["values"] == {
        "image": {"tag": "."}, "flag": "bool", "map": "{}", "list": "[]", "text": ".", "empty": "*", "whole": "{}",
        "labels": "{}", "hidden": {"key": "*"}, "crds": {"enabled": "*"}, "global": "{}",
    }  # fmt: skip
    assert found["crds"] == [
        {
            "group": "demo.invalid",
            "kinds": {"Demo": "Namespaced"},
            "versions": ["v1"],
            "kept": False,
            "when": {"crds.enabled": False},
        }
    ]
