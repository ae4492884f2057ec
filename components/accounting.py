"""The accounting database: MariaDB on RDS and the Secret by which slurmdbd knows its password.

Does not own: slurmdbd (a value of the slurm chart). The password is made here and not by RDS: one that RDS rotates by
itself would have to reach a Kubernetes Secret and a running slurmdbd at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import pulumi_random as random

from components._links import NetworkIds, NodeIds
from facts.names import PORT_MARIADB, TOKEN_PREFIX
from plan.accounting import AccountingPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountingDatabaseArgs:
    """nodes: their security group is the only one that may connect."""

    plan: AccountingPlan
    network: NetworkIds
    nodes: NodeIds


class AccountingDatabase(pulumi.ComponentResource):
    """host: DNS name of the database; its password stands in the Secret that the plan names."""

    host: pulumi.Output[str]

    def __init__(self, name: str, args: AccountingDatabaseArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:AccountingDatabase", name, None, opts)
        plan, tags = args.plan, {**args.plan.tags, "Name": name}
        mine = pulumi.ResourceOptions(parent=self)
        password = random.RandomPassword(name, length=32, special=False, opts=mine)
        subnets = aws.rds.SubnetGroup(
            name, subnet_ids=[args.network.subnet_ids[key] for key in plan.subnet_keys], tags=tags, opts=mine
        )
        parameters = aws.rds.ParameterGroup(
            name,
            family=plan.parameter_family,
            parameters=[
                # Immediate is refused for static ones; the instance is born with the group, so its first boot has all.
                aws.rds.ParameterGroupParameterArgs(name=key, value=value, apply_method="pending-reboot")
                for key, value in plan.parameters.items()
            ],
            tags=tags,
            opts=mine,
        )
        group = aws.ec2.SecurityGroup(
            name, description="MariaDB from the nodes (slurmdbd)", vpc_id=args.network.vpc_id, tags=tags, opts=mine
        )
        aws.vpc.SecurityGroupIngressRule(
            name,
            description="slurmdbd",
            security_group_id=group.id,
            referenced_security_group_id=args.nodes.security_group_id,
            ip_protocol="tcp",
            from_port=PORT_MARIADB,
            to_port=PORT_MARIADB,
            tags=tags,
            opts=mine,
        )
        database = aws.rds.Instance(
            name,
            engine="mariadb",
            engine_version=plan.engine_version,
            instance_class=plan.instance_class,
            allocated_storage=plan.storage_gib,
            storage_type="gp3",
            storage_encrypted=True,
            db_name=plan.database,
            username=plan.username,
            password=password.result,
            port=PORT_MARIADB,
            multi_az=plan.multi_az,
            publicly_accessible=False,
            db_subnet_group_name=subnets.name,
            parameter_group_name=parameters.name,
            vpc_security_group_ids=[group.id],
            backup_retention_period=7,
            copy_tags_to_snapshot=True,
            # A final snapshot's name may be taken by an earlier one and then blocks the destroy; the automated backups
            # stay for their seven days instead.
            skip_final_snapshot=True,
            delete_automated_backups=False,
            deletion_protection=plan.deletion_protection,
            tags=tags,
            opts=mine,
        )
        kubernetes.core.v1.Secret(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=plan.secret_name, namespace=plan.namespace),
            string_data={plan.secret_key: password.result},
            opts=mine,
        )
        self.host = database.address
        self.register_outputs({"host": self.host})
