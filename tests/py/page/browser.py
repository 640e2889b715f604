"""The page in a browser: Debian's Chromium, driven by Playwright. `./dev page` runs it; the name of
the file keeps it out of `./dev test`.

Each page is watched: an error of its script, a line on its console, a request that leads elsewhere
or a violation of its policy fails the test.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import threading

import pytest
import skate
import skate.data as sd
from playwright.sync_api import expect, sync_playwright
from skate.data import DataContext
from skate.page import server
from skate.page.command import door
from skate.page.server import serve

sys.path.insert(0, os.path.dirname(__file__))
from fake import Fake, op, wide  # noqa: E402

CHROMIUM = os.environ.get("SKATE_TEST_CHROMIUM", "/usr/bin/chromium")
WATCH = """
    window.violations = []; window.shifts = 0;
    addEventListener('securitypolicyviolation', e => violations.push(e.violatedDirective + ' ' + e.blockedURI));
    new PerformanceObserver(l => { for (const e of l.getEntries()) if (!e.hadRecentInput) shifts += e.value; }).observe({ type: 'layout-shift', buffered: true });
"""


@pytest.fixture(scope="module")
def playwright():
    with sync_playwright() as p:
        yield p


@pytest.fixture(scope="module")
def chromium(playwright):
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield browser
    browser.close()


class Watched:
    """A tab of the browser, and what went wrong in it."""

    def __init__(self, browser, url, **options):
        self.wrong = []
        self.context = browser.new_context(
            viewport={"width": 1280, "height": 800}, accept_downloads=True, **options
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.tab = self.context.new_page()
        self.tab.add_init_script(WATCH)
        self.tab.on("console", lambda m: self.wrong.append(f"{m.type}: {m.text}"))
        self.tab.on("pageerror", lambda e: self.wrong.append(str(e)))
        root = url.rsplit("/", 2)[0]
        self.tab.on("request", lambda r: self._requested(r.url, root))
        self.tab.goto(url)

    def _requested(self, url, root):
        if not url.startswith((root, "data:image/svg+xml")):
            self.wrong.append(f"it asks {url}")

    def check(self):
        assert self.tab.evaluate("violations") == [] and self.wrong == []


@pytest.fixture
def opened(chromium):
    """opened(page, **options of the browser) -> the tab; it is checked in the end."""
    all_of_them = []

    def open_(page, **options):
        all_of_them.append(Watched(chromium, page.url, **options))
        return all_of_them[-1].tab

    yield open_
    for w in all_of_them:
        w.check()
        w.context.close()


@pytest.fixture
def source():
    s = Fake()
    for i in range(1, 41):
        s.step(i / 100)
    return s


@pytest.fixture
def page(source):
    with serve(source=source) as page:
        yield page


def test_what_a_person_wants_to_know_first(page, opened):
    tab = opened(page)
    expect(tab.locator("#state")).to_have_text("Running")
    expect(tab.locator("#share")).to_have_text("40 %")
    expect(tab.locator("#left")).to_have_text("about 1 min 10 s left · 48 s so far")
    expect(tab.locator("#limit")).to_have_text("MapBatches(Classifier)")
    expect(tab.locator("#why")).to_have_text("all actors of its pool are at work")
    expect(tab.locator("#memory")).to_have_text(re.compile(r"^4\d\d MiB$"))
    expect(tab.locator("#spill")).to_contain_text("of 1.0 GiB · peak 4")
    expect(tab.locator("#disk")).to_contain_text(" MiB on disk")
    expect(tab.locator("h1")).to_have_text("train.py --epochs 3")
    assert tab.title() == "40 % Running · train.py"


def test_the_graph(page, source, opened):
    tab = opened(page)
    nodes = tab.locator(".node")
    expect(nodes).to_have_count(6)
    expect(tab.locator(".edge")).to_have_count(5)
    expect(tab.locator(".node.limits")).to_have_count(1)
    expect(tab.locator(".node.limits .tag")).to_have_text("bottleneck")
    x = nodes.locator(".box").evaluate_all("all => all.map(n => n.getBoundingClientRect().x)")
    assert x[0] < x[1] < x[2] == x[3] < x[4] < x[5]  # the second source is beside what it joins
    said = tab.locator("#graph svg").get_attribute("aria-label")
    assert "Join(on=[label]) after MapBatches(Classifier) and ReadParquet" in said
    assert "MapBatches(Classifier) after Map(decode)->MapBatches(resize), which limits" in said
    expect(nodes.nth(2)).to_contain_text("8 blocks")
    source.state["runs"][-1]["bottleneck"] = 4
    expect(nodes.nth(4)).to_contain_text("bottleneck")
    expect(tab.locator(".node.limits")).to_have_count(1)
    source.state["runs"][-1].update(bottleneck=None, bottleneck_why="consumer")
    expect(tab.locator("#limit")).to_have_text("the consumer")
    nodes.nth(5).click()
    expect(tab.locator('[data-op="5"] .open')).to_be_focused()


def test_a_row_for_each_operator(page, source, opened):
    tab = opened(page)
    rows = tab.locator("#ops tr[data-op]")
    expect(rows).to_have_count(6)
    texts = rows.nth(2).locator("td").all_inner_texts()
    assert texts[0] == "147" and texts[4:7] == ["8", "16.0 MiB", "32.0 MiB"]
    assert texts[7] == "works 100 %" and texts[8:] == ["0", "0"]
    expect(rows.nth(0).locator("td").nth(0)).to_have_text("160 / 400")
    bar = rows.nth(0).locator("svg").get_attribute("aria-label")
    assert bar == ("works 60 %, output waits 25 %, no CPU 5 %, no memory 10 %"), bar
    source.state["runs"][-1]["ops"][2]["retries"] = 3
    source.fail()
    expect(rows.nth(2).locator("td").nth(8)).to_have_text("3")
    expect(rows.nth(1).locator("td").nth(9)).to_have_text("1")
    expect(rows.nth(4)).to_contain_text("merge exchange: map phase · 16 partitions")
    rows.nth(4).locator("button").click()
    detail = tab.locator("#ops tr:not([data-op]):visible")
    expect(detail).to_have_count(1)
    for text in ("exchange", "phase", "partitions", "on disk", "taken by reduces"):
        expect(detail).to_contain_text(text)
    expect(detail.get_by_role("img", name="Input queue over time, at most 6.0 MiB")).to_be_visible()
    source.step(0.9)
    expect(detail).to_contain_text("reduce")
    rows.nth(1).locator("button").click()
    expect(tab.locator("#ops")).to_contain_text("Map(decode)")


def test_it_moves(page, source, opened):
    tab = opened(page)
    expect(tab.locator("#share")).to_have_text("40 %")
    for share in (50, 60, 70):
        source.step(share / 100)
        expect(tab.locator("#share")).to_have_text(f"{share} %")
    points = tab.locator("#c-memory .lane").first.get_attribute("d")
    assert points.count("L") == 42
    source.thin()
    source.step(0.75)
    expect(tab.locator("#c-memory .lane").first).to_have_attribute(
        "d", re.compile(r"^M[^L]*(L[^L]*){22}$")
    )
    # 1,024 rows in each task of a step; between two states the speed is that of what was new
    source.state["runs"][-1]["seconds"] += 10
    source.state["runs"][-1]["ops"][-1]["rows_out"] += 100_000
    expect(tab.locator("#speed")).not_to_have_text("0")
    assert tab.evaluate("shifts") < 0.02  # the layout stays where it is


def test_after_the_run_and_after_the_program(page, source, opened):
    tab = opened(page)
    source.step(1.0)
    source.finish()
    expect(tab.locator("#share")).to_have_text("Done")
    expect(tab.locator("#left")).to_have_text("took 2 min 00 s")
    expect(tab.locator("#h-limit")).to_have_text("Was limited by")
    expect(tab.locator("#state")).to_have_text("Done")
    source.begin()
    source.step(0.1)
    expect(tab.locator("#share")).to_have_text("10 %")
    tab.locator("#run").select_option("1")  # the run before
    expect(tab.locator("#share")).to_have_text("Done")
    source.step(0.2)
    tab.locator("#run").select_option("")
    expect(tab.locator("#share")).to_have_text("20 %")
    source.finish("failed")
    expect(tab.locator("#state")).to_have_text("Failed")
    page.close()
    expect(tab.locator("#facts")).to_contain_text("the program has ended; this is its last state")
    expect(tab.locator(".node")).to_have_count(6)


def test_a_program_that_was_killed(opened, source):
    source.end("killed")
    with serve(source=source) as page:
        tab = opened(page)
        expect(tab.locator("#state")).to_have_text("Killed")
        expect(tab.locator("#facts")).to_contain_text("the program was killed")
        expect(tab.locator("#left")).to_have_text("ended after 48 s")
        expect(tab.locator("#no-workers")).to_have_text("The processes of the run have ended.")
        expect(tab.locator("#state")).to_have_attribute("data-is", "bad")


def test_a_program_that_does_not_answer(chromium, source):
    page = serve(source=source)
    w = Watched(chromium, page.url)
    expect(w.tab.locator("#state")).to_have_text("Running")
    page._server.stop()
    for s in list(page._server._open):  # as if the process was killed
        s.shutdown(2)
    expect(w.tab.locator("#state")).to_have_text("No connection", timeout=20_000)
    expect(w.tab.locator("#facts")).to_contain_text("the last state is of")
    expect(w.tab.locator("#share")).to_have_text("40 %")
    assert all("Failed to load resource" in x or "ERR_" in x for x in w.wrong), w.wrong
    w.context.close()
    page.close()


def test_workers_and_their_stacks(page, source, opened):
    tab = opened(page)
    expect(tab.locator("#h-workers")).to_have_text("Workers: 3 of 4 at work")
    rows = tab.locator("#workers tr:visible")
    expect(rows).to_have_count(5)  # the program, too
    expect(rows.nth(0)).to_contain_text("waits for a block of the run")
    button = tab.get_by_role("button", name="Show the stack of process 4301")
    button.click()
    expect(tab.locator("#workers pre:visible")).to_contain_text('File "train.py", line 12')
    expect(button).to_have_attribute("aria-expanded", "true")
    source.state["workers"].pop(0)
    expect(rows).to_have_count(5)  # one less, and the stack
    button.click()
    expect(tab.locator("#workers pre:visible")).to_have_count(0)


def test_a_row_for_each_node(page, source, opened):
    tab = opened(page)
    expect(tab.locator("#p-nodes")).to_be_hidden()  # of one machine
    store = {**source.state["store"], "used": 1 << 20, "capacity": 1 << 30, "spilled_now": 0}
    tasks = {"done": 12_345, "failed": 0, "running": 3, "queued": 9}
    of_both = {"cpus": 4.0, "cpus_free": 1.5, "store": store, "tasks": tasks, "workers": 5}
    source.state["nodes"] = [
        {"number": 1, "name": "node-1", "state": "alive", **of_both},
        {"number": 2, "name": "<b>far</b>", "state": "gone", **of_both},
    ]
    source.state["workers"][0]["node"] = 2
    rows = tab.locator("#nodes tr:visible")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("node-1")
    expect(rows.nth(0)).to_contain_text("2.5 / 4")
    expect(rows.nth(1)).to_contain_text("<b>far</b> (gone)")
    expect(tab.locator("#workers")).to_contain_text("4300 <b>far</b>")


def test_errors(page, source, opened):
    tab = opened(page)
    expect(tab.locator("#no-errors")).to_have_text("There are none.")
    source.fail("ValueError: <img src=x onerror=alert(1)> <script>alert(2)</script>")
    first = tab.locator("#errors li").first
    expect(first).to_contain_text("<img src=x onerror=alert(1)> <script>alert(2)</script>")
    expect(first).to_contain_text("skate replay b3f1a2c4")
    assert tab.locator("#errors img, #errors script").count() == 0
    tab.get_by_role("button", name="Copy skate replay b3f1a2c4").click()
    expect(first.get_by_role("button")).to_have_text("copied")
    assert tab.evaluate("navigator.clipboard.readText()") == "skate replay b3f1a2c4"
    for i in range(20):
        source.fail(f"error {i}", "")
    expect(tab.locator("#errors li")).to_have_count(16)
    expect(first).to_contain_text("error 19")


def test_names_that_are_markup(source, opened):
    for o in source.state["runs"][-1]["ops"]:
        o["label"] = "<b onclick=alert(1)>" + o["label"] + "x" * 200
    source.state["program"] = "<script>alert(1)</script>" + "y" * 150
    with serve(source=source) as page:
        tab = opened(page)
        expect(tab.locator("h1")).to_contain_text("<script>alert(1)</script>")
        expect(tab.locator(".node")).to_have_count(6)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.locator("b[onclick]").count() == 0


def test_files(page, opened):
    tab = opened(page)
    with tab.expect_download() as got:
        tab.get_by_role("link", name="Timeline").click()
    assert got.value.suggested_filename == "skate-4242.json"
    with open(got.value.path()) as f:
        assert json.load(f) == {"traceEvents": []}
    tab.get_by_role("link", name="Metrics").click()
    expect(tab.locator("body")).to_contain_text("skate_tasks_done_total")


def test_the_keyboard(page, opened):
    tab = opened(page)
    expect(tab.locator(".node")).to_have_count(6)
    names = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        names.append(
            tab.evaluate(
                "(e => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent)(document.activeElement)"
            )
        )
        outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or tab.evaluate("document.activeElement === document.body")
        if names[-1].startswith("Show the stack of process 4303"):
            break
    assert names[0] == "To the operators"
    for name in ("Run shown", "Timeline", "Metrics", "h-graph", "ReadImages", "h-workers"):
        assert name in names, names
    assert any(n.startswith("Memory of blocks, and disk after 48 s") for n in names)
    tab.locator('[data-op="4"] .open').focus()
    tab.keyboard.press("Enter")
    expect(tab.locator('[data-op="4"] .open')).to_have_attribute("aria-expanded", "true")
    tab.keyboard.press("Space")
    expect(tab.locator('[data-op="4"] .open')).to_have_attribute("aria-expanded", "false")
    chart = tab.locator("#c-memory svg")
    chart.focus()
    tab.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-label", re.compile("after 47 s"))
    tab.keyboard.press("Escape")
    expect(chart).to_have_attribute("aria-label", re.compile("after 48 s"))


def test_what_a_screen_reader_finds(page, opened):
    tab = opened(page)
    expect(tab.locator(".node")).to_have_count(6)
    tree = tab.locator("body").aria_snapshot()
    for line in (
        '- heading "train.py --epochs 3" [level=1]',
        "- status: Running",
        '- navigation "Runs and files"',
        '- combobox "Run shown"',
        '- region "Summary"',
        '- table "Operators"',
        '- columnheader "per s"',
        '- rowheader "MapBatches(Classifier) bottleneck 2 actors"',
        '- img "works 100 %"',
        '- button "Show the stack of process 4300"',
        '- heading "Last errors" [level=2]',
    ):
        assert line in tree, f"{line}\n{tree}"
    unnamed = tab.evaluate(
        """[...document.querySelectorAll('button, a, select, [tabindex="0"], svg[role=img]')]
            .filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim())).map(e => e.outerHTML)"""
    )
    assert unnamed == []


LUMINANCE = """
    const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = c => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
    const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
    return [...document.querySelectorAll('p, h1, h2, th, td, a, button, li, span, dt, dd')].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
        .map(e => { const a = light(getComputedStyle(e).color), b = light(behind(e)); return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.textContent, e.className]; }).filter(x => x[0] < 4.5);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(page, source, opened, scheme):
    source.fail()
    tab = opened(page, color_scheme=scheme)
    expect(tab.locator(".node")).to_have_count(6)
    back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.search(r"\d+", back)[0]) > 128) == (scheme == "light")
    assert tab.evaluate(f"(() => {{ {LUMINANCE} }})()") == []  # contrast as WCAG AA has it


