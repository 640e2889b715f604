"""skate.data.llm over Python code and over a server on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import skate.data as sd
from skate.data.llm import (
    CallableProcessorConfig,
    HttpRequestProcessorConfig,
    build_llm_processor,
    build_processor,
)


class Upper:
    def __init__(self, mark):
        self.mark = mark

    def __call__(self, rows):
        if any(row["prompt"] == "bad" for row in rows):
            raise ValueError("not this one")
        return [{"answer": row["prompt"].upper() + self.mark} for row in rows]


def test_a_python_model():
    ds = sd.from_items([{"q": f"text {i}"} for i in range(10)], override_num_blocks=2)
    config = CallableProcessorConfig(model=Upper, model_kwargs={"mark": "!"}, batch_size=4)
    process = build_processor(
        config,
        preprocess=lambda row: {"prompt": row["q"]},
        postprocess=lambda row: {"q": row["q"], "a": row["answer"]},
    )
    assert process(ds).take_all() == [{"q": f"text {i}", "a": f"TEXT {i}!"} for i in range(10)]
    with pytest.raises(ValueError, match="returned 1 results for 2 rows"):
        few = build_processor(CallableProcessorConfig(model=lambda rows: [{}]))
        few(sd.from_items([{"q": "x"}, {"q": "y"}])).take_all()
    with pytest.raises(TypeError, match="a ProcessorConfig, not str"):
        build_processor("model")  # pyright: ignore[reportArgumentType]


def test_a_row_that_fails_is_told_or_kept():
    ds = sd.from_items([{"prompt": p} for p in ("a", "bad", "c")])
    how = {"model": Upper, "model_kwargs": {"mark": ""}}
    with pytest.raises(ValueError, match="not this one"):
        build_processor(CallableProcessorConfig(**how))(ds).take_all()
    kept = build_processor(CallableProcessorConfig(**how, should_continue_on_error=True))(ds)
    assert [(r["answer"], r["__inference_error__"]) for r in kept.take_all()] == [
        ("A", None),
        (None, "ValueError: not this one"),
        ("C", None),
    ]


class Server(BaseHTTPRequestHandler):
    """Answers as a server of chats; a text says how often it fails before."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][0]["content"]
        with self.server.lock:
            n = self.server.seen[text] = self.server.seen.get(text, 0) + 1
            self.server.keys.add(self.headers["Authorization"])
        if text.startswith("fail ") and n <= int(text.split()[1]):
            return self.say(503, {"error": "busy"})
        if text == "wrong":
            return self.say(400, {"error": "no such model"})
        words = len(text.split())
        self.say(
            200,
            {
                "choices": [{"message": {"content": text[::-1]}}],
                "usage": {"prompt_tokens": words, "completion_tokens": 2},
            },
        )

    def say(self, code, what):
        body = json.dumps(what).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    s = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    s.lock, s.seen, s.keys = threading.Lock(), {}, set()
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.shutdown()
    s.server_close()


def chat(server, **more):
    config = HttpRequestProcessorConfig(
        url=f"http://127.0.0.1:{server.server_port}/v1/chat/completions",
        headers={"Authorization": "Bearer key"},
        base_retry_wait_time_in_s=0.001,
        prices=(1e6, 2e6),
        **more,
    )
    return build_llm_processor(
        config,
        preprocess=lambda row: {
            "payload": {"model": "m", "messages": [{"role": "user", "content": row["q"]}]}
        },
        postprocess=lambda row: {
            "q": row["q"],
            "a": row["http_response"]["choices"][0]["message"]["content"],
            "tries": row["tries"],
            "cost": row["cost"],
            "tokens": row["num_generated_tokens"],
        },
    )


def test_a_server(server):
    texts = ["one two", "fail 2", "x"]
    got = chat(server, qps=1000)(sd.from_items([{"q": t} for t in texts])).take_all()
    assert got == [
        {"q": "one two", "a": "owt eno", "tries": 1, "cost": 2 + 4.0, "tokens": 2},
        {"q": "fail 2", "a": "2 liaf", "tries": 3, "cost": 2 + 4.0, "tokens": 2},
        {"q": "x", "a": "x", "tries": 1, "cost": 1 + 4.0, "tokens": 2},
    ]
    assert server.keys == {"Bearer key"}


def test_a_server_that_says_no(server):
    ds = sd.from_items([{"q": "wrong"}, {"q": "ok"}, {"q": "fail 9"}])
    with pytest.raises(ConnectionError, match="answered 400 at try 1: .*no such model"):
        chat(server)(ds).take_all()
    server.seen.clear()
    kept = chat(server, should_continue_on_error=True, max_retries=2)(ds).take_all()
    assert [r["a"] for r in kept] == [None, "ko", None]
    errors = [r["__inference_error__"] for r in kept]
    assert "answered 400 at try 1" in errors[0] and errors[1] is None
    assert "answered 503 at try 3" in errors[2]
    assert server.seen == {"wrong": 1, "ok": 1, "fail 9": 3}
    server.server_close()
    with pytest.raises(ConnectionError, match="gave no answer at try 1"):
        chat(server, max_retries=0)(ds).take_all()
    with pytest.raises(ValueError, match="an http:// or https:// address"):
        HttpRequestProcessorConfig(url="file:///etc/passwd")
    with pytest.raises(ValueError, match="qps is a number above 0"):
        HttpRequestProcessorConfig(url="http://x", qps=0)
