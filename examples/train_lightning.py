"""train_lightning.py [--epochs 2] [--stop-after STEPS]: Lightning over a Dataset.

Any loader of skate is a loader of Lightning's, which saves in its checkpoints where the loader is,
and goes on there: `--stop-after 31`, and then the same command without it, ends with the same
weights as one run.

Needs lightning (pip install lightning).
"""

import argparse
import os
import tempfile

import lightning
import numpy as np
import skate.data
import torch
from lightning.pytorch.callbacks import ModelCheckpoint


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Points of a noisy plane."""
    x = (
        np.random.default_rng(int(batch["id"][0]))
        .normal(size=(len(batch["id"]), 16))
        .astype(np.float32)
    )
    return {"x": x, "y": (x @ np.arange(16, dtype=np.float32) / 16)[:, None]}


class Plane(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
        self.steps = 0

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.steps += 1
        loss = torch.nn.functional.mse_loss(self.layer(batch["x"]), batch["y"])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument(
        "--stop-after", type=int, default=-1, help="the number of the last step; -1: to the end"
    )
    p.add_argument(
        "--checkpoint", default=os.path.join(tempfile.gettempdir(), "skate-train-lightning")
    )
    args = p.parse_args()

    torch.manual_seed(0)
    # in skate's workers
    ds = skate.data.range(960, override_num_blocks=8).map_batches(prepare, batch_size=None)
    loader = skate.data.DataLoader(ds.materialize(), batch_size=20, shuffle=True)
    model, last = Plane(), os.path.join(args.checkpoint, "last.ckpt")
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        max_steps=args.stop_after,
        callbacks=[ModelCheckpoint(args.checkpoint, save_last=True, every_n_train_steps=1)],
        default_root_dir=args.checkpoint,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader, ckpt_path=last if os.path.exists(last) else None)
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    print(
        f"{model.steps} steps, loss {trainer.callback_metrics['loss']:.6f}, weights {weights.sum().item():.9f}"
    )


if __name__ == "__main__":
    main()
