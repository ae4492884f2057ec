"""Rules of additions to slurm.conf and cgroup.conf: what is derived, what needs another setting, what breaks a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from facts.hardware import INSTANCE_TYPES
from settings.models import ConfValue, Settings
from settings.problems import Problem, shown

_FROM_NODESETS: Final = "it follows from the nodesets"
_FROM_OPERATOR: Final = "the operator writes it, and a second line would take its daemons apart"
_FROM_PRODUCT: Final = "the product derives it"
_FROM_ACCOUNTING: Final = "it follows from accounting.enabled"
# slurm.conf keys that are not the user's, and why. Operator 1.2.1:
# internal/builder/controllerbuilder/controller_config.go.
OWNED_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GresTypes": _FROM_NODESETS,
        "NodeName": _FROM_NODESETS,
        "NodeSet": _FROM_NODESETS,
        "PartitionName": _FROM_NODESETS,
        "MaxNodeCount": _FROM_NODESETS,
        "ClusterName": _FROM_OPERATOR,
        "SlurmUser": _FROM_OPERATOR,
        "SlurmctldHost": _FROM_OPERATOR,
        "SlurmctldPort": _FROM_OPERATOR,
        "StateSaveLocation": _FROM_OPERATOR,
        "SlurmdUser": _FROM_OPERATOR,
        "SlurmdPort": _FROM_OPERATOR,
        "SlurmdSpoolDir": _FROM_OPERATOR,
        "SlurmctldLogFile": _FROM_OPERATOR,
        "SlurmSchedLogFile": _FROM_OPERATOR,
        "SlurmdLogFile": _FROM_OPERATOR,
        "AuthType": _FROM_OPERATOR,
        "CredType": _FROM_OPERATOR,
        "AuthAltTypes": _FROM_OPERATOR,
        "AuthAltParameters": _FROM_OPERATOR,
        "AuthInfo": _FROM_OPERATOR,
        "MetricsType": _FROM_OPERATOR,
        "ReturnToService": f"{_FROM_PRODUCT}: only 2 brings a replaced worker back by itself",
        "TaskPlugin": f"{_FROM_PRODUCT}: without task/cgroup a job sees the GPUs of others",
        "ProctrackType": f"{_FROM_PRODUCT}: cgroup, as the constraints of devices need it",
        "PrologFlags": f"{_FROM_PRODUCT}: Contain, as the constraints of devices need it",
        "MpiDefault": f"{_FROM_PRODUCT}: pmix, without which srun starts unconnected ranks",
        "PropagateResourceLimitsExcept": f"{_FROM_PRODUCT}: MEMLOCK, without which EFA cannot register memory",
        "AccountingStorageType": _FROM_ACCOUNTING,
        "AccountingStorageHost": _FROM_ACCOUNTING,
        "AccountingStoragePort": _FROM_ACCOUNTING,
        "AccountingStorageTRES": _FROM_ACCOUNTING,
        "JobAcctGatherType": _FROM_ACCOUNTING,
    }
)
_BY_LOWER_CASE: Final = {key.lower(): key for key in OWNED_KEYS}  # Slurm does not mind the case of a key
OWNED_CGROUP_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ConstrainDevices": "it is yes, so that a job sees the GPUs it asked for and no others",
        "ConstrainCores": "it is yes, so that jobs on one node keep off each other's cores",
        "ConstrainRAMSpace": "it is yes, so that a job cannot take the memory of its neighbours",
        "CgroupPlugin": "it is cgroup/v2, and without it nothing is constrained",
        "IgnoreSystemd": "it is yes, because no systemd runs in a worker pod",
    }
)
_CGROUP_BY_LOWER_CASE: Final = {key.lower(): key for key in OWNED_CGROUP_KEYS}


def _texts(value: ConfValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (str(value),)


def keys_are_the_users_own(settings: Settings) -> Iterator[Problem]:
    for key, value in settings.slurm.extra_conf.items():
        owned = _BY_LOWER_CASE.get(key.lower())
        if owned is None or (owned == "GresTypes" and "gpu" not in _texts(value)):
            continue  # the second has a message of its own
        if owned == "AccountingStorageTRES" and not settings.accounting.enabled:
            continue  # likewise
        yield Problem(
            path=f"slurm.extra_conf.{key}",
            given=shown(value, key),
            why=OWNED_KEYS[owned],
            remedy="leave it out",
        )


def _some_gres(settings: Settings) -> tuple[str, str]:
    """A nodeset and its GRES: the first whose instance type is known."""
    known = ((name, INSTANCE_TYPES.get(nodeset.instance_type)) for name, nodeset in settings.nodesets.items())
    found = next(((name, row.gres) for name, row in known if row and row.gres), None)
    return found or (next(iter(settings.nodesets)), "gpu")


def gres_types_name_the_gpus(settings: Settings) -> Iterator[Problem]:
    for key, value in settings.slurm.extra_conf.items():
        if key.lower() == "grestypes" and "gpu" not in _texts(value):
            name, gres = _some_gres(settings)
            yield Problem(
                path=f"slurm.extra_conf.{key}",
                given=shown(value, key),
                why=(
                    f"it must contain 'gpu', because nodeset {name!r} declares Gres={gres} "
                    "and Slurm drops every GRES of a type that is not listed, without a word"
                ),
                remedy="leave it out, it is derived",
            )


def accounting_keys_have_accounting(settings: Settings) -> Iterator[Problem]:
    if settings.accounting.enabled:
        return
    for key, value in settings.slurm.extra_conf.items():
        lower = key.lower()
        if not lower.startswith("accountingstorage") and lower != "priorityweightfairshare":
            continue
        if lower in _BY_LOWER_CASE and lower != "accountingstoragetres":
            continue  # refused whatever accounting is
        if lower == "accountingstorageenforce":
            why = "there is no database of users and accounts to hold jobs against, so every job would be refused"
        else:
            why = "slurmctld does not start with it and without an accounting database"
        yield Problem(
            path=f"slurm.extra_conf.{key}",
            given=f"{shown(value, key)} without accounting",
            why=why,
            remedy="set accounting.enabled: true, or leave it out",
        )


def enforcement_has_accounts(settings: Settings) -> Iterator[Problem]:
    for key, value in settings.slurm.extra_conf.items():
        if settings.accounting.enabled and key.lower() == "accountingstorageenforce":
            yield Problem(
                path=f"slurm.extra_conf.{key}",
                given=shown(value, key),
                why="users without an account get 'Invalid account or account/partition combination specified'",
                remedy="add accounts and users with sacctmgr before they submit jobs",
                fatal=False,
            )


def topology_has_a_file(settings: Settings) -> Iterator[Problem]:
    for key, value in settings.slurm.extra_conf.items():
        if key.lower() == "topologyplugin" and _texts(value) not in (("topology/flat",), ("topology/default",)):
            yield Problem(
                path=f"slurm.extra_conf.{key}",
                given=shown(value, key),
                why=f"{_texts(value)[0]} needs a topology file with something in it, and slurmctld ends without one",
                remedy="leave it out: the nodes of a nodeset are one flat network",
            )


def _lines_stay_whole(path: str, conf: Mapping[str, ConfValue]) -> Iterator[Problem]:
    """The file has one `Key=Value` a line, and the operator splits nodeset lines at single spaces (and panics)."""
    for key, value in conf.items():
        here = f"{path}.{key}"
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", key) is None:
            why, remedy = "a key is one word of letters and digits", "write `Key: value`, one key a line"
            yield Problem(path=here, given=f"key {key!r}", why=why, remedy=remedy)
        texts = _texts(value)
        if not texts or any(text == "" for text in texts):
            why, remedy = "a key without a value breaks the file", "give a value or leave it out"
            yield Problem(path=here, given=shown(value, here), why=why, remedy=remedy)
        elif any(re.search(r"[\s#]", text) for text in texts):
            why = "spaces, line breaks and # end a value, and what follows becomes another setting or a parse error"
            remedy = "write a list for several items, without spaces in them"
            yield Problem(path=here, given=shown(value, here), why=why, remedy=remedy)


def slurm_conf_stays_whole(settings: Settings) -> Iterator[Problem]:
    yield from _lines_stay_whole("slurm.extra_conf", settings.slurm.extra_conf)


def cgroup_conf_stays_whole(settings: Settings) -> Iterator[Problem]:
    yield from _lines_stay_whole("slurm.extra_cgroup_conf", settings.slurm.extra_cgroup_conf)


def keys_are_not_given_twice(settings: Settings) -> Iterator[Problem]:
    for path, conf in (
        ("slurm.extra_conf", settings.slurm.extra_conf),
        ("slurm.extra_cgroup_conf", settings.slurm.extra_cgroup_conf),
    ):
        seen: dict[str, str] = {}
        for key in conf:
            if key.lower() in seen:
                yield Problem(
                    path=f"{path}.{key}",
                    given=f"{key} beside {seen[key.lower()]}",
                    why="Slurm does not mind the case of a key, so these are one, and one of them is lost",
                    remedy="keep one",
                )
            seen.setdefault(key.lower(), key)


def constraints_stay(settings: Settings) -> Iterator[Problem]:
    for key, value in settings.slurm.extra_cgroup_conf.items():
        owned = _CGROUP_BY_LOWER_CASE.get(key.lower())
        if owned is not None:
            yield Problem(
                path=f"slurm.extra_cgroup_conf.{key}",
                given=shown(value, key),
                why=OWNED_CGROUP_KEYS[owned],
                remedy="leave it out",
            )


SLURM_RULES: Final = (
    keys_are_the_users_own,
    gres_types_name_the_gpus,
    accounting_keys_have_accounting,
    enforcement_has_accounts,
    topology_has_a_file,
    slurm_conf_stays_whole,
    cgroup_conf_stays_whole,
    keys_are_not_given_twice,
    constraints_stay,
)
