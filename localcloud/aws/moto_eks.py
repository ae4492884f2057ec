"""What moto's EKS lacks, added to moto itself: addons, access entries, pod identities, and the checks that AWS makes.

Everything is added to moto's response class, so that boto3 from outside sees the same cloud as the stand-in.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from moto.core.responses import ActionResult
from moto.core.utils import camelcase_to_underscores, utcnow
from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import ec2_backends
from moto.eks import urls
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException, ResourceNotFoundException
from moto.eks.responses import EKSResponse
from moto.moto_api._internal import mock_random

from localcloud.aws.hardware import efa_problem

Record = dict[str, Any]

# Standard support, newest first. EKS user guide, kubernetes-versions-standard, read 2026-12.
VERSIONS = ("1.36", "1.35", "1.34", "1.33")
ADDONS: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
    Path(__file__).with_name("eks_addons.json").read_text()
)["addons"]  # fmt: skip
_ACCESS_POLICIES = ("ClusterAdmin", "Admin", "AdminView", "Edit", "View", "SecretReader", "AutoNode")
_AMI_RELEASE = "20260714"  # amazon-eks-ami changelog
_CLUSTER_DEFAULTS: Record = {
    "version": VERSIONS[0],
    "accessConfig": {"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True},
    "upgradePolicy": {"supportType": "EXTENDED"},
    "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
    "deletionProtection": False,
}
_NETWORK_DEFAULTS = {"endpointPublicAccess": True, "endpointPrivateAccess": False, "publicAccessCidrs": ["0.0.0.0/0"]}


def _refuse(message: str) -> NoReturn:
    raise InvalidParameterException(message=message)


def _missing(message: str) -> NoReturn:
    raise ResourceNotFoundException(message=message)


def _cluster(self: EKSResponse) -> Any:
    return self.eks_backend.describe_cluster(self._get_param("name"))


def _nodegroup(self: EKSResponse) -> Any:
    return self.eks_backend.describe_nodegroup(self._get_param("name"), self._get_param("nodegroupName"))


def _body(self: EKSResponse) -> Record:
    return {k: v for k, v in json.loads(self.body or "{}").items() if k not in ("clientRequestToken", "force")}


def _ec2(self: EKSResponse) -> Any:
    return ec2_backends[self.current_account][self.region]


def _place(self: EKSResponse, thing: Any, subnets: list[Any], groups: list[str]) -> None:
    """The network interfaces of a cluster or node group, one per subnet: what they use cannot be deleted."""
    for eni in vars(thing).get("enis", []):
        _ec2(self).delete_network_interface(eni)
    make = _ec2(self).create_network_interface
    groups = list(dict.fromkeys(groups))
    thing.enis = [make(s.id, s.get_available_subnet_ip(None), group_ids=groups).id for s in subnets]


def _place_cluster(self: EKSResponse, cluster: Any) -> None:
    network = cluster.resources_vpc_config
    subnets = [_ec2(self).get_subnet(i) for i in network["subnetIds"]]
    if len({s.vpc_id for s in subnets}) > 1 or len({s.availability_zone for s in subnets}) < 2:
        _refuse(f"Subnets {', '.join(network['subnetIds'])} must be of one VPC and in two availability zones or more")
    network["vpcId"] = subnets[0].vpc_id
    if "clusterSecurityGroupId" not in network:
        name = f"eks-cluster-sg-{cluster.name}-{mock_random.get_random_hex(8)}"
        owner = {"aws:eks:cluster-name": cluster.name, f"kubernetes.io/cluster/{cluster.name}": "owned"}
        about = "EKS created security group applied to its network interfaces"
        group = _ec2(self).create_security_group(name, about, vpc_id=network["vpcId"], tags=owner)
        itself = [{"GroupId": group.id}]
        _ec2(self).authorize_security_group_ingress(
            group.id, "-1", None, None, [], source_groups=itself, security_rule_ids=[]
        )
        network["clusterSecurityGroupId"] = group.id
    _place(self, cluster, subnets, [network["clusterSecurityGroupId"], *network.get("securityGroupIds", [])])


def _update(self: EKSResponse, kind: str) -> ActionResult:
    known = {"id": str(mock_random.uuid4()), "status": "Successful", "type": kind, "createdAt": utcnow()}
    return ActionResult({"update": {**known, "params": [], "errors": []}})


# --- clusters -------------------------------------------------------------------------------------------------------


def create_cluster(self: EKSResponse) -> ActionResult:
    body = {**_CLUSTER_DEFAULTS, **_body(self)}
    if body["version"] not in VERSIONS:
        _refuse(f"unsupported Kubernetes version {body['version']}; EKS has {', '.join(VERSIONS)}")
    result = _moto["create_cluster"](self)
    cluster = self.eks_backend.clusters[self._get_param("name")]
    for key, value in body.items():
        before = _CLUSTER_DEFAULTS.get(key)
        setattr(cluster, camelcase_to_underscores(key), {**before, **value} if isinstance(before, dict) else value)
    cluster.resources_vpc_config = {**_NETWORK_DEFAULTS, **body["resourcesVpcConfig"]}
    unique = mock_random.get_random_hex(32).upper()
    certificate = base64.encodebytes(mock_random.randbytes(700)).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{certificate}-----END CERTIFICATE-----\n"
    cluster.endpoint = f"https://{unique}.gr7.{self.region}.eks.amazonaws.com"
    cluster.identity = {"oidc": {"issuer": f"https://oidc.eks.{self.region}.amazonaws.com/id/{unique}"}}
    cluster.certificate_authority = {"data": base64.b64encode(pem.encode()).decode()}
    try:
        _place_cluster(self, cluster)
    except Exception:
        del self.eks_backend.clusters[cluster.name]
        raise
    return result


def update_cluster_config(self: EKSResponse) -> ActionResult:
    cluster = _cluster(self)
    for key, value in _body(self).items():
        name = camelcase_to_underscores(key)
        before = getattr(cluster, name, None)
        if key == "logging":
            setups = [*cluster.logging["clusterLogging"], *value["clusterLogging"]]
            states = {t: s["enabled"] for s in setups for t in s["types"]}
            sides = {on: [t for t, state in states.items() if state is on] for on in (True, False)}
            value = {"clusterLogging": [{"types": types, "enabled": on} for on, types in sides.items() if types]}
        setattr(cluster, name, {**before, **value} if isinstance(before, dict) else value)
        if key == "resourcesVpcConfig":
            _place_cluster(self, cluster)
    return _update(self, "ConfigUpdate")


def update_cluster_version(self: EKSResponse) -> ActionResult:
    cluster, version = _cluster(self), self._get_param("version")
    if version not in VERSIONS or VERSIONS.index(cluster.version) - VERSIONS.index(version) not in (0, 1):
        _refuse(f"Unsupported Kubernetes minor version update from {cluster.version} to {version}")
    cluster.version = version
    return _update(self, "VersionUpdate")


def delete_cluster(self: EKSResponse) -> ActionResult:
    cluster = _cluster(self)
    if cluster.deletion_protection:
        _refuse(f"Cluster {cluster.name} has deletion protection")
    result = _moto["delete_cluster"](self)
    _place(self, cluster, [], [])
    with contextlib.suppress(DependencyViolationError):  # as on AWS: it stays behind while something uses it
        _ec2(self).delete_security_group(group_id=cluster.resources_vpc_config["clusterSecurityGroupId"])
    return result


# --- node groups ----------------------------------------------------------------------------------------------------


def create_nodegroup(self: EKSResponse) -> ActionResult:
    body, cluster = _body(self), _cluster(self)
    subnets = [_ec2(self).get_subnet(i) for i in body["subnets"]]
    data = _template_data(self, body.get("launchTemplate"))
    if body.get("instanceTypes") and data.get("InstanceType"):
        _refuse(
            f"instanceTypes and the launch template both give a type: {body['instanceTypes']}, {data['InstanceType']}"
        )
    types = body.get("instanceTypes") or [data.get("InstanceType", "t3.medium")]
    for type_name in types:
        for subnet in subnets:
            here = {"location": [subnet.availability_zone], "instance-type": [type_name]}
            if not _ec2(self).describe_instance_type_offerings("availability-zone", here):
                zone = f"{subnet.availability_zone_id} ({subnet.availability_zone})"
                _refuse(f"Instance type {type_name} is not offered in {zone}, the zone of subnet {subnet.id}")
        _require_fit(type_name, data)
    _require_reserved(self, types, subnets, data)
    version = body.get("version", cluster.version)
    if version not in VERSIONS or VERSIONS.index(version) < VERSIONS.index(cluster.version):
        _refuse(f"Node group version {version} is not one that a cluster of version {cluster.version} can have")
    result = _moto["create_nodegroup"](self)
    nodegroup = cluster.nodegroups[body["nodegroupName"]]
    defaults = {"updateConfig": {"maxUnavailable": 1}, "amiType": "AL2023_x86_64_STANDARD", "remoteAccess": None}
    defaults |= {"releaseVersion": f"{version}.0-{_AMI_RELEASE}", "instanceTypes": None if data else types}
    for key, value in {**defaults, "version": version, "nodeRepairConfig": None, **body}.items():
        if key not in ("launchTemplate", "tags"):
            setattr(nodegroup, camelcase_to_underscores(key), value)
    nodegroup.resources = {"autoScalingGroups": nodegroup.resources["autoScalingGroups"]}
    nodegroup.disk_size = None if data else nodegroup.disk_size
    groups = [g for i in data.get("NetworkInterfaces", []) for g in i.get("Groups", [])] or data.get("SecurityGroupIds")
    _place(self, nodegroup, subnets, groups or [cluster.resources_vpc_config["clusterSecurityGroupId"]])
    return result


def _template_data(self: EKSResponse, reference: Record | None) -> Record:
    """The data of the launch template version that a node group names; what it names must exist."""
    if not reference:
        return {}
    by_name, by_id = _ec2(self).get_launch_template_by_name, _ec2(self).get_launch_template
    template = by_id(reference["id"]) if "id" in reference else by_name(reference["name"])
    number = str(reference.get("version") or template.default_version_number)
    if not number.isdigit() or int(number) > len(template.versions):
        _refuse(f"Launch template {template.id} has no version {number}")
    data = template.get_version(int(number)).data
    group = data.get("Placement", {}).get("GroupName")
    if group and group not in vars(_ec2(self)).get("placement_groups", {}):
        _refuse(f"The placement group {group} of launch template {template.id} does not exist")
    return data


def _require_reserved(self: EKSResponse, types: Sequence[str], subnets: Sequence[Any], data: Record) -> None:
    """A reservation is of one type, in one zone; aimed at from elsewhere it starts no instance."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if not (id := target.get("CapacityReservationId")):
        return
    held = vars(_ec2(self)).get("capacity_reservations", {}).get(id)
    if held is None:
        _refuse(f"The capacity reservation {id} of the launch template does not exist")
    what = f"Capacity reservation {id} is of {held['InstanceType']}"
    for type_name in types:
        if type_name != held["InstanceType"]:
            _refuse(f"{what}, and the node group wants {type_name}")
    for subnet in subnets:
        if subnet.availability_zone != held["AvailabilityZone"]:
            zone = f"{subnet.availability_zone_id} ({subnet.availability_zone})"
            _refuse(f"{what} in {held['AvailabilityZone']}, and subnet {subnet.id} is in {zone}")


