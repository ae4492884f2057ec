"""`make bench`: what an up, a preview and a destroy of the program cost, beside programs that cost what Pulumi costs.

Those are an empty program, and a bare one with as many plain resources as dev on a provider that does nothing.
Measured, as medians: wall clock, CPU time, and the highest resident memory of all processes together, the local cloud
included. Everything happens in a temporary folder; .localcloud/ is not touched. On a busy machine only CPU time tells.
"""

from __future__ import annotations

import os
import resource
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from localcloud import provider, sdk
from tools import pulumi_cli
from tools.engine import ROOT, Engine, Outcome
from tools.progress import moving

RUNS = 3
SAMPLE_SECONDS = 0.05
COMMANDS = {
    "up": ("up", "--yes", "--skip-preview"),
    "preview": ("preview",),
    "destroy": ("destroy", "--yes", "--skip-preview"),
}
EMPTY = "import pulumi\n"
BARE = """import pulumi_aws as aws

vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16")
for number in range({subnets}):
    aws.ec2.Subnet(f"subnet-{{number}}", vpc_id=vpc.id, cidr_block=f"10.0.{{number}}.0/24")
"""


class Cost(NamedTuple):
    """What one command took; the number of resources in the end."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    resources: float


class Nothing(provider.Provider):
    """Says yes to everything."""

    package = "aws"
    version = sdk.package_version("aws")

    def create(self, urn: provider.Urn, inputs: provider.Properties, preview: bool) -> tuple[str, provider.Properties]:
        return "id", {**inputs, "id": provider.UNKNOWN if preview else "id"}


class Alone(Engine):
    """A program of a few lines in `directory`, on the provider that does nothing."""

    def __init__(self, cli: Path, directory: Path, program: str) -> None:
        directory.mkdir()
        python = os.path.relpath(sys.prefix, directory)
        runtime = f"{{name: python, options: {{virtualenv: {python}}}}}"
        (directory / "Pulumi.yaml").write_text(f"name: alone\nruntime: {runtime}\n")
        (directory / "Pulumi.bench.yaml").write_text("config: {}\n")
        (directory / "__main__.py").write_text(program)
        super().__init__(cli, directory / "state", "bench", directory / "Pulumi.bench.yaml", directory)

    def start_cloud(self, say: Callable[[str], object]) -> None:
        plugin = self.home / "plugins" / f"resource-aws-v{Nothing.version}" / "pulumi-resource-aws"
        plugin.parent.mkdir(parents=True, exist_ok=True)
        words = shlex.join([sys.executable, "-m", "tools.bench", "--serve", str(self.state)])
        plugin.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {words}\n")
        plugin.chmod(0o755)

    def remove_unrecorded(self) -> list[str]:
        return []


def serve_nothing(state: Path) -> None:
    server, port = provider.serve(provider.Servicer(Nothing(state)))
    print(port, flush=True)
    server.wait_for_termination()


def processes() -> Iterator[tuple[int, int, float, float]]:
    """Of every process: number, parent, CPU seconds of its own, MiB of resident memory."""
    tick, page_mib = os.sysconf("SC_CLK_TCK"), resource.getpagesize() / 2**20
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        yield int(entry.parent.name), int(words[1]), (int(words[11]) + int(words[12])) / tick, int(words[21]) * page_mib


def resident_mib(cloud: int, strangers: Container[int]) -> float:
    """Of what this process has started, at any depth, and of the local cloud."""
    family, total = {os.getpid()}, 0.0
    for number, parent, _, mib in sorted(processes()):  # parents come first: numbers rise
        if number == cloud or (parent in family and number not in strangers):
            family.add(number)
            total += mib
    return total


def measured(call: Callable[[], Outcome], cloud: int) -> Cost:
    """What `call` takes in processes that it starts, and in the local cloud that was there before (0: none)."""
    over, samples = threading.Event(), [0.0]
    strangers = {number for number, *_ in processes() if number != cloud}

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append(resident_mib(cloud, strangers))

    def cpu_seconds() -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime + sum(cpu for number, _, cpu, _ in processes() if number == cloud)

    watcher = threading.Thread(target=sample, daemon=True)
    before, started = cpu_seconds(), time.monotonic()
    watcher.start()
    outcome = call()
    seconds, used = time.monotonic() - started, cpu_seconds() - before
    over.set()
    watcher.join()
    if outcome.exit_code:
        sys.exit(outcome.text)
    return Cost(seconds, used, max(samples), sum(outcome.changes.values()))


def run(title: str, engine: Engine, name: str) -> Cost:
    with moving(f"{title}: {name}"):
        engine.prepare()
        lock = engine.state / "lock"
        cloud = int(lock.read_text()) if lock.exists() else 0
        return measured(lambda: engine.run(*COMMANDS[name]), cloud)


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve_nothing(Path(sys.argv[2]))
        return 0
    cli = pulumi_cli.obtain()
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch)
        dev, prod = (Engine(cli, room / "local", name, ROOT / f"Pulumi.{name}.yaml") for name in ("dev", "prod"))
        try:
            first = run("dev, to start with", dev, "up")
            run("dev, to start with", dev, "destroy")
            subnets = int(first.resources) - 2  # besides the stack and the VPC
            programs: dict[str, tuple[Engine, Sequence[str]]] = {
                "empty": (Alone(cli, room / "empty", EMPTY), ("up", "preview", "destroy")),
                "bare": (Alone(cli, room / "bare", BARE.format(subnets=subnets)), ("up", "preview", "destroy")),
                "dev": (dev, ("up", "preview", "destroy")),
                "prod": (prod, ("preview",)),
            }
            costs: dict[tuple[str, str], list[Cost]] = {(p, c): [] for p, (_, names) in programs.items() for c in names}
            for number in range(RUNS):  # in turns, so that a busy minute hits all of them
                for program, command in costs:
                    title = f"{program}, {number + 1} of {RUNS}"
                    costs[program, command].append(run(title, programs[program][0], command))
        finally:
            dev.stop()
    medians = {key: Cost(*map(statistics.median, zip(*runs, strict=True))) for key, runs in costs.items()}
    Console().print(table(medians))
    return 0


def table(costs: Mapping[tuple[str, str], Cost]) -> Table:
    shown = Table("program", "resources", *COMMANDS, title="seconds (of CPU), MiB", title_justify="left")
    for program in dict.fromkeys(program for program, _ in costs):
        found = [costs.get((program, command)) for command in COMMANDS]
        cells = [f"{c.seconds:.1f} ({c.cpu_seconds:.1f}), {c.peak_mib:.0f}" if c else "" for c in found]
        shown.add_row(program, f"{costs[program, 'preview'].resources:.0f}", *cells)
    pairs = [(costs["dev", command], costs["bare", command]) for command in COMMANDS]
    ratios = [f"{a.seconds / b.seconds:.2f} ({a.cpu_seconds / b.cpu_seconds:.2f})" for a, b in pairs]
    shown.add_row("dev / bare", "", *ratios)
    shown.caption = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    return shown


if __name__ == "__main__":
    sys.exit(main())
