"""`python -m tools.show_tree <stack>`: the tree of resources that a stack asks for, without an engine or a cloud.

The program itself is run, under Pulumi's mocks: what is shown is what `pulumi preview` would list, with its order.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import pulumi
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from facts.names import PROJECT
from tools.recording import Record, record_stack

EXIT_SETTINGS = 2


def tree(record: Record, title: str) -> Tree:
    """Components in the order in which the program makes them, their resources by type and name."""
    count = sum(r.custom for r in record.resources)
    root = Tree(f"[bold]{escape(title)}[/]: {count} resources in {len(record.resources) - count} components")
    branches = {"": root}
    for r in record.resources:
        if not r.custom:
            branches[r.urn] = branches.get(r.parent, root).add(f"[bold]{_short(r.type)}[/] {escape(r.name)}")
    for r in sorted((r for r in record.resources if r.custom), key=lambda r: (r.type, r.name)):
        branches.get(r.parent, root).add(f"{_short(r.type)} [dim]{escape(r.name)}[/]")
    return root


def _short(type_: str) -> str:
    """`aws:ec2/routeTable:RouteTable` as `ec2.RouteTable`, and of our own components the class alone."""
    package, module, kind = type_.split(":")
    if package == PROJECT:
        return kind
    return f"{module.split('/')[0] if package == 'aws' else package}.{kind}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.show_tree", description=__doc__)
    parser.add_argument("stack")
    stack = parser.parse_args().stack
    console = Console(highlight=False)
    try:
        record = record_stack(stack)
    except pulumi.RunError as problems:
        Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(str(problems))
        return EXIT_SETTINGS
    console.print(tree(record, f"stack {stack}"))
    packages = Counter(r.type.split(":")[0] for r in record.resources if r.custom)
    console.print(", ".join(f"{number} {package}" for package, number in packages.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
