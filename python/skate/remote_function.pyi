"""Types of remote_function.py: `f.remote(1)` of a function that gives an int is an ObjectRef[int]. Kept beside it because typing is slow to import."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from skate._skate import ObjectRef, ObjectRefGenerator
from skate.dag.function_node import FunctionNode

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

class CommonOptions(TypedDict, total=False):
    accelerator_type: str | None
    enable_task_events: bool | None
    fallback_strategy: list[dict[str, Any]] | None
    label_selector: dict[str, str] | None
    memory: float | None
    name: str | None
    num_cpus: float | None
    num_gpus: float | None
    placement_group: Any
    placement_group_bundle_index: int | None
    placement_group_capture_child_tasks: bool | None
    resources: dict[str, float] | None
    runtime_env: dict[str, Any] | None
    scheduling_strategy: Any
    _labels: dict[str, str] | None
    _metadata: dict[str, Any] | None

class TaskOptions(CommonOptions, total=False):
    max_calls: int | None
    max_retries: int | None
    retry_exceptions: bool | list[type[BaseException]] | tuple[type[BaseException], ...] | None
    _generator_backpressure_num_objects: int | None

NumReturns = int | Literal["streaming", "dynamic"] | None

class RemoteFunction(Generic[P, R_co]):
    """The result of @remote for a function: f.remote(...), f.options(...).remote(...)."""

    __wrapped__: Callable[P, R_co]
    __name__: str
    __qualname__: str
    def __init__(self, fn: Callable[P, R_co], given: dict[str, Any], base: Any = None) -> None: ...
    @overload
    def remote(
        self: RemoteFunction[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs
    ) -> ObjectRefGenerator[T]: ...
    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R_co]: ...
    @overload
    def remote(
        self: RemoteFunction[P, Iterator[T]], *args: Any, **kwargs: Any
    ) -> ObjectRefGenerator[T]: ...  # references for values
    @overload
    def remote(self, *args: Any, **kwargs: Any) -> ObjectRef[R_co]: ...
    @overload
    def options(
        self, *, num_returns: NumReturns, **given: Unpack[TaskOptions]
    ) -> AnyRemoteFunction[P]: ...
    @overload
    def options(self, **given: Unpack[TaskOptions]) -> RemoteFunction[P, R_co]: ...
    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode: ...
    def _remote(
        self, args: Iterable[Any] | None = None, kwargs: dict[str, Any] | None = None, **given: Any
    ) -> Any: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class AnyRemoteFunction(Generic[P]):
    """A RemoteFunction with num_returns: the type of the result of .remote() depends on that
    number."""

    __name__: str
    __qualname__: str
    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def remote(self, *args: Any, **kwargs: Any) -> Any: ...
    def options(
        self, *, num_returns: NumReturns = ..., **given: Unpack[TaskOptions]
    ) -> AnyRemoteFunction[P]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Dynamic:
    @staticmethod
    def _run(values: Iterable[Any], retry_on: Any = ()) -> Any: ...

def decorated(decorate: Callable[..., Any], submit: Callable[..., Any]) -> Callable[..., Any]: ...
