"""train_transformers.py [--epochs 2] [--stop-after STEPS]: Hugging Face's Trainer over a Dataset.

Its loader is one of skate's. Each checkpoint has a file more, which says where the loader is, so
that going on skips nothing by reading it: `--stop-after 31`, and then the same command without it,
ends with the same weights as one run.

Needs transformers and accelerate (pip install transformers accelerate).
"""

import argparse
import json
import os
import tempfile
from typing import Any

import numpy as np
import skate.data
import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Points of a noisy plane."""
    x = (
        np.random.default_rng(int(batch["id"][0]))
        .normal(size=(len(batch["id"]), 16))
        .astype(np.float32)
    )
    return {"x": x, "y": (x @ np.arange(16, dtype=np.float32) / 16)[:, None]}


class Plane(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), y)}


class Trainer(transformers.Trainer):
    """A Trainer whose loader is given."""

    def __init__(self, loader: skate.data.DataLoader, **more: Any) -> None:
        super().__init__(**more)
        self.loader = loader

    def get_train_dataloader(self) -> skate.data.DataLoader:
        return self.loader


class SaveData(transformers.TrainerCallback):
    """Saves with each checkpoint where the data is."""

    def on_save(
        self, args: Any, state: Any, control: Any, train_dataloader: Any, **more: Any
    ) -> None:
        with open(
            os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "data.json"), "w"
        ) as f:
            json.dump(train_dataloader.state_dict(), f)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument(
        "--stop-after", type=int, default=-1, help="the number of the last step; -1: to the end"
    )
    p.add_argument(
        "--checkpoint", default=os.path.join(tempfile.gettempdir(), "skate-train-transformers")
    )
    args = p.parse_args()

    torch.manual_seed(0)
    # in skate's workers
    ds = skate.data.range(960, override_num_blocks=8).map_batches(prepare, batch_size=None)
    loader = skate.data.DataLoader(ds.materialize(), batch_size=20, shuffle=True)
    how = transformers.TrainingArguments(
        args.checkpoint,
        num_train_epochs=args.epochs,
        max_steps=args.stop_after,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        save_steps=1,
        save_total_limit=1,
        ignore_data_skip=True,  # the loader goes on by itself
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(loader, model=Plane(), args=how, callbacks=[SaveData()])
    last = get_last_checkpoint(args.checkpoint) if os.path.isdir(args.checkpoint) else None
    first = 0
    if last:
        first = int(last.rsplit("-", 1)[1])
        with open(os.path.join(last, "data.json")) as f:
            loader.load_state_dict(json.load(f))
    trainer.train(resume_from_checkpoint=last)
    weights = torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()])
    print(f"{trainer.state.global_step - first} steps, weights {weights.sum().item():.9f}")


if __name__ == "__main__":
    main()
