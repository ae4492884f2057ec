"""Stand-in for pulumi-kubernetes: every kind of the SDK, custom resources and helm.sh/v3 Releases, on `apiserver`.

Generic over kinds: what differs between them is the SDK's types (`sdk`), the API server's rules (`apiserver`) and the
few fields whose change the real provider answers with a replacement (the table here, after its `forceNew`).
The kubeconfig names the EKS cluster by its ARN; one that the local AWS does not have is unreachable, as it would be.
"""

from __future__ import annotations

import base64
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from localcloud import charts, provider, sdk
from localcloud.apiserver import Cluster, Content, Object, built_in, namespaced, static_failures
from localcloud.charts import as_map, at
from localcloud.cloud import cloud_at
from localcloud.ledger import ledger_at
from localcloud.provider import UNKNOWN, Diff, Failure, Properties, ProviderError, Urn, Value, changed_paths

RELEASE = "kubernetes:helm.sh/v3:Release"
_AUTONAMED = "pulumi.com/autonamed"
_IDENTITY = ("metadata.name", "metadata.namespace")
_REPLACES: dict[str, tuple[str, ...]] = {
    RELEASE: ("name", "namespace"),
    "Secret": ("type", "data", "stringData"),
    "ConfigMap": ("data", "binaryData"),
    "Job": ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    "Deployment": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "StatefulSet": ("spec.selector", "spec.podManagementPolicy", "spec.serviceName", "spec.volumeClaimTemplates"),
    "PersistentVolume": ("spec.csi", "spec.nfs", "spec.hostPath", "spec.local"),
    "PersistentVolumeClaim": ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    "StorageClass": ("parameters", "provisioner"),
    "Service": ("spec.clusterIP",),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "Pod": ("spec",),
}
_FILLED_IN = ("uid", "resourceVersion", "creationTimestamp", "generation")


@dataclass(frozen=True)
class EksCluster:
    """What AWS says about a cluster; `created` tells apart two of the same name."""

    name: str
    region: str
    version: str
    created: str


def eks_cluster(state_dir: Path, arn: str) -> EksCluster:
    region, name = arn.split(":")[3], arn.rpartition("/")[2]
    eks = cloud_at(state_dir).client("eks", region)
    try:
        found = eks.describe_cluster(name=name)["cluster"]
    except eks.exceptions.ClientError as error:
        reason = f"configured Kubernetes cluster is unreachable: no EKS cluster {name} in {region}"
        raise ProviderError(reason) from error
    return EksCluster(name, region, found["version"], f"{found['createdAt']:%Y%m%d%H%M%S%f}")


