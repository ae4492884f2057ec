"""What each pinned Helm chart accepts and what comes of installing it.

Helm ignores a value that no template reads and installs a chart whose objects nothing will ever serve; here both are
errors. Which values exist and which CRDs come along stands in `chart_facts/*.json` (`tools/chart_facts.py` reads them
out of the charts). By hand are only where each chart lives, what its objects need to be served, and what the slurm
chart's templates and the operator behind them make of values.
"""

from __future__ import annotations

import base64
import difflib
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlparse

from pulumi_kubernetes.core import v1 as core

from localcloud.provider import UNKNOWN, Failure, Properties, Value, join_path
from localcloud.sdk import value_failures

_FACTS = Path(__file__).with_name("chart_facts")
_SLINKY = "oci://ghcr.io/slinkyproject/charts"
_EKS = "https://aws.github.io/eks-charts"
HOMES = {
    "cert-manager": "https://charts.jetstack.io",
    "slurm-operator-crds": _SLINKY,
    "slurm-operator": _SLINKY,
    "slurm": _SLINKY,
    "aws-load-balancer-controller": _EKS,
    "aws-efa-k8s-device-plugin": _EKS,
    "nvidia-device-plugin": "https://nvidia.github.io/k8s-device-plugin",
    "kube-prometheus-stack": "https://prometheus-community.github.io/helm-charts",
    "dcgm-exporter": "https://nvidia.github.io/dcgm-exporter/helm-charts",
}
# chart: (switch in its values, what the switch is when not given, group, kind) of objects that need another's CRD.
_OBJECTS = {
    "slurm": [("", True, "slinky.slurm.net", "Controller")],
    "slurm-operator": [("certManager.enabled", True, "cert-manager.io", "Certificate")],
    "dcgm-exporter": [("serviceMonitor.enabled", True, "monitoring.coreos.com", "ServiceMonitor")],
    "aws-load-balancer-controller": [
        ("enableCertManager", False, "cert-manager.io", "Certificate"),
        ("serviceMonitor.enabled", False, "monitoring.coreos.com", "ServiceMonitor"),
    ],
    "cert-manager": [("prometheus.servicemonitor.enabled", False, "monitoring.coreos.com", "ServiceMonitor")],
}
# API group -> the chart whose controller serves its objects: without it they are accepted and nothing happens.
CONTROLLERS = {"slinky.slurm.net": "slurm-operator"}
# Values that go into a pod as they are, whatever chart takes them; the rest of a slurm container likewise.
_TYPED: dict[str, object] = {
    "resources": core.ResourceRequirementsArgs,
    "tolerations": list[core.TolerationArgs],
    "affinity": core.AffinityArgs,
    "nodeSelector": dict[str, str],
    "topologySpreadConstraints": list[core.TopologySpreadConstraintArgs],
    "podSpec": core.PodSpecArgs,
}
_CONTAINERS = ("slurmctld", "reconfigure", "logfile", "slurmrestd", "slurmdbd", "login", "initconf", "slurmd")
_VOLUMES = (
    ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
    ("secret", "Secret", "secretName"),
    ("configMap", "ConfigMap", "name"),
)
# What the operator's webhook refuses to change on a living cluster.
_FIXED = ("clusterName", "slurmKey.secretRef.name", "jwtKey.secretRef.name", "controller.persistence.enabled")


@dataclass(frozen=True)
class Crd:
    """A kind that an installed chart brings; `kept` ones stay when the chart is uninstalled."""

    group: str
    kind: str
    namespaced: bool
    versions: list[str]
    kept: bool


@functools.cache
def facts(chart: str) -> Properties:
    return json.loads((_FACTS / f"{chart}.json").read_text())


def name_of(chart: str) -> str:
    """The chart's own name in any of the spellings that `chart` takes: name, oci:// reference, path."""
    return re.sub(r"-v?\d[\w.+-]*\.tgz$", "", chart.rstrip("/").rsplit("/", 1)[-1])


