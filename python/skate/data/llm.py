"""Batch inference with language models: a processor is made once, and maps Datasets. The model is any
Python class or function, a server with OpenAI's interface, or vLLM in this process.

The names are those of ray.data.llm. Prompts and answers stay Python objects inside one actor, so rows
may have messages of any form; what postprocess returns becomes the row.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate._deps import futures, pa
from skate.data.checks import library
from skate.data.dataset import ActorPoolStrategy
from skate.data.values import row_dicts

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

__all__ = [
    "CallableProcessorConfig",
    "HttpRequestProcessorConfig",
    "Processor",
    "ProcessorConfig",
    "build_llm_processor",
    "build_processor",
    "vLLMEngineProcessorConfig",
]

Row = dict[str, Any]
LONGEST_WAIT_S = 120.0  # that a server may ask for with Retry-After
ERROR = "__inference_error__"  # the column of Ray's processors


@dataclasses.dataclass(kw_only=True)
class ProcessorConfig:
    """What all processors have.

    Args:
        batch_size: Rows that an actor gets at a time.
        concurrency: Number of actors, each with its own model or connections.
        should_continue_on_error: True: a row whose inference fails becomes a row with the error's
            text in the column "__inference_error__" (None in the others) and without
            postprocessing. False: the error ends the run.
        prices: Cost of a million tokens of (input, output); the rows get the column "cost".
        ray_remote_args: Other options of the actors, as in skate.remote: num_cpus, num_gpus, ...
    """

    batch_size: int = 32
    concurrency: int = 1
    should_continue_on_error: bool = False
    prices: tuple[float, float] | None = None
    ray_remote_args: dict[str, Any] = dataclasses.field(default_factory=dict)

    def engine(self) -> Callable[[list[Row]], Iterator[Row | Exception]]:
        """Makes the engine, in an actor: a function from rows to the fields that inference adds to
        each, or the error of the row, in order."""
        raise NotImplementedError


@dataclasses.dataclass(kw_only=True)
class CallableProcessorConfig(ProcessorConfig):
    """Inference by Python code.

    Args:
        model: A function from a list of rows to a list of dicts of the same length, or a class of
            such objects, of which each actor makes one.
        model_kwargs: Arguments of the class.
    """

    model: Callable[..., Any]
    model_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def engine(self) -> Callable[[list[Row]], Iterator[Row | Exception]]:
        made = self.model(**self.model_kwargs) if isinstance(self.model, type) else self.model

        def infer(rows: list[Row]) -> Iterator[Row | Exception]:
            try:
                out = list(made(rows))
            except Exception as e:
                if len(rows) == 1 or not self.should_continue_on_error:
                    yield from [e] * len(rows)
                    return
                for row in rows:  # one of them is bad
                    yield from infer([row])
                return
            if len(out) != len(rows):
                raise ValueError(
                    f"llm: the model returned {len(out)} results for {len(rows)} rows; return one dict per row"
                )
            yield from out

        return infer


@dataclasses.dataclass(kw_only=True)
class HttpRequestProcessorConfig(ProcessorConfig):
    """Inference by a server that takes JSON, such as vLLM's or OpenAI's: each row needs "payload", the
    body of its request, and gets "http_response", the answer.

    Args:
        url: Where requests go, such as "http://localhost:8000/v1/chat/completions".
        headers: Headers of the requests, such as {"Authorization": "Bearer ..."}.
        qps: Requests per second of all actors together, at most; None: no limit.
        max_retries: Further tries of a request after an answer 408, 429 or 5xx, and after a failed
            connection.
        base_retry_wait_time_in_s: Most seconds before the first further try; each next one waits up to
            twice as long, and at least half of that. A Retry-After of the server counts if it is
            longer, up to two minutes.
        requests_at_once: Requests that an actor has under way.
        timeout_s: Seconds until a request counts as failed.
    """

    url: str
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    qps: float | None = None
    max_retries: int = 3
    base_retry_wait_time_in_s: float = 1.0
    requests_at_once: int = 16
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"llm: url is an http:// or https:// address, not {self.url!r}")
        if self.qps is not None and self.qps <= 0:
            raise ValueError(f"llm: qps is a number above 0 or None, not {self.qps!r}")

    def engine(self) -> Callable[[list[Row]], Iterator[Row | Exception]]:
        gate = _Gate(0.0 if self.qps is None else self.concurrency / self.qps)
        pool = futures.ThreadPoolExecutor(self.requests_at_once)

        def one(row: Row) -> Row | Exception:
            try:
                if "payload" not in row:
                    raise KeyError("llm: preprocess has to return 'payload', the body of a request")
                return self._asked(json.dumps(row["payload"]).encode(), gate)
            except Exception as e:
                return e

        return lambda rows: iter(list(pool.map(one, rows)))

    def _asked(self, body: bytes, gate: _Gate) -> Row:
        tries = 0
        while True:
            tries += 1
            gate.pass_one()
            begun = time.perf_counter()
            request = urllib.request.Request(
                self.url, body, {"Content-Type": "application/json", **self.headers}
            )
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                    said = json.loads(answer.read())
                break
            except (OSError, http.client.HTTPException) as e:
                again, after = _again(e)
                if not again or tries > self.max_retries:
                    raise _told(e, self.url, tries) from None
            most = self.base_retry_wait_time_in_s * 2 ** (tries - 1)
            time.sleep(max(min(after, LONGEST_WAIT_S), random.uniform(most / 2, most)))
        usage = (said.get("usage") if isinstance(said, dict) else None) or {}
        return {
            "http_response": said,
            "num_input_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
            "num_generated_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
            "request_seconds": time.perf_counter() - begun,
            "tries": tries,
        }


@dataclasses.dataclass(kw_only=True)
class vLLMEngineProcessorConfig(ProcessorConfig):  # noqa: N801  Ray's name
    """Inference by vLLM in the actors: each row needs "messages" or "prompt", may have
    "sampling_params" (a dict), and gets "generated_text". Needs the package vllm and a GPU.

    Args:
        model_source: The model: a name of the Hugging Face hub, or a folder.
        engine_kwargs: Arguments of vllm.LLM.
    """

    model_source: str
    engine_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def engine(self) -> Callable[[list[Row]], Iterator[Row | Exception]]:
        vllm = library("vllm", "vLLMEngineProcessorConfig")
        model = vllm.LLM(self.model_source, **self.engine_kwargs)

        def infer(rows: list[Row]) -> Iterator[Row | Exception]:
            params = [vllm.SamplingParams(**(row.get("sampling_params") or {})) for row in rows]
            if "messages" in rows[0]:
                out = model.chat([row["messages"] for row in rows], params, use_tqdm=False)
            else:
                out = model.generate([row["prompt"] for row in rows], params, use_tqdm=False)
            for o in out:
                yield {
                    "generated_text": o.outputs[0].text,
                    "num_input_tokens": len(o.prompt_token_ids),
                    "num_generated_tokens": len(o.outputs[0].token_ids),
                }

        return infer


class Processor:
    """Maps a Dataset to the Dataset of the answers: processor(ds). build_processor() makes it.

    Args:
        config: What infers.
        preprocess, postprocess: See build_processor().
    """

    def __init__(
        self,
        config: ProcessorConfig,
        preprocess: Callable[[Row], Row] | None,
        postprocess: Callable[[Row], Row] | None,
    ):
        self.config, self.preprocess, self.postprocess = config, preprocess, postprocess

    def __call__(self, dataset: Dataset) -> Dataset:
        return dataset.map_batches(
            _Actor,
            fn_constructor_args=(self.config, self.preprocess, self.postprocess),
            batch_size=self.config.batch_size,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=self.config.concurrency),
            **self.config.ray_remote_args,
        )


def build_processor(
    config: ProcessorConfig,
    preprocess: Callable[[Row], Row] | None = None,
    postprocess: Callable[[Row], Row] | None = None,
) -> Processor:
    """Makes a processor.

    Args:
        config: What infers: CallableProcessorConfig, HttpRequestProcessorConfig or
            vLLMEngineProcessorConfig.
        preprocess: A function from a row to the fields that the engine needs, such as "payload" or
            "messages"; None: the row has them.
        postprocess: A function from a row (its own fields, those of preprocess and those of the
            engine) to the row of the result; None: all these fields.

    Example:
        >>> import skate
        >>> from skate.data.llm import CallableProcessorConfig, build_processor
        >>> def model(rows):
        ...     return [{"answer": row["question"].upper()} for row in rows]
        >>> shout = build_processor(CallableProcessorConfig(model=model))
        >>> shout(skate.data.from_items([{"question": "why"}])).take_all()
        [{'question': 'why', 'answer': 'WHY'}]
    """
    if not isinstance(config, ProcessorConfig):
        raise TypeError(
            f"build_processor: config is a ProcessorConfig, not {type(config).__name__}"
        )
    return Processor(config, preprocess, postprocess)


build_llm_processor = build_processor  # Ray's older name


class _Actor:
    def __init__(self, config: ProcessorConfig, preprocess: Any, postprocess: Any):
        self.config, self.engine = config, config.engine()
        self.preprocess, self.postprocess = preprocess, postprocess

    def __call__(self, table: pa.Table) -> pa.Table:
        rows = [row for rb in table.to_batches() for row in row_dicts.to_rows(rb)]
        if self.preprocess is not None:
            rows = [{**row, **self.preprocess(row)} for row in rows]
        out: list[Mapping[str, Any]] = [
            self._finished(row, got) for row, got in zip(rows, self.engine(rows), strict=True)
        ]
        made = row_dicts.from_rows(out, "llm")
        assert made is not None  # there is a row for each row
        return pa.Table.from_batches([made])

    def _finished(self, row: Row, got: Row | Exception) -> Row:
        goes_on = self.config.should_continue_on_error
        if isinstance(got, Exception):
            if not goes_on:
                raise got
            # what a request was made of may have any form, and is left out
            kept = {k: v for k, v in row.items() if k not in ("payload", "messages")}
            return {**kept, ERROR: f"{type(got).__name__}: {got}"}
        row = {**row, **got}
        if self.config.prices is not None:
            of_input, of_output = self.config.prices
            row["cost"] = (
                (row.get("num_input_tokens") or 0) * of_input
                + (row.get("num_generated_tokens") or 0) * of_output
            ) / 1e6
        if self.postprocess is not None:
            row = self.postprocess(row)
        return {**row, ERROR: None} if goes_on else row


class _Gate:
    """Lets one through every so many seconds."""

    def __init__(self, seconds: float):
        self.seconds, self.lock, self.next = seconds, threading.Lock(), 0.0

    def pass_one(self) -> None:
        if not self.seconds:
            return
        with self.lock:
            now = time.monotonic()
            self.next = max(self.next, now) + self.seconds
            wait = self.next - self.seconds - now
        if wait > 0:
            time.sleep(wait)


def _again(e: Exception) -> tuple[bool, float]:
    """Whether a request that failed is worth another try, and the seconds that the server asks to
    wait."""
    if not isinstance(e, urllib.error.HTTPError):
        return True, 0.0
    after = e.headers.get("Retry-After") or ""
    return e.code in (408, 429) or e.code >= 500, float(after) if after.isdigit() else 0.0


def _told(e: Exception, url: str, tries: int) -> Exception:
    if isinstance(e, urllib.error.HTTPError):
        said = e.read(300).decode(errors="replace")
        return ConnectionError(f"llm: {url} answered {e.code} at try {tries}: {said}")
    return ConnectionError(f"llm: {url} gave no answer at try {tries}: {e}")
