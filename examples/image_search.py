"""Search for images by their content: embed a folder of JPEG files, then find the nearest ones.
Run: python examples/image_search.py [--plot nearest.png]

Without --images it draws pictures of shapes first. Images are read and resized in C, a pool of
actors embeds them (colours and edges by region; put your own model into Embedder), Parquet keeps
the embeddings, and a search is one pass over them that keeps the best of each batch.
"""

import argparse
import os
import tempfile

import numpy as np
import skate.data

SIZE, GRID, SHAPES = 64, 4, ("disc", "square", "stripes", "cross")


def draw(folder: str, n: int) -> None:
    """n JPEG files of shapes, in colours of their own."""
    from PIL import Image

    yy, xx = np.mgrid[:SIZE, :SIZE]
    for i in range(n):
        rng, shape = np.random.default_rng(i), SHAPES[i % len(SHAPES)]
        cx, cy, r = (*rng.integers(24, 40, 2), rng.integers(10, 22))
        inside: np.ndarray = {
            "disc": (xx - cx) ** 2 + (yy - cy) ** 2 < r * r,
            "square": (abs(xx - cx) < r) & (abs(yy - cy) < r),
            "stripes": (xx + cx) // 6 % 2 == 0,
            "cross": (abs(xx - cx) < r // 3) | (abs(yy - cy) < r // 3),
        }[shape]
        colours = rng.integers(0, 255, (2, 3))
        noise = rng.normal(0, 12, (SIZE, SIZE, 3))
        pixels = np.where(inside[..., None], colours[:1], colours[1:]) + noise
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(
            os.path.join(folder, f"{i:05}-{shape}.jpg"), quality=90
        )


class Embedder:
    """Colours and directions of edges in each of GRID x GRID regions, as a vector of length 1."""

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        images = batch["image"].astype(np.float32) / 255
        n, cell = len(images), SIZE // GRID
        grey = images.mean(3)
        dy, dx = np.gradient(grey, axis=(1, 2))
        angle = ((np.arctan2(dy, dx) % np.pi) / np.pi * 8).astype(int) % 8
        edges = np.hypot(dx, dy)[..., None] * (angle[..., None] == np.arange(8))

        def regions(x: np.ndarray) -> np.ndarray:
            return x.reshape(n, GRID, cell, GRID, cell, -1).mean((2, 4)).reshape(n, -1)

        parts = [regions(images), 12 * regions(edges)]
        vectors = np.concatenate([p - p.mean(1, keepdims=True) for p in parts], 1)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return {"path": batch["path"], "embedding": vectors.astype(np.float32)}


def nearest(embeddings: skate.data.Dataset, query: np.ndarray, k: int) -> list[tuple[float, str]]:
    """The k images with the largest cosine to the query, best first."""

    def best(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        score = batch["embedding"] @ query
        top = np.argsort(-score)[:k]
        return {"score": score[top], "path": batch["path"][top]}

    found = embeddings.map_batches(best, batch_size=None).sort("score", descending=True).take(k)
    return [(row["score"], row["path"]) for row in found]


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--images", help="folder of JPEG files (default: drawn shapes)")
    p.add_argument("--count", type=int, default=800, help="how many shapes are drawn")
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.images or os.path.join(scratch, "images")
        if not args.images:
            os.mkdir(folder)
            draw(folder, args.count)
        images = skate.data.read_images(folder, size=(SIZE, SIZE), mode="RGB", include_paths=True)
        store = os.path.join(scratch, "embeddings")
        images.map_batches(Embedder, batch_size=64, concurrency=2).write_parquet(store)
        embeddings = skate.data.read_parquet(store).materialize()
        queries = embeddings.take(len(SHAPES))
        answers = [nearest(embeddings, q["embedding"], 8) for q in queries]
        for query, answer in zip(queries, answers):
            same = [
                os.path.basename(p)[6:] == os.path.basename(query["path"])[6:] for _, p in answer
            ]
            print(
                f"{os.path.basename(query['path'])}: {sum(same)} of {len(same)} nearest have its shape"
            )
        if args.plot:
            from matplotlib import pyplot as plt
            from PIL import Image

            fig, axes = plt.subplots(len(answers), 8, figsize=(8, 4.4), layout="constrained")
            for row, answer in zip(axes, answers):
                for ax, (score, path) in zip(row, answer):
                    ax.imshow(Image.open(path))
                    ax.set_title(f"{score:.2f}", fontsize=8)
                    ax.axis("off")
            fig.savefig(args.plot)


if __name__ == "__main__":
    main()
