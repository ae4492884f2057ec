"""What the driver shows people."""

from __future__ import annotations

from rich.console import Console

from tools.engine import SECRET_MARK, Outcome
from tools.stack import outputs_table


def test_the_outputs_are_shown_as_they_are_and_secrets_as_secret() -> None:
    outputs = {
        "kubeconfig": {SECRET_MARK: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"},
        "partitions": ["[slinky]"],
        "region": "us-west-2",
    }
    stack = {"op": "same", "type": "pulumi:pulumi:Stack", "new": {"outputs": outputs}}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(outputs_table(Outcome(0, [{"resOutputsEvent": {"metadata": stack}}])))
    for words in ("kubeconfig │ [secret]", 'partitions │ ["[slinky]"]', "region     │ us-west-2"):
        assert words in shown.get()
    assert "1b47061264138c4ac30d75fd1eb44270" not in shown.get()
