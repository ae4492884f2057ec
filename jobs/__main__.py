"""`python -m jobs <stack> [folder]`: the job scripts of a stack as files, for users who copy them onto the cluster
themselves.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jobs.render import render
from plan.contract import plan_contract
from settings.load import from_stack_file
from settings.problems import SettingsError

EXIT_SETTINGS = 2


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m jobs", description="Write the job scripts of a stack into a folder."
    )
    parser.add_argument("stack")
    parser.add_argument("folder", nargs="?", type=Path, help="default: .cache/jobs/<stack>")
    arguments = parser.parse_args()
    folder: Path = arguments.folder or Path(".cache/jobs") / arguments.stack
    try:
        contract = plan_contract(from_stack_file(Path(f"Pulumi.{arguments.stack}.yaml"), arguments.stack))
    except SettingsError as wrong:
        print(wrong, file=sys.stderr)
        return EXIT_SETTINGS
    for nodeset in contract.nodesets:
        target = folder / nodeset.name
        target.mkdir(parents=True, exist_ok=True)
        files = render(contract, nodeset)
        for name, text in files.items():
            (target / name).write_text(text)
        print(f"{target}: {', '.join(sorted(files))}")
    print(
        f"Copy a folder's files onto {contract.shared_path} of the cluster, then there: "
        f"mkdir -p {contract.shared_path}/logs && sbatch sanity.sbatch"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
