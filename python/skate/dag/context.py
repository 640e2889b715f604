"""DAGContext: the settings of compiled graphs in this process."""

import os

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import ClassVar


def _given(name, default):
    return type(default)(os.environ.get(f"RAY_CGRAPH_{name}", default))


class DAGContext:
    """Settings of compiled graphs; each may be given by an environment variable RAY_CGRAPH_<name>.

    Args:
        submit_timeout: Seconds that execute() waits for room.
        get_timeout: Seconds that get() waits if it is given no timeout.
        teardown_timeout: Seconds that teardown() waits for methods that run.
        read_iteration_timeout: At most get_timeout; it has no other effect.
        buffer_size_bytes: Has no effect: buffers grow with the messages.
        max_inflight_executions: The most executions in progress.
        max_buffered_results: The most results that wait to be taken.
        overlap_gpu_communication: Whether an actor receives values from other actors before it
            needs them.
    """

    _current: "ClassVar[DAGContext | None]" = None

    def __init__(
        self,
        submit_timeout=None,
        get_timeout=None,
        teardown_timeout=None,
        read_iteration_timeout=None,
        buffer_size_bytes=None,
        max_inflight_executions=None,
        max_buffered_results=None,
        overlap_gpu_communication=None,
    ):
        def pick(value, name, default):
            return _given(name, default) if value is None else value

        self.submit_timeout = pick(submit_timeout, "submit_timeout", 10.0)
        self.get_timeout = pick(get_timeout, "get_timeout", 10.0)
        self.teardown_timeout = pick(teardown_timeout, "teardown_timeout", 30.0)
        self.read_iteration_timeout = pick(read_iteration_timeout, "read_iteration_timeout_s", 0.1)
        self.buffer_size_bytes = pick(buffer_size_bytes, "buffer_size_bytes", 1000000)
        self.max_inflight_executions = pick(max_inflight_executions, "max_inflight_executions", 10)
        self.max_buffered_results = pick(max_buffered_results, "max_buffered_results", 1000)
        self.overlap_gpu_communication = bool(
            int(pick(overlap_gpu_communication, "overlap_gpu_communication", 0))
        )
        if self.read_iteration_timeout > self.get_timeout:
            raise ValueError(
                f"RAY_CGRAPH_read_iteration_timeout_s ({self.read_iteration_timeout}) must be less than or equal to RAY_CGRAPH_get_timeout "
                f"({self.get_timeout})"
            )

    @classmethod
    def get_current(cls):
        """The DAGContext of this process."""
        if DAGContext._current is None:
            DAGContext._current = DAGContext()
        return DAGContext._current