class Provider(provider.Provider):
    package = "kubernetes"
    version = sdk.package_version("kubernetes")

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self._config: Properties = {}
        self._arn = ""

    def configure(self, config: Properties) -> None:
        self._config = config
        given = config.get("kubeconfig")
        if not isinstance(given, str) or not given:
            raise ProviderError("kubeconfig: not set; the local cloud has no kubeconfig of its own, pass the cluster's")
        if given != UNKNOWN:
            self._arn = _cluster_arn(_text(given))

    def diff_config(self, old_inputs: Properties, news: Properties) -> Diff:
        """Another cluster, or one that is not known yet, replaces the provider and with it all that it made."""
        changes = changed_paths(old_inputs, news)
        if "kubeconfig" not in changes:
            return Diff(changes)
        moved = news.get("kubeconfig") == UNKNOWN or _address(old_inputs) != _address(news)
        return Diff(changes, ["kubeconfig"] if moved else [])

    @functools.cached_property
    def _eks(self) -> EksCluster:
        return eks_cluster(self.state_dir, self._arn)

    @functools.cached_property
    def cluster(self) -> Cluster:
        """The objects of the cluster; one made anew under an old name starts empty."""
        file = self.state_dir / "kubernetes" / f"{self._eks.name}-{self._eks.created}.json"
        return Cluster(file, self._eks.region, ledger_at(self.state_dir).lost)

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        if urn.type == RELEASE:
            return self._check_release(urn, olds, news)
        api, kind = str(news.get("apiVersion")), str(news.get("kind"))
        token = f"kubernetes:{'' if '/' in api else 'core/'}{api}:{kind}"
        if built_in(api) and kind.endswith(("List", "Patch")):
            return news, [
                Failure("kind", f"got {kind}; the local cloud has no lists and no patches, only whole objects")
            ]
        if built_in(api) or sdk.resource(token):
            failures = sdk.check_inputs(token, news)
        else:
            failures = list(sdk.value_failures(ObjectMetaArgs, news.get("metadata"), "metadata"))
        meta = dict(as_map(news.get("metadata")))
        named: Properties = {**news, "metadata": meta}
        if "name" not in meta:
            before = as_map(olds.get("metadata"))
            autonamed = as_map(before.get("annotations")).get(_AUTONAMED)
            meta["name"] = before["name"] if autonamed else urn.autoname(8)
            meta["annotations"] = {**as_map(meta.get("annotations")), _AUTONAMED: "true"}
        if namespaced(api, kind):
            meta.setdefault("namespace", self._config.get("namespace") or "default")
        return named, failures or list(static_failures(named))

    def _check_release(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        release = dict(news)
        release.setdefault("name", olds.get("name") or urn.autoname(8))
        release.setdefault("namespace", self._config.get("namespace") or "default")
        release.setdefault("values", {})
        if not release.get("skipAwait"):
            release.setdefault("timeout", 300)
        failures = sdk.check_inputs(RELEASE, news)
        name = str(release["name"])
        if name != UNKNOWN and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?", name):
            failures.append(Failure("name", f"got {name!r}; a release name is a DNS label of at most 53 characters"))
        if not failures:
            failures = charts.check(release, self._version())
            release.setdefault("version", charts.version_of(str(release["chart"])))
        return release, failures

    def _version(self) -> str | None:
        try:
            return self._eks.version
        except ProviderError:
            return None  # an unreachable cluster stops what touches it, not a preview

    def diff(self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties) -> Diff:
        kind = RELEASE if urn.type == RELEASE else str(news.get("kind"))
        forcing = _REPLACES.get(kind, ()) + (() if kind == RELEASE else _IDENTITY)
        if self._config.get(f"enable{kind}Mutable") in (True, "true") and not news.get("immutable"):
            forcing = tuple(path for path in forcing if path in _IDENTITY)
        changes = changed_paths(old_inputs, news)
        replaces = [p for p in changes if any(re.match(re.escape(f) + r"($|[.\[])", p) for f in forcing)]
        meta = as_map(news.get("metadata"))
        autonamed = _AUTONAMED in as_map(meta.get("annotations"))
        same = all(at(old_inputs, p) == at(news, p) for p in (("name", "namespace") if kind == RELEASE else _IDENTITY))
        return Diff(changes, replaces, delete_before_replace=bool(replaces) and same and not autonamed)

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        if preview:
            return "", _planned(urn, inputs)
        with self.cluster.data() as content:
            if urn.type == RELEASE:
                release = content.install(_release(inputs), None)
                return _id(release), _release_state(inputs, release, content)
            return _id(as_map(inputs["metadata"])), _shown(content.create(_stored(inputs)), inputs)

    def update(
        self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties, preview: bool
    ) -> Properties:
        if preview:
            planned = _planned(urn, news)
            if urn.type != RELEASE:
                kept = {key: as_map(state["metadata"])[key] for key in ("uid", "creationTimestamp")}
                planned["metadata"] = {**as_map(planned["metadata"]), **kept}
                planned |= {"status": state["status"]} if "status" in state else {}
            return planned
        with self.cluster.data() as content:
            if urn.type == RELEASE:
                before = content.releases.get(id)
                if before is None:
                    raise ProviderError(f"release {id} is gone from the cluster; `pulumi refresh` will notice")
                return _release_state(news, content.install(_release(news), before), content)
            return _shown(content.update(_stored(old_inputs), _stored(news)), news)

    def read(self, urn: Urn, id: str, inputs: Properties, state: Properties) -> tuple[Properties, Properties] | None:
        namespace, _, name = id.rpartition("/")
        with self.cluster.data() as content:
            if urn.type == RELEASE:
                release = content.releases.get(id)
                if release is None:
                    return None
                live = {key: release[key] for key in ("name", "namespace", "version", "values")}
                inputs = {**inputs, **{k: v for k, v in live.items() if k in inputs}} or live
                return inputs, _release_state(inputs, release, content)
            group, _, kind = urn.type.split(":", 1)[1].rpartition(":")
            found = content.get("v1" if group == "core/v1" else group, kind, namespace, name)
            if found is None:
                return None
            shown = _shown(found, inputs)
            return (cast(Properties, _projected(inputs, shown)) if inputs else _without_filled_in(shown)), shown

    def delete(self, urn: Urn, id: str, state: Properties) -> None:
        namespace, _, name = id.rpartition("/")
        with self.cluster.data() as content:
            if urn.type == RELEASE:
                content.uninstall(namespace, name)
            else:
                content.delete(str(state["apiVersion"]), str(state["kind"]), namespace, name)


def _text(kubeconfig: str) -> str:
    return kubeconfig if "\n" in kubeconfig or "{" in kubeconfig else Path(kubeconfig).read_text()


def _active(text: str) -> tuple[str, Properties]:
    """Name and entry of the cluster that a kubeconfig's current context points at."""
    try:
        kubeconfig = cast(Properties, yaml.safe_load(text))
        rows = cast("dict[str, list[Properties]]", kubeconfig)
        contexts = {str(row["name"]): as_map(row["context"]) for row in rows["contexts"]}
        name = str(contexts[str(kubeconfig["current-context"])]["cluster"])
        return name, next(as_map(row["cluster"]) for row in rows["clusters"] if row["name"] == name)
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise ProviderError(f"kubeconfig: no current context with a cluster in it ({type(error).__name__})") from error


def _address(config: Properties) -> Properties:
    """What tells one cluster from another for the real provider: where it is and whom to trust."""
    return _active(_text(str(config["kubeconfig"])))[1]


def _cluster_arn(text: str) -> str:
    """The EKS cluster that a kubeconfig's current context points at."""
    arn, entry = _active(text)
    server = str(entry.get("server"))
    if not re.fullmatch(r"arn:aws[\w-]*:eks:[\w-]+:\d{12}:cluster/[\w-]+", arn) or not server.startswith("https://"):
        raise ProviderError(
            f"kubeconfig: got cluster {arn} at {server}; the local cloud knows EKS clusters by their ARN"
        )
    return arn


def _planned(urn: Urn, inputs: Properties) -> Properties:
    """What is known of an object before it is there."""
    if urn.type == RELEASE:
        return {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN}
    meta: Properties = {**as_map(inputs["metadata"]), **dict.fromkeys(_FILLED_IN, UNKNOWN)}
    return {**inputs, "metadata": meta, **({} if "data" in inputs else {"status": UNKNOWN})}


def _stored(inputs: Properties) -> Object:
    """As the API server keeps it: a Secret's stringData has become data."""
    if inputs.get("kind") != "Secret" or not inputs.get("stringData"):
        return inputs
    encoded: Properties = {
        k: base64.b64encode(str(v).encode()).decode() for k, v in as_map(inputs["stringData"]).items()
    }
    stored: Object = {**inputs, "data": {**as_map(inputs.get("data")), **encoded}}
    del stored["stringData"]
    return stored


def _shown(stored: Object, inputs: Properties) -> Properties:
    """As the provider reports it: stringData again where the program used it, nothing of our own book-keeping."""
    shown = {k: v for k, v in stored.items() if k not in ("owner", "create")}
    given = as_map(inputs.get("stringData"))
    if given:
        data = as_map(shown.get("data"))
        shown["stringData"] = {k: base64.b64decode(str(data[k])).decode() for k in given if k in data}
    return shown


def _projected(inputs: Value, live: Value) -> Value:
    """What the program's inputs would have to be for the cluster to look as it does."""
    if isinstance(inputs, dict) and isinstance(live, dict):
        return {k: _projected(v, live[k]) for k, v in inputs.items() if k in live}
    if isinstance(inputs, list) and isinstance(live, list) and len(inputs) == len(live):
        return [_projected(a, b) for a, b in zip(inputs, live, strict=True)]
    return live


def _without_filled_in(shown: Properties) -> Properties:
    meta = {k: v for k, v in as_map(shown["metadata"]).items() if k not in _FILLED_IN}
    return {**{k: v for k, v in shown.items() if k != "status"}, "metadata": meta}


def _release(inputs: Properties) -> Properties:
    """What of a Release's inputs the cluster remembers."""
    name = charts.name_of(str(inputs["chart"]))
    kept = {key: inputs[key] for key in ("name", "namespace", "createNamespace", "skipCrds", "values") if key in inputs}
    return {**kept, "chart": name, "version": str(inputs["version"])}


def _release_state(inputs: Properties, release: Properties, content: Content) -> Properties:
    about = charts.facts(str(release["chart"]))
    owned: dict[str, Value] = {}
    for made in content.owned(_id(release)):
        names = cast("list[Value]", owned.setdefault(f"{made['kind']}/{made['apiVersion']}", []))
        names.append(_id(as_map(made["metadata"])))
    status: Properties = {key: release[key] for key in ("name", "namespace", "chart", "version", "revision")}
    status |= {"status": "deployed", "appVersion": about["appVersion"]}
    return {**inputs, "resourceNames": owned, "status": status}


def _id(named: Properties) -> str:
    return f"{named['namespace']}/{named['name']}" if named.get("namespace") else str(named["name"])
