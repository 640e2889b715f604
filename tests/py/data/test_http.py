"""Files at URLs: the error contains what the server or the network said about a file that cannot be
read."""

import http.server
import threading
import urllib.error
import urllib.request

import fsspec
import pytest
import skate
import skate.data


class Handler(http.server.BaseHTTPRequestHandler):
    """/STATUS/... answers with that status; /get/STATUS/... answers HEAD, and GET with that
    status."""

    def do_GET(self):
        parts = self.path.split("/")
        code = (
            int(parts[1]) if parts[1] != "get" else 200 if self.command == "HEAD" else int(parts[2])
        )
        body = b"a,b\n1,2\n"
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class PlainHTTP(fsspec.AbstractFileSystem):
    """Behaves like fsspec's HTTP file system, which needs aiohttp: every failure for a URL is
    reported as "not there", with the real failure as its cause."""

    protocol = ("http", "https")
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def _asked(self, url, method):
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as r:
            return r.read(), int(r.headers["Content-Length"])

    def info(self, path, **_):
        try:
            return {"name": path, "size": self._asked(path, "HEAD")[1], "type": "file"}
        except Exception as e:
            raise FileNotFoundError(path) from e

    def isfile(self, path):
        try:
            return bool(self._asked(path, "GET"))
        except Exception:
            return False

    def cat_file(self, path, start=None, end=None, **_):
        return self._asked(path, "GET")[0][start:end]

    def _open(self, path, mode="rb", **_):
        import io

        return io.BytesIO(self.cat_file(path))


@pytest.fixture(scope="module")
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["stand-in", "fsspec"])
def how(request):
    if request.param == "fsspec":
        pytest.importorskip("aiohttp", reason="fsspec's own HTTP file system needs aiohttp")
        pytest.importorskip("requests")
        return {}
    return {"filesystem": PlainHTTP()}


def test_a_file_at_a_url(url, how):
    assert skate.data.read_csv(f"{url}/200/a.csv", **how).take_all() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("at", ["", "get/"])
@pytest.mark.parametrize(
    "status, kind, words",
    [
        (404, FileNotFoundError, "HTTP status 404 Not Found"),
        (410, FileNotFoundError, "HTTP status 410 Gone"),
        (403, PermissionError, "HTTP status 403 Forbidden"),
        (401, PermissionError, "HTTP status 401 Unauthorized"),
        (400, OSError, "HTTP status 400 Bad Request"),
    ],
)
def test_a_url_that_cannot_be_had_says_status_reason_and_url(url, how, at, status, kind, words):
    path = f"{url}/{at}{status}/a.csv"
    with pytest.raises(kind) as e:
        skate.data.read_csv(path, **how).take_all()
    assert words in str(e.value) and path in str(e.value) and "no such file" not in str(e.value)


def test_nobody_at_the_address(how):
    with pytest.raises(
        ConnectionError, match="(refused|Connect call failed).*http://127.0.0.1:1/a.csv"
    ):
        skate.data.read_csv("http://127.0.0.1:1/a.csv", **how)


def test_only_what_is_not_there_can_be_left_out(url, how):
    with pytest.raises(PermissionError):
        skate.data.read_csv(
            [f"{url}/200/a.csv", f"{url}/403/a.csv"], ignore_missing_paths=True, **how
        )
    assert (
        skate.data.read_csv(
            [f"{url}/200/a.csv", f"{url}/404/a.csv"], ignore_missing_paths=True, **how
        ).count()
        == 1
    )