def version_of(chart: str) -> str:
    """The one version of a chart that the local cloud knows."""
    name = name_of(chart)
    return str(facts(name)["version"]) if name in HOMES else ""


def check(release: Properties, kubernetes: str | None) -> list[Failure]:
    """What is wrong with a Release as far as its inputs tell; `kubernetes` is the cluster's version when known."""
    chart, values = str(release.get("chart", "")), as_map(release.get("values"))
    if chart == UNKNOWN:
        return []
    name = name_of(chart)
    if name not in HOMES:
        return [Failure("chart", f"{chart}: not in the local cloud's table of charts ({', '.join(sorted(HOMES))})")]
    known = _Known(name, version_of(name), as_map(facts(name)["values"]))
    found = list(_source_failures(chart, known, release))
    constraint = str(facts(name)["kubeVersion"])
    if kubernetes and not _fits(constraint, kubernetes):
        found.append(Failure("chart", f"{name} needs Kubernetes {constraint}, the cluster has {kubernetes}"))
    if release.get("valueYamlFiles"):
        found.append(Failure("valueYamlFiles", "the local cloud reads no values files; put the values into `values`"))
    found += _value_failures(known.tree, values, "values", known)
    return found + (list(_slurm_failures(values)) if name == "slurm" else [])


def crds(chart: str, values: Properties, skip_crds: bool) -> list[Crd]:
    """The CRDs that this installation brings."""
    return [
        crd
        for crd, when in _crd_rows(chart)
        if (any(at(values, path, default) for path, default in when.items()) if when else not (skip_crds and crd.kept))
    ]


def bringers(group: str, kind: str) -> dict[str, Crd]:
    """The charts of the table that can bring a custom kind, with what they bring."""
    return {name: c for name in HOMES for c, _ in _crd_rows(name) if (c.group, c.kind) == (group, kind)}


@functools.cache
def _crd_rows(chart: str) -> list[tuple[Crd, dict[str, bool]]]:
    rows: list[tuple[Crd, dict[str, bool]]] = []
    for row in cast("list[Properties]", facts(chart)["crds"]):
        versions, when = cast("list[str]", row["versions"]), cast("dict[str, bool]", row["when"])
        for kind, scope in as_map(row["kinds"]).items():
            rows.append((Crd(str(row["group"]), kind, scope == "Namespaced", versions, bool(row["kept"])), when))
    return rows


def needs(chart: str, values: Properties) -> list[tuple[str, str]]:
    """(group, kind) of custom resources among the chart's objects whose CRD another chart has to bring."""
    return [(group, kind) for path, default, group, kind in _OBJECTS.get(chart, []) if at(values, path, default)]


@dataclass(frozen=True)
class _Known:
    """The values that a chart reads."""

    chart: str
    version: str
    tree: Properties

    def nearest(self, path: str) -> str:
        """The value that was meant: a neighbour of like spelling, else a like path anywhere, else the free map."""
        parent, _, last = path.rpartition(".")
        parent = re.sub(r"^(nodesets|loginsets|partitions)\.[^.]+", r'\1["*"]', parent)
        paths = list(_paths(self.tree, self.tree, ""))
        beside = {p.rpartition(".")[2]: p for p in paths if p.rpartition(".")[0] == parent}
        if close := difflib.get_close_matches(last, beside, 1):
            return beside[close[0]]
        anywhere = [p for p in paths if p.rpartition(".")[2].lower() == last.lower()]
        if not anywhere and "extraConfMap" in beside:
            return f"{beside['extraConfMap']} (Slurm's own parameters go there)"
        return difflib.get_close_matches(path, anywhere or paths, 1, 0)[0]


def _paths(tree: Properties, top: Properties, path: str) -> Iterator[str]:
    for key, below in tree.items():
        here, below = join_path(path, key), _resolved(below, top)
        yield here
        if isinstance(below, dict):
            yield from _paths(below, top, here)


