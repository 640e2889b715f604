"""The smallest engine: skate over a concurrent.futures.ProcessPoolExecutor.
skate.init(_engine="pool_engine:Pool"), with this folder in sys.path.

It has tasks and streams (which come as a whole when their task ends), values in this process's
memory, and retries after the death of a worker. It has no actors. What an engine has to do is said
in skate/engine/__init__.py.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections import deque
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from skate.engine import worker


class Pool:
    def __init__(self, conf: dict[str, Any]):
        self._conf = conf
        self._definitions: dict[int, bytes] = {}
        self._running: dict[int, Future[Any]] = {}
        # filled by the executor's threads
        self._over: deque[tuple[dict[str, Any], int, Future[Any]]] = deque()
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            max(1, int(self._conf["num_cpus"])), multiprocessing.get_context("spawn")
        )

    def begin(self, wake: Any) -> None:
        self._wake = wake

    def nodes(self) -> list[dict[str, Any]]:
        of = {k: self._conf[k] for k in ("num_cpus", "num_gpus", "memory", "object_store_memory")}
        return [{"number": 1, "name": "the pool", **of}]

    def define(self, fn: int, name: str, definition: bytes) -> None:
        self._definitions[fn] = definition

    # ---- values: a handle is the value itself

    def put(self, kind: int, data: bytes) -> Any:
        return kind, data

    def get(self, handle: Any, timeout: float | None) -> tuple[int, Any]:
        return handle

    # ---- tasks

    def submit(self, task: dict[str, Any]) -> None:
        if task["actor"]:
            raise NotImplementedError(
                "this engine has no actors; use a function instead of a class"
            )
        if task["max_calls"]:
            raise NotImplementedError("this engine has no max_calls: its processes stay")
        args = [
            (kind, data) if handle is None else handle for handle, kind, data in task.pop("args")
        ]
        self._run(task | {"values": args}, 0)

    def _run(self, task: dict[str, Any], attempt: int) -> None:
        what = {k: v for k, v in task.items() if k != "values"}
        try:
            future = self._pool.submit(
                worker.call,
                self._conf["job"],
                what,
                self._definitions[task["fn"]],
                task["values"],
                attempt,
            )
        # a worker has died since the last task: its own tasks hear of it by their futures
        except BrokenProcessPool:
            self._pool = self._start()
            self._run(task, attempt)
            return
        self._running[task["task"]] = future
        future.add_done_callback(functools.partial(self._ended, task, attempt))

    # on a thread of the executor
    def _ended(self, task: dict[str, Any], attempt: int, future: Future[Any]) -> None:
        self._over.append((task, attempt, future))
        self._wake()

    def cancel(self, task: int, force: bool) -> None:
        if task in self._running:
            self._running[task].cancel()  # one that runs goes on, and nobody takes what it makes

    def actor_end(self, actor: int, restart: bool) -> None:
        pass

    def poll(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        while self._over:
            task, attempt, future = self._over.popleft()
            self._running.pop(task["task"], None)
            events += self._events(task, attempt, future)
        return events

    def _events(
        self, task: dict[str, Any], attempt: int, future: Future[Any]
    ) -> list[dict[str, Any]]:
        said = {"task": task["task"], "attempt": attempt, "node": 1}
        try:
            values, failed, seconds = future.result()
        except CancelledError:
            return [
                {
                    **said,
                    "kind": "failed",
                    "code": "SK_ECANCEL",
                    "text": f"{task['name']} was cancelled before it began",
                }
            ]
        except BrokenProcessPool as e:
            if task["max_retries"] < 0 or attempt < task["max_retries"]:
                # with all others that the pool had: nobody knows whose worker it was
                self._run(task, attempt + 1)
                return []
            return [
                {
                    **said,
                    "kind": "failed",
                    "code": "SK_EDEAD",
                    "text": f"{task['name']}: {e} (attempt {attempt + 1})",
                }
            ]
        except Exception as e:  # its values could not be sent
            return [
                {
                    **said,
                    "kind": "failed",
                    "code": "SK_EIO",
                    "text": f"{task['name']}: {type(e).__name__}: {e}",
                }
            ]
        said["run_s"] = seconds
        if failed:
            return [{**said, "kind": "failed", "values": [(None, *failed)]}]
        out = [
            (None, kind, data) if kind == worker.NOTE else ((kind, data), 0, len(data))
            for kind, data in values
        ]
        if task["n_returns"] is not None:
            return [{**said, "kind": "done", "values": out}]
        return [{**said, "kind": "yielded", "values": out}, {**said, "kind": "done"}]

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