@pytest.mark.parametrize("width", [320, 420, 768, 1024, 1280, 1920])
def test_windows_of_all_widths(page, opened, width):
    tab = opened(page)
    tab.set_viewport_size({"width": width, "height": 700})
    expect(tab.locator(".node")).to_have_count(6)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_no_motion_for_those_who_want_none(page, opened):
    tab = opened(page, reduced_motion="reduce")
    expect(tab.locator("#state")).to_have_text("Running")
    assert tab.evaluate("document.getAnimations().length") == 0
    expect(tab.locator("#state")).to_have_class(re.compile("beat"))
    dot = "getComputedStyle(document.getElementById('state'), '::before').opacity"
    assert tab.evaluate(dot) == "1"


def test_hundreds_of_operators(opened):
    with serve(source=wide(300)) as page:
        tab = opened(page)
        expect(tab.locator(".node")).to_have_count(300)
        expect(tab.locator("#ops tr[data-op]")).to_have_count(300)
        took = tab.evaluate(
            "(() => { const t = performance.now(); document.querySelector('#run').dispatchEvent(new Event('change')); return performance.now() - t; })()"
        )
        assert took < 500, took  # all of it, drawn anew


def test_a_program_of_tasks_only(opened, source):
    source.state["runs"].clear()
    source.state["tasks"].update(done=12_345, running=2)
    with serve(source=source) as page:
        tab = opened(page)
        expect(tab.locator("#share")).to_have_text("12.3 k tasks")
        expect(tab.locator("#state")).to_have_text("Running")
        expect(tab.locator("#graph")).to_contain_text("when a Dataset runs")
        source.state["runs"].append(Fake().state["runs"][0])
        expect(tab.locator(".node")).to_have_count(6)