def _resolved(tree: Value, top: Properties) -> Value:
    return top[tree[1:]] if isinstance(tree, str) and tree.startswith("=") else tree


def _source_failures(chart: str, known: _Known, release: Properties) -> Iterator[Failure]:
    name, given, home = known.chart, release.get("version"), HOMES[known.chart]
    archive = f"{name}-{known.version}.tgz"
    if chart.endswith(".tgz") or chart.startswith((".", "/")):
        if not Path(chart).exists():
            yield Failure("chart", f"{chart}: no such file")
        if chart.endswith(".tgz") and Path(chart).name != archive:
            yield Failure("chart", f"{chart}: the local cloud knows {archive}")
        given = given or known.version
    else:
        oci, repo = chart.startswith("oci://"), str(as_map(release.get("repositoryOpts")).get("repo") or "")
        source = chart if oci else f"{repo}/{name}"
        # Another host is a mirror; the chart's own host with another path is a mistake.
        if urlparse(source).netloc in ("", urlparse(home).netloc) and source != f"{home}/{name}":
            spelled = f'chart="{home}/{name}"' if home.startswith("oci:") else f'chart="{name}", repo="{home}"'
            yield Failure("chart" if oci else "repositoryOpts.repo", f"got {source}; {name} lives at {spelled}")
    if given is None:
        yield Failure("version", f"not set, so Helm would install whatever is newest that day; say {known.version}")
    elif given not in (known.version, UNKNOWN):
        yield Failure(
            "version", f"got {given}; the local cloud knows {known.version} (tools/chart_facts.py reads others)"
        )


def _fits(constraint: str, version: str) -> bool:
    """Whether a Kubernetes version meets a chart's `>=` or `^` constraint, the only two that our charts use."""
    found = re.match(r"\s*(>=|\^)\s*v?(\d+)\.(\d+)", constraint)
    if not found:
        return True
    major, minor = (int(part) for part in version.split(".")[:2])
    least = (int(found[2]), int(found[3]))
    return (major, minor) >= least and (found[1] == ">=" or major == least[0])


def _value_failures(tree: Value, value: Value, path: str, known: _Known, key: str = "") -> Iterator[Failure]:
    tree = _resolved(tree, known.tree)
    chart = f"chart {known.chart} {known.version}"
    if value is None or value == UNKNOWN or tree == "*":
        return
    if isinstance(tree, dict) and isinstance(value, dict):
        for name, item in value.items():
            here = join_path(path, name)
            if name in tree or "*" in tree:
                yield from _value_failures(tree.get(name, tree.get("*")), item, here, known, name)
            else:
                nearest = known.nearest(here.removeprefix("values."))
                yield Failure(here, f"{chart} has no such value and Helm ignores it silently; nearest: {nearest}")
    elif isinstance(value, dict) and known.chart == "slurm" and key in _CONTAINERS:
        image = value.get("image")
        rest = {"name": key, **{k: _as_text(v) for k, v in value.items() if k != "image"}}
        yield from value_failures(core.ContainerArgs, rest, path)
        for name in sorted(as_map(image).keys() - {"repository", "tag", "digest"}):
            yield Failure(join_path(f"{path}.image", name), "an image is text, or repository with tag or digest")
    elif isinstance(value, dict) and key == "podSpec":
        yield from value_failures(core.PodSpecArgs, {"containers": [], **as_map(_as_text(value))}, path)
    elif isinstance(value, dict | list) and key in _TYPED:
        yield from value_failures(_TYPED[key], _as_text(value), path)
    elif wanted := _misfit(tree, value):
        yield Failure(path, f"{chart} takes {wanted} here, not {json.dumps(value)}")


def _misfit(tree: Value, value: Value) -> str:
    """What the chart takes where `value` is of another kind."""
    if (isinstance(tree, dict) or tree == "{}") and not isinstance(value, dict):
        return "a map"
    if tree == "[]" and not isinstance(value, list):
        return "a list"
    if tree == "bool" and not isinstance(value, bool):
        return "true or false (any text counts as true)"
    return "a plain value" if tree == "." and isinstance(value, dict) else ""


