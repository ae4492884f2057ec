"""The accounting database: MariaDB on RDS with the parameters that slurmdbd needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names
from plan.network import NetworkPlan
from plan.tags import tags
from settings.models import Settings

# 11.4 and not 11.8, both long-term releases on RDS: from 11.6.2 MariaDB turns innodb_snapshot_isolation on, with which
# slurmdbd 26.05.2 dies while it runs and without a warning at start; and RDS's 11.8 refuses connections without TLS.
ENGINE_VERSION: Final = "11.4"
PARAMETER_FAMILY: Final = "mariadb11.4"
DATABASE: Final = "slurm_acct_db"
USERNAME: Final = "slurm"

# Source: Slurm 26.05, doc/html/accounting.shtml and the mysql plugin's own start-up checks. Values in bytes and
# seconds.
PARAMETERS: Final[Mapping[str, str]] = {
    # RDS's own default, written down because slurmdbd wants 4 GiB or more: 6 GiB on the smallest class that is allowed.
    "innodb_buffer_pool_size": "{DBInstanceClassMemory*3/4}",
    "innodb_log_file_size": str(1536 * 2**20),  # a quarter of that pool; MariaDB has no innodb_redo_log_capacity
    "innodb_lock_wait_timeout": "900",  # archiving and purging hold locks for minutes
    "max_allowed_packet": str(64 * 2**20),  # job scripts and environments are stored whole
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountingPlan:
    """identifier None = RDS instance auto-named. parameters: MariaDB parameter group. storage_gib in GiB."""

    engine_version: str
    parameter_family: str
    parameters: Mapping[str, str]
    instance_class: str
    storage_gib: int
    multi_az: bool
    deletion_protection: bool
    database: str
    username: str
    subnet_keys: tuple[str, ...]
    namespace: str
    secret_name: str
    secret_key: str
    tags: Mapping[str, str]


def plan_accounting(settings: Settings, network: NetworkPlan) -> AccountingPlan | None:
    """None when accounting is off."""
    accounting = settings.accounting
    if not accounting.enabled:
        return None
    secret_name, secret_key = names.ACCOUNTING_SECRET
    return AccountingPlan(
        engine_version=ENGINE_VERSION,
        parameter_family=PARAMETER_FAMILY,
        parameters=PARAMETERS,
        instance_class=accounting.instance_class,
        storage_gib=accounting.storage_gib,
        multi_az=accounting.multi_az,
        deletion_protection=accounting.deletion_protection,
        database=DATABASE,
        username=USERNAME,
        subnet_keys=network.keys_of("private"),
        namespace=names.NAMESPACE_SLURM,
        secret_name=secret_name,
        secret_key=secret_key,
        tags=tags(settings, component="Accounting"),
    )
