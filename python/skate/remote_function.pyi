"""Types of remote_function.py: `f.remote(1)` of a function that gives an int is an ObjectRef[int]. Kept beside it because typing is slow to import."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from skate._skate import ObjectRef, ObjectRefGenerator
from skate.dag.function_node import FunctionNode

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
G = TypeVar("G")
R_co = TypeVar("R_co", covariant=True)
Given_co = TypeVar("Given_co", covariant=True)
_Ref: TypeAlias = ObjectRef[Any]

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

class _NotSaid: ...  # only Any and Never fit it: what a function without annotations returns

class _Call(Generic[P, Given_co]):
    """The type of `.remote`. The arguments have to fit the function's parameters, and a reference
    stands for its value. Type checkers have no word for "these parameters, and a reference for any
    of them", so once one of the first four arguments is a reference, the other arguments are not
    checked. References by keyword may follow plain values by position; a call that gives both plain
    values and references by keyword is understood by mypy with skate.util.mypy_plugin only."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Given_co: ...
    @overload
    def __call__(self, a: _Ref, /, *args: Any, **kwargs: Any) -> Given_co: ...
    @overload
    def __call__(self, a: Any, b: _Ref, /, *args: Any, **kwargs: Any) -> Given_co: ...
    @overload
    def __call__(self, a: Any, b: Any, c: _Ref, /, *args: Any, **kwargs: Any) -> Given_co: ...
    @overload
    def __call__(self, a: Any, b: Any, c: Any, d: _Ref, /, *args: Any, **kw: Any) -> Given_co: ...
    @overload
    def __call__(self, **kwargs: _Ref) -> Given_co: ...
    @overload
    def __call__(self: _Call[Concatenate[A, ...], G], a: A, /, **kwargs: _Ref) -> G: ...
    @overload
    def __call__(self: _Call[Concatenate[A, B, ...], G], a: A, b: B, /, **kwargs: _Ref) -> G: ...
    @overload
    def __call__(
        self: _Call[Concatenate[A, B, C, ...], G], a: A, b: B, c: C, /, **kwargs: _Ref
    ) -> G: ...

class _RemoteOf(Generic[P, R_co]):
    """Makes `f.remote` of what f returns: a generator's values come one by one."""

    @overload
    def __get__(
        self: _RemoteOf[P, _NotSaid], instance: Any, owner: Any = ...
    ) -> _Call[P, ObjectRef[Any]]: ...
    @overload
    def __get__(
        self: _RemoteOf[P, Iterator[A] | AsyncIterator[A]], instance: Any, owner: Any = ...
    ) -> _Call[P, ObjectRefGenerator[A]]: ...
    @overload
    def __get__(
        self: _RemoteOf[P, Coroutine[Any, Any, A]], instance: Any, owner: Any = ...
    ) -> _Call[P, ObjectRef[A]]: ...
    @overload
    def __get__(self, instance: Any, owner: Any = ...) -> _Call[P, ObjectRef[R_co]]: ...

class RemoteFunction(Generic[P, R_co]):
    """The result of @remote for a function: f.remote(...), f.options(...).remote(...)."""

    remote: _RemoteOf[P, R_co]
    __wrapped__: Callable[P, R_co]
    __name__: str
    __qualname__: str
    def __init__(self, fn: Callable[P, R_co], given: dict[str, Any], base: Any = None) -> None: ...
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

    remote: _Call[P, Any]
    __name__: str
    __qualname__: str
    def options(
        self, *, num_returns: NumReturns = ..., **given: Unpack[TaskOptions]
    ) -> AnyRemoteFunction[P]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Dynamic:
    @staticmethod
    def _run(values: Iterable[Any], retry_on: Any = ()) -> Any: ...

def decorated(decorate: Callable[..., Any], submit: Callable[..., Any]) -> Callable[..., Any]: ...
