from __future__ import annotations

import pytest

from components.accounting import AccountingDatabase, AccountingDatabaseArgs
from plan.accounting import AccountingPlan, plan_accounting
from plan.network import plan_network
from tests.plan.build import example
from tests.recorder import NODES, built, network_ids, on_kubernetes
from tools.recording import Record

DATABASE = "aws:rds/instance:Instance"


def prod_plan() -> AccountingPlan:
    plan = plan_accounting(example("prod"), plan_network(example("prod")))
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def record() -> Record:
    plan = prod_plan()

    def make() -> dict[str, object]:
        database = AccountingDatabase(
            "db",
            AccountingDatabaseArgs(plan=plan, network=network_ids(plan.subnet_keys), nodes=NODES),
            on_kubernetes(),
        )
        return {"host": database.host}

    return built(make)


def test_slurmdbd_and_the_database_share_one_secret_password(record: Record) -> None:
    database, secret = record.one(DATABASE), record.one("kubernetes:core/v1:Secret")
    assert secret.inputs["stringData"] == {prod_plan().secret_key: database.inputs["password"]}
    assert secret.inputs["metadata"]["name"] == prod_plan().secret_name
    assert "password" in database.secret_paths
    assert any(path.startswith("stringData") for path in secret.secret_paths)


def test_only_nodes_may_connect(record: Record) -> None:
    rule = record.one("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule").inputs
    assert (rule["referencedSecurityGroupId"], rule["fromPort"], rule["toPort"]) == ("sg-cluster", 3306, 3306)
    assert record.one(DATABASE).inputs["vpcSecurityGroupIds"] == ["db-id"]
    assert record.one(DATABASE).inputs["publiclyAccessible"] is False


def test_the_database_boots_with_the_parameters_that_slurmdbd_needs(record: Record) -> None:
    group = record.one("aws:rds/parameterGroup:ParameterGroup").inputs
    assert {p["name"]: p["value"] for p in group["parameters"]} == dict(prod_plan().parameters)
    assert {p["applyMethod"] for p in group["parameters"]} == {"pending-reboot"}, "immediate is refused for static ones"
    assert record.one(DATABASE).inputs["parameterGroupName"] == "db"


def test_the_database_of_prod_survives_a_zone_and_a_mistake(record: Record) -> None:
    inputs = record.one(DATABASE).inputs
    assert inputs["multiAz"] and inputs["deletionProtection"] and inputs["storageEncrypted"]
    assert (inputs["backupRetentionPeriod"], inputs["deleteAutomatedBackups"]) == (7, False)
    assert len(record.one("aws:rds/subnetGroup:SubnetGroup").inputs["subnetIds"]) == len(prod_plan().subnet_keys)


def test_the_cluster_is_told_the_databases_address(record: Record) -> None:
    assert record.outputs["host"] == "db.database.invalid"
