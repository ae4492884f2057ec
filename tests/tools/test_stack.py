"""What the driver shows people."""

from __future__ import annotations

from tools.engine import SECRET_MARK, UNKNOWN, Outcome
from tools.stack import outputs_text


def test_each_output_is_one_line_and_secrets_and_unknowns_are_shown_as_such() -> None:
    long = "ssh -p 22 root@" + "x" * 300
    outputs = {
        "kubeconfig": {SECRET_MARK: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"},
        "login": long,
        "nodes": {"count": 2, "names": [UNKNOWN]},
        "partitions": ["[slinky]"],
    }
    stack = {"op": "same", "type": "pulumi:pulumi:Stack", "new": {"outputs": outputs}}
    assert outputs_text(Outcome(0, [{"resOutputsEvent": {"metadata": stack}}])).splitlines() == [
        "outputs:",
        "  kubeconfig  [secret]",
        f"  login       {long}",
        '  nodes       {"count": 2, "names": ["[unknown]"]}',
        '  partitions  ["[slinky]"]',
    ]
