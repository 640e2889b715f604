"""Statistics of a run, as text with a table and as a dict, made from the dict of
_skate.Exec.stats() (see exec.h)."""

from __future__ import annotations

import json
import logging
from typing import Any

from skate.data.plan.lower import expected
from skate.data.run.request import RunRequest
from skate.terminal import notebook
from skate.terminal.words import nbytes, seconds, short


def before_a_run(request: RunRequest) -> str:
    """The text of stats() for a plan that was not run: its operators, and what is known about its
    input."""
    node, facts, labels = request.node, request.facts, []
    if node.blocks is not None:
        return f"{node.label}: {sum(b[2] for b in node.blocks):,} rows in {len(node.blocks):,} blocks of this process. Nothing was run."
    while node is not None:
        labels.append(node.label)
        node = node.inputs[0] if len(node.inputs) == 1 else None
    known = [f"{facts.rows:,} rows come out"] if facts.rows is not None else []
    known.append(f"its input is {expected((request.node,)).removeprefix('of ')}")
    if facts.files:
        known.append(f"{len(set(facts.files)):,} files")
    return (
        f"{short('->'.join(reversed(labels)))} has not been run yet, so there are no numbers: take_all(), write_parquet(), materialize() and the like run it. "
        f"Known so far: {', '.join(known)}."
    )


_WAITS = (
    ("wait_input_ns", "input"),
    ("wait_memory_ns", "memory"),
    ("wait_resource_ns", "resources"),
    ("wait_consumer_ns", "consumer"),
)


