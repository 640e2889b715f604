"""The pictures of docs/concepts, as SVG: `python docs/images/concepts.py [FOLDER]` writes them beside
itself, or into the folder.

They are read on a light and on a dark page: boxes have a colour of their own under white text, and
what stands outside of boxes has a grey that both pages show. A text that does not fit into its box
is an error.
"""

import sys
from html import escape
from pathlib import Path

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
BLUE, GREEN, AMBER, VIOLET, SLATE, RED = (
    "#2b6cb0",
    "#2f7d4f",
    "#96590b",
    "#7548a8",
    "#566070",
    "#b23a3a",
)
GREY = "#7b8390"  # of lines, and of texts outside of boxes
SIZE = 15  # pixels of the text
WIDE = 0.56  # mean width of a character, in sizes


class Picture:
    """An SVG that is drawn from shapes; x and y are pixels from its upper left corner."""

    def __init__(self, name: str, width: int, height: int, alt: str):
        self.name, self.width, self.height, self.alt = name, width, height, alt
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "middle",
        fill: str = GREY,
        size: int = SIZE,
        bold: bool = False,
    ) -> None:
        """One line of text whose middle is at the height y."""
        wide = len(words) * size * WIDE
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        if left < 0 or left + wide > self.width or not 8 <= y <= self.height - 8:
            raise ValueError(f"{self.name}: {words!r} does not fit into the picture")
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{weight}>{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        words: str,
        fill: str = BLUE,
        *,
        size: int = SIZE,
        dashed: bool = False,
    ) -> None:
        """A box with lines of text in its middle."""
        lines = words.split("\n") if words else []
        need = max((len(line) for line in lines), default=0) * size * WIDE + 10
        if need > w or len(lines) * size * 1.25 > h:
            raise ValueError(
                f"{self.name}: {words!r} needs {need:.0f} x {len(lines) * size * 1.25:.0f}, has {w} x {h}"
            )
        look = (
            f'fill="none" stroke="{fill}" stroke-width="2" stroke-dasharray="6 5"'
            if dashed
            else f'fill="{fill}"'
        )
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7" {look}/>')
        for i, line in enumerate(lines):
            at = y + h / 2 + (i - (len(lines) - 1) / 2) * size * 1.25
            self.text(x + w / 2, at, line, fill=GREY if dashed else "#ffffff", size=size)

    def frame(self, x: float, y: float, w: float, h: float, words: str) -> None:
        """A frame around other shapes, with a title above its upper left corner."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="9" fill="none" stroke="{GREY}" stroke-width="1.5"/>'
        )
        self.text(x + 2, y - 12, words, anchor="start", bold=True)

    def arrow(self, *points: tuple[float, float], fill: str = GREY, dashed: bool = False) -> None:
        """A line through points, with a head at its end."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        dash = ' stroke-dasharray="6 5"' if dashed else ""
        head = "red" if fill == RED else "grey"
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{fill}" stroke-width="2"{dash} marker-end="url(#{head})"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 5"' if dashed else ""
        self.parts.append(
            f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" stroke="{GREY}" stroke-width="1.5"{dash}/>'
        )

    def write(self) -> None:
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{fill}"/></marker>'
            for name, fill in (("grey", GREY), ("red", RED))
        )
        body = "\n".join(self.parts)
        (FOLDER / f"{self.name}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" role="img" '
            f"font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\" dominant-baseline=\"central\">\n"
            f"<title>{escape(self.alt)}</title>\n<defs>{heads}</defs>\n{body}\n</svg>\n"
        )


def life_of_a_batch() -> None:
    p = Picture(
        "life_of_a_batch",
        860,
        400,
        "Units of files go through fused tasks of workers into blocks of shared memory, and in order to the consumer",
    )
    p.frame(20, 40, 820, 76, "driver: your process, and the engine in it")
    p.box(36, 56, 140, 44, "plan: operators", VIOLET)
    p.box(200, 56, 150, 44, "stages, fused", VIOLET)
    p.box(374, 56, 180, 44, "policy and budget", VIOLET)
    p.box(640, 56, 184, 44, "your loop: a batch", GREEN)
    p.arrow((176, 78), (198, 78))
    p.arrow((350, 78), (372, 78))
    p.frame(190, 160, 440, 100, "workers: processes")
    for y in (172, 218):
        p.box(204, y, 100, 32, "read", BLUE)
        p.box(330, y, 132, 32, "your function", BLUE)
        p.box(488, y, 128, 32, "cut and seal", BLUE)
        p.arrow((304, y + 16), (328, y + 16))
        p.arrow((462, y + 16), (486, y + 16))
    p.arrow((464, 100), (464, 141), dashed=True)
    p.text(480, 130, "tasks", anchor="start")
    for i, y in enumerate((166, 198, 230)):
        p.box(36, y, 96, 26, f"unit {i}", SLATE)
    p.text(84, 274, "pieces of files")
    p.arrow((132, 188), (188, 188))
    p.arrow((132, 234), (188, 234))
    p.frame(190, 312, 440, 64, "shared memory")
    for i in range(6):
        p.box(204 + i * 70, 324, 62, 40, f"{i // 2}.{i % 2}", AMBER)
    p.arrow((410, 260), (410, 310))
    p.arrow((630, 344), (732, 344), (732, 102))
    p.text(742, 240, "in order,", anchor="start")
    p.text(742, 262, "mapped,", anchor="start")
    p.text(742, 284, "no copy", anchor="start")
    p.write()


