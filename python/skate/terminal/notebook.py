"""What objects look like in a notebook: small pieces of HTML, in which every text is escaped, and
which need no style sheet and no script."""

from __future__ import annotations

from skate._deps import html

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

MOST = 40  # rows of a table


class Text(str):
    """A text of several lines, which notebooks and IPython show line by line."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def preformatted(text: str) -> str:
    """A text as it is, line by line."""
    return f"<pre>{html.escape(text)}</pre>"


def table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table below a title. Of many rows it has the first and the last.

    Args:
        title: One line of text.
        head: The names of the columns.
        rows: The cells of each row.
    """
    left = len(rows) - MOST
    if left > 0:
        more = (f"… {left:,} more", *[""] * (len(head) - 1))
        rows = [*rows[: MOST // 2], more, *rows[-MOST // 2 :]]

    def line(cells: tuple[str, ...], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(c)}</{tag}>' for c in cells)}</tr>"

    return (
        f"<div><p>{html.escape(title)}</p><table><thead>{line(head, 'th')}</thead>"
        f"<tbody>{''.join(line(r, 'td') for r in rows)}</tbody></table></div>"
    )


def labelled(label: str, text: str) -> str:
    """One line: a label in the font of code, and a text."""
    return f"<p><code>{html.escape(label)}</code> {html.escape(text)}</p>"
