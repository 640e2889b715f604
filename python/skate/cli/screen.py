"""A snapshot of an engine (skate/_private/view.py) as a screen of `skate top`: a function of the
snapshot, of the one before it (for rates) and of the columns there are."""

from typing import Any, NamedTuple

from skate._deps import rich_console, rich_text
from skate.cli import out
from skate.terminal import words

RUNS = 3  # most runs that are shown
ERRORS = 3
LABEL = 60  # most letters of an operator

Snapshot = dict[str, Any]


class Column(NamedTuple):
    """A column of the table of operators.

    Args:
        name: Its name.
        least: The columns that a terminal must have for it to be shown.
    """

    name: str
    least: int = 0


# what row() gives, in this order
COLUMNS = (
    Column("<operator"),
    Column("tasks"),
    Column("now", 60),
    Column("rows", 90),
    Column("rows/s"),
    Column("<queue", 70),
    Column("busy", 80),
    Column("<waits for", 110),
)


def count(n: float | None) -> str:
    """A number in at most five letters."""
    if n is None:
        return "?"
    for unit in ("", "k", "M", "G"):
        if abs(n) < 1000 or unit == "G":
            return f"{n:.0f}{unit}" if unit == "" or n >= 100 else f"{n:.1f}{unit}"
        n /= 1000
    raise AssertionError


def bar(share: float | None, width: int = 20) -> str:
    """A share as a bar of letters that every terminal has."""
    full = round(min(1.0, max(0.0, share or 0.0)) * width)
    return f"[{'#' * full}{'.' * (width - full)}]"


def render(now: Snapshot, before: Snapshot | None, columns: int) -> Any:
    """The screen. before: an earlier snapshot of the same engine; None: rates are those of the
    whole run."""
    parts: list[Any] = [*_head(now, columns)]
    for run in shown(now["runs"]):
        earlier = (
            next((r for r in before["runs"] if r["id"] == run["id"]), None) if before else None
        )
        parts += ["", *_run(run, earlier, columns)]
    if now["errors"]:
        parts += ["", _line("last errors", "bold")]
        parts += [_error(e) for e in now["errors"][-ERRORS:]]
    if now["nodes"]:
        parts += ["", _nodes(now["nodes"])]
    if now["workers"]:
        parts += ["", _workers(now["workers"], {n["number"]: n["name"] for n in now["nodes"]})]
    return rich_console.Group(*parts)


def shown(runs: list[Any]) -> list[Any]:
    """The runs to show: those that go on; the last one, if none does."""
    return [r for r in runs if r["state"] == "running"][-RUNS:] or runs[-1:]


def _line(text: str, style: str = "") -> Any:
    return rich_text.Text(out.printable(text), style=style, overflow="fold")


def _head(now: Snapshot, columns: int) -> list[Any]:
    state = "" if now["live"] else f", {now['ended'] or 'closed'}"
    tasks, store = now["tasks"], now["store"]
    lines = [
        _line(f"{now['program']}", "bold"),
        _line(
            f"pid {now['pid']}, {words.clock(now['seconds'])}{state}; {now['cpus']:g} CPUs; "
            f"tasks: {tasks['done']:,} done, {tasks['running']:,} running, {tasks['queued']:,} queued"
            + (f", {tasks['failed']:,} failed" if tasks["failed"] else "")
        ),
    ]
    if now.get("waits"):
        lines.append(_line(f"waits for {now['waits']}"))
    share = store["used"] / store["capacity"] if store["capacity"] else 0.0
    spilled = f"; {words.nbytes(store['spilled_now'])} on disk" if store["spilled_total"] else ""
    lines.append(
        _line(
            f"store {bar(share, 20 if columns >= 60 else 8)} {words.nbytes(store['used'])} of "
            f"{words.nbytes(store['capacity'])}, {store['objects']:,} objects{spilled}"
        )
    )
    return lines