def ownership() -> None:
    p = Picture(
        "ownership",
        860,
        350,
        "The driver has a table of objects with a count for each process; the values lie in shared memory",
    )
    p.frame(20, 40, 420, 140, "driver: the only table")
    p.text(40, 62, "object", anchor="start")
    p.text(205, 62, "driver")
    p.text(295, 62, "worker A")
    p.text(385, 62, "worker B")
    for i, (name, counts) in enumerate((("x", "1 2 0"), ("y", "0 1 1"), ("[x, y]", "1 0 0"))):
        y = 76 + i * 33
        p.box(36, y, 110, 27, name, AMBER)
        for k, n in enumerate(counts.split()):
            p.box(168 + k * 90, y, 74, 27, n, SLATE)
    p.frame(520, 40, 150, 140, "worker A")
    p.frame(690, 40, 150, 140, "worker B")
    p.box(534, 56, 122, 30, "x  x", BLUE)
    p.box(534, 96, 122, 30, "y", BLUE)
    p.box(704, 96, 122, 30, "y", BLUE)
    p.text(595, 152, "references")
    p.text(765, 152, "references")
    p.arrow((518, 110), (442, 110))
    p.text(480, 92, "+1 -1")
    p.frame(20, 250, 820, 76, "shared memory: bytes only")
    p.box(36, 266, 180, 44, "x: 8 MB", AMBER)
    p.box(232, 266, 240, 44, "y: 20 MB", AMBER)
    p.box(488, 266, 130, 44, "[x, y]", AMBER)
    p.box(634, 266, 190, 44, "free", GREY, dashed=True)
    p.arrow((300, 180), (300, 248), dashed=True)
    p.text(314, 214, "knows where", anchor="start")
    p.arrow((595, 180), (595, 248), dashed=True)
    p.arrow((765, 180), (765, 248), dashed=True)
    p.text(680, 214, "map, read-only")
    p.write()


def memory() -> None:
    p = Picture(
        "memory",
        860,
        330,
        "One budget for the object store and the heaps of workers; what does not fit goes to disk",
    )
    p.frame(20, 40, 820, 120, "budget: the least of machine, cgroup, memory_limit")
    p.box(36, 58, 330, 84, "object store\nblocks and objects", AMBER)
    p.box(372, 58, 130, 84, "worker 1\nheap", BLUE)
    p.box(508, 58, 100, 84, "worker 2\nheap", BLUE)
    p.box(614, 58, 96, 84, "driver,\nothers", SLATE)
    p.box(716, 58, 108, 84, "left", GREY, dashed=True)
    p.arrow((201, 142), (201, 246))
    p.text(214, 190, "store is full: oldest first", anchor="start")
    p.box(36, 250, 330, 50, "disk: files without a name", VIOLET)
    p.arrow((90, 250), (90, 144))
    p.text(80, 190, "needed", anchor="end")
    p.arrow((770, 142), (770, 206), (726, 206))
    p.box(420, 184, 304, 44, "less than a task needs: none begins", SLATE)
    p.arrow((572, 228), (572, 248))
    p.box(
        420,
        250,
        404,
        50,
        "nothing: a worker above its share\nis stopped, its task runs again alone",
        RED,
    )
    p.write()


def scheduling() -> None:
    p = Picture(
        "scheduling",
        860,
        330,
        "Operators with queues of blocks between them; each launch needs a slot and room in the budget",
    )
    p.text(20, 24, "blocks wait between operators", anchor="start", bold=True)
    for i, (name, fill) in enumerate(
        (("read", BLUE), ("decode", BLUE), ("model", GREEN), ("your loop", VIOLET))
    ):
        p.box(20 + i * 228, 56, 136, 60, name, fill)
        if i < 3:
            p.arrow((156 + i * 228, 86), (246 + i * 228, 86))
    for i, n in enumerate((4, 1, 2)):
        for k in range(n):
            p.box(166 + i * 228 + k * 17, 60, 14, 18, "", AMBER)
    p.frame(20, 172, 400, 130, "before a task starts")
    p.box(36, 188, 368, 30, "a slot: CPU, GPU or an idle actor", SLATE)
    p.box(36, 224, 368, 30, "room: its expected output is reserved", SLATE)
    p.box(36, 260, 368, 30, "its reader is not far behind", SLATE)
    p.frame(460, 172, 380, 130, "which operator next")
    p.box(476, 188, 348, 30, "the one nearest to the consumer", GREEN)
    p.box(476, 224, 348, 30, "sources at the rate of the slowest", GREEN)
    p.box(476, 260, 348, 30, "near the end: the longest path", GREEN)
    p.arrow((420, 237), (458, 237))
    p.write()