class DatasetStats:
    """The statistics of one run: str() for people, to_dict() and to_json() for programs."""

    def __init__(self, raw: dict[str, Any], extra: dict[str, Any] | None = None):
        self.raw, self.extra = raw, dict(extra or {})

    def to_dict(self) -> dict[str, Any]:
        errors = self.extra.get("errors")
        more: dict[str, Any] = (
            {"bad": {op: dict(by) for op, by in errors.counts.items()}}
            if errors is not None and errors.total
            else {}
        )
        if "write" in self.extra:
            more["write"] = self.extra["write"]
        if self.extra.get("rules"):
            more["rules"] = self.extra["rules"]  # the changes that the optimiser has made
        if self.extra.get("before"):
            more["before"] = [b.to_dict() for b in self.extra["before"] if b is not None]
        return {
            **self.raw,
            **more,
            "io_retries": self.io_retries,
            "fallbacks": self._sum("fallbacks"),
            "in_place": self._sum("in_place"),
            "no_room": self._sum("no_room"),
            "bottleneck_label": self.bottleneck()[0],
        }

    def to_json(self, **kwargs: Any) -> str:
        return json.dumps(self.to_dict(), default=str, **kwargs)

    def log(self, context: Any) -> None:
        """Logs the statistics to the logger "ray.data" if DataContext.enable_auto_log_stats is set
        (with verbose_stats_logs, all numbers as well), and one line for each operator at the level
        DEBUG."""
        log = logging.getLogger("ray.data")
        if context.enable_auto_log_stats:
            log.info(
                "%s%s", self, "\n" + self.to_json(indent=1) if context.verbose_stats_logs else ""
            )
        if log.isEnabledFor(logging.DEBUG):
            for o in self.ops:
                kind = "ActorPoolMapOperator" if o.get("pool") else "TaskPoolMapOperator"
                log.debug("Operator %s[%s] completed. Operator Metrics:\n%s", kind, o["label"], o)

    @property
    def io_retries(self) -> int:
        """The number of reads and writes that were retried (files/retry.py)."""
        return self._sum("io_retries")

    def _sum(self, what: str) -> int:
        """The sum over all operators of one count of exec.h: fallbacks (images that Pillow decoded as a
        fallback), in_place (blocks around an array that was made in the store), no_room (arrays
        that did not fit into the store)."""
        return sum(f.get(what, 0) for o in self.ops for f in o.get("fused") or [])

    @property
    def ops(self) -> list[dict[str, Any]]:
        return self.raw.get("ops") or []

    def bottleneck(self) -> tuple[str, str]:
        """Returns (label of the operator that limits the run's speed, the reason in words)."""
        i = self.raw.get("bottleneck")
        ops = self.ops
        why = str(self.raw.get("bottleneck_why") or "")
        if why == "none":
            return "none", "CPUs, GPUs, actors and limits were never all in use: too few tasks"
        if i is None or not isinstance(i, int) or not 0 <= i < len(ops):
            return "the consumer", "the pipeline waited for it to take blocks"
        o = ops[i]
        wall = max(1, self.raw.get("wall_ns", 1))
        busy = o.get("task_ns_total", 0)
        numbers = f"busy {seconds(busy)} in {seconds(wall)}, {busy / wall:.1f} workers on average"
        fused, names = o.get("fused") or [], o["label"].split("->")
        # Of several fused operators, only the slowest is named.
        if len(fused) > 1 and len(names) == len(fused):
            ns, name = max(
                (f["ns"] if isinstance(f, dict) else f[1], n)
                for f, n in zip(fused, names, strict=True)
            )
            numbers += f"; of it {name} {seconds(ns)}"
        return o["label"], f"{why + '; ' if why else ''}{numbers}"

    def __str__(self) -> str:
        """A table for each run; the runs that this run depended on come first."""
        return "\n\n".join(
            [str(b) for b in self.extra.get("before") or [] if b is not None] + [self._table()]
        )

    def _repr_html_(self) -> str:
        return notebook.preformatted(str(self))

    def _exchanged(self, o: dict[str, Any]) -> str:
        """Describes the exchange at the start of an operator: its maps and merges, and its
        strategy."""
        x = o["exchange"]
        size, limit = x["pack_bytes"], self.raw.get("memory_limit") or 0
        way = f"{x['values']} value{'s' if x['values'] != 1 else ''} a map" + (
            f", {x['merge']} packs a merge" if x["merge"] > 1 else ""
        )
        if x["strategy"] == "auto":
            way += ", as it is more than memory" if size > limit else ", as memory holds it"
        parts = f"{x['partitions']:,} partition{'s' if x['partitions'] != 1 else ''}"
        if x["partitions"] > 1 and size:
            parts += f", the largest {nbytes(x['largest_bytes'])}, {x['largest_bytes'] * x['partitions'] / size:.1f} times the mean"
        disk = (
            f", {nbytes(x['disk_bytes'])} of it on disk when reduces began"
            if x["disk_bytes"]
            else ""
        )
        back = f" ({nbytes(x['read_bytes'])} from disk)" if x["read_bytes"] else ""
        return (
            f"Exchange before {short(o['label'].split('->')[0])}: strategy {x['strategy']} ({way}); {x['packs']:,} packs, {nbytes(size)}{disk}; {parts}; "
            f"reduces took {nbytes(x['taken_bytes'])}{back}"
        )

    def _table(self) -> str:
        ops = self.ops
        if not ops:
            return self.extra.get("rearranged") or "Nothing was run: the blocks exist."
        head = ["operator", "tasks", "rows", "bytes", "blocks", "time", "mean", "max", "waited for"]
        rows: list[list[str]] = []
        for o in ops:
            done = o.get("tasks_done", 0)
            if o.get("merges") and not done:  # the strategy has asked for no merges
                continue
            total = o.get("task_ns_total", 0)
            waits = sorted(((o.get(k, 0), name) for k, name in _WAITS), reverse=True)
            wait = (
                ", ".join(f"{name} {seconds(ns)}" for ns, name in waits[:2] if ns > 1_000_000)
                or "-"
            )
            tasks = f"{done}" + (f" ({o['retries']} retried)" if o.get("retries") else "")
            rows.append(
                [
                    short(o["label"]) + ":",
                    tasks,
                    f"{o.get('rows_out', 0):,}",
                    nbytes(o.get("bytes_out", 0)),
                    f"{o.get('blocks_out', 0):,}",
                    seconds(total) if done else "-",
                    seconds(total / done) if done else "-",
                    seconds(o.get("task_ns_max")) if done else "-",
                    wait,
                ]
            )
            fused = o.get("fused") or []
            names = o["label"].split("->")
            if len(fused) > 1:
                for k, f in enumerate(fused):
                    n_rows, ns = (f["rows_out"], f["ns"]) if isinstance(f, dict) else f
                    rows.append(
                        [
                            "  " + short(names[k] if len(names) == len(fused) else f"part {k}"),
                            "",
                            f"{n_rows:,}",
                            "",
                            "",
                            seconds(ns),
                            "",
                            "",
                            "",
                        ]
                    )
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                c.ljust(w) if i in (0, 8) else c.rjust(w)
                for i, (c, w) in enumerate(zip(r, widths, strict=True))
            ).rstrip()
            for r in [head, *rows]
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        lines += [self._exchanged(o) for o in ops if o.get("exchange")]
        if "write" in self.extra:
            w = self.extra["write"]
            lines.append(
                f"Wrote {w['files']} files, {w['rows']:,} rows, {nbytes(w['bytes'])} to {w['path']}"
            )
        lines += [rule for rule in self.extra.get("rules") or [] if rule.startswith("join: ")]
        if self.io_retries:
            lines.append(
                f"Reads and writes tried again, since the store was not well: {self.io_retries:,}"
            )
        if self._sum("fallbacks"):
            lines.append(
                f"Images that Pillow decoded, since the quicker decoder does not take them: {self._sum('fallbacks'):,}"
            )
        if self._sum("in_place"):
            refused = self._sum("no_room")
            said = f"; arrays for which it had no room: {refused:,}" if refused else ""
            lines.append(
                f"Blocks around an array that was made in the store, without a copy: {self._sum('in_place'):,}{said}"
            )
        errors = self.extra.get("errors")
        if errors is not None and errors.total:
            kept = f", {errors.kept:,} of them kept (Dataset.errors())" if errors.kept else ""
            lines.append(f"Bad records: {errors.total:,}{kept}. {errors.what()}")
        if self.raw.get("errored_blocks"):
            lines.append(f"Tasks that failed and were left out: {self.raw['errored_blocks']:,}")
        peak, limit = self.raw.get("memory_peak"), self.raw.get("memory_limit")
        tasks, blocks = (
            sum(o.get("tasks_done", 0) for o in ops),
            sum(o.get("blocks_out", 0) for o in ops if o.get("tasks_done")),
        )
        lines.append(
            f"Total {seconds(self.raw.get('wall_ns'))}; {tasks} tasks executed, {blocks} blocks produced; memory of blocks: peak {nbytes(peak)} of {nbytes(limit)}"
        )
        label, why = self.bottleneck()
        lines.append(f"Bottleneck: {short(label)} ({why})")
        return "\n".join(lines)
