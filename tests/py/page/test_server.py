"""The server of the page: what it answers, and what it refuses. Its clients are sockets and
http.client; the source is made up (fake.py)."""

import errno
import http.client
import json
import os
import socket
import stat
import sys
import threading

import pytest
from patience import eventually
from skate.page import guard
from skate.page.feed import Changes, pause
from skate.page.server import Limits, Page, serve

sys.path.insert(0, os.path.dirname(__file__))
from fake import Fake  # noqa: E402


@pytest.fixture
def source():
    return Fake()


@pytest.fixture
def page(source):
    with serve(source=source) as page:
        yield page


def ask(page, path="", method="GET", **headers):
    """The answer to one request: (status, headers, body). Underscores in names are hyphens."""
    c = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        full = path if path.startswith("/") else f"/{page.token}/{path}"
        c.request(method, full, headers=given)
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def raw(page, data):
    """What the server answers to bytes; b"" if it hangs up."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=30) as s:
        try:
            s.sendall(data)
            return b"".join(iter(lambda: s.recv(1 << 16), b""))
        except ConnectionError:
            return b""


class Stream:
    """A browser's stream of events."""

    def __init__(self, page):
        self.c = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
        self.c.request("GET", f"/{page.token}/events")
        self.r = self.c.getresponse()

    def next(self):
        """(event, its data)."""
        event = "message"
        while line := self.r.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                data = json.loads(value)
        return event, data

    def close(self):
        self.r.close()
        self.c.close()


# ---- what is answered


def test_the_parts_of_the_page(page, source):
    status, headers, body = ask(page)
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert body.startswith(b"<!doctype html>")
    assert json.loads(ask(page, "snapshot.json")[2]) == source.snapshot()
    assert b"train.py" in ask(page, "stack/4300")[2]
    status, headers, body = ask(page, "trace.json")
    assert json.loads(body) == {"traceEvents": []}
    assert headers["Content-Disposition"] == 'attachment; filename="skate-4242.json"'
    status, headers, body = ask(page, "metrics")
    assert (status, body) == (200, b"skate_tasks_done_total 0\n")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    status, headers, _ = ask(page, f"/{page.token}")
    assert (status, headers["Location"]) == (308, f"/{page.token}/")


def test_one_stack_or_trace_at_a_time(source):
    begun, go_on = threading.Event(), threading.Event()

    def slow(pid):
        begun.set()
        assert go_on.wait(30)
        return "at last"

    source.stack = slow
    with Page(source, 0, limits=Limits(turn_s=0.1)) as page:
        got = []
        first = threading.Thread(target=lambda: got.append(ask(page, "stack/4300")))
        first.start()
        assert begun.wait(30)
        for path in ("stack/4300", "trace.json"):
            status, _, body = ask(page, path)
            assert status == 503 and b"Ask again later" in body
        assert ask(page, "snapshot.json")[0] == 200
        go_on.set()
        first.join(30)
        assert got[0][0] == 200 and got[0][2] == b"at last"
        assert ask(page, "trace.json")[0] == 200


def test_head_has_no_body(page):
    for path in ("", "snapshot.json", "events", "metrics"):
        status, _, body = ask(page, path, "HEAD")
        assert (status, body) == (200, b"")