def exchange() -> None:
    p = Picture(
        "exchange",
        860,
        380,
        "Maps cut their rows into partitions, reduces take one range of partitions from every map",
    )
    colours = (BLUE, GREEN, AMBER, VIOLET)
    p.text(90, 22, "maps", bold=True)
    p.text(345, 22, "what each map made", bold=True)
    p.text(735, 22, "reduces", bold=True)
    for m in range(3):
        y = 50 + m * 106
        p.box(10, y, 160, 70, f"map {m}\nreads, partitions", SLATE)
        p.arrow((170, y + 35), (226, y + 35))
        for r in range(4):
            p.box(230 + r * 58, y + 10, 54, 50, f"{r}", colours[r])
    p.frame(222, 48, 244, 290, "")
    for r in range(4):
        y = 46 + r * 78
        p.box(640, y, 190, 60, f"reduce {r}: merges\nall parts {r}", colours[r])
        p.arrow((466, 193), (530, 193), (560, y + 30), (638, y + 30))
    p.text(345, 358, "in shared memory; on disk what does not fit")
    p.write()


def recovery() -> None:
    p = Picture(
        "recovery",
        860,
        300,
        "A worker dies after two of four blocks; its task runs again, skips two and goes on",
    )
    p.text(20, 24, "attempt 1", anchor="start", bold=True)
    p.box(120, 40, 90, 44, "block 0", AMBER)
    p.box(216, 40, 90, 44, "block 1", AMBER)
    p.box(312, 40, 70, 44, "half", GREY, dashed=True)
    p.box(396, 40, 118, 44, "worker dies", RED)
    p.text(20, 132, "attempt 2", anchor="start", bold=True)
    p.box(120, 148, 90, 44, "skipped", GREY, dashed=True)
    p.box(216, 148, 90, 44, "skipped", GREY, dashed=True)
    p.box(312, 148, 90, 44, "block 2", AMBER)
    p.box(408, 148, 90, 44, "block 3", AMBER)
    p.arrow((455, 84), (455, 112), (165, 112), (165, 146), fill=RED)
    p.text(530, 118, "another worker, the same input", anchor="start")
    p.text(20, 240, "reader", anchor="start", bold=True)
    for i in range(4):
        p.box(120 + i * 96, 228, 90, 44, f"block {i}", AMBER)
    p.text(520, 250, "each once, in order", anchor="start")
    p.text(530, 62, "sealed blocks stay", anchor="start")
    p.write()


def determinism() -> None:
    p = Picture(
        "determinism",
        860,
        330,
        "Tasks end in any order in time; their blocks leave in the order of tasks and indices",
    )
    p.frame(20, 40, 600, 130, "when: as it happens")
    p.box(36, 56, 330, 28, "task 0, a slow worker", SLATE)
    p.box(36, 92, 130, 28, "task 1", BLUE)
    p.box(174, 92, 150, 28, "task 2", GREEN)
    p.box(332, 92, 180, 28, "task 3", VIOLET)
    p.text(560, 146, "time", anchor="middle")
    p.arrow((36, 146), (530, 146))
    p.frame(20, 226, 820, 76, "what: as the input says")
    for i, (word, fill) in enumerate(
        (
            ("0.0", SLATE),
            ("0.1", SLATE),
            ("1.0", BLUE),
            ("2.0", GREEN),
            ("2.1", GREEN),
            ("3.0", VIOLET),
        )
    ):
        p.box(36 + i * 92, 242, 84, 44, word, fill)
    p.text(600, 264, "(task, index in the task)", anchor="start")
    p.arrow((320, 170), (320, 224))
    p.text(640, 76, "blocks of 1, 2, 3 wait,", anchor="start")
    p.text(640, 98, "or go ahead with", anchor="start")
    p.text(640, 120, "their place kept", anchor="start")
    p.write()


if __name__ == "__main__":
    for draw in (
        life_of_a_batch,
        ownership,
        memory,
        scheduling,
        exchange,
        recovery,
        determinism,
    ):
        draw()