def test_strange_states(opened, source):
    r = source.state["runs"][-1]
    r.update(share=None, left=None, bottleneck=None, bottleneck_why="none", seconds=0.0)
    r["ops_left_out"] = 7
    r["ops"] = [op("x" * 300), op("", inputs=[0], total=0)]
    r["samples"] = {"t": [], "memory": [], "disk": [], "rows_out": [], "rows_in": []}
    r["samples"]["queued"] = [[], []]
    r["memory"]["limit"] = 0
    with serve(source=source) as page:
        tab = opened(page)
        expect(tab.locator("#left")).to_contain_text("time left not known yet")
        expect(tab.locator("#limit")).to_have_text("nothing yet")
        expect(tab.locator("#left-out")).to_have_text("and 7 more operators")
        r["ops"] = []
        expect(tab.locator("#ops tr[data-op]")).to_have_count(0)


# ---- attacks


def test_the_door_that_the_command_makes(page, chromium, tmp_path):
    tab = chromium.new_page()
    address = door(page, str(tmp_path))
    assert page.token not in address
    tab.goto(address)
    tab.wait_for_url(page.url)
    expect(tab.locator("#state")).to_have_text("Running")
    tab.goto(address)
    expect(tab.locator("body")).to_contain_text("another site")  # it is good once
    tab.close()


