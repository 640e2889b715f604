"""train_loop.py [--epochs 2] [--stop-after STEPS]: a plain training loop in PyTorch over a Dataset,
which goes on where it was stopped, or killed.

A checkpoint, each ten steps, holds the model, the optimizer and where the data is. `--stop-after
31`, and then the same command without it, ends with the same weights as one run.

Needs torch (pip install torch --index-url https://download.pytorch.org/whl/cpu).
"""

import argparse
import os
import tempfile

import numpy as np
import skate.data
import torch


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Points of a noisy plane."""
    x = (
        np.random.default_rng(int(batch["id"][0]))
        .normal(size=(len(batch["id"]), 16))
        .astype(np.float32)
    )
    return {"x": x, "y": (x @ np.arange(16, dtype=np.float32) / 16)[:, None]}


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--stop-after", type=int, default=0, help="steps of this call; 0: to the end")
    p.add_argument(
        "--checkpoint", default=os.path.join(tempfile.gettempdir(), "skate-train-loop.pt")
    )
    args = p.parse_args()

    torch.manual_seed(0)
    # in skate's workers
    ds = skate.data.range(960, override_num_blocks=8).map_batches(prepare, batch_size=None)
    loader = skate.data.DataLoader(ds.materialize(), batch_size=20, shuffle=True)
    model = torch.nn.Linear(16, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    epoch = steps = 0
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        sgd.load_state_dict(saved["sgd"])
        loader.load_state_dict(saved["data"])
        epoch = saved["epoch"]

    def save() -> None:
        state = {
            "model": model.state_dict(),
            "sgd": sgd.state_dict(),
            "data": loader.state_dict(),
            "epoch": epoch,
        }
        torch.save(state, args.checkpoint + ".new")
        # a kill in between leaves the old one
        os.replace(args.checkpoint + ".new", args.checkpoint)

    loss = torch.tensor(0.0)
    while epoch < args.epochs:
        for batch in loader:
            sgd.zero_grad()
            loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
            loss.backward()
            sgd.step()
            steps += 1
            if steps % 10 == 0 or steps == args.stop_after:
                save()
            if steps == args.stop_after:
                return report(steps, loss, model)
        epoch += 1
    save()
    report(steps, loss, model)


def report(steps: int, loss: torch.Tensor, model: torch.nn.Module) -> None:
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    print(f"{steps} steps, loss {loss.item():.6f}, weights {weights.sum().item():.9f}")


if __name__ == "__main__":
    main()
