"""Cleans reviews in JSON Lines: bad lines and bad rows are set aside, not lost.
Run: python examples/clean_jsonl.py [--plot reviews.svg]

A fiftieth of the lines cannot be parsed, and some rows have a rating that is no number. The job
writes clean Parquet, a file with each bad record, its line and its error, and a report. All counts
are checked against what was planted.
"""

import argparse
import json
import os
import random
import tempfile
from typing import Any

import skate.data
from skate.data.expressions import col

ROWS = 20_000


def make(folder: str, rows: int) -> dict[str, int]:
    """Writes two files of reviews and returns what was planted in them."""
    rng, planted = random.Random(7), {"lines": 0, "ratings": 0, "duplicates": 0, "good": 0}
    for part in range(2):
        with open(os.path.join(folder, f"reviews-{part}.jsonl"), "w") as f:
            for i in range(rows // 2):
                kind = rng.random()
                review = {
                    "id": part * rows + i,
                    "stars": str(rng.randint(1, 5)),
                    "text": f" ok {i} ",
                }
                if kind < 0.02:
                    planted["lines"] += 1
                    f.write(json.dumps(review)[:-9] + "\n")
                    continue
                if kind < 0.03:
                    planted["ratings"] += 1
                    review["stars"] = rng.choice(["five", "", "?"])
                else:
                    planted["good"] += 1
                f.write(json.dumps(review) + "\n")
                if kind > 0.99:
                    planted["duplicates"] += 1
                    f.write(json.dumps(review) + "\n")
    return planted


def clean(row: dict[str, Any]) -> dict[str, Any]:
    """One review with a number for its stars, and its text without spaces around it."""
    return {"id": row["id"], "stars": int(row["stars"]), "text": row["text"].strip()}


def plot(file: str, stars: list[dict[str, Any]], errors: list[dict[str, Any]]) -> None:
    from matplotlib import pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.bar([s["stars"] for s in stars], [s["count()"] for s in stars], color="#4c78a8")
    left.set(title="clean reviews", xlabel="stars", ylabel="rows")
    right.barh([e["error"] for e in errors], [e["count()"] for e in errors], color="#e45756")
    right.set(title="set aside", xlabel="records")
    fig.savefig(file)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=ROWS)
    p.add_argument("--out", help="folder for the result (default: a temporary one)")
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source, out = os.path.join(scratch, "in"), args.out or os.path.join(scratch, "out")
        os.mkdir(source)
        planted = make(source, args.rows)
        reviews = skate.data.read_json(source, on_error="quarantine").map(
            clean, on_error="quarantine"
        )
        kept = reviews.distinct(["id"])  # the first row of each id stays
        kept.write_parquet(os.path.join(out, "clean"))
        letters = kept.errors()  # of that run
        letters.select_columns(["source", "line", "error", "message"]).write_csv(
            os.path.join(out, "bad")
        )
        rows = skate.data.read_parquet(os.path.join(out, "clean"))
        stars = rows.groupby("stars").count().take_all()
        errors = letters.groupby("error").count().take_all()
        low = rows.filter(expr=col("stars") <= 2).count()
        print(f"{rows.count()} reviews kept, {letters.count()} records set aside, {low} unhappy")
        assert rows.count() == planted["good"]
        assert {e["error"]: e["count()"] for e in errors} == {
            "ArrowInvalid": planted["lines"],
            "ValueError": planted["ratings"],
        }
        if args.plot:
            plot(args.plot, stars, errors)


if __name__ == "__main__":
    main()