def _run(run: Any, before: Any, columns: int) -> list[Any]:
    memory = run["memory"]
    progress = run["state"]
    if run["state"] == "running" and run["share"] is not None:
        left = f", {words.clock(run['left'])} left" if run["left"] is not None else ""
        progress = f"{bar(run['share'], 20 if columns >= 60 else 8)} {run['share']:.0%}{left}"
    disk = f", {words.nbytes(memory['disk'])} on disk" if memory["disk"] else ""
    bad = f", {run['bad_rows']:,} bad rows" if run["bad_rows"] else ""
    bad += f", {run['errored_blocks']:,} blocks with errors" if run["errored_blocks"] else ""
    title = f"Dataset {run['id']}: {progress}, after {words.clock(run['seconds'])}{bad}"
    limit = f" of {words.nbytes(memory['limit'])}" if memory["limit"] else ""
    said = f"memory {words.nbytes(memory['now'])}{limit}, peak {words.nbytes(memory['peak'])}{disk}"
    slow = run["bottleneck"]
    who = run["ops"][slow]["label"] if slow is not None else "what takes the rows"
    if run["state"] == "running" and run["bottleneck_why"]:
        said += f"\nbottleneck: {words.short(who, LABEL)}: {run['bottleneck_why']}"
    kept = [i for i, c in enumerate(COLUMNS) if columns >= c.least]
    rows = [
        row(op, before and before["ops"][i : i + 1], run, before) for i, op in enumerate(run["ops"])
    ]
    table = out.table(
        [COLUMNS[i].name for i in kept],
        [[r[i] for i in kept] for r in rows],
        styles=["bold yellow" if i == slow else None for i in range(len(rows))],
    )
    return [_line(title, "bold"), _line(said), table]


def row(op: Any, earlier: Any, run: Any, before: Any) -> tuple[str, ...]:
    """The cells of an operator, one for each of COLUMNS. earlier: [the operator in the run
    `before`], or nothing."""
    seconds, rows = run["seconds"], op["rows_out"]
    if earlier and run["seconds"] > before["seconds"]:
        seconds, rows = run["seconds"] - before["seconds"], op["rows_out"] - earlier[0]["rows_out"]
    phase = op["exchange"]["phase"] if op["exchange"] else ""
    queue = (
        f"{op['queued_blocks']:,}, {words.nbytes(op['queued_bytes'])}"
        if op["queued_blocks"]
        else "-"
    )
    waits = {w: op[f"wait_{w}"] or 0.0 for w in ("input", "memory", "resource", "consumer")}
    longest = max(waits, key=lambda w: waits[w])
    return (
        words.short(op["label"], LABEL) + (f" ({phase})" if phase else ""),
        f"{count(op['done'])}/{count(op['total'])}"
        + (f" r{op['retries']}" if op["retries"] else ""),
        str(op["running"]),
        count(op["rows_out"]),
        count(rows / seconds) if seconds > 0 else "-",
        queue,
        f"{op['busy'] / run['seconds']:.1f}"
        if op["busy"] is not None and run["seconds"] > 0
        else "-",
        f"{longest}, {waits[longest]:.1f} s" if waits[longest] >= 0.05 else "-",
    )


def _error(e: Any) -> Any:
    where = f"{e['operator']}: " if e["operator"] else ""
    again = f" (skate replay {e['replay']})" if e["replay"] else ""
    return _line(f"{words.clock(e['seconds'])} {where}{e['text']}{again}", "red")


def _nodes(nodes: list[Any]) -> Any:
    """A row for each node of a cluster."""
    rows = []
    for n in nodes:
        store, tasks = n["store"], n["tasks"]
        disk = f", {words.nbytes(store['spilled_now'])} on disk" if store["spilled_total"] else ""
        rows.append(
            (
                n["name"] + ("" if n["state"] == "alive" else f" ({n['state']})"),
                f"{n['cpus'] - n['cpus_free']:g}/{n['cpus']:g}",
                str(n["workers"]),
                f"{tasks['running']:,}",
                f"{tasks['queued']:,}",
                count(tasks["done"]),
                f"{words.nbytes(store['used'])} of {words.nbytes(store['capacity'])}{disk}",
            )
        )
    return out.table(["<node", "CPUs", "workers", "now", "queued", "done", "<store"], rows)


def _workers(workers: list[Any], nodes: dict[int, str]) -> Any:
    idle = sum(not w["task"] for w in workers)
    rows = [
        (
            *((nodes.get(w["node"], "?"),) if nodes else ()),
            str(w["pid"]),
            words.short(w["task"], LABEL),
            f"{w['seconds']:.1f} s",
        )
        for w in sorted(workers, key=lambda w: -(w["seconds"] or 0.0))
        if w["task"]
    ]
    if idle:
        rows.append((*(("",) if nodes else ()), "", f"{idle} idle", ""))
    return out.table([*(["<node"] if nodes else []), "worker", "<task", "for"], rows)