def _require_fit(type_name: str, data: Record) -> None:
    if problem := efa_problem(type_name, data.get("NetworkInterfaces", [])):
        _refuse(f"The launch template does not fit {type_name}: {problem}")


def update_nodegroup_version(self: EKSResponse) -> ActionResult:
    nodegroup, body = _nodegroup(self), _body(self)
    data = _template_data(self, body.get("launchTemplate"))
    types = nodegroup.instance_types or [data.get("InstanceType", "t3.medium")]
    for type_name in types:
        _require_fit(type_name, data)
    _require_reserved(self, types, [_ec2(self).get_subnet(i) for i in nodegroup.subnets], data)
    for key, value in body.items():
        before = getattr(nodegroup, camelcase_to_underscores(key))
        setattr(nodegroup, camelcase_to_underscores(key), {**before, **value} if isinstance(before, dict) else value)
    return _update(self, "VersionUpdate")


def delete_nodegroup(self: EKSResponse) -> ActionResult:
    nodegroup = _nodegroup(self)
    result = _moto["delete_nodegroup"](self)
    _place(self, nodegroup, [], [])
    return result


# --- what belongs to a cluster: addons, access entries, pod identities ----------------------------------------------


def _addon(self: EKSResponse, record: Record) -> None:
    name, version = record["addonName"], _cluster(self).version
    versions = _addon_versions(name, version)
    if record.setdefault("addonVersion", (versions or ("",))[0]) not in versions:
        known = f"of it there are {', '.join(versions)}" if versions else f"there are {', '.join(ADDONS)}"
        _refuse(f"Addon {name} {record['addonVersion']} is not supported on {version}; {known}")
    try:
        json.loads(record.get("configurationValues") or "{}")
    except ValueError:
        _refuse(f"configurationValues of {name} is not JSON: {record['configurationValues']}")
    identities = record.get("podIdentityAssociations", [])
    record["podIdentityAssociations"] = [i if isinstance(i, str) else i["roleArn"] for i in identities]


