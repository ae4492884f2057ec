"""Stand-in for pulumi-eks: the `Cluster` component with the children that the real one makes for a bare control plane.

It registers its children with the engine like a program does, in the daemon like all stand-ins: the SDK keeps what it
knows of an engine per thread and call. Only for clusters that bring their own nodes, addons and security groups: each
argument that would make the real component create more is refused, not skipped. The real one's kubeconfig runs the AWS
CLI; here it holds nothing but the cluster's ARN and address, or is the file named by LOCALCLOUD_KUBECONFIG.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import yaml
from google.protobuf import empty_pb2
from pulumi.provider import ConstructResult, Provider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud import sdk

Given = Mapping[str, Any]  # arguments in Pulumi's spelling: plain values, Outputs, or both mixed
# Arguments with the one value for which the real component makes nothing that is not made here too.
_FIXED: dict[str, object] = {
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
}
_OFF = ("createOidcProvider", "createInstanceRole")
_ADDONS = {"kubeProxyAddonOptions": True, "corednsAddonOptions": False}  # argument: made unless it says otherwise?
_SUBNETS = ("subnetIds", "publicSubnetIds", "privateSubnetIds")
_TAKEN = {
    *_FIXED, *_OFF, *_ADDONS, *_SUBNETS, "name", "version", "vpcId", "tags", "clusterTags", "serviceRole",
    "endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs", "enabledClusterLogTypes", "accessEntries",
    "encryptionConfigKeyArn", "bootstrapSelfManagedAddons", "upgradePolicy", "deletionProtection",
    "enableConfigMapMutable", "kubernetesServiceIpAddressRange", "ipFamily", "providerCredentialOpts",
}  # fmt: skip
_EMPTY = (
    "clusterIngressRuleId", "defaultNodeGroupAsgName", "fargateProfileId", "fargateProfileStatus", "oidcProviderArn",
    "autoModeNodeRoleName",
)  # fmt: skip


class ServiceRole(pulumi.ComponentResource):
    """The role that EKS takes on, with the policy that the real component attaches."""

    def __init__(self, name: str, tags: Any, opts: pulumi.ResourceOptions) -> None:
        super().__init__("eks:index:ServiceRole", name, None, opts)
        allow = {"Effect": "Allow", "Principal": {"Service": ["eks.amazonaws.com"]}}
        trust = {"Version": "2012-10-17", "Statement": [{"Action": ["sts:AssumeRole", "sts:TagSession"], **allow}]}
        policy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
        child = pulumi.ResourceOptions(parent=self)
        self.role = aws.iam.Role(
            f"{name}-role",
            description="Allows EKS to manage clusters on your behalf.",
            assume_role_policy=json.dumps(trust),
            tags=tags,
            opts=child,
        )
        self.attachment = aws.iam.RolePolicyAttachment(
            f"{name}-{hashlib.sha1(policy.encode(), usedforsecurity=False).hexdigest()[:8]}",
            policy_arn=policy,
            role=self.role.name,
            opts=child,
        )
        self.register_outputs({})


class Cluster(pulumi.ComponentResource):
    """eks:index:Cluster."""

    def __init__(self, name: str, given: Given, opts: pulumi.ResourceOptions, kubeconfig_file: str = "") -> None:
        super().__init__("eks:index:Cluster", name, dict(given), opts)
        role, before = given.get("serviceRole"), list[pulumi.Resource]()
        entries: Given = given.get("accessEntries") or {}
        if role is None:
            service = ServiceRole(f"{name}-eksRole", given.get("tags"), pulumi.ResourceOptions(parent=self))
            role, before = service.role, [service.attachment]
        subnets = given.get("subnetIds")
        if subnets is None:
            halves = pulumi.Output.all(given.get("publicSubnetIds") or [], given.get("privateSubnetIds") or [])
            subnets = halves.apply(lambda both: [*both[0], *both[1]])
        key = given.get("encryptionConfigKeyArn")
        encryption: Any = None if key is None else {"provider": {"key_arn": key}, "resources": ["secrets"]}
        self.eks_cluster = made = aws.eks.Cluster(
            f"{name}-eksCluster",
            name=given.get("name"),
            role_arn=pulumi.Output.from_input(role).arn,
            version=given.get("version"),
            bootstrap_self_managed_addons=given.get("bootstrapSelfManagedAddons", True),
            vpc_config={
                "subnet_ids": subnets,
                "endpoint_private_access": given.get("endpointPrivateAccess"),
                "endpoint_public_access": given.get("endpointPublicAccess"),
                "public_access_cidrs": given.get("publicAccessCidrs"),
            },
            kubernetes_network_config=_network(given),
            enabled_cluster_log_types=given.get("enabledClusterLogTypes"),
            encryption_config=encryption,
            access_config={
                "authentication_mode": given["authenticationMode"],
                "bootstrap_cluster_creator_admin_permissions": True,
            },
            upgrade_policy=given.get("upgradePolicy"),
            deletion_protection=given.get("deletionProtection"),
            tags=_tags(f"{name}-eksCluster", given),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=before,
                ignore_changes=["accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"],
            ),
        )
        parts = pulumi.Output.all(made.arn, made.endpoint, made.certificate_authority.data)
        kubeconfig = parts.apply(lambda of: _kubeconfig(kubeconfig_file, *of))
        provider = kubernetes.Provider(
            f"{name}-eks-k8s",
            kubeconfig=kubeconfig.apply(json.dumps),
            enable_config_map_mutable=given.get("enableConfigMapMutable"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        for entry in entries:
            self._access_entry(f"{name}-{entry}", entries[entry])
        core: dict[str, Any] = {
            "cluster": made,
            "clusterIamRole": role,
            "endpoint": made.endpoint,
            "provider": provider,
        }
        core |= {"kubeconfig": kubeconfig, "subnetIds": subnets, "vpcId": given["vpcId"], "nodeGroupOptions": {}}
        core |= {"instanceRoles": list[Any](), "accessEntries": list(entries.values()), "tags": given.get("tags") or {}}
        issuer = made.identities.apply(lambda of: cast("Any", of)[0]["oidcs"][0]["issuer"] if of else "")
        group = made.vpc_config.cluster_security_group_id
        self.outputs: dict[str, Any] = {
            **dict.fromkeys(_EMPTY, ""),
            "eksCluster": made,
            "core": core,
            "kubeconfig": kubeconfig,
            "kubeconfigJson": kubeconfig.apply(json.dumps),
            "clusterSecurityGroupId": group,
            "nodeSecurityGroupId": group,
            "instanceRoles": list[Any](),
            "oidcProviderUrl": issuer,
            "oidcIssuer": issuer.apply(lambda url: url.removeprefix("https://")),
        }
        self.register_outputs(self.outputs)

    def _access_entry(self, name: str, entry: Given) -> None:
        principal = entry["principalArn"]
        policies: Given = entry.get("accessPolicies") or {}
        made = aws.eks.AccessEntry(
            name,
            cluster_name=self.eks_cluster.name,
            principal_arn=principal,
            kubernetes_groups=entry.get("kubernetesGroups"),
            user_name=entry.get("username"),
            type=entry.get("type"),
            tags=entry.get("tags"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.eks_cluster]),
        )
        for key in policies:
            policy = pulumi.Output.from_input(policies[key])
            aws.eks.AccessPolicyAssociation(
                f"{name}-{key}",
                cluster_name=self.eks_cluster.name,
                principal_arn=principal,
                policy_arn=policy["policyArn"],
                access_scope=policy["accessScope"],
                opts=pulumi.ResourceOptions(parent=made, depends_on=[made]),
            )


class EksProvider(Provider):
    def __init__(self, kubeconfig_file: str) -> None:
        super().__init__(sdk.package_version("eks"))
        self._kubeconfig_file = kubeconfig_file

    def construct(
        self, name: str, resource_type: str, inputs: Given, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        if problems := refusals(resource_type, inputs):
            details: list[Any] = [{"property_path": path, "reason": reason} for path, reason in problems.items()]
            raise pulumi.InputPropertiesError(f"{resource_type} {name}", details)
        cluster = Cluster(name, inputs, options or pulumi.ResourceOptions(), self._kubeconfig_file)
        return ConstructResult(cluster.urn, cluster.outputs)


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The SDK's own server of components, which wants an event loop, for one engine."""

    def __init__(self, engine: str, kubeconfig_file: str) -> None:
        self._inner = ProviderServicer(EksProvider(kubeconfig_file), [], engine)

    def Configure(self, request, context):
        return asyncio.run(self._inner.Configure(request, context))

    def GetPluginInfo(self, request, context):
        return asyncio.run(self._inner.GetPluginInfo(request, context))

    def Construct(self, request, context):
        return asyncio.run(self._inner.Construct(request, context))

    def Cancel(self, request, context):
        return empty_pb2.Empty()


