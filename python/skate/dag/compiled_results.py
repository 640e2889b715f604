"""The results of a compiled graph between its channels and the program: they are read in order,
held until the program takes them, and dropped if it will not take them."""

import collections
import threading
import time

from skate import _forked, _skate, exceptions
from skate._deps import futures
from skate.dag.compiled_plain import Plain

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

STEP = 0.25  # the reading thread checks this often (seconds) for requests whose deadline has passed
WHOLE = -1  # stands for all outputs where a function takes the number of an output
IDLE = 0.2  # seconds without a request after which the reading thread ends


class Failed:
    """An exception as the result of an execution."""

    def __init__(self, error):
        self.error = error


class _Asked:
    """A request for an output of an execution. It is answered when the output is ready, or when one
    of the outputs `others` has failed."""

    def __init__(self, index, output, others, timeout):
        self.index, self.output, self.others = index, output, others
        self.until = time.monotonic() + timeout if timeout >= 0 else None
        self.future = futures.Future()


class Results:
    """The part of CompiledDAG that holds the results of executions. One thread at a time reads
    messages: the thread that needs a result, or, if an event loop or several threads wait, a
    reading thread.

    Args:
        place: For each output, the number of its channel.
    """

    _graph: "Any"
    _get_timeout: float
    _max_buffered_results: int

    def __init__(self, place):
        self._place, self._n_channels = place, len(set(place))
        self._max_finished_execution_index = -1
        self._came = 0  # the number of messages of the next execution that were read
        # execution -> {output: value or Failed}: results that were read and not taken yet
        self._result_buffer = collections.defaultdict(dict)
        # execution -> {outputs}; None instead of a set stands for the only output of a graph
        self._got_ref_idxs, self._destructed_ref_idxs = {}, {}
        self._unwanted = set()  # future executions whose results will not be taken
        self._lock = _forked.lock(threading.RLock)
        self._read_lock = _forked.lock()  # held by the thread that reads
        self._asked, self._answering, self._reader, self._wake = [], False, None, threading.Event()

    def _over(self):
        """The exception for a use of a graph that has ended."""
        raise NotImplementedError

    # ---- Taking a result.

    def _settled(self, index, output, others=()):
        """Whether the output is ready, or one of the others has failed."""
        if index <= self._max_finished_execution_index:
            return True
        kept = self._result_buffer.get(index)
        return kept is not None and (
            (output or 0) in kept or any(type(kept.get(o)) is Failed for o in others)
        )

    def _get(self, index, output, timeout=None, others=()):
        """Returns (the value or Failed, True) of an output that was not taken yet. others: outputs
        that are taken together with it: if one of them failed first, returns (its Failed,
        False)."""
        timeout = self._get_timeout if timeout is None else timeout
        if not self._settled(index, output, others):
            if not self._answering and self._read_lock.acquire(blocking=False):
                try:
                    self._read_until(index, output, timeout, others)
                finally:
                    self._read_lock.release()
            else:
                self._wait_for(self._ask(index, output, timeout, others), timeout)
        with self._lock:
            kept = self._result_buffer[index]
            failed = (
                []
                if (output or 0) in kept
                else [kept[o] for o in others if type(kept.get(o)) is Failed]
            )
        return (failed[0], False) if failed else (self._take(index, output), True)

    def _wait_for(self, asked, timeout):
        try:
            asked.result(timeout if timeout >= 0 else None)
        except exceptions.RayChannelTimeoutError:
            raise
        except TimeoutError:
            asked.cancel()
            raise self._late() from None

    def _late(self):
        return exceptions.RayChannelTimeoutError(
            f"no result of execution {self._max_finished_execution_index + 1} in time (RAY_CGRAPH_get_timeout is {self._get_timeout} s): an actor of "
            "the graph is slow, or hangs"
        )

    def _read_next(self, index, timeout):
        """The value or Failed of execution `index`, the next one, in a graph with one output. The
        result need not be stored."""
        if self._answering or not self._read_lock.acquire(blocking=False):
            return self._get(index, None, timeout)[0]
        try:
            # another thread has read the execution in the meantime
            if index <= self._max_finished_execution_index:
                return self._take(index, None)
            _, value, failed = self._read_one(self._get_timeout if timeout is None else timeout)
            self._max_finished_execution_index = index
        finally:
            self._read_lock.release()
        return Failed(value) if failed else value

    def _take(self, index, output):
        with self._lock:
            kept = self._result_buffer[index]
            value = kept.pop(output or 0)
            self._got_ref_idxs.setdefault(index, set()).add(output)
            self._done_with(index)
        return value

    def _delete_execution_results(self, index, output):
        """Drops a result that will not be taken."""
        with self._lock:
            self._destructed_ref_idxs.setdefault(index, set()).add(output)
            if index in self._result_buffer:
                self._result_buffer[index].pop(output or 0, None)
            self._done_with(index)

    def _done_with(self, index):
        got, gone = (
            self._got_ref_idxs.get(index, set()),
            self._destructed_ref_idxs.get(index, set()),
        )
        if None in got or None in gone or len(got | gone) == len(self._place):
            for table in (self._result_buffer, self._got_ref_idxs, self._destructed_ref_idxs):
                table.pop(index, None)
            if index > self._max_finished_execution_index:
                self._unwanted.add(index)
        self._release()

    # ---- Reading messages from the channels.

    def _read_one(self, timeout, output=None):
        graph = self._graph
        if graph is None:
            raise self._over()
        try:
            return graph.read(timeout, self._place[output or 0])
        except exceptions.RayChannelTimeoutError:
            raise self._late() from None
        except exceptions.RayChannelError:
            raise self._over() from None

    def _room(self):
        if not self._came and len(self._result_buffer) >= self._max_buffered_results:
            raise exceptions.RayCgraphCapacityExceeded(
                f"The compiled graph can't have more than {self._max_buffered_results} buffered results, and you currently have "
                f"{len(self._result_buffer)} buffered results. Call `ray.get()` on CompiledDAGRef's (or await on CompiledDAGFuture's) to retrieve "
                "results, or increase `_max_buffered_results` if buffering is desired, note that this will increase driver memory usage."
            )

    def _read_until(self, index, output, timeout, others=()):
        deadline = None
        while not self._settled(index, output, others):
            self._room()
            self._note(*self._read_one(timeout, output))
            # the timeout is for all messages together
            if timeout > 0 and not self._settled(index, output, others):
                now = time.monotonic()
                deadline = now + timeout if deadline is None else deadline
                timeout = max(deadline - now, 0)

    def _try_until(self, index, output):
        """_read_until() without waiting. Returns whether the output is ready."""
        if self._read_lock.acquire(blocking=False):
            try:
                while (
                    not self._settled(index, output)
                    and self._graph is not None
                    and self._graph.ready()
                ):
                    self._room()
                    self._note(*self._read_one(0, output))
            finally:
                self._read_lock.release()
        return self._settled(index, output)

    def _note(self, place, value, failed):
        with self._lock:
            index = self._max_finished_execution_index + 1
            if index not in self._unwanted:
                gone, value = (
                    self._destructed_ref_idxs.get(index, ()),
                    Failed(value) if failed else value,
                )
                self._result_buffer[index].update(
                    {i: value for i, p in enumerate(self._place) if p == place and i not in gone}
                )
            self._came += 1
            if self._came == self._n_channels:
                self._came, self._max_finished_execution_index = 0, index
                self._unwanted.discard(index)
            self._answer()

    def _release(self):
        """Reads and drops executions whose results will not be taken, if they are ready."""
        if not self._unwanted or not self._read_lock.acquire(blocking=False):
            return  # the reading thread will do this
        try:
            while (
                self._graph is not None and self._max_finished_execution_index + 1 in self._unwanted
            ):
                self._note(*self._graph.read(0, 0))
        except exceptions.RayChannelError:
            # The message has not arrived; or the graph has ended, which the next request for a
            # result reports
            pass
        finally:
            self._read_lock.release()

    # ---- Reading for event loops and threads that wait.

    def _ask(self, index, output, timeout, others=()):
        """Requests an output. Returns a concurrent.futures.Future that is done when _get() need not
        wait, or has the exception that _get() would raise."""
        asked = _Asked(index, output, others, timeout)
        with self._lock:
            self._asked.append(asked)
            self._answer()
            if self._asked and not self._answering:
                self._answering = True
                if self._reader is None:
                    self._reader = threading.Thread(
                        target=self._read_for_others, daemon=True, name="skate-graph-results"
                    )
                    self._reader.start()
                else:
                    self._wake.set()
        return asked.future

    def _answer(self, error=None):
        """Answers requests whose output is ready or whose deadline has passed; with an error, all
        requests. The caller holds the lock."""
        now, rest = time.monotonic() if error is not None else 0, []
        for a in self._asked:
            there = self._settled(a.index, a.output, a.others)
            waits = error is None or (
                type(error) is exceptions.RayChannelTimeoutError
                and (a.until is None or a.until > now)
            )
            if not there and waits and not a.future.cancelled():
                rest.append(a)
            elif not a.future.set_running_or_notify_cancel():
                continue
            elif there:
                a.future.set_result(None)
            else:
                a.future.set_exception(error)
        self._asked = rest

    def _promise(self, index, output):
        """Returns an ObjectRef that gets the value of an output when it is ready. The output must
        not have been taken."""
        if isinstance(self._graph, Plain):  # the results of a Plain are objects
            ref = self._graph.under_way(index, self._place[output or 0])
            if ref is not None:
                self._delete_execution_results(index, output)
                return ref
            value = self._get(index, output, -1)[0]
            if type(value) is Failed:
                raise value.error
            return _skate.put(value)
        ref = _skate.promise()
        self._ask(index, output, -1).add_done_callback(
            lambda asked: self._keep(ref, asked, index, output)
        )
        return ref

    def _keep(self, ref, asked, index, output):
        try:
            value = Failed(asked.exception()) if asked.exception() else self._take(index, output)
            if type(value) is not Failed:
                return _skate.keep(ref, value)
            error = value.error
        except Exception as e:  # the store has no room for the value
            error = e
        try:
            _skate.keep(ref, error, "compiled graph")
        except exceptions.RaySystemError:
            pass  # the engine was shut down in the meantime

    def _read_for_others(self):
        while True:
            self._wake.clear()
            self._read_all_asked()
            if not self._wake.wait(IDLE):
                with self._lock:
                    if not self._answering:
                        self._reader = None
                        return

    def _read_all_asked(self):
        while True:
            with self._read_lock:
                with self._lock:
                    self._answer()
                    if not self._asked:
                        self._answering = False
                        return
                    first = min(self._asked, key=lambda a: a.index)
                    times = [a.until for a in self._asked if a.until is not None]
                try:
                    self._room()
                    timeout = max(min([STEP, *(t - time.monotonic() for t in times)]), 0)
                    self._note(*self._read_one(timeout, first.output))
                except Exception as e:
                    with self._lock:
                        self._answer(e)

    def _forget_results(self):
        with self._lock:
            self._result_buffer.clear()
            self._answer(self._over())
