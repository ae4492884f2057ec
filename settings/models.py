"""What a user may write in `Pulumi.<stack>.yaml`: frozen, strict models, unknown keys forbidden.

Owns the shape, the units and the defaults of settings. Does not own what follows from them (`plan/`) nor the rules
across fields (`settings/rules.py`). Nearly everything is optional: what can be derived is derived in the plan.
A field's description is also what an error message says about it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from facts.versions import KUBERNETES_VERSION
from settings.shapes import (
    Cidr,
    CronSchedule,
    DatabaseClass,
    Digest,
    FolderPath,
    ImageTag,
    KubernetesVersion,
    LogRetentionDays,
    MaxTime,
    Name,
    OciPrefix,
    PlacementGroup,
    PublicKey,
    ReservationId,
    RoleArn,
    SlurmVersion,
    SubnetId,
    VpcId,
    ZoneId,
)

# From here a failed zone or a slow image pull costs more than a NAT gateway per zone and interface endpoints.
GPU_NODES_FOR_LARGE: Final = 16


class Section(BaseModel):
    """Base of all sections: a typo is an error, nothing is coerced, nothing changes after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class ExistingNetwork(Section):
    """A VPC of your own. Its private subnets need a route out (NAT or endpoints), the public ones carry the NLB."""

    vpc_id: VpcId = Field(description="the VPC")
    private_subnet_ids: dict[ZoneId, SubnetId] = Field(
        min_length=2, description="subnets of nodes and control plane by zone id, in two zones or more"
    )
    public_subnet_ids: dict[ZoneId, SubnetId] = Field(
        min_length=1, description="subnets of the load balancer by zone id"
    )


class Network(Section):
    """The network to make, or the one to build in."""

    vpc_cidr: Cidr = Field(default="10.0.0.0/16", description="IPv4 range of the VPC to make")
    zone_ids: tuple[ZoneId, ...] | None = Field(
        default=None,
        min_length=2,
        max_length=4,
        description="zones of control plane and core nodes, two to four (derived from the region)",
    )
    nat: Literal["single", "per_zone"] | None = Field(
        default=None,
        description=f"NAT gateways: one, or one per core zone (derived: single below {GPU_NODES_FOR_LARGE} GPU nodes)",
    )
    endpoints: bool | None = Field(
        default=None,
        description="interface endpoints for image pulls "
        f"(derived: on from {GPU_NODES_FOR_LARGE} GPU nodes; S3 always has a gateway)",
    )
    existing: ExistingNetwork | None = Field(default=None, description="a VPC and subnets of your own to build in")


class CoreNodes(Section):
    """The nodes of slurmctld, slurmrestd, the login pods, the operators and monitoring."""

    instance_type: str = Field(default="m6i.2xlarge", description="an x86_64 type without GPUs")
    nodes: int = Field(default=2, ge=2, le=60, description="count over all zones, so that one may fail")


class Cluster(Section):
    """The EKS control plane."""

    version: KubernetesVersion = Field(default=KUBERNETES_VERSION, description="Kubernetes version, in quotes")
    api_allowed_cidrs: tuple[Cidr, ...] | None = Field(
        default=None,
        min_length=1,
        description="who may reach the public endpoint of the API server (default: login.allowed_cidrs)",
    )
    admin_role_arns: tuple[RoleArn, ...] = Field(
        default=(), description="IAM roles that become cluster administrators, besides the creator"
    )
    log_retention_days: LogRetentionDays = Field(default=90, description="how long CloudWatch keeps control-plane logs")
    deletion_protection: bool = Field(default=False, description="EKS refuses to delete the cluster")
    core: CoreNodes = Field(default=CoreNodes(), description="the core nodes")


class Capacity(Section):
    """Capacity bought beforehand. If it was made inside a placement group, that group goes in `placement_group`."""

    reservation_id: ReservationId = Field(description="id of the reservation or of the Capacity Block")
    kind: Literal["on_demand", "block"] = Field(
        default="on_demand", description="on_demand (ODCR) or block (Capacity Block for ML)"
    )


class Partition(Section):
    """The Slurm partition of a nodeset."""

    default: bool | None = Field(default=None, description="where jobs without -p go (a single nodeset is the default)")
    max_time: MaxTime = Field(default="24:00:00", description="longest job, as Slurm writes times")


class Nodeset(Section):
    """A Slurm nodeset on a nodegroup of one instance type in one zone."""

    instance_type: str = Field(description="an NVIDIA GPU type of facts/hardware.py")
    nodes: int = Field(ge=1, le=450, description="count, fixed (an EKS nodegroup has 450 nodes at most)")
    zone_id: ZoneId | None = Field(default=None, description="derived from the zones that offer the type")
    efa: bool | None = Field(default=None, description="EFA network (derived: on where the type has it)")
    placement_group: PlacementGroup = Field(
        default="auto",
        description="auto (a cluster group of our own, none beside a reservation), none, or the name of a group",
    )
    capacity: Capacity | None = Field(default=None, description="capacity bought beforehand")
    gres: str | None = Field(default=None, description="derived (`gpu:nvidia_l4:4`); when given it is only checked")
    partition: Partition = Field(default=Partition(), description="the partition of the same name")
    root_volume_gib: int = Field(default=300, ge=1, le=16384, description="root volume of a node")
    local_nvme: bool | None = Field(
        default=None, description="instance store as RAID0 under /local (derived: on where there is one)"
    )
    shm_gib: int | None = Field(default=None, ge=1, description="/dev/shm of a worker (derived: half of the memory)")


