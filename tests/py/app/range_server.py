"""A small S3 server with one bucket, in this process: byte ranges, uploads in parts, checked
signatures, and random faults."""

import http.server
import random
import threading
import time
import urllib.parse

KEY, SECRET, REGION = "AKIDEXAMPLE", "a secret/of+this=test", "us-west-2"


class Store:
    def __init__(self, seed=0, **faults):
        """faults: the probability that an answer is `error` (500), `busy` (503), `cut` (half of the
        body, then the connection is closed), `stall` (at most `stalls` of them) or `late` (the end
        of an upload is an error in a 200)."""
        self.objects, self.uploads, self.counts, self.log = {}, {}, {}, []
        self.faults, self.stalls = faults, 1
        self.chance, self.lock = random.Random(seed), threading.Lock()
        self.closed = threading.Event()

    def fault(self, kinds):
        with self.lock:
            for kind in kinds:
                if self.chance.random() < self.faults.get(kind, 0):
                    if kind == "stall":
                        if self.stalls == 0:
                            continue
                        self.stalls -= 1
                    self.counts[kind] = self.counts.get(kind, 0) + 1
                    return kind
        return None


def signed(method, path, headers):
    """The Authorization header that botocore makes for this request."""
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials

    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    url = f"http://{headers['host']}{path}"
    request = botocore.awsrequest.AWSRequest(method, url, headers={n: headers[n] for n in names})
    auth = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(KEY, SECRET), "s3", REGION)
    request.context["timestamp"] = headers["x-amz-date"]
    signature = auth.signature(
        auth.string_to_sign(request, auth.canonical_request(request)), request
    )
    return f"Signature={signature}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", declared=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        s = self.server.store
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        key = urllib.parse.unquote(url.path).removeprefix("/bucket/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {k.lower(): v for k, v in self.headers.items()}
        with s.lock:
            s.log.append((self.command, key, headers.get("range"), len(body)))
        if signed(self.command, self.path, headers) not in headers["authorization"]:
            return self.answer(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if kind := s.fault(("error", "busy")):
            return self.answer(
                {"error": 500, "busy": 503}[kind], b"<Error><Code>SlowDown</Code></Error>"
            )
        if self.command == "GET" and "uploads" in query:
            of = "".join(
                f"<Upload><Key>{k}</Key><UploadId>{i}</UploadId></Upload>"
                for i, (k, _) in s.uploads.items()
                if k.startswith(query["prefix"])
            )
            return self.answer(200, f"<R>{of}</R>".encode())
        if self.command in ("GET", "HEAD"):
            if key not in s.objects:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            data = s.objects[key]
            if self.command == "HEAD":
                return self.answer(200, b"", len(data), ETag='"x"')
            first, last = map(int, headers["range"].removeprefix("bytes=").split("-"))
            part = data[first : last + 1]
            kind = s.fault(("cut", "stall"))
            if kind == "cut":
                self.close_connection = True
                return self.answer(206, part[: len(part) // 2], len(part))
            if kind == "stall":
                self.answer(206, part[: len(part) // 2], len(part))
                s.closed.wait(30)
                self.close_connection = True
                return None
            return self.answer(206, part)
        if self.command == "PUT" and "uploadId" in query:
            s.uploads[query["uploadId"]][1][int(query["partNumber"])] = body
            return self.answer(200, ETag=f'"{query["partNumber"]}-{len(body)}"')
        if self.command == "PUT":
            s.objects[key] = body
            return self.answer(200, ETag='"x"')
        if self.command == "POST" and "uploads" in query:
            with s.lock:
                upload = f"id/{len(s.log)}+="
                s.uploads[upload] = (key, {})
            return self.answer(200, f"<R><UploadId>{upload}</UploadId></R>".encode())
        if self.command == "POST":
            if s.fault(("late",)):
                return self.answer(200, b"<Error><Code>InternalError</Code></Error>")
            _, parts = s.uploads[query["uploadId"]]
            want = "".join(
                f'<Part><PartNumber>{n}</PartNumber><ETag>"{n}-{len(p)}"</ETag></Part>'
                for n, p in sorted(parts.items())
            )
            if body.decode() != f"<CompleteMultipartUpload>{want}</CompleteMultipartUpload>":
                return self.answer(400, b"<Error><Code>InvalidPart</Code></Error>")
            s.objects[key] = b"".join(p for _, p in sorted(parts.items()))
            del s.uploads[query["uploadId"]]
            return self.answer(200, b"<R/>")
        s.uploads.pop(query["uploadId"], None)  # DELETE
        return self.answer(204)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store):
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def env(self):
        import os

        return {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def handle_error(self, request, client_address):
        pass  # the client was killed

    def close(self):
        self.store.closed.set()
        self.shutdown()
        self.server_close()


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)