def _as_text(value: Value, key: str = "") -> Value:
    """Kubernetes reads a quantity from a number or from text; the SDK's types know only text."""
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if not isinstance(value, dict):
        return str(value) if key in ("limits", "requests") else value
    return {k: _as_text(item, key if key in ("limits", "requests") else k) for k, item in value.items()}


def _slurm_failures(values: Properties) -> Iterator[Failure]:
    """What the slurm chart's templates stop at, and what the operator cannot digest."""
    nodesets = _sets(values, "nodesets")
    for name, part in as_map(values.get("partitions")).items():
        path, nodes = join_path("values.partitions", name), as_map(part).get("nodesets")
        if nodes == [] or (name != "all" and not nodes):
            yield Failure(path, "must name at least one nodeset, or ALL")
        for node in nodes if as_map(part).get("enabled") and isinstance(nodes, list) else []:
            if node not in ("ALL", UNKNOWN, *nodesets):
                yield Failure(f"{path}.nodesets", f"got {node}; no such nodeset, or it is disabled")
    for name, nodeset in nodesets.items():
        path = join_path("values.nodesets", name)
        text = str(nodeset.get("extraConf") or _conf(as_map(nodeset.get("extraConfMap"))))
        for token in [t for t in text.split(" ") if text and "=" not in t and UNKNOWN not in t]:
            yield Failure(
                f"{path}.extraConf", f"{token!r} has no `=`: the operator's reconcile panics (values hold no spaces)"
            )
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name):
            yield Failure(path, "becomes a host name and part of object names: lower-case letters, digits, dashes")
    for name in ("slurm.conf", "slurmdbd.conf"):
        if name in as_map(values.get("configFiles")):
            yield Failure(
                join_path("values.configFiles", name), "the operator writes this file; its webhook refuses another"
            )
    for kind in ("prologScripts", "epilogScripts", "prologSlurmctldScripts", "epilogSlurmctldScripts"):
        for name, script in as_map(values.get(kind)).items():
            if script != UNKNOWN and not str(script).startswith("#!"):
                yield Failure(
                    join_path(f"values.{kind}", name), "the webhook refuses a script that does not begin with #!"
                )


def _conf(entries: Properties) -> str:
    """As the chart writes a map: keys sorted, lists joined by comma, falsy values dropped."""
    rows = ((k, ",".join(map(str, v)) if isinstance(v, list) else v) for k, v in sorted(entries.items()) if v)
    return " ".join(f"{key}={value}" for key, value in rows)


def _sets(values: Properties, which: str) -> dict[str, Properties]:
    """The enabled nodesets or loginsets, with the chart's rule that an entry wins over the defaults."""
    defaults = as_map(values.get(f"{which.removesuffix('s')}Defaults"))
    merged = {name: _merge(defaults, as_map(entry)) for name, entry in as_map(values.get(which)).items()}
    return {name: entry for name, entry in merged.items() if entry.get("enabled", True)}


def _merge(below: Properties, above: Properties) -> Properties:
    merged = {k: _merge(as_map(below[k]), v) if k in below and isinstance(v, dict) else v for k, v in above.items()}
    return {**below, **merged}


