"""Job scripts out of the cluster's contract: pure, so that what runs can be read, compared and linted before anything
exists.

No script carries a number that the contract knows. Scripts find their programs in the folder that they are submitted
from.
"""

from __future__ import annotations

import functools
import pathlib
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jinja2

if TYPE_CHECKING:  # plan imports this module, so at run time it must not import plan
    from plan.contract import ClusterContract, NodesetContract

_HERE = pathlib.Path(__file__).parent
# Pinned so that two runs a year apart measure with the same benchmark.
NCCL_TESTS_TAG = "v2.19.6"
NCCL_TESTS_COMMIT = "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432"


@functools.cache  # it keeps the templates that it has compiled
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        comment_start_string="{/*",  # bash writes ${#array[@]}
        comment_end_string="*/}",
        autoescape=False,  # shell, not HTML: values pass through `shell`
    )


def render(contract: ClusterContract, nodeset: NodesetContract) -> Mapping[str, str]:
    """{file name: text} of all job scripts of one nodeset, and of the programs that they start."""
    environment = _environment()
    names = environment.list_templates(filter_func=lambda name: name.endswith(".sbatch.j2"))
    scripts = {
        name.removesuffix(".j2"): environment.get_template(name).render(
            contract=contract,
            nodeset=nodeset,
            nccl_tests_tag=NCCL_TESTS_TAG,
            nccl_tests_commit=NCCL_TESTS_COMMIT,
            shell=shlex.quote,
            time_limit=functools.partial(time_limit, max_time=nodeset.max_time),
        )
        for name in names
    }
    programs = {path.name: path.read_text() for path in sorted((_HERE / "programs").glob("*.py"))}
    return {**scripts, **programs}


def time_limit(minutes: int, *, max_time: str) -> str:
    """A job's limit, no longer than its partition allows: beyond that it would wait for ever."""
    allowed = minutes_of(max_time)
    return f"{minutes if allowed is None else min(minutes, allowed)}"


def minutes_of(limit: str) -> int | None:
    """Slurm's time formats in whole minutes: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`; None = UNLIMITED."""
    if limit == "UNLIMITED":
        return None
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in re.split(":", rest)]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return max(1, int(days) * 1440 + hours * 60 + minutes + (seconds > 0))
    hours, minutes, seconds = parts if len(parts) == 3 else (0, *(*parts, 0)[:2])
    return max(1, hours * 60 + minutes + (seconds > 0))
