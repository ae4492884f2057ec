"""Generates a few tokens with the base model and the adapter of the fine-tune: greedy, one GPU, fixed prompt."""
# pyright: basic, reportMissingImports=false

import os
import time

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = "Qwen/Qwen3-4B"
PROMPT = "In one sentence, what does a job scheduler do?"
TOKENS = 32


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16).to("cuda")
    model = PeftModel.from_pretrained(base, os.environ["LORA_OUT"])
    model.eval()
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROMPT}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    ).to("cuda")
    with torch.no_grad():
        finite = bool(torch.isfinite(model(**inputs).logits).all())
        began = time.monotonic()
        output = model.generate(**inputs, do_sample=False, min_new_tokens=TOKENS, max_new_tokens=TOKENS)
    seconds = time.monotonic() - began
    made = output[0, inputs["input_ids"].shape[1] :]
    print(f"logits finite {finite}")
    print(f"text {tokenizer.decode(made, skip_special_tokens=True)!r}")
    print(f"generated {len(made)} tokens in {seconds:.2f} s, {len(made) / seconds:.1f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
