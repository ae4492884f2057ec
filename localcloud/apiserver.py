"""A Kubernetes API server without pods: objects in one JSON file per cluster, and what a real cluster refuses.

No kubelet and no scheduler, so nothing ever runs: a Job has no status, a Deployment no replicas. What decides whether
an object is accepted, bound or served is here: names, namespaces, CRDs that an installed chart brings, volume claims,
load balancers, and deletions that would take other things along. Knows nothing of Pulumi.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import hashlib
import json
import re
import threading
import uuid
from collections.abc import Container, Generator, Iterator
from pathlib import Path
from typing import cast

from localcloud import charts, ledger
from localcloud.charts import Crd, as_map, at
from localcloud.provider import UNKNOWN, Failure, Properties, ProviderError, Value, join_path

Object = Properties

_BUILT_IN = re.compile(
    r"|apps|autoscaling|batch|policy|(admissionregistration|apiextensions|apiregistration|certificates|coordination|discovery"
    r"|events|flowcontrol\.apiserver|networking|node|rbac\.authorization|resource|scheduling|storage|storagemigration)\.k8s\.io"
)
_CLUSTER_SCOPED = re.compile(
    r"Namespace|Node|PersistentVolume|ClusterRole|ClusterRoleBinding|StorageClass|CSIDriver|CSINode|VolumeAttachment"
    r"|VolumeAttributesClass|PriorityClass|RuntimeClass|IngressClass|CustomResourceDefinition|APIService|FlowSchema"
    r"|(Validating|Mutating)(WebhookConfiguration|AdmissionPolicy|AdmissionPolicyBinding)|CertificateSigningRequest"
    r"|PriorityLevelConfiguration|DeviceClass|ResourceSlice"
)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_RBAC_NAME = re.compile(r"[^/%]+")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_DATA_BYTES = 1024 * 1024
_CLAIM, _VOLUME = "PersistentVolumeClaim", "PersistentVolume"
_LBC, _NLB = "aws-load-balancer-controller", "service.k8s.aws/nlb"
_LB_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer-type"
# Fields that the API server refuses to change and for which the provider plans no replacement.
_IMMUTABLE = {
    "Service": ("spec.loadBalancerClass",),
    "StorageClass": ("reclaimPolicy", "volumeBindingMode"),
    "PriorityClass": ("value",),
}


class Cluster:
    """One cluster's objects and Helm releases; every change is one atomic rewrite of its file."""

    def __init__(self, path: Path, region: str, lost: Container[str] = ()) -> None:
        self.path, self.region, self.lost = path, region, lost

    @contextlib.contextmanager
    def data(self) -> Generator[Content]:
        """The content for reading and changing; written back when the block ends without an exception."""
        with _lock(self.path):
            before = self.path.read_text() if self.path.exists() else ""
            content = Content(json.loads(before) if before else _new_cluster(), self.region)
            content.forget(self.lost)
            yield content
            after = json.dumps(content.raw, sort_keys=True)  # indented, it would take ten times as long
            if after != before:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                scratch = self.path.with_suffix(".new")
                scratch.write_text(after)
                scratch.replace(self.path)


@functools.cache
def _lock(path: Path) -> threading.RLock:
    """One per file: every provider instance of the process has a Cluster of its own."""
    return threading.RLock()


def _new_cluster() -> dict[str, Properties]:
    raw: dict[str, Properties] = {"objects": {}, "releases": {}, "kept": {}, "counter": {"resourceVersion": 1}}
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        Content(raw, "").create(_namespace(name), "the cluster itself")
    return raw