def _addon_versions(name: str, cluster_version: str) -> Sequence[str]:
    versions = ADDONS.get(name, {})
    return versions.get(cluster_version, versions.get("*", ())) if cluster_version in VERSIONS else ()


def describe_addon_versions(self: EKSResponse) -> ActionResult:
    version, only = self._get_param("kubernetesVersion", VERSIONS[0]), self._get_param("addonName")
    fits = [{"clusterVersion": version, "platformVersions": ["*"]}]
    names = [n for n in ADDONS if only in (None, n) and _addon_versions(n, version)]
    served = {n: [{"addonVersion": v, "compatibilities": fits} for v in _addon_versions(n, version)] for n in names}
    return ActionResult({"addons": [{"addonName": n, "addonVersions": versions} for n, versions in served.items()]})


def _access_entry(self: EKSResponse, record: Record) -> None:
    mode = _cluster(self).access_config["authenticationMode"]
    if mode not in ("API", "API_AND_CONFIG_MAP"):
        _refuse(f"Access entries need the authentication mode API, and that of the cluster is {mode}")
    record |= {"type": "STANDARD", "username": record["principalArn"], "kubernetesGroups": [], **record}


def _pod_identity(self: EKSResponse, record: Record) -> None:
    for other in _children(self, "pod_identity_association").values():
        if all(other[k] == record[k] for k in ("namespace", "serviceAccount")) and other is not record:
            text = f"serviceAccount {record['serviceAccount']} has an association: {other['associationId']}"
            raise ResourceInUseException(message=text)


