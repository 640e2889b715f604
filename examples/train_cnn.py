"""Trains a small convolutional network from JPEG files, and goes on where it was stopped.
Run: python examples/train_cnn.py [--epochs 4] [--stop-after STEPS] [--plot loss.svg]

Images are decoded and resized in C by skate's workers, shuffled anew in each epoch, and come to the
training loop as batches of tensors over shared memory. A checkpoint holds the model, the optimizer
and where the data is, so a run that was stopped ends with the same weights as one that was not.

Needs torch (pip install torch --index-url https://download.pytorch.org/whl/cpu).
"""

import argparse
import os
import tempfile

import numpy as np
import skate.data
import torch
from torch import nn

SIZE, SHAPES = 32, ("disc", "square", "stripes", "cross")


def draw(folder: str, n: int) -> None:
    """n JPEG files; the last character of a name is its class."""
    from PIL import Image

    os.makedirs(folder)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    for i in range(n):
        rng, c = np.random.default_rng(i), i % len(SHAPES)
        cx, cy, r = (*rng.integers(12, 20, 2), rng.integers(5, 11))
        inside: np.ndarray = [
            (xx - cx) ** 2 + (yy - cy) ** 2 < r * r,
            (abs(xx - cx) < r) & (abs(yy - cy) < r),
            (xx + cx) // 4 % 2 == 0,
            (abs(xx - cx) < r // 3) | (abs(yy - cy) < r // 3),
        ][c]
        colours = rng.integers(0, 255, (2, 3))
        noise = rng.normal(0, 15, (SIZE, SIZE, 3))
        pixels = np.where(inside[..., None], colours[:1], colours[1:]) + noise
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(
            os.path.join(folder, f"{i:05}-{c}.jpg")
        )


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    image = batch["image"].astype(np.float32).transpose(0, 3, 1, 2) / 127.5 - 1
    label = [int(path[-5]) for path in batch["path"]]
    return {"image": image, "label": np.array(label)}


def network() -> nn.Module:
    sizes = ((3, 16), (16, 32), (32, 64))
    layers = [(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)) for a, b in sizes]
    return nn.Sequential(*sum(layers, ()), nn.Flatten(), nn.Linear(64 * 16, len(SHAPES)))


def accuracy(model: nn.Module, images: skate.data.Dataset) -> float:
    right = total = 0
    with torch.no_grad():
        for batch in images.iter_torch_batches(batch_size=256):
            right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
            total += len(batch["label"])
    return right / total


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--images", type=int, default=1200)
    p.add_argument("--stop-after", type=int, default=0, help="steps of this call; 0: to the end")
    p.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "skate-train-cnn"))
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    images, saved = (os.path.join(args.folder, x) for x in ("images", "checkpoint.pt"))
    if not os.path.exists(images):
        draw(images, args.images)
    ds = skate.data.read_images(images, mode="RGB", include_paths=True).map_batches(
        prepare, batch_size=64
    )
    train, test = ds.materialize().split_proportionately([0.8])
    loader = skate.data.DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    parts = {"model": model, "optimizer": optimizer, "data": loader}
    epoch, losses = 0, list[float]()
    if os.path.exists(saved):
        state = torch.load(saved, weights_only=True)
        epoch, losses = state["epoch"], state["losses"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    stop_at = len(losses) + args.stop_after if args.stop_after else -1
    while epoch < args.epochs and len(losses) != stop_at:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == stop_at:
                break
        else:
            epoch += 1
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save({**state, "epoch": epoch, "losses": losses}, saved)
    weights = sum(float(w.detach().abs().sum()) for w in model.parameters())
    right = accuracy(model, test)
    print(f"{len(losses)} steps, accuracy {right:.1%}, weights {weights:.6f}")
    if args.plot:
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        ax.plot(losses, lw=0.8)
        ax.set(xlabel="steps", ylabel="cross entropy", yscale="log")
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