class Content:
    """What is in the cluster, and the rules of changing it."""

    def __init__(self, raw: dict[str, Properties], region: str) -> None:
        self.raw, self.region = raw, region
        self.objects = cast("dict[str, Object]", raw["objects"])
        self.releases = cast("dict[str, Properties]", raw["releases"])

    def forget(self, lost: Container[str]) -> None:
        """Drop what was made in creates that were killed before their end."""
        releases = [key for key, release in self.releases.items() if str(release.get("create")) in lost]
        for key in releases:
            del self.releases[key]
        for key, made in [*self.objects.items()]:
            if str(made.get("create")) in lost:
                del self.objects[key]

    # -- objects

    def get(self, api: str, kind: str, namespace: str, name: str) -> Object | None:
        return self.objects.get(_key(api, kind, namespace, name))

    def all(self, kind: str) -> list[Object]:
        return [o for o in self.objects.values() if o["kind"] == kind]

    def named(self, kind: str) -> dict[str, Object]:
        """The objects of a cluster-scoped kind by name."""
        return {_name(o): o for o in self.all(kind)}

    def create(self, wanted: Object, owner: str = "") -> Object:
        """Store a new object; `owner` is who made it, empty for the program."""
        namespace, kind = _space(wanted), str(wanted["kind"])
        if self._namespaced(wanted):
            self._namespace_must_exist(namespace)
        elif namespace:
            raise ProviderError(f"metadata.namespace: got {namespace}; {kind} belongs to no namespace; leave it out")
        if found := self.get(str(wanted["apiVersion"]), kind, namespace, _name(wanted)):
            maker = found.get("owner") or "someone else"
            raise ProviderError(f"{_spelled(wanted)} already exists, made by {maker}; delete, rename or import it")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        filled: Properties = {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
        stored: Object = {**wanted, "metadata": {**as_map(wanted["metadata"]), **filled}}
        stored |= {"owner": owner} if owner else {}
        return self._store(stored | ({"create": create} if (create := ledger.current()) else {}))

    def update(self, old: Object, new: Object) -> Object:
        """Change an object from inputs `old` to inputs `new`, keeping what the cluster itself filled in."""
        stored = self.get(str(new["apiVersion"]), str(new["kind"]), _space(new), _name(new))
        if stored is None:
            raise ProviderError(f"{_spelled(new)} is gone from the cluster; `pulumi refresh` will notice")
        for path in _IMMUTABLE.get(str(new["kind"]), ()):
            if at(old, path) not in (None, at(new, path)):
                raise ProviderError(f"{path}: the API server refuses to change it; give the object a new name")
        changed = as_map(_overlay(stored, old, new))
        as_map(changed["metadata"])["generation"] = int(str(at(stored, "metadata.generation", 1))) + 1
        return self._store(changed)

    def delete(self, api: str, kind: str, namespace: str, name: str) -> None:
        """Remove an object; refuses where a real cluster would remove more than that, or never finish."""
        key = _key(api, kind, namespace, name)
        if key not in self.objects:
            return
        inside = [_spelled(o) for o in self.objects.values() if _space(o) == name] if kind == "Namespace" else []
        inside += [f"release {r}" for r in self.releases if r.startswith(f"{name}/") and kind == "Namespace"]
        if inside:
            raise ProviderError(
                f"Namespace {name} still holds {len(inside)} objects ({', '.join(sorted(inside)[:5])}): deleting it"
                " deletes them behind the program's back; make them depend on the namespace"
            )
        for claim in self.all(_CLAIM) if kind == _VOLUME else ():
            if at(claim, "spec.volumeName") == name:
                raise ProviderError(f"{kind} {name} is bound to {_spelled(claim)}: it would stay Terminating")
        del self.objects[key]
        self._bind_volumes()

    def _store(self, stored: Object) -> Object:
        kind, spec = stored["kind"], as_map(stored.get("spec"))
        version = int(str(self.raw["counter"]["resourceVersion"])) + 1
        self.raw["counter"]["resourceVersion"] = version
        as_map(stored["metadata"])["resourceVersion"] = str(version)
        self.objects[_key(str(stored["apiVersion"]), str(kind), _space(stored), _name(stored))] = stored
        if kind == "Namespace":
            stored["status"] = {"phase": "Active"}
        if kind == "Service":
            digest = hashlib.sha256(str(at(stored, "metadata.uid")).encode()).hexdigest()
            if spec.setdefault("type", "ClusterIP") != "ExternalName":
                spec.setdefault("clusterIP", f"10.100.{int(digest[:2], 16)}.{int(digest[2:4], 16)}")
            unserved = self._no_load_balancer(stored) if spec["type"] == "LoadBalancer" else "no load balancer"
            if spec["type"] == "LoadBalancer" and unserved and not stored.get("owner"):
                raise ProviderError(unserved)
            host = f"{_name(stored)[:32].rstrip('-')}-{digest[:16]}.elb.{self.region}.amazonaws.com"
            stored["status"] = {"loadBalancer": {} if unserved else {"ingress": [{"hostname": host}]}}
        self._bind_volumes()
        if kind == _CLAIM and (problem := self._unbound(stored)):
            raise ProviderError(f"{_spelled(stored)} would stay Pending: {problem}")
        return stored

    # -- namespaces and kinds

    def _namespace_must_exist(self, name: str) -> None:
        if name not in self.named("Namespace"):
            known = ", ".join(sorted(self.named("Namespace")))
            raise ProviderError(f"metadata.namespace: got {name}; there is no such namespace, only {known}")

    def _namespaced(self, wanted: Object) -> bool:
        group, kind = _group(wanted), str(wanted["kind"])
        if _BUILT_IN.fullmatch(group):
            return not _CLUSTER_SCOPED.fullmatch(kind)
        crd, version = self._crd(group, kind), str(wanted["apiVersion"]).rpartition("/")[2]
        if version not in crd.versions:
            raise ProviderError(f"apiVersion: got {group}/{version}; {kind} is served as {', '.join(crd.versions)}")
        return crd.namespaced

    def _crd(self, group: str, kind: str) -> Crd:
        """The CRD behind a custom kind, from whoever brought it."""
        for release in self.releases.values():
            for crd in _crds_of(release):
                if (crd.group, crd.kind) == (group, kind):
                    return crd
        if f"{group}/{kind}" in self.raw["kept"]:
            return charts.bringers(group, kind)[str(self.raw["kept"][f"{group}/{kind}"])]
        for made in self.named("CustomResourceDefinition").values():
            if (at(made, "spec.group"), at(made, "spec.names.kind")) == (group, kind):
                versions = [str(v["name"]) for v in cast("list[Properties]", at(made, "spec.versions"))]
                return Crd(group, kind, at(made, "spec.scope") == "Namespaced", versions, False)
        raise ProviderError(
            f"no matches for kind {kind} in {group}: no installed chart brings its CRD (known to bring it:"
            f" {', '.join(charts.bringers(group, kind)) or 'none'}); install that first (depends_on)"
        )

    # -- what controllers do

    def _no_load_balancer(self, service: Object) -> str:
        """Why no controller would serve a Service of type LoadBalancer, or nothing."""
        controller = next((r for r in self.releases.values() if r["chart"] == _LBC), None)
        if controller is None:
            return (
                f"spec.type: no load balancer controller is installed, so it would wait for ever; install {_LBC} first"
            )
        marked = as_map(at(service, "metadata.annotations")).get(_LB_ANNOTATION)
        wanted = at(service, "spec.loadBalancerClass")
        adopts = at(controller["values"], "enableServiceMutatorWebhook") is not False
        if wanted == _NLB or (wanted is None and (marked in ("external", "nlb-ip") or adopts)):
            return ""
        return (
            f"spec.loadBalancerClass: got {wanted}, annotation {_LB_ANNOTATION} {marked}; the AWS Load Balancer"
            f" Controller serves class {_NLB} or annotation external, and nothing else would serve this one"
        )

    def _bind_volumes(self) -> None:
        """Bind every claim to the volume that it names; a claim of a StorageClass is provisioned at once."""
        bound: set[str] = set()
        for claim in self.all(_CLAIM):
            pending = bool(self._unbound(claim))
            claim["status"] = {"phase": "Pending" if pending else "Bound"}
            bound |= set() if pending else {str(at(claim, "spec.volumeName"))}
        for name, volume in self.named(_VOLUME).items():
            volume["status"] = {"phase": "Bound" if name in bound else "Available"}

    def _unbound(self, claim: Object) -> str:
        """Why a claim finds no volume, or nothing."""
        classes = self.named("StorageClass")
        wanted, name = at(claim, "spec.storageClassName"), at(claim, "spec.volumeName")
        wanted = next((n for n, c in classes.items() if _is_default(c)), "") if wanted is None else wanted
        if not name:
            return "" if wanted in classes else f"no StorageClass {wanted!r}; there are {sorted(classes)}"
        volume = self.named(_VOLUME).get(str(name))
        if volume is None:
            return f"spec.volumeName: got {name}; there is no such PersistentVolume"
        offered = at(volume, "spec.storageClassName", "")
        if offered != wanted:
            return f"storage class {wanted!r} is not its volume's {offered!r}"
        modes = [cast("list[str]", at(of, "spec.accessModes", [])) for of in (claim, volume)]
        if missing := sorted(set(modes[0]) - set(modes[1])):
            return f"its volume does not offer {', '.join(missing)}"
        twins = [o for o in self.all(_CLAIM) if at(o, "spec.volumeName") == name]
        first = min(twins, key=lambda o: int(str(at(o, "metadata.resourceVersion"))))
        return "" if first is claim else f"its volume is bound to {_spelled(first)} already"

    # -- releases

    def install(self, release: Properties, old: Properties | None) -> Properties:
        """Install or, with `old`, upgrade a Helm release: `release` has chart, version, name, namespace, values."""
        chart, values = str(release["chart"]), as_map(release["values"])
        namespace, name = str(release["namespace"]), str(release["name"])
        key = f"{namespace}/{name}"
        if old is None and key in self.releases:
            raise ProviderError(f"name: got {name}; cannot re-use a name that is still in use in namespace {namespace}")
        if namespace not in self.named("Namespace") and release.get("createNamespace"):
            self.create(_namespace(namespace), f"release {key}")
        self._namespace_must_exist(namespace)
        for group, kind in charts.needs(chart, values):
            self._crd(group, kind)
            controller = charts.CONTROLLERS.get(group)
            if controller and not any(r["chart"] == controller for r in self.releases.values()):
                raise ProviderError(f"chart {chart}: its {kind} would stay without effect: install {controller} first")
        for kind, wanted, path in charts.references(chart, values):
            if self.get("v1", kind, namespace, wanted) is None:
                raise ProviderError(f"{path}: got {wanted}; namespace {namespace} has no such {kind}, pods would hang")
        for path in charts.fixed_changes(chart, as_map(old["values"]), values) if old else ():
            raise ProviderError(f"values.{path}: the operator's webhook refuses to change it on a living cluster")
        revision = int(str(old["revision"])) + 1 if old else 1
        self.releases[key] = {**release, "revision": revision, "create": ledger.current()}
        self._own(key, charts.objects(chart, name, namespace, values))
        return self.releases[key]

    def owned(self, release: str) -> list[Object]:
        """What stands in the cluster because of a release; namespaces that it made stay when it goes."""
        return [o for o in self.objects.values() if o.get("owner") == f"release {release}" and o["kind"] != "Namespace"]

    def _own(self, release: str, wanted: list[Object]) -> None:
        """Make the objects of a release what the chart and its operator would have made by now."""
        before = {_spelled(o): o for o in self.owned(release)}
        for stale in before.keys() - {_spelled(o) for o in wanted}:
            gone = before[stale]
            del self.objects[_key(str(gone["apiVersion"]), str(gone["kind"]), _space(gone), _name(gone))]
        for body in wanted:
            known = before.get(_spelled(body))
            if known is None:
                self.create(body, f"release {release}")
            else:
                self._store({**known, **body, "metadata": known["metadata"]})

    def uninstall(self, namespace: str, name: str) -> None:
        """Remove a release; refuses when that deletes or strands what others made."""
        key = f"{namespace}/{name}"
        release = self.releases.get(key)
        if release is None:
            return
        chart, leaving = str(release["chart"]), _crds_of(release)
        gone = {(c.group, c.kind) for c in leaving if not c.kept}
        others = [o for o in self.objects.values() if o.get("owner") != f"release {key}"]
        if left := [_spelled(o) for o in others if (_group(o), str(o["kind"])) in gone]:
            raise ProviderError(
                f"chart {chart}: removing its CRDs would delete {', '.join(left[:5])}; delete these first"
            )
        if left := [_spelled(o) for o in others if _served_by(o) == chart]:
            raise ProviderError(
                f"chart {chart}: nothing would clean up {', '.join(left[:5])} any more; delete these first"
            )
        self._own(key, [])
        del self.releases[key]
        self.raw["kept"].update({f"{c.group}/{c.kind}": chart for c in leaving if c.kept})


def built_in(api: str) -> bool:
    """Whether the API server itself has this API group."""
    return bool(_BUILT_IN.fullmatch(api.rpartition("/")[0]))


def namespaced(api: str, kind: str) -> bool:
    """Whether a kind lives in namespaces, as far as that is known without a cluster."""
    known = charts.bringers(api.rpartition("/")[0], kind)
    return next(iter(known.values())).namespaced if known else not _CLUSTER_SCOPED.fullmatch(kind)


def static_failures(wanted: Object) -> Iterator[Failure]:
    """What the API server refuses about an object whatever else is in the cluster; unknown values are never wrong."""
    kind, meta, template = wanted["kind"], as_map(wanted["metadata"]), as_map(at(wanted, "spec.template"))
    strict = _RBAC_NAME if _group(wanted).startswith("rbac.") else _SUBDOMAIN
    rule = _DNS_LABEL if kind in ("Namespace", "Service") else strict
    if meta["name"] != UNKNOWN and not rule.fullmatch(_name(wanted)):
        yield Failure("metadata.name", f"got {meta['name']!r}; lower-case letters, digits and dashes only (RFC 1123)")
    for key, value in as_map(meta.get("labels")).items():
        if value != UNKNOWN and not _LABEL_VALUE.fullmatch(str(value)):
            yield Failure(
                join_path("metadata.labels", key), f"got {value!r}; a label is at most 63 letters, digits, - _ ."
            )
    if kind in ("ConfigMap", "Secret"):
        yield from _data_failures(wanted)
    if kind in ("Deployment", "DaemonSet", "StatefulSet"):
        labels = as_map(at(template, "metadata.labels"))
        for key, value in as_map(at(wanted, "spec.selector.matchLabels")).items():
            if value != UNKNOWN and labels.get(key) not in (value, UNKNOWN):
                yield Failure("spec.selector", f"{key}={value} does not match the labels of its own template")
    if kind == "Job" and at(template, "spec.restartPolicy") not in ("Never", "OnFailure", UNKNOWN):
        yield Failure("spec.template.spec.restartPolicy", "a Job's must be Never or OnFailure; the default is Always")
    if kind in ("Deployment", "DaemonSet", "StatefulSet", "Job"):
        yield from _pod_failures(as_map(template.get("spec")), "spec.template.spec")


def _data_failures(wanted: Object) -> Iterator[Failure]:
    size = 0
    for field in ("data", "stringData", "binaryData"):
        for key, value in as_map(wanted.get(field)).items():
            path, size = join_path(field, key), size + len(str(value))
            if not _DATA_KEY.fullmatch(key):
                yield Failure(path, f"got key {key!r}; letters, digits, - _ . only")
            if value != UNKNOWN and (field == "binaryData" or (field == "data" and wanted["kind"] == "Secret")):
                try:
                    base64.b64decode(str(value), validate=True)
                except ValueError:
                    yield Failure(path, "is not base64; plain text goes into stringData")
    if size > _DATA_BYTES:
        yield Failure("data", f"got {size} bytes; a {wanted['kind']} holds at most {_DATA_BYTES}")


def _pod_failures(pod: Properties, path: str) -> Iterator[Failure]:
    volumes = {str(v.get("name")) for v in cast("list[Properties]", pod.get("volumes") or [])}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(cast("list[Properties]", pod.get(field) or [])):
            here, mounts = f"{path}.{field}[{index}]", cast("list[Properties]", container.get("volumeMounts") or [])
            if not container.get("image"):
                yield Failure(f"{here}.image", "not set")
            if not _DNS_LABEL.fullmatch(str(container.get("name"))):
                yield Failure(f"{here}.name", f"got {container.get('name')!r}; must be a DNS label")
            for mount in mounts:
                if str(mount.get("name")) not in volumes:
                    yield Failure(
                        f"{here}.volumeMounts", f"got {mount.get('name')}; the pod has no volume of that name"
                    )
    if not pod.get("containers"):
        yield Failure(f"{path}.containers", "at least one is needed")


def _crds_of(release: Properties) -> list[Crd]:
    return charts.crds(str(release["chart"]), as_map(release["values"]), bool(release.get("skipCrds")))


def _served_by(stored: Object) -> str:
    """The chart whose controller has to clean up behind an object before it can go."""
    if stored["kind"] == "Service" and at(stored, "status.loadBalancer.ingress") and not stored.get("owner"):
        return _LBC
    return charts.CONTROLLERS.get(_group(stored), "")


def _overlay(live: Value, old: Value, new: Value) -> Value:
    """`new`, together with what is in `live` without having been in `old`."""
    if not (isinstance(live, dict) and isinstance(old, dict) and isinstance(new, dict)):
        return new
    kept = {k: v for k, v in live.items() if k not in old or k in new}
    return {**kept, **{k: _overlay(live.get(k), old.get(k), v) if k in old else v for k, v in new.items()}}


def _is_default(storage_class: Object) -> bool:
    return (
        as_map(at(storage_class, "metadata.annotations")).get("storageclass.kubernetes.io/is-default-class") == "true"
    )


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _key(api: str, kind: str, namespace: str, name: str) -> str:
    return f"{api.rpartition('/')[0]}/{kind}/{namespace}/{name}"


def _group(stored: Object) -> str:
    return str(stored["apiVersion"]).rpartition("/")[0]


def _name(stored: Object) -> str:
    return str(at(stored, "metadata.name"))


def _space(stored: Object) -> str:
    return str(at(stored, "metadata.namespace", ""))


def _spelled(stored: Object) -> str:
    return f"{stored['kind']} {_space(stored)}{'/' if _space(stored) else ''}{_name(stored)}"