def _children(self: EKSResponse, kind: str) -> dict[str, Record]:
    return vars(_cluster(self)).setdefault(f"{kind}_records", {})


def _child(kind: str, member: str, many: str, key: str, complete: Callable[..., None]) -> Mapping[str, Any]:
    """The operations of one kind of child; `complete` checks a record and fills in what AWS does."""

    def find(self: EKSResponse) -> Record:
        found = _children(self, kind).get(self._get_param(key))
        return found or _missing(f"No {kind} found for: {self._get_param(key)}")

    def create(self: EKSResponse) -> ActionResult:
        name = self._get_param(key) or f"a-{mock_random.get_random_hex(17)}"
        if name in _children(self, kind):
            raise ResourceInUseException(message=f"{kind} already exists: {name}")
        path = f"{kind.replace('_', '')}/{self._get_param('name')}/{name.rsplit('/', 1)[-1]}/{mock_random.uuid4()}"
        arn = f"arn:aws:eks:{self.region}:{self.current_account}:{path}"
        known = {f"{member}Arn": arn, "clusterName": self._get_param("name"), key: name, "status": "ACTIVE"}
        record = {"tags": {}, **_body(self), **known, "createdAt": utcnow(), "modifiedAt": utcnow()}
        complete(self, record)
        _children(self, kind)[name] = record
        return ActionResult({member: record})

    def describe(self: EKSResponse) -> ActionResult:
        return ActionResult({member: find(self)})

    def update(self: EKSResponse) -> ActionResult:
        record, before = find(self), dict(find(self))
        record |= _body(self)
        try:
            complete(self, record)
        except Exception:
            record |= before
            raise
        return _update(self, "AddonUpdate") if kind == "addon" else ActionResult({member: record})

    def delete(self: EKSResponse) -> ActionResult:
        gone = find(self)
        del _children(self, kind)[self._get_param(key)]
        return ActionResult({member: gone})

    def listing(self: EKSResponse) -> ActionResult:
        held = _children(self, kind)
        return ActionResult({many: list(held.values() if many == "associations" else held)})

    verbs = {f"{verb.__name__}_{kind}": verb for verb in (create, describe, update, delete)}
    return {**verbs, f"list_{camelcase_to_underscores(many)}".replace("associations", f"{kind}s"): listing}