def test_every_answer_has_the_headers_that_protect_it(page):
    for path in ("", "snapshot.json", "metrics", "nothing", "/wrong/"):
        _, headers, _ = ask(page, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy and policy.count("sha256-") == 2
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not [name for name in headers if name.startswith("Access-Control")]
        assert "Server" not in headers and "Set-Cookie" not in headers


def test_the_page_loads_nothing_from_elsewhere(page):
    html = ask(page)[2].decode()
    for word in ("eval(", "Function(", "innerHTML", "document.write", "@import", "url(", " src="):
        assert word not in html
    assert html.count("http://www.w3.org/2000/svg") == html.count("http")  # names of a language


def test_it_is_at_the_loopback_only(page):
    assert page._server.socket.getsockname() == ("127.0.0.1", page.port)
    assert page.url == f"http://127.0.0.1:{page.port}/{page.token}/" and len(page.token) == 32


# ---- what is refused


def test_the_way_in_is_good_once(page):
    way = page.way_in().removeprefix(f"http://127.0.0.1:{page.port}")
    from_a_file = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(page, way + "x", **from_a_file)[0] == 403
    assert ask(page, way, Host="evil.example", **from_a_file)[0] == 403
    status, headers, body = ask(page, way, **from_a_file)
    assert (status, headers["Referrer-Policy"]) == (200, "no-referrer")
    assert f"url=/{page.token}/".encode() in body
    assert ask(page, way, **from_a_file)[0] == 403 and ask(page, way)[0] == 403
    assert ask(page, **from_a_file)[0] == 403  # the page itself is not reached this way


def test_a_wrong_token(page):
    t = page.token
    for path in ("/", "//", "/x/", f"/{t[:-1]}/", f"/{t}x/", f"/{t.swapcase()}/", f"/x/{t}/"):
        status, _, body = ask(page, path)
        assert status == 403 and t.encode() not in body, path
    assert ask(page, f"/?token={t}")[0] == 403
    assert ask(page, "/favicon.ico")[0] == 403
    assert ask(page, "/", Cookie=f"token={t}", Authorization=f"Bearer {t}")[0] == 403
    host = f"Host: 127.0.0.1:{page.port}\r\n\r\n".encode()
    for path in (b"/\xc3\xa9/", b"/\xff/", t.encode(), b"*", b"http://127.0.0.1/" + t.encode()):
        assert b" 403 " in raw(page, b"GET " + path + b" HTTP/1.1\r\n" + host)


def test_a_host_that_is_not_this_machine(page):
    p = page.port
    for host in (
        "evil.example",
        f"evil.example:{p}",
        "127.0.0.1",
        f"127.0.0.1:{p + 1}",
        f"localhost.evil.example:{p}",
        f"127.0.0.1.nip.io:{p}",
        f"127.0.0.1:{p}.evil.example",
        f"0.0.0.0:{p}",
        f"2130706433:{p}",
        f"user@127.0.0.1:{p}",
        f"127.0.0.1:{p}, evil.example",
        "",
    ):
        status, _, body = ask(page, "snapshot.json", Host=host)
        assert (status, b"train.py" in body) == (403, False), host
    for host in (f"127.0.0.1:{p}", f"localhost:{p}", f"[::1]:{p}", f"LocalHost:{p}"):
        assert ask(page, "snapshot.json", Host=host)[0] == 200, host
    path = f"/{page.token}/snapshot.json".encode()
    assert b" 403 " in raw(page, b"GET " + path + b" HTTP/1.0\r\n\r\n")
    two = f"Host: 127.0.0.1:{p}\r\nHost: evil.example\r\n\r\n".encode()
    assert b" 400 " in raw(page, b"GET " + path + b" HTTP/1.1\r\n" + two)


def test_methods_that_do_more_than_read(page):
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X"):
        status, headers, _ = ask(page, "snapshot.json", method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD"), method
    preflight = {"Origin": "http://evil.example", "Access_Control_Request_Method": "GET"}
    status, headers, _ = ask(page, "snapshot.json", "OPTIONS", **preflight)
    assert status == 405 and not [n for n in headers if n.startswith("Access-Control")]


def test_requests_of_other_sites(page):
    own = f"http://127.0.0.1:{page.port}"
    for site in ("cross-site", "same-site", "Cross-Site", "other"):
        assert ask(page, "snapshot.json", Sec_Fetch_Site=site)[0] == 403
    for site in ("same-origin", "none"):
        assert ask(page, "snapshot.json", Sec_Fetch_Site=site)[0] == 200
    for origin in ("null", "http://evil.example", own.replace("http", "https"), own + "0", ""):
        assert ask(page, "snapshot.json", Origin=origin)[0] == 403
    assert ask(page, "snapshot.json", Origin=own)[0] == 200


def test_paths_that_lead_elsewhere(page):
    for path in (
        "../../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "page.html",
        "server.py",
        "stack/../snapshot.json",
        "stack/",
        "stack",
        "stack/1",
        "stack/-1",
        "stack/4300/x",
        "stack/%34300",
        "stack/" + "9" * 400,
        "snapshot.json/",
        "snapshot.json%00",
        "events/x",
    ):
        status, _, body = ask(page, path)
        assert status in (403, 404) and b"root:" not in body and b"import" not in body, path


def test_bodies(page):
    assert ask(page, "snapshot.json", Content_Length="5")[0] == 413
    assert ask(page, "snapshot.json", Transfer_Encoding="chunked")[0] == 413
    assert ask(page, "snapshot.json", Expect="100-continue")[0] == 417


def test_requests_that_are_too_long(page):
    start = f"GET /{page.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n".encode()
    big = b"X: " + b"x" * guard.HEAD_BYTES + b"\r\n\r\n"
    for flood in (
        start + big,
        b"GET /" + b"a" * (64 << 10) + b" HTTP/1.1\r\n\r\n",
        start + b"a: b\r\n" * 200 + b"\r\n",
        start + b"a: b\r\n" * 100_000,
        b"A" * (1 << 20),
    ):
        got = raw(page, flood)
        assert not got or b" 431 " in got.partition(b"\r\n")[0], got[:60]
    assert ask(page)[0] == 200


def test_requests_that_are_none(page):
    for data in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1 more\r\n\r\n",
        b"\0\xff\xfe\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # of TLS
        b"GET / HTTP/1.1\r\n:\r\n no name\r\n\r\n",
        b"GET /\n\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        got = raw(page, data)
        assert b" 200 " not in got.partition(b"\r\n")[0], data
    assert ask(page)[0] == 200


def test_requests_that_never_end(source):
    with Page(source, 0, limits=Limits(head_s=0.2)) as page:
        with socket.create_connection(("127.0.0.1", page.port), timeout=30) as s:
            got = []

            def answered():  # a byte whenever the server has not answered yet: each is in time
                try:
                    s.sendall(b"G")
                    s.settimeout(0.02)
                    got.append(s.recv(1 << 16))
                except TimeoutError:
                    return False
                except ConnectionError:
                    got.append(b"")
                return True

            eventually(answered)
            assert not got[0] or b" 408 " in got[0]
        assert ask(page)[0] == 200


def test_the_number_of_connections_is_limited(source):
    with Page(source, 0, limits=Limits(connections=4)) as page:
        at = ("127.0.0.1", page.port)
        idle = [socket.create_connection(at, timeout=30) for _ in range(4)]
        assert b" 503 " in raw(page, b"") or not raw(page, b"")
        assert threading.active_count() < 20
        for s in idle:
            s.close()

        def free():  # when the server has seen that they are closed
            try:
                status = ask(page)[0]
            except (ConnectionError, http.client.BadStatusLine):
                return False
            assert status in (200, 503)
            return status == 200

        eventually(free)


def test_the_number_of_streams_is_limited(source):
    with Page(source, 0, limits=Limits(streams=2)) as page:
        two = [Stream(page), Stream(page)]
        assert ask(page, "events")[0] == 503
        assert ask(page, "snapshot.json")[0] == 200
        for s in two:
            s.close()


def test_a_browser_that_does_not_read_is_cut_off(source):
    source.state["program"] = "x" * (16 << 20)  # more than the kernel holds for a connection
    with Page(source, 0, limits=Limits(send_s=0.2)) as page:
        with socket.create_connection(("127.0.0.1", page.port), timeout=30) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"GET /{page.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n"
            s.sendall(head.encode())
            s.recv(16)  # it has begun
            page._server.await_streams(30)
            assert page._server.streams == 0


# ---- where it is


def test_a_port_in_use(source, page):
    with pytest.raises(OSError, match=f"port {page.port} .*in use.*choose another one, or 0") as e:
        serve(port=page.port, source=source)
    assert e.value.errno == errno.EADDRINUSE
    for port in (-1, 65536, True):
        with pytest.raises(ValueError, match="from 0 to 65535"):
            serve(port=port, source=source)


def test_a_unix_socket(source, tmp_path):
    path = str(tmp_path / "page")
    with serve(source=source, socket_path=path) as page:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and page.port is None
        for host, status in (("localhost:8000", b" 200 "), ("x:1", b" 403 "), ("[::1]", b" 200 ")):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(30)
                s.connect(path)
                s.sendall(f"GET /{page.token}/metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert status in s.recv(1 << 16).partition(b"\r\n")[0]
        with pytest.raises(OSError, match="the file exists"):
            serve(source=source, socket_path=path)
    assert not os.path.exists(path)
    with pytest.raises(OSError, match="cannot be at"):
        serve(source=source, socket_path=str(tmp_path / "no" / "page"))


def test_the_child_of_a_fork_has_nothing_of_it(source, page):
    fd = page._server.socket.fileno()
    pid = os.fork()
    if not pid:
        try:
            os.fstat(fd)
            os._exit(1)
        except OSError:
            page.close()  # what an exit handler would call
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ask(page)[0] == 200


def test_a_closed_page(source):
    page = serve(source=source)
    page.close()
    page.close()
    with pytest.raises(ConnectionError):
        ask(page)
    with serve(port=page.port, source=source) as again:
        assert again.token != page.token and ask(again)[0] == 200


# ---- events


def test_a_stream_has_all_and_then_what_is_new(page, source):
    source.step(0.1)
    s = Stream(page)
    event, first = s.next()
    assert event == "message" and first["runs"][0]["samples"]["first"] == 0
    assert first["ids"] == [1] and first["runs"][0]["samples"]["t"] == [12.0]
    source.step(0.2)
    _, then = s.next()
    while not then["runs"][0]["samples"]["t"]:
        _, then = s.next()
    assert then["runs"][0]["samples"]["first"] == 1
    assert then["runs"][0]["samples"]["t"] == [24.0]
    assert [len(q) for q in then["runs"][0]["samples"]["queued"]] == [1] * 6
    source.finish()
    while then["runs"] and then["runs"][0]["state"] == "running":
        _, then = s.next()
    assert then["runs"][0]["state"] == "done"
    _, then = s.next()
    assert then["runs"] == [] and then["ids"] == [1]  # nothing of it is new
    source.fail()
    page.close()
    while event != "end":
        last = then
        event, then = s.next()
    assert len(last["errors"]) == 1  # the last state comes before the end
    s.close()


def test_an_engine_that_ends(page, source):
    source.step(0.5)
    s = Stream(page)
    assert s.next()[1]["live"]
    source.gone = True
    event, then = s.next()
    while then["live"]:
        event, then = s.next()
    assert then["ended"] == "closed" and s.next()[0] == "end"
    s.close()
    assert json.loads(ask(page, "snapshot.json")[2])["live"] is False  # the last state stays
    assert ask(page)[0] == 200


def test_no_engine_at_all(source):
    source.gone = True
    with serve(source=source) as page:
        assert ask(page, "events")[:1] == (404,)
        assert ask(page, "snapshot.json")[2] == b"the engine has ended"


def test_what_changes():
    source, changes = Fake(), Changes()
    for i in range(8):
        source.step(i / 100)
    assert changes.since(source.snapshot())["runs"][0]["samples"]["first"] == 0
    source.thin()  # the samples are not those of before: all of them are sent
    news = changes.since(source.snapshot())["runs"][0]["samples"]
    assert news["first"] == 0 and len(news["t"]) == len(news["queued"][5]) == 4
    source.finish()
    source.begin()
    news = changes.since(source.snapshot())
    assert [r["id"] for r in news["runs"]] == news["ids"] == [1, 2]
    news = changes.since(source.snapshot())
    assert [r["id"] for r in news["runs"]] == [2] and news["ids"] == [1, 2]
    del source.state["runs"][0]
    assert changes.since(source.snapshot())["ids"] == [2]


def test_the_share_of_a_cpu():
    for cost in (0.0001, 0.001, 0.01, 0.04):
        for streams in (1, 3, 8):
            if cost * streams <= 0.05:
                assert cost * streams <= pause(cost, streams) * 0.005 + 1e-12
    assert pause(0, 1) == 0.5 and pause(100, 8) == 10
