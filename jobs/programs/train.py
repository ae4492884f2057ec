"""LoRA fine-tune of Qwen3-4B: a few steps over all ranks that torchrun starts, one adapter at the end.

Knows nothing of Slurm or Kubernetes: ranks and addresses come from torchrun, places from HF_HOME and LORA_OUT. The
number of samples per step is the same for any number of ranks up to 32, so that losses can be compared between
clusters.
"""
# pyright: basic, reportMissingImports=false

import argparse
import os

import torch
from datasets import load_dataset
from huggingface_hub import snapshot_download
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-4B"
DATASET = "trl-lib/Capybara"
SAMPLES_PER_STEP = 64
SAMPLES_PER_DEVICE = 2


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune a LoRA adapter.")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--download", action="store_true", help="only fetch model and data into HF_HOME")
    arguments = parser.parse_args()

    data = load_dataset(DATASET, split="train")
    if arguments.download:
        snapshot_download(MODEL)
        return

    world = int(os.environ["WORLD_SIZE"])
    out = os.environ["LORA_OUT"]
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16),
        processing_class=AutoTokenizer.from_pretrained(MODEL),
        train_dataset=data.shuffle(seed=42),
        # Rank 16 on the attention alone: 11.8 M values, 47 MB.
        peft_config=LoraConfig(
            r=16,
            lora_alpha=32,
            lora_dropout=0.05,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
            task_type="CAUSAL_LM",
        ),
        args=SFTConfig(
            output_dir=out,
            max_steps=arguments.steps,
            per_device_train_batch_size=SAMPLES_PER_DEVICE,
            gradient_accumulation_steps=max(1, SAMPLES_PER_STEP // (SAMPLES_PER_DEVICE * world)),
            learning_rate=2e-4,
            max_length=1024,
            bf16=True,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            ddp_find_unused_parameters=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            seed=42,
        ),
    )
    trainer.train()
    trainer.save_model(out)
    if trainer.is_world_process_zero():
        print(f"world_size {world}")
        print(f"steps {trainer.state.global_step} of {arguments.steps}")
        print(f"Done. LoRA adapters saved to {out}", flush=True)


if __name__ == "__main__":
    main()
