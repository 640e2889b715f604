"""Finds near-duplicate texts by MinHash, as corpora for language models are cleaned.
Run: python examples/near_duplicates.py [--plot pairs.svg]

Each text becomes a set of shingles (five words in a row), a set becomes a signature of 64 minima,
and a signature is cut into 16 bands. Texts that agree in a band are candidates (a groupby), whose
true similarity is then computed (a join with the texts). Pairs above the threshold are linked, and
one text of each cluster stays. The planted duplicates are the truth for recall and precision.
"""

import argparse
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import skate.data

WORDS, SHINGLE, HASHES, BANDS, SIMILAR = 60, 5, 64, 16, 0.5
PRIME = (1 << 31) - 1


def texts(n: int) -> pa.Table:
    """n texts, of which a fifth are copies of earlier ones with a few words changed."""
    rng, vocabulary = np.random.default_rng(3), np.array([f"w{i}" for i in range(5000)])
    out, truth = list[str](), list[int]()
    for i in range(n):
        copies = i > 10 and rng.random() < 0.2
        of = int(rng.integers(0, i)) if copies else i
        words = out[of].split() if copies else list(rng.choice(vocabulary, WORDS))
        for at in rng.integers(0, WORDS, int(rng.integers(0, 4)) if copies else 0):
            words[at] = str(rng.choice(vocabulary))
        out.append(" ".join(words))
        truth.append(truth[of] if copies else i)
    return pa.table({"id": np.arange(n), "text": out, "truth": truth})


def shingles(text: str) -> set[int]:
    words = text.split()
    starts = range(len(words) - SHINGLE + 1)
    return {zlib.crc32(" ".join(words[i : i + SHINGLE]).encode()) for i in starts}


class Signatures:
    """MinHash: the minimum of each of HASHES random linear functions over a text's shingles."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.a, self.b = rng.integers(1, PRIME, (2, HASHES, 1), np.int64)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        ids, bands = list[int](), list[int]()
        for id, text in zip(batch["id"], batch["text"]):
            of = np.fromiter(shingles(text), np.int64) % PRIME
            minima = ((self.a * of + self.b) % PRIME).min(1).reshape(BANDS, -1)
            ids += [id] * BANDS
            bands += [hash((k, *row)) for k, row in enumerate(minima.tolist())]
        return {"id": np.array(ids), "band": np.array(bands)}


def candidates(group: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each pair of one band's texts, the earlier text first."""
    ids = np.sort(group["id"])
    first, second = np.triu_indices(len(ids), 1)
    return {"a": ids[first], "b": ids[second]}


def similarity(row: dict[str, Any]) -> dict[str, Any]:
    a, b = shingles(row["text_a"]), shingles(row["text_b"])
    return {"a": row["a"], "b": row["b"], "similar": len(a & b) / len(a | b)}


def clusters(n: int, pairs: list[dict[str, Any]]) -> np.ndarray:
    """The smallest member of each text's cluster (union by the smaller root)."""
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    for pair in pairs:
        a, b = find(pair["a"]), find(pair["b"])
        root[max(a, b)] = min(a, b)
    return np.array([find(i) for i in range(n)])


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--texts", type=int, default=2000)
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    corpus = skate.data.from_arrow(texts(args.texts)).repartition(8).materialize()
    bands = corpus.map_batches(Signatures, batch_size=500, concurrency=2)
    pairs = bands.groupby("band").map_groups(candidates, batch_format="numpy").distinct()
    for key in ("a", "b"):
        side = corpus.select_columns(["id", "text"])
        side = side.rename_columns({"id": key, "text": f"text_{key}"})
        pairs = pairs.join(side, "inner", on=(key,))
    scored = pairs.map(similarity).materialize()
    close = [r for r in scored.take_all() if r["similar"] >= SIMILAR]
    root = clusters(args.texts, close)
    truth = np.array([r["truth"] for r in corpus.take_all()])
    right = (truth[[r["a"] for r in close]] == truth[[r["b"] for r in close]]).mean()
    missed = len(np.unique(root)) - len(np.unique(truth))
    print(
        f"{args.texts} texts, {len(np.unique(root))} stay; {scored.count()} candidate pairs, {len(close)} similar, "
        f"{right:.1%} of them planted, {missed} copies not found"
    )
    if args.plot:
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        ax.hist([r["similar"] for r in scored.take_all()], 40, color="#4c78a8")
        ax.axvline(SIMILAR, color="#e45756", ls="--")
        ax.set(xlabel="Jaccard similarity of candidate pairs", ylabel="pairs")
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