def refusals(resource_type: str, given: Given) -> dict[str, str]:
    """Argument -> why not, for all that the SDK does not have or that this stand-in would have to make up."""
    schema = sdk.resource(resource_type)
    if schema is None or resource_type != "eks:index:Cluster":
        return {"": f"{resource_type}: the local cloud has eks:index:Cluster only; use aws.eks resources for the rest"}
    own = "would make resources that the local cloud's component does not make; use aws resources of your own"
    found = {key: own for key in given if key not in _TAKEN}
    found |= {key: "pulumi_eks.Cluster has no such argument" for key in given if key not in schema.inputs}
    found |= {key: own for key in _OFF if given.get(key)}
    found |= {
        key: f"must be {value!r} here; otherwise it {own}" for key, value in _FIXED.items() if given.get(key) != value
    }
    for key, default in _ADDONS.items():
        options: Given = given.get(key) or {}
        if options.get("enabled", default) or options.get("configurationValues"):
            found[f"{key}.enabled"] = own
    if given.get("vpcId") is None:
        found["vpcId"] = "not set, so the real component would take the account's default VPC"
    named = [key for key in _SUBNETS if given.get(key) is not None]
    if not named or ("subnetIds" in named and len(named) > 1):
        found["subnetIds"] = "give either subnetIds, or publicSubnetIds and privateSubnetIds"
    if given.get("endpointPublicAccess") is False and given.get("publicAccessCidrs"):
        found["publicAccessCidrs"] = "can only be set when endpointPublicAccess is true"
    return found


def _tags(name: str, given: Given) -> pulumi.Output[dict[str, str]]:
    both = pulumi.Output.all(given.get("clusterTags") or {}, given.get("tags") or {})
    return both.apply(lambda of: cast("dict[str, str]", {"Name": name, **of[0], **of[1]}))


def _network(given: Given) -> Any:
    service, family = given.get("kubernetesServiceIpAddressRange"), given.get("ipFamily")
    if service is None and family is None:
        return None
    return {"service_ipv4_cidr": service if family in (None, "ipv4") else None, "ip_family": family or "ipv4"}


def _kubeconfig(file: str, arn: str, server: str, certificate: str) -> Any:
    """A kubeconfig with no secret in it and no command to run."""
    if file:
        return yaml.safe_load(Path(file).read_text())
    nobody: dict[str, str] = {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": arn, "cluster": {"server": server, "certificate-authority-data": certificate}}],
        "contexts": [{"name": arn, "context": {"cluster": arn, "user": arn}}],
        "current-context": arn,
        "users": [{"name": arn, "user": nobody}],
    }
