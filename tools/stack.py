"""`python -m tools.stack up|preview|down STACK`: what `make up`, `make preview` and `make down` do, and what they show.

Owns: the words and tables around one engine command on the local cloud in .localcloud. Does not own: how the engine is
run (tools/engine.py). On AWS nobody needs this file: there it is `pulumi up -s dev`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from rich.console import Console

from tools import pulumi_cli
from tools.engine import ROOT, Engine, EngineError, Outcome
from tools.progress import moving

STATE = ROOT / ".localcloud"
ENGINE_COMMANDS = {"up": "up", "preview": "preview", "down": "destroy"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stack")
    parser.add_argument("command", choices=ENGINE_COMMANDS)
    parser.add_argument("stack")
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="flags for pulumi itself")
    arguments = parser.parse_args()
    command, stack = arguments.command, arguments.stack
    say = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    started = time.monotonic()
    if command == "down" and not STATE.exists():
        say.print(f"left: nothing; there is no {STATE.name}/")
        return 0
    try:
        engine = Engine(pulumi_cli.obtain(), STATE, stack, ROOT / f"Pulumi.{stack}.yaml")
        notes: list[str] = []
        with moving(f"starting the local cloud in {STATE.name}/"):
            engine.prepare(notes.append)
        say.print("\n".join([*notes, f"{command} {stack}: running pulumi {ENGINE_COMMANDS[command]}"]))
        flags = ["--suppress-outputs", *([] if command == "preview" else ["--yes"]), *arguments.flags]
        outcome = engine.run(ENGINE_COMMANDS[command], *flags, output=sys.stdout)
    except (EngineError, pulumi_cli.Unobtainable) as failure:
        say.print(f"{command} {stack}: {failure}")
        return 2
    if command == "up" and outcome.exit_code == 0:
        say.print(outputs_text(outcome))
    verdict = "done" if outcome.exit_code == 0 else f"failed (pulumi ended with {outcome.exit_code})"
    counts = ", ".join(f"{number} {op}" for op, number in sorted(outcome.changes.items())) or "none"
    say.print(f"{command} {stack}: {verdict} in {time.monotonic() - started:.1f} s; resources: {counts}")
    if command == "down" and outcome.exit_code == 0:
        if left := engine.stacks():
            say.print(f"left: stack {' and stack '.join(left)}, so the local cloud goes on")
        else:
            with moving("removing the local cloud"):
                engine.remove()
            say.print(f"left: nothing; the local cloud is stopped and {STATE.name}/ is gone")
    return outcome.exit_code


def outputs_text(outcome: Outcome) -> str:
    """One line per output, however long: a command that is to be copied must not be broken."""
    shown = {name: v if isinstance(v, str) else json.dumps(v) for name, v in sorted(outcome.outputs.items())}
    width = max(map(len, shown), default=0)
    return "\n".join(["outputs:", *(f"  {name:{width}}  {value}" for name, value in shown.items())])


if __name__ == "__main__":
    sys.exit(main())