def _policies(self: EKSResponse) -> dict[str, Record]:
    principal = self._get_param("principalArn")
    entry = _children(self, "access_entry").get(principal) or _missing(f"No access entry for {principal}")
    return entry.setdefault("policies", {})


def associate_access_policy(self: EKSResponse) -> ActionResult:
    arn = self._get_param("policyArn")
    if arn not in [f"arn:aws:eks::aws:cluster-access-policy/AmazonEKS{p}Policy" for p in _ACCESS_POLICIES]:
        _refuse(f"The access policy {arn} does not exist")
    record = {"policyArn": arn, "accessScope": self._get_param("accessScope"), "associatedAt": utcnow()}
    _policies(self)[arn] = record
    return ActionResult({"associatedAccessPolicy": record})


def list_associated_access_policies(self: EKSResponse) -> ActionResult:
    return ActionResult({"associatedAccessPolicies": list(_policies(self).values())})


def disassociate_access_policy(self: EKSResponse) -> ActionResult:
    gone = _policies(self).pop(self._get_param("policyArn"), None)
    return ActionResult({}) if gone else _missing(f"No such access policy: {self._get_param('policyArn')}")


# --- tags of all of them --------------------------------------------------------------------------------------------


def _tags(self: EKSResponse) -> dict[str, str]:
    arn = self._extract_arn_from_path()
    for cluster in self.eks_backend.clusters.values():
        for held in [v for k, v in vars(cluster).items() if k.endswith("_records")]:
            for record in [r for r in held.values() if arn in [v for k, v in r.items() if k.endswith("Arn")]]:
                return record["tags"]
        for thing in [t for t in (cluster, *cluster.nodegroups.values()) if t.arn == arn]:
            return thing.tags
    _missing(f"Resource was not found: {arn}")


def tag_resource(self: EKSResponse) -> ActionResult:
    _tags(self).update(self._get_param("tags"))
    return ActionResult({})


def untag_resource(self: EKSResponse) -> ActionResult:
    for key in self.querystring.get("tagKeys", []):
        _tags(self).pop(key, None)
    return ActionResult({})


_moto = {
    name: getattr(EKSResponse, name)
    for name in ("create_cluster", "delete_cluster", "create_nodegroup", "delete_nodegroup")
}
_OWN = (
    create_cluster, update_cluster_config, update_cluster_version, delete_cluster, create_nodegroup,
    update_nodegroup_version, delete_nodegroup, describe_addon_versions, associate_access_policy,
    list_associated_access_policies, disassociate_access_policy, tag_resource, untag_resource,
)  # fmt: skip
_ROUTES = (
    "addons/supported-versions", "clusters/{name}/addons", "clusters/{name}/addons/{addonName}",
    "clusters/{name}/addons/{addonName}/update", "clusters/{name}/updates",
    "clusters/{name}/node-groups/{nodegroupName}/update-version",
    "clusters/{name}/access-entries", "clusters/{name}/access-entries/{rest}",
    "clusters/{name}/pod-identity-associations", "clusters/{name}/pod-identity-associations/{associationId}",
)  # fmt: skip


def install() -> None:
    operations = {f.__name__: f for f in _OWN}
    operations |= _child("addon", "addon", "addons", "addonName", _addon)
    operations |= _child("access_entry", "accessEntry", "accessEntries", "principalArn", _access_entry)
    operations |= _child("pod_identity_association", "association", "associations", "associationId", _pod_identity)
    for name, operation in operations.items():
        setattr(EKSResponse, name, operation)
    for route in _ROUTES:
        pattern = re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{'.+' if m[1] == 'rest' else '[^/]+'})", route)
        urls.url_paths[f"{{0}}/{pattern}$"] = urls.response.dispatch