def objects(chart: str, release: str, namespace: str, values: Properties) -> list[Properties]:
    """What stands in the cluster after the slurm chart is installed and the operator has seen it; pods never do."""
    made: list[Properties] = []
    if chart != "slurm":
        return made
    stem = str(values.get("nameOverride") or chart)
    full = str(values.get("fullnameOverride") or (release if stem in release else f"{release}-{stem}"))
    namespace = str(values.get("namespaceOverride") or namespace)

    def add(kind: str, name: str, body: Properties, api: str = "v1") -> None:
        made.append({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **body})

    def custom(kind: str, name: str, replicas: Value = 1) -> None:
        add(kind, name, {"spec": {"controllerRef": {"name": full}, "replicas": replicas}}, "slinky.slurm.net/v1beta1")

    def service(name: str, daemon: str, port: int, spec: Value, instance: str = full) -> None:
        selector: Properties = {"app.kubernetes.io/name": daemon, "app.kubernetes.io/instance": instance}
        ports: Value = [{"name": daemon, "port": port, "protocol": "TCP", "targetPort": daemon}]
        add("Service", name, {"spec": {"type": "ClusterIP", "selector": selector, "ports": ports, **as_map(spec)}})

    custom("Controller", full)
    custom("RestApi", full, at(values, "restapi.replicas", 1))
    service(f"{full}-restapi", "slurmrestd", 6820, at(values, "restapi.service.spec"))
    service(f"slurm-workers-{full}", "slurmd", 6818, {"clusterIP": "None"})
    external = at(values, "controller.external", False)
    if not external:
        service(f"{full}-controller", "slurmctld", 6817, at(values, "controller.service.spec"))
    if at(values, "accounting.enabled", False):
        custom("Accounting", full)
        service(f"{full}-accounting", "slurmdbd", 6819, at(values, "accounting.service.spec"))
    for key, nodeset in _sets(values, "nodesets").items():
        custom("NodeSet", f"{full}-worker-{key}", nodeset.get("replicas", 1))
    for key, loginset in _sets(values, "loginsets").items():
        name, spec = f"{full}-login-{key}", as_map(at(loginset, "service.spec"))
        custom("LoginSet", name, loginset.get("replicas", 1))
        service(name, "login", 22, {"type": "LoadBalancer", **spec}, instance=name)
    for field, kind in (("slurmKey", "slurm"), ("jwtKey", "jwt")):
        if at(values, f"{field}.create", True) and not external:
            data: Properties = {f"{kind}.key": base64.b64encode(b"made by the chart").decode()}
            name = str(at(values, f"{field}.secretRef.name", f"{full}-auth-{kind}"))
            add("Secret", name, {"type": "Opaque", "immutable": True, "data": data})
    if values.get("configFiles"):
        add("ConfigMap", f"{full}-config-extra", {"data": values["configFiles"]})
    return made


def references(chart: str, values: Properties) -> Iterator[tuple[str, str, str]]:
    """(kind, name, path in the values) of objects that must be in the namespace before the slurm chart is installed."""
    if chart != "slurm":
        return
    for field, kind in (("slurmKey", "slurm"), ("jwtKey", "jwt")):
        if at(values, f"{field}.create") is False:
            name = str(at(values, f"{field}.secretRef.name", f"slurm-auth-{kind}"))
            yield "Secret", name, f"values.{field}.secretRef.name"
    if claim := at(values, "controller.persistence.existingClaim"):
        yield "PersistentVolumeClaim", str(claim), "values.controller.persistence.existingClaim"
    for which in ("nodesets", "loginsets"):
        for key, entry in _sets(values, which).items():
            for volume in cast("list[Properties]", at(entry, "podSpec.volumes", [])):
                for source, kind, field in _VOLUMES:
                    reference = as_map(volume.get(source))
                    if reference.get(field) and not reference.get("optional"):
                        yield kind, str(reference[field]), f"{join_path(f'values.{which}', key)}.podSpec.volumes"


def fixed_changes(chart: str, old: Properties, new: Properties) -> list[str]:
    """Values of a living slurm release that cannot change any more, of those that did."""
    return [path for path in _FIXED if chart == "slurm" and at(old, path) != at(new, path)]


def at(values: Value, path: str, default: Value = None) -> Value:
    """What stands at a dotted path; `default` for nothing and for null."""
    for key in filter(None, path.split(".")):
        values = values.get(key) if isinstance(values, dict) else None
    return default if values is None or not path else values


def as_map(value: Value) -> Properties:
    return value if isinstance(value, dict) else {}
