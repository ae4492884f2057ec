"""What a row of the table cannot say: properties that AWS takes in another shape, or changes by several calls.

Rows name these functions. `prepare` gets properties and returns them as the create call wants them; `check` yields
failures; all others act: `created` with no old properties, `deleting` with no new ones, `change` with both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from localcloud.aws.hardware import efa_problem
from localcloud.provider import Failure, Properties, Value, has_unknown

if TYPE_CHECKING:
    from localcloud.aws.kinds import Aws, Kind


def _list(value: Value) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def detach_gateway(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    if vpc := old.get("vpcId"):
        aws.call("ec2", "detach_internet_gateway", {"InternetGatewayId": id, "VpcId": vpc})


def move_gateway(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    detach_gateway(kind, aws, id, old, news)
    if vpc := news.get("vpcId"):
        aws.call("ec2", "attach_internet_gateway", {"InternetGatewayId": id, "VpcId": vpc})


def change_endpoint(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    members: dict[str, object] = {}
    for name in kind.changes.split():
        before, after = _list(old.get(name)), _list(news.get(name))
        member = name[0].upper() + name[1:]
        members |= {f"Add{member}": [v for v in after if v not in before]}
        members |= {f"Remove{member}": [v for v in before if v not in after]}
    if members := {k: v for k, v in members.items() if v}:
        aws.call("ec2", "modify_vpc_endpoint", {"VpcEndpointId": id, **members})


def take_away_default_egress(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    """AWS lets everything out of a new group; pulumi-aws takes that away, so that rules say all there is."""
    group = aws.call("ec2", "describe_security_groups", {"GroupIds": [id]})["SecurityGroups"][0]
    aws.call("ec2", "revoke_security_group_egress", {"GroupId": id, "IpPermissions": group["IpPermissionsEgress"]})


_SOURCES = {
    "cidrIpv4": ("ipRanges", "cidrIp"),
    "cidrIpv6": ("ipv6Ranges", "cidrIpv6"),
    "prefixListId": ("prefixListIds", "prefixListId"),
    "referencedSecurityGroupId": ("userIdGroupPairs", "groupId"),
}


def rule_members(inputs: Properties) -> Properties:
    permission: Properties = {k: inputs[k] for k in ("ipProtocol", "fromPort", "toPort") if k in inputs}
    for name, (member, inner) in _SOURCES.items():
        if name in inputs:
            permission[member] = [{inner: inputs[name], "description": inputs.get("description")}]
    rest = {k: v for k, v in inputs.items() if k in ("securityGroupId", "tags")}
    return {**rest, "ipPermissions": [permission]}


def change_rule(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    everything = {"fromPort": -1, "toPort": -1} if news["ipProtocol"] == "-1" else {}
    given = {**everything, **{k: news[k] for k in kind.changes.split() if k in news}}
    spelled = {k[0].upper() + k[1:].replace("SecurityGroup", "Group"): v for k, v in given.items()}
    rule = {"SecurityGroupRuleId": id, "SecurityGroupRule": spelled}
    aws.call("ec2", "modify_security_group_rules", {"GroupId": news["securityGroupId"], "SecurityGroupRules": [rule]})


_OUTSIDE = ("name", "description", "tags", "updateDefaultVersion", "defaultVersion")


def template_members(inputs: Properties) -> Properties:
    data = {k: v for k, v in inputs.items() if k not in _OUTSIDE}
    return {"launchTemplateData": data, **{k: v for k, v in inputs.items() if k in _OUTSIDE[:3]}}


def change_template(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    """Every change is a new version; which one is the default is told apart from it."""
    default = news.get("defaultVersion")
    before, after = ({**template_members(p), "tags": None, "name": None} for p in (old, news))
    if before != after:
        members, _ = kind.members(aws, after)
        made = aws.call("ec2", "create_launch_template_version", {"LaunchTemplateId": id, **members})
        if news.get("updateDefaultVersion"):
            default = made["LaunchTemplateVersion"]["VersionNumber"]
    if default:
        aws.call("ec2", "modify_launch_template", {"LaunchTemplateId": id, "DefaultVersion": str(default)})


def check_template(inputs: Properties) -> Iterable[Failure]:
    interfaces, type_name = _list(inputs.get("networkInterfaces")), inputs.get("instanceType")
    if type_name and not has_unknown(type_name) and (problem := efa_problem(str(type_name), interfaces)):
        yield Failure("networkInterfaces", problem)


def drop_policy_versions(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    for version in aws.call("iam", "list_policy_versions", {"PolicyArn": id})["Versions"]:
        if not version["IsDefaultVersion"]:
            aws.call("iam", "delete_policy_version", {"PolicyArn": id, "VersionId": version["VersionId"]})


def change_policy(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    drop_policy_versions(kind, aws, id, old, news)  # AWS keeps five at most
    version = {"PolicyArn": id, "PolicyDocument": news["policy"], "SetAsDefault": True}
    aws.call("iam", "create_policy_version", version)


def change_key(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    if news.get("enableKeyRotation"):
        days = {"RotationPeriodInDays": news["rotationPeriodInDays"]} if news.get("rotationPeriodInDays") else {}
        aws.call("kms", "enable_key_rotation", {"KeyId": id, **days})
    elif old.get("enableKeyRotation"):
        aws.call("kms", "disable_key_rotation", {"KeyId": id})


def cluster_members(inputs: Properties) -> Properties:
    types = inputs.get("enabledClusterLogTypes")
    logging: Properties = {"logging": {"clusterLogging": [{"types": types, "enabled": True}]}} if types else {}
    return {k: v for k, v in inputs.items() if k != "enabledClusterLogTypes"} | logging


def change_cluster(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    before, after = _list(old.get("enabledClusterLogTypes")), _list(news.get("enabledClusterLogTypes"))
    off = [t for t in before if t not in after]
    setups = [{"types": types, "enabled": on} for types, on in ((after, True), (off, False)) if types]
    if before != after:
        aws.call("eks", "update_cluster_config", {"name": id, "logging": {"clusterLogging": setups}})


def change_nodegroup(kind: Kind, aws: Aws, id: str, old: Properties, news: Properties) -> None:
    labels, before = cast(Properties, news.get("labels") or {}), cast(Properties, old.get("labels") or {})
    taints, past = _list(news.get("taints")), _list(old.get("taints"))
    change = {
        "labels": {"addOrUpdateLabels": labels, "removeLabels": [k for k in before if k not in labels]},
        "taints": {"addOrUpdateTaints": taints, "removeTaints": [t for t in past if t not in taints]},
    }
    if wanted := {k: {n: v for n, v in c.items() if v} for k, c in change.items() if old.get(k) != news.get(k)}:
        keys = {"clusterName": news["clusterName"], "nodegroupName": news["nodeGroupName"]}
        aws.call("eks", "update_nodegroup_config", {**keys, **wanted})