class Evil(http.server.ThreadingHTTPServer):
    """Another site, of this machine, as the browser would not ask 127.0.0.1 for one of elsewhere."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>evil</title>")

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *exc):
        self.shutdown()
        super().__exit__(*exc)


def test_the_address_without_the_token(page, chromium):
    tab = chromium.new_context().new_page()
    r = tab.goto(f"http://127.0.0.1:{page.port}/")
    assert r.status == 403 and "train.py" not in tab.content()
    tab.context.close()


def test_another_site_reads_nothing(page, chromium, monkeypatch):
    """A site of another origin that knows even the token: by fetch, a frame, a script, an image and
    a link."""
    told, start = [], server._Handler._start  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        server._Handler,
        "_start",
        lambda self, status, *more: (told.append(status), start(self, status, *more)),
    )
    with Evil() as evil:
        context = chromium.new_context()
        tab = context.new_page()
        tab.goto(f"http://localhost:{evil.server_port}/")
        for target in (page.url + "snapshot.json", page.url + "events", page.url):
            got = tab.evaluate("u => fetch(u).then(r => r.text(), e => String(e))", target)
            assert "TypeError" in got
            opaque = tab.evaluate(
                "u => fetch(u, {mode: 'no-cors'}).then(r => r.type, e => String(e))", target
            )
            assert opaque == "opaque" or "TypeError" in opaque
        tab.evaluate(
            """async u => {
                for (const [tag, name] of [['iframe', 'src'], ['script', 'src'], ['img', 'src']]) {
                    const e = document.createElement(tag); e[name] = u;
                    await new Promise(done => { e.onload = e.onerror = done; document.body.append(e); });
                }
            }""",
            page.url,
        )
        assert len(told) >= 6 and set(told) == {403}, told
        tab.evaluate(
            "u => { const a = document.createElement('a'); a.href = u; document.body.append(a); a.click(); }",
            page.url,
        )
        tab.wait_for_url(page.url)
        assert "The request comes from another site" in tab.content()
        context.close()


def test_a_name_that_is_pointed_at_this_machine(page, playwright):
    """DNS rebinding: the browser believes that evil.example is 127.0.0.1."""
    rule = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rule])
    tab = browser.new_page()
    r = tab.goto(f"http://evil.example:{page.port}/{page.token}/snapshot.json")
    assert r.status == 403 and "train.py" not in tab.content()
    browser.close()


# ---- real engines


@pytest.fixture
def engine():
    skate.shutdown()
    skate.init(num_cpus=2, object_store_memory=256 << 20)
    context = DataContext.get_current()
    DataContext._set_current(context.copy())
    DataContext.get_current().enable_progress_bars = False
    yield DataContext.get_current()
    DataContext._set_current(context)
    skate.shutdown()


class Slow:
    """An actor whose calls wait for the test."""

    def __init__(self, gate):
        self.gate = gate

    def __call__(self, batch):
        with open(self.gate, "rb", 0) as f:
            f.read(1)
        return batch


def test_a_run_while_it_goes_on(engine, opened, tmp_path):
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)
    keep = os.open(gate, os.O_RDWR)
    ds = (
        sd.range(4000, override_num_blocks=40)
        .map(lambda row: {"id": row["id"], "x": row["id"] * 2})
        .map_batches(Slow, fn_constructor_args=(gate,), concurrency=1, batch_size=100, num_cpus=0.5)
        .sort("x", descending=True)
    )
    rows = []
    run = threading.Thread(target=lambda: rows.extend(ds.take_all()))
    with serve() as page:
        tab = opened(page)
        expect(tab.locator("#graph")).to_contain_text("when a Dataset runs")
        run.start()
        expect(tab.locator(".node").nth(1)).to_contain_text("MapBatches(Slow)")
        expect(tab.locator("#state")).to_have_text("Running")
        expect(tab.locator("#workers")).to_contain_text("Slow")
        os.write(keep, b"g")
        expect(tab.locator('[data-op="1"] td').first).to_have_text(re.compile(r"^1\b"))
        row = tab.locator("#workers tr", has_text="Slow").first
        row.get_by_role("button").click()
        expect(tab.locator("#workers pre:visible")).to_contain_text("in __call__")
        os.write(keep, b"g" * 19)
        expect(tab.locator('[data-op="1"] td').first).to_have_text(re.compile(r"^20\b"))
        expect(tab.locator("#limit")).to_have_text("MapBatches(Slow)")
        expect(tab.locator("#why")).to_have_text("all actors of its pool are at work")
        expect(tab.locator(".node.limits")).to_contain_text("bottleneck")
        os.write(keep, b"g" * 20)
        run.join()
        expect(tab.locator("#share")).to_have_text("Done")
        expect(tab.locator("#ops")).to_contain_text("auto exchange")
        assert len(rows) == 4000
        engine_pid = tab.locator("#workers tr th").first.inner_text()
        assert int(engine_pid) == os.getpid()
        skate.shutdown()
        expect(tab.locator("#facts")).to_contain_text("the program has ended")
        expect(tab.locator("#share")).to_have_text("Done")
    os.close(keep)


def test_ten_thousand_blocks(engine, opened):
    engine.target_min_block_size = 0
    engine.read_block_size = engine.target_max_block_size = 800
    ds = sd.range(1_000_000).map_batches(lambda b: b, batch_size=None, batch_format="pyarrow")
    with serve() as page:
        tab = opened(page)
        expect(tab.locator("#graph")).to_contain_text("when a Dataset runs")
        n = sum(1 for _ in ds.iter_internal_ref_bundles())
        assert n == 10_000
        expect(tab.locator("#share")).to_have_text("Done")
        expect(tab.locator('[data-op="0"] td').first).to_have_text("10.0 k / 10.0 k")
        expect(tab.locator('[data-op="0"] td').nth(3)).to_have_text("1.00 M")
        expect(tab.locator("#rows")).to_contain_text("1.00 M rows given")
        assert tab.evaluate("document.querySelectorAll('*').length") < 400


def test_a_record_of_a_run(engine, opened, tmp_path):
    record = tmp_path / "record"
    program = "import skate.data as sd; print(sd.range(1000).map(lambda r: r).sort('id').count())"
    env = {**os.environ, "SKATE_TRACE": str(record), "SKATE_NUM_CPUS": "2"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=60)
    with serve(str(record)) as page:
        tab = opened(page)
        expect(tab.locator("#share")).to_have_text("Done")
        expect(tab.locator("#facts")).to_contain_text("the program has ended")
        expect(tab.locator("#ops")).to_contain_text("SortReduce(id)")
        expect(tab.locator("#no-workers")).to_have_text("The processes of the run have ended.")
        with tab.expect_download() as got:
            tab.get_by_role("link", name="Timeline").click()
        with open(got.value.path()) as f:
            assert any(e["ph"] == "X" for e in json.load(f))


def test_an_error_of_a_function(engine, opened):
    def fails(row):
        return {"x": 1 / (row["id"] - 5)}

    with serve() as page:
        tab = opened(page)
        with pytest.raises(ZeroDivisionError):
            sd.range(10).map(fails).take_all()
        expect(tab.locator("#state")).to_have_text("Failed")
        expect(tab.locator("#errors")).to_contain_text("ZeroDivisionError")
        expect(tab.locator("#errors")).to_contain_text("skate replay")
        expect(tab.locator("#errors")).to_contain_text("Map(fails)")
        expect(tab.locator('[data-op="0"] td').nth(9)).to_have_text("1")
