"""`python -m jobs.judge <stack> [file]`: what do our judges say of this log? From a file or from standard input.

Takes any text that they know: job logs, sinfo, scontrol, sacct, fi_info, `srun --mpi=list`, slurmd's log, sbatch's
answer. With --confusion: how far do the judges agree with a folder of samples that carry their verdicts?
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jobs.confusion import confusion
from judges.detect import judge_any
from plan.contract import plan_contract
from settings.load import from_stack_file
from settings.problems import SettingsError

EXIT_NOT_PASSED, EXIT_SETTINGS = 1, 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.judge", description="Judge a log of a stack's cluster.")
    parser.add_argument("stack")
    parser.add_argument("file", nargs="?", type=Path, help="default: standard input")
    parser.add_argument("--nodeset", help="default: the one of the default partition")
    parser.add_argument("--confusion", type=Path, metavar="FOLDER", help="judge samples that carry their verdicts")
    arguments = parser.parse_args()
    try:
        contract = plan_contract(from_stack_file(Path(f"Pulumi.{arguments.stack}.yaml"), arguments.stack))
    except SettingsError as wrong:
        print(wrong, file=sys.stderr)
        return EXIT_SETTINGS
    named = [nodeset for nodeset in contract.nodesets if nodeset.name == arguments.nodeset]
    (nodeset,) = named or [nodeset for nodeset in contract.nodesets if nodeset.is_default]
    if arguments.confusion:
        found = confusion(arguments.confusion, nodeset)
        print(found.text())
        return EXIT_NOT_PASSED if found.wrong or not found.counts else 0
    text = arguments.file.read_text(errors="replace") if arguments.file else sys.stdin.read()
    kind, verdicts = judge_any(text, nodeset)
    for verdict in verdicts:
        print(f"{kind}: {verdict}")
    return 0 if all(verdict.status == "passed" for verdict in verdicts) else EXIT_NOT_PASSED


if __name__ == "__main__":
    sys.exit(main())
