"""Tasks that find more tasks: a crawler of a web site, which it serves itself on loopback.
Run: python examples/crawler.py [--plot crawl.svg]

Nobody knows the number of pages beforehand: each task fetches a page and returns its links, and the
driver starts a task for each link that it has not seen. An actor keeps the index of words, so
results go from task to actor without the driver. Pages that fail are tried again by the engine.
"""

import argparse
import random
import re
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import skate

WORDS = "ring store task actor block batch shuffle merge spill page lease token".split()


class Site(BaseHTTPRequestHandler):
    """A site of PAGES pages: page n links to some pages with larger numbers. One request in ten
    fails for the first time."""

    pages, failed = 0, set[int]()

    def do_GET(self) -> None:
        n = int(self.path.strip("/") or 0)
        rng = random.Random(n)
        links = {2 * n + 1, 2 * n + 2, rng.randrange(n, self.pages)}
        if rng.random() < 0.1 and n not in self.failed:
            self.failed.add(n)
            self.send_error(503)
            return
        text = " ".join(rng.choices(WORDS, k=30))
        body = text + "".join(f'<a href="/{k}">' for k in sorted(links) if k < self.pages)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@skate.remote(max_retries=3, retry_exceptions=True, num_returns=2)
def fetch(site: str, path: str) -> tuple[list[str], Counter[str]]:
    """Returns (the links of a page, how often each word is on it)."""
    with urllib.request.urlopen(site + path, timeout=10) as answer:
        page = answer.read().decode()
    return re.findall(r'href="([^"]+)"', page), Counter(re.findall(r"\w+", page.split("<")[0]))


@skate.remote
class Index:
    """Counts words over all pages."""

    def __init__(self) -> None:
        self.words, self.pages = Counter[str](), 0

    def add(self, words: Counter[str]) -> None:
        self.words += words
        self.pages += 1

    def result(self) -> tuple[int, list[tuple[str, int]]]:
        return self.pages, self.words.most_common(3)


def crawl(site: str) -> tuple[int, list[tuple[str, int]], list[tuple[float, int, int]]]:
    """Returns (number of pages, the commonest words, the progress over time)."""
    index, start, seen = Index.remote(), time.monotonic(), {"/0"}
    trace, open_tasks = list[tuple[float, int, int]](), set[skate.ObjectRef[list[str]]]()

    def visit(path: str) -> None:
        links, words = fetch.remote(site, path)
        index.add.remote(words)  # runs when the page is there
        open_tasks.add(links)

    visit("/0")
    while open_tasks:
        ready, _ = skate.wait(list(open_tasks), num_returns=1)
        for ref in ready:
            open_tasks.remove(ref)
            for path in skate.get(ref):
                if path not in seen:
                    seen.add(path)
                    visit(path)
        trace.append((time.monotonic() - start, len(seen), len(open_tasks)))
    pages, words = skate.get(index.result.remote())
    return pages, words, trace


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--pages", type=int, default=600)
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    Site.pages = args.pages
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages, words, trace = crawl(f"http://127.0.0.1:{server.server_port}")
    print(f"{pages} pages, {len(Site.failed)} of them at the second try; commonest words: {words}")
    server.shutdown()
    if args.plot:
        from matplotlib import pyplot as plt

        at, seen, busy = zip(*trace)
        fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
        ax.plot(at, seen, label="pages found")
        ax.plot(at, busy, label="fetches under way")
        ax.set(xlabel="seconds")
        ax.legend()
        fig.savefig(args.plot)


if __name__ == "__main__":
    main()
