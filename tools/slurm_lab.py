"""`python -m tools.slurm_lab up|down|status [stack]`: a real Slurm on this machine with the lines that the product
renders.

Owns the translation of a stack's plan into slurm.conf lines for two pretended nodes; `slurm_lab.sh` owns the daemons.
What only containers and cgroups can give is left out, and said so here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from plan import Plan, make_plan
from plan.charts import Json, Values
from settings.load import from_stack_file

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "slurm_lab.sh"
DEFAULT_LAB = ROOT / ".cache" / "slurm-lab"
# Two slurmd share one machine and one cgroup: the lab tracks processes by their parents and constrains nothing.
NOT_HERE = ("ProctrackType", "TaskPlugin", "PrologFlags", "JobAcctGatherType")


def product_conf(plan: Plan) -> str:
    """The product's own GresTypes, Gres, partition and further lines, for nodes that slurm.conf lists by name."""
    values = plan.slurm.release.values
    extra = _map(_map(values["controller"])["extraConfMap"])
    lines = [f"{key}={_text(value)}" for key, value in extra.items() if key not in NOT_HERE]
    for nodeset in plan.contract.nodesets:
        rendered = _map(_map(values["nodesets"])[nodeset.name])
        own = " ".join(f"{key}={_text(value)}" for key, value in _map(rendered["extraConfMap"]).items())
        partition = " ".join(
            f"{key}={_text(value)}" for key, value in _map(_map(rendered["partition"])["configMap"]).items()
        )
        lines += [
            f"NodeName=DEFAULT {own}",
            f"PartitionName={nodeset.partition} Nodes={','.join(nodeset.node_names)} {partition}",
        ]
    return "\n".join(lines) + "\n"


def _map(value: Json) -> Values:
    return cast("Values", value) if isinstance(value, Mapping) else {}


def _text(value: Json) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> int:
    action, stack = (*sys.argv[1:], "dev")[:2] if len(sys.argv) > 1 else ("", "dev")
    if action not in ("up", "down", "status"):
        print(__doc__, file=sys.stderr)
        return 2
    os.environ.setdefault("SLURM_LAB", str(DEFAULT_LAB))
    arguments = [str(SCRIPT), action]
    if action == "up":
        plan = make_plan(from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack))
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
            file.write(product_conf(plan))
        arguments.append(file.name)
    return subprocess.run(arguments, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
