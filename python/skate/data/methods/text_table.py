"""repr() of a Dataset: its shape, its columns with types, and, if its blocks exist, the first and
last rows; in a text box, or as HTML for notebooks."""

from __future__ import annotations

from typing import Any

from skate.data.run import blocks as _blocks
from skate.data.values import ranges, row_dicts
from skate.terminal import notebook

ROWS, HEAD, WIDTH = 10, 5, 40
# the most columns of a table, and the most operators of a plan, that are shown
COLUMNS, LINES = 24, 24


def dataset(name: str | None, rows: int | None, schema: Any, blocks: list[Any] | None) -> str:
    """The text box of a Dataset with these columns; blocks: the blocks of a materialized
    Dataset."""
    head: list[list[str]] = []
    tail: list[list[str]] = []
    if blocks is not None:
        head, tail = _preview(blocks, schema.names)
    names = _some(schema.names)
    table = [list(map(_cell, names)), ["---"] * len(names), list(map(_cell, _some(schema.types)))]
    body = head + ([["…"] * len(names)] if head and tail else []) + tail
    widths = [max(len(r[i]) for r in table + body) for i in range(len(names))]

    def line(cells: list[str]) -> str:
        return "│ " + " ┆ ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " │"

    def border(left: str, fill: str, mid: str, right: str) -> str:
        return left + mid.join(fill * (w + 2) for w in widths) + right

    lines = [
        f"shape: ({'?' if rows is None else rows}, {len(schema.names)})",
        border("╭", "─", "┬", "╮"),
        *map(line, table),
    ]
    if name:
        lines.insert(0, f"name: {name}")
    if body:
        lines += [border("╞", "═", "╪", "╡"), *map(line, body)]
    lines.append(border("╰", "─", "┴", "╯"))
    shown = f"(Showing {len(head) + len(tail)} of {'?' if rows is None else rows} rows)"
    return "\n".join([*lines, shown if blocks is not None else "(Dataset isn't materialized)"])


def html(name: str | None, rows: int | None, schema: Any, blocks: list[Any] | None) -> str:
    """The same content as dataset(), as an HTML table."""
    head, tail = _preview(blocks, schema.names) if blocks is not None else ([], [])
    body = head + ([["…"] * len(_some(schema.names))] if head and tail else []) + tail

    what = f"{name}: " if name else ""
    count = "?" if rows is None else f"{rows:,}"
    shown = f"showing {len(head) + len(tail)} rows" if blocks is not None else "not materialized"
    types = list(map(_cell, _some(schema.types)))
    return notebook.table(
        f"{what}{count} rows × {len(schema.names)} columns, {shown}",
        tuple(map(_cell, _some(schema.names))),
        [tuple(row) for row in (types, *body)],
    )


def plan(labels: list[str], kind: str, name: str | None, rows: int | None, schema: Any) -> str:
    """The text of a Dataset's operators, down to the nearest Dataset whose columns are known.
    labels: those of the operators whose columns are not known. kind, name, rows and schema describe
    that Dataset."""
    columns = "Unknown schema" if schema is None else _columns(schema)
    named = f"name={name}, " if name else ""
    lines = [*labels, f"{kind}({named}num_rows={'?' if rows is None else rows}, schema={columns})"]
    if len(lines) > LINES:
        lines = [
            *lines[: LINES // 2],
            f"… {len(lines) - LINES:,} more operators",
            *lines[-LINES // 2 :],
        ]
    return "\n".join(f"{'   ' * (i - 1)}+- {line}" if i else line for i, line in enumerate(lines))


def _some(cells: list[Any]) -> list[Any]:
    """The first and the last cells, if there are too many to show."""
    return (
        cells if len(cells) <= COLUMNS else [*cells[: COLUMNS // 2], "…", *cells[-COLUMNS // 2 :]]
    )


def _columns(schema: Any) -> str:
    pairs = [f"{n}: {t}" for n, t in list(zip(schema.names, schema.types, strict=True))[:COLUMNS]]
    more = len(schema.names) - COLUMNS
    return "{" + ", ".join([*pairs, f"… {more:,} more"] if more > 0 else pairs) + "}"


def _preview(blocks: list[Any], names: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    rows = sum(b[2] for b in blocks)
    blocks = [b for b in blocks if b[2]]
    if rows <= ROWS:
        return _texts(blocks, names), []
    first, _, last = ranges.cut(blocks, [HEAD, rows - (ROWS - HEAD)])
    return _texts(first, names), _texts(last, names)


def _texts(blocks: list[Any], names: list[str]) -> list[list[str]]:
    some = _some(list(range(len(names))))
    columns = [names[i] for i in some if i != "…"]
    rows = [row for b in blocks for row in row_dicts.to_rows(_blocks.fetch(b).select(columns))]
    return [["…" if i == "…" else _cell(row.get(names[i])) for i in some] for row in rows]


def _cell(v: Any) -> str:
    text = str(v).replace("\n", " ").replace("\r", " ")
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
