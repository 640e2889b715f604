"""Sessions of a click log: how long do people stay, and how many pages do they read?
Run: python examples/sessions.py [--plot sessions.svg]

A session is a run of clicks of one user without a pause of more than 30 minutes. Clicks come in
the order of their time, so those of a user are spread over all of the log: one shuffle brings them
together (groupby), each group is cut where the pauses are (map_groups), and the sessions, a
hundredth of the clicks, are sorted by when they began.
"""

import argparse
from typing import Any

import numpy as np
import skate.data
from skate.data.aggregate import Count, Mean, Quantile

PAUSE = 30 * 60
USERS, DAY = 2_000, 24 * 3600


def clicks(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A part of the log: a user comes at some times of the day, and then clicks for a while."""
    rng = np.random.default_rng(int(batch["id"][0]))
    n = len(batch["id"])
    user = rng.zipf(1.5, n) % USERS
    visit = rng.integers(0, 3, n)
    begins = (user * 7919 + visit * 27_000) % DAY
    pages = np.array(["home", "search", "item", "basket", "help"])
    return {
        "user": user,
        "time": begins + rng.exponential(400, n).astype(np.int64),
        "page": pages[rng.integers(0, len(pages), n)],
    }


def sessions(group: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The sessions of one user; a group has all of the user's clicks."""
    order = np.argsort(group["time"], kind="stable")
    time, page = group["time"][order], group["page"][order]
    first = np.flatnonzero(np.diff(time, prepend=-PAUSE - 1) > PAUSE)
    last = np.append(first[1:], len(time)) - 1
    return {
        "user": group["user"][first],
        "start": time[first],
        "seconds": time[last] - time[first],
        "clicks": last - first + 1,
        "landing": page[first],
    }


def check(log: skate.data.Dataset, found: skate.data.Dataset) -> None:
    """The same by pandas, over the whole log in memory."""
    whole: Any = log.to_pandas().sort_values(["user", "time"], kind="stable")
    pause = whole.groupby("user")["time"].diff().fillna(PAUSE + 1) > PAUSE
    want = whole.assign(session=pause.cumsum()).groupby("session")["time"].agg(["min", "count"])
    mine: Any = found.to_pandas()
    assert sorted(zip(want["min"], want["count"])) == sorted(zip(mine["start"], mine["clicks"]))


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--clicks", type=int, default=400_000)
    p.add_argument("--check", action="store_true", help="compare with pandas")
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    log = skate.data.range(args.clicks, override_num_blocks=16).map_batches(clicks, batch_size=None)
    found = (
        log.groupby("user").map_groups(sessions, batch_format="numpy").sort("start").materialize()
    )
    by_page = (
        found.groupby("landing")
        .aggregate(Count(), Mean("seconds"), Quantile("clicks", q=0.5))
        .take_all()
    )
    users = len(found.unique("user"))
    print(f"{args.clicks:,} clicks of {users:,} users are {found.count():,} sessions")
    for row in by_page:
        print(
            f"  from {row['landing']:6} {row['count()']:6,} sessions, {row['mean(seconds)']:5.0f} s on average, "
            f"median of {row['quantile(clicks)']:.0f} clicks"
        )
    if args.check:
        check(log, found)
    if args.plot:
        from matplotlib import pyplot as plt

        rows = found.to_pandas()
        fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
        left.hist(rows["start"] / 3600, 48, color="#4c78a8")
        left.set(title="sessions begin", xlabel="hour of the day", ylabel="sessions")
        right.hist(rows["seconds"] / 60, 40, color="#72b7b2", log=True)
        right.set(title="and last", xlabel="minutes")
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
