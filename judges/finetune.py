"""The fine-tune's log -> verdict: the whole pipeline ran on all ranks, learned something, and left a fresh adapter.

A sign that the pipeline works, not a claim about the model: 16 steps on training data without an evaluation split.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import cast

from judges.signs import explain, judged_with_signs
from judges.transport import judge_transport, nccl_messages
from judges.verdict import Line, Nodeset, Verdict, combine, error, failed, find, passed

ADAPTER_BYTES = (40_000_000, 60_000_000)  # rank 16 on the attention of Qwen3-4B: 11.8 M values, 47.2 MB in fp32
_RECORD = re.compile(r"\{'.*?\}")
_NOT_FINITE = r"'(train_)?loss':\s*'?[-+]?(nan|inf)"
_WORLD = re.compile(r"^(?:\[\w+\]:)?world_size (\d+)", re.MULTILINE)
_STEPS = re.compile(r"^(?:\[\w+\]:)?steps (\d+) of (\d+)", re.MULTILINE)
_BAR = re.compile(r"(\d+)/(\d+) \[\d\d:\d\d")  # the trainer's progress bar
_DONE = r"Done\. LoRA adapters saved to"
_ADAPTER = re.compile(
    r"^adapter (\S+): (\d+) bytes, (\d+) tensors, (\d+) of them LoRA, (-?\d+) s after the job's start", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A dictionary that the trainer printed; step records have a loss, the last one has train_loss."""

    values: dict[str, float]
    line: Line


def parse_records(log: str) -> list[Record]:
    """Dictionaries of numbers, some versions print them as texts. Read as literals, never evaluated."""
    records: list[Record] = []
    for match in _RECORD.finditer(log):
        try:
            found = cast("dict[str, object]", ast.literal_eval(match[0]))
            values = {key: float(str(value)) for key, value in found.items()}
        except (ValueError, SyntaxError):
            continue
        number = log.count("\n", 0, match.start()) + 1
        records.append(Record(values=values, line=Line(number=number, text=match[0])))
    return records


def judge_finetune(log: str, *, world_size: int, steps: int = 16, nodeset: Nodeset | None = None) -> Verdict:
    """With a nodeset the transport is judged too, where the log shows any."""
    if not log.strip():
        return error("empty-log", "the log is empty", remedy="see whether the job started, and where its output went")
    return judged_with_signs(log, lambda: _judge_run(log, world_size, steps, nodeset))


def _judge_run(log: str, world_size: int, steps: int, nodeset: Nodeset | None) -> Verdict:
    if line := find(log, _NOT_FINITE):
        return failed(
            "loss-not-finite",
            "the loss is not a finite number",
            at=line,
            remedy="lower the learning rate; see the data",
        )
    records = parse_records(log)
    final = [record for record in records if "train_loss" in record.values]
    if not final or not find(log, _DONE):
        return explain(log) or failed(
            "not-finished",
            "the training did not come to its end" if not final else "the adapter was not saved",
            at=records[-1].line if records else None,
            remedy="see the job's state and the last lines of its log",
        )
    verdicts = (
        _judge_size(log, world_size),
        _judge_steps(log, records, final[-1], steps),
        _judge_learning(records, final[-1]),
        _judge_adapter(log),
    )
    transport: tuple[Verdict, ...] = ()
    if nodeset and any(True for _ in nccl_messages(log)):
        transport = (
            judge_transport(log, efa_interfaces=nodeset.efa_interfaces, nodes=nodeset.nodes, processes=world_size),
        )
    return combine(*verdicts, *transport)


def _judge_size(log: str, world_size: int) -> Verdict:
    shown = _WORLD.search(log)
    if shown is None:
        return failed("world-size-not-shown", "nothing in the log says over how many ranks it trained")
    if int(shown[1]) != world_size:
        return failed(
            "wrong-world-size", f"it trained over {shown[1]} ranks, not {world_size}", at=find(log, _WORLD.pattern)
        )
    return passed(f"{world_size} ranks")


def _judge_steps(log: str, records: list[Record], final: Record, steps: int) -> Verdict:
    told = [int(match[1]) for match in _STEPS.finditer(log)]
    told += [int(match[1]) for match in _BAR.finditer(log) if int(match[2]) == steps]
    told += [int(record.values["step"]) for record in records if "step" in record.values]
    if told and max(told) != steps:
        return failed("too-few-steps", f"{max(told)} steps, not {steps}", at=final.line)
    if not told and final.values.get("epoch", 0.0) < 0.999:
        return failed("too-few-steps", f"no sign of {steps} steps or of a whole epoch", at=final.line)
    return passed(f"{steps} steps", at=final.line)


def _judge_learning(records: list[Record], final: Record) -> Verdict:
    """The mean loss of the run is a weak sign, so first and last quarters are compared too."""
    losses = [record.values["loss"] for record in records if "loss" in record.values]
    if not losses:
        return failed("no-losses", "the log has no loss of any step", at=final.line)
    mean = final.values["train_loss"]
    if not all(math.isfinite(loss) for loss in (*losses, mean)):
        return failed("loss-not-finite", "the loss is not a finite number", at=final.line)
    quarter = max(1, len(losses) // 4)
    first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
    if mean >= losses[0] or (len(losses) > 1 and last >= first):
        return failed(
            "loss-not-falling",
            f"the loss does not fall: {losses[0]:g} at first, {losses[-1]:g} at last, {mean:g} on average",
            at=final.line,
            remedy="see learning rate and data; the same seed and model gave 1.98 falling to a mean of 1.798",
        )
    accuracy = [record.values["mean_token_accuracy"] for record in records if "mean_token_accuracy" in record.values]
    if len(accuracy) > 1 and accuracy[-1] <= accuracy[0]:
        return failed(
            "accuracy-not-rising", f"token accuracy goes from {accuracy[0]:g} to {accuracy[-1]:g}", at=final.line
        )
    return passed(f"loss {losses[0]:g} to {losses[-1]:g}, {mean:g} on average", at=final.line)


def _judge_adapter(log: str) -> Verdict:
    """Out of the line that the job prints of the file itself: `Done` is printed by the program that wrote it."""
    shown = _ADAPTER.search(log)
    if shown is None:
        return failed(
            "adapter-not-shown",
            "nothing in the log shows the adapter file",
            at=find(log, r"^adapter"),
            remedy="ls -l of the output folder",
        )
    path, size, tensors, lora, age = shown[1], *map(int, shown.groups()[1:])
    at = find(log, _ADAPTER.pattern)
    if not ADAPTER_BYTES[0] <= size <= ADAPTER_BYTES[1]:
        return failed("adapter-size", f"{path} has {size} bytes, about 47 MB are expected", at=at)
    if age < 0:
        return failed("adapter-stale", f"{path} is older than the job: it is of an earlier run", at=at)
    if not tensors or lora != tensors:
        return failed("adapter-content", f"{path} holds {tensors} tensors, {lora} of them LoRA", at=at)
    return passed(f"adapter of {size / 1e6:.1f} MB, written {age} s after the start", at=at)
