"""The inference job's log -> verdict: the adapter was loaded, the numbers are finite, text came out."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from judges.signs import explain, judged_with_signs
from judges.verdict import Verdict, failed, find, passed

_GENERATED = re.compile(r"^generated (\d+) tokens in (\S+) s, (\S+) tokens/s", re.MULTILINE)
_TEXT = re.compile(r"^text ('.*'|\".*\")$", re.MULTILINE)


def judge_inference(log: str, *, tokens: int = 32) -> Verdict:
    """The speed is told, not judged: no reference is published for it."""
    return judged_with_signs(log, lambda: _judge_run(log, tokens))


def _judge_run(log: str, tokens: int) -> Verdict:
    generated, text = _GENERATED.search(log), _TEXT.search(log)
    if generated is None or text is None:
        return explain(log) or failed("no-result", "nothing was generated", at=find(log, "error"))
    if not find(log, r"^logits finite True$"):
        return failed(
            "not-finite",
            "the model's numbers are not finite",
            at=find(log, "logits"),
            remedy="retrain the adapter; see ECC errors",
        )
    if int(generated[1]) != tokens:
        return failed("too-few-tokens", f"{generated[1]} tokens, not {tokens}", at=find(log, _GENERATED.pattern))
    if not str(ast.literal_eval(text[1])).strip():
        return failed("empty-text", "the tokens make no text", at=find(log, r"^text "))
    verdict = passed(f"{tokens} tokens at {generated[3]} tokens/s", at=find(log, _GENERATED.pattern))
    return replace(verdict, value=float(generated[3]), unit="tokens/s")