class Storage(Section):
    """EFS behind /shared and /home."""

    backup: bool = Field(default=True, description="daily AWS Backup")
    protect: bool = Field(default=False, description="Pulumi refuses to destroy the file system")
    throughput: Literal["elastic", "bursting"] = Field(default="elastic", description="throughput mode")


class Image(Section):
    """The slurmd image: built from images/slurmd and pushed to ECR, or `prebuilt`, which needs no Docker daemon."""

    prebuilt: str | None = Field(default=None, description="`<repository>@sha256:<64 hex digits>`: nothing is built")
    slurm_version: SlurmVersion | None = Field(
        default=None, description="Slurm inside the prebuilt image, held against the chart's series"
    )
    tag: ImageTag = Field(
        default="26.05.2-torch2.9-cu130-mpi",
        description="tag of the image that is built; a digest of what it is built from is added",
    )
    base_digest: Digest | None = Field(default=None, description="pins the Slinky base image of the build")
    dlc_digest: Digest | None = Field(default=None, description="pins the AWS Deep Learning Container of the build")


ConfValue: TypeAlias = str | int | tuple[str, ...]


class Slurm(Section):
    """Additions to the generated files; keys that the product derives are refused."""

    extra_conf: dict[str, ConfValue] = Field(
        default={}, description="slurm.conf, `Key: value`; the value is a text, a whole number or a list of texts"
    )
    extra_cgroup_conf: dict[str, str] = Field(default={}, description="cgroup.conf, `Key: text`")


class Accounting(Section):
    """slurmdbd with MariaDB on RDS."""

    enabled: bool = Field(default=False, description="job accounting, fair share, limits")
    instance_class: DatabaseClass = Field(default="db.m7g.large", description="RDS instance class")
    storage_gib: int = Field(default=50, ge=20, le=65536, description="volume of the database")
    multi_az: bool = Field(default=True, description="standby in a second zone")
    deletion_protection: bool = Field(default=True, description="RDS refuses to delete the database")


class Login(Section):
    """SSH access."""

    allowed_cidrs: tuple[Cidr, ...] = Field(
        min_length=1, description="who may reach port 22 of the load balancer; never the whole world"
    )
    authorized_keys: tuple[PublicKey, ...] = Field(
        default=(), description="OpenSSH public keys of root (none: a pair is made, its private half a secret output)"
    )
    replicas: int = Field(default=1, ge=1, le=8, description="login pods")


class Charts(Section):
    """Where charts come from: their publishers, or one of these."""

    mirror: OciPrefix | None = Field(
        default=None,
        description="OCI registry that holds all charts under one prefix (`oci://registry.example/charts`)",
    )
    folder: FolderPath | None = Field(
        default=None, description="folder of `<chart>-<version>.tgz` archives, below the project's folder or absolute"
    )


class Observability(Section):
    """Prometheus, Grafana, DCGM exporter, Slurm metrics."""

    enabled: bool = Field(default=True, description="metrics, dashboard, alerts")
    retention_days: int = Field(default=15, ge=1, le=365, description="how long samples are kept")
    storage_gib: int = Field(default=50, ge=10, le=16384, description="volume of Prometheus")


class Validation(Section):
    """Jobs that prove the cluster after each change of what they depend on."""

    enabled: bool = Field(default=True, description="run them; a failure fails `pulumi up`")
    suites: tuple[Literal["quick", "full", "training"], ...] = Field(
        default=("quick",),
        min_length=1,
        max_length=3,
        description="what runs, one after another: quick (nodes, sanity, isolation), full (and both benchmarks), "
        "training (and the fine-tune)",
    )
    timeout_minutes: int = Field(
        default=30, ge=5, le=240, description="of suite quick; full has twice, training and health four times as long"
    )
    health_schedule: CronSchedule | None = Field(
        default="23 4 * * *",
        description="when health checks run on nodes that nobody uses (cron, UTC; null: never)",
    )
    drain_failed_nodes: bool = Field(
        default=False,
        description="drain a node that failed a check on its own, one or a quarter of a partition at most, and resume "
        "it when that check passes again",
    )


class Settings(Section):
    """The whole of a stack's settings."""

    region: str = Field(description="`aws:region` of the stack")
    name: Name = Field(description="prefix of every name that people see (default: slurm-<stack>)")
    tags: dict[str, str] = Field(default={}, description="AWS tags on everything that takes tags")
    network: Network = Field(default=Network(), description="VPC, zones, NAT")
    cluster: Cluster = Field(default=Cluster(), description="control plane and core nodes")
    nodesets: dict[Name, Nodeset] = Field(min_length=1, max_length=16, description="GPU nodesets by name")
    storage: Storage = Field(default=Storage(), description="shared file systems")
    image: Image = Field(default=Image(), description="the slurmd image")
    slurm: Slurm = Field(default=Slurm(), description="additions to slurm.conf and cgroup.conf")
    accounting: Accounting = Field(default=Accounting(), description="accounting database")
    login: Login = Field(description="SSH access")
    charts: Charts = Field(default=Charts(), description="where Helm charts come from")
    observability: Observability = Field(default=Observability(), description="metrics, dashboard, alerts")
    validation: Validation = Field(default=Validation(), description="jobs that prove the cluster")
