"""Types of actor.py: `A.remote()` is an ActorHandle[A], its methods give ObjectRefs. Kept beside it because typing is slow to import."""

from collections.abc import Callable, Iterable
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from skate.dag.class_node import ClassNode
from skate.remote_function import CommonOptions, NumReturns, _Call, _Ref, _RemoteOf

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Held_co = TypeVar("Held_co", covariant=True)

class ActorOptions(CommonOptions, total=False):
    allow_out_of_order_execution: bool | None
    concurrency_groups: dict[str, int] | list[dict[str, Any]] | None
    enable_tensor_transport: bool | None
    get_if_exists: bool | None
    lifetime: Literal["detached", "non_detached"] | None
    max_concurrency: int | None
    max_pending_calls: int | None
    max_restarts: int | None
    max_task_retries: int | None
    namespace: str | None
    object_store_memory: int | None

class ActorClassInheritanceException(TypeError): ...

class MethodOptions(TypedDict, total=False):
    concurrency_group: str | None
    enable_task_events: bool | None
    max_task_retries: int | None
    name: str | None
    retry_exceptions: bool | list[type[BaseException]] | None
    tensor_transport: str | None
    _generator_backpressure_num_objects: int | None

class ActorMethod:
    """handle.method: .remote(...), .options(...).remote(...)."""
    def remote(self, *args: Any, **kwargs: Any) -> Any: ...
    def options(
        self, *, num_returns: NumReturns = ..., **given: Unpack[MethodOptions]
    ) -> ActorMethod: ...
    def bind(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # a ClassMethodNode; of a method with several values a tuple of them
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class TypedActorMethod(Generic[P, R_co]):
    """handle.method whose signature the type checker knows. It is an ActorMethod, and inside of the
    actor the method itself."""

    remote: _RemoteOf[P, R_co]
    @overload
    def options(
        self, *, num_returns: NumReturns, **given: Unpack[MethodOptions]
    ) -> _ActorMethodOfSeveral[P, R_co]: ...
    @overload
    def options(self, **given: Unpack[MethodOptions]) -> TypedActorMethod[P, R_co]: ...
    def bind(self, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

class _ActorMethodOfSeveral(Generic[P, R_co]):
    """The same with num_returns: the type of the result of .remote() depends on that number."""

    remote: _Call[P, Any]
    def options(
        self, *, num_returns: NumReturns = ..., **given: Unpack[MethodOptions]
    ) -> _ActorMethodOfSeveral[P, R_co]: ...
    def bind(self, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

class _Method(Generic[P, R_co]):
    """What @method makes of a method, as type checkers see it. It is the function itself."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[..., R_co]: ...
    @overload
    def __get__(self, instance: Any, owner: type[Any]) -> TypedActorMethod[P, R_co]: ...

class _MethodOfSeveral(Generic[P, R_co]):
    """The same with num_returns."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[..., R_co]: ...
    @overload
    def __get__(self, instance: Any, owner: type[Any]) -> _ActorMethodOfSeveral[P, R_co]: ...

# A handle has the methods of the actor's class, each with .remote(...) in place of the call. Type
# checkers cannot say that of a class, as there is no map over attributes. mypy learns it from
# skate.util.mypy_plugin. Pyright has no plugins: with
#     [tool.pyright]
#     defineConstant = { SKATE_TYPED_HANDLES = true }
# a handle is an instance of the class, and methods have .remote(...) where @method says so; a method
# without @method is an error then. Without that line each attribute of a handle may be called with
# anything.
MYPY: bool  # true in mypy, and nowhere else
SKATE_TYPED_HANDLES: bool

if SKATE_TYPED_HANDLES:
    if not MYPY:
        ActorHandle = Annotated[A, "a handle"]  # pyright: ignore[reportAssignmentType, reportGeneralTypeIssues]
else:
    class ActorHandle(Generic[A]):
        """A reference to an actor. The actor ends when the last handle on it, in whatever process
        or object, is gone."""

        _token: Any
        _meta: Any
        _cls_name: str
        def __init__(self, token: Any, meta: Any) -> None: ...
        def __getattr__(self, name: str) -> ActorMethod: ...
        @property
        def _actor_id(self) -> Any: ...
        @property
        def _ray_actor_id(self) -> Any: ...
        def __hash__(self) -> int: ...

ActorProxy = ActorHandle

class _Holds(Generic[Held_co]): ...

class ActorClass(_Holds[type[A]], Generic[A]):
    """The result of @remote for a class: A.remote(...), A.options(...).remote(...)."""

    __name__: str
    __qualname__: str
    def __init__(self, cls: type[A], given: dict[str, Any], base: Any = None) -> None: ...
    if MYPY:
        def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[A]: ...  # pyright: ignore[reportRedeclaration]
    else:
        @overload
        def remote(
            self: _Holds[Callable[P, A]], *args: P.args, **kwargs: P.kwargs
        ) -> ActorHandle[A]: ...
        @overload
        def remote(self, a: _Ref, /, *args: Any, **kwargs: Any) -> ActorHandle[A]: ...
        @overload
        def remote(self, a: Any, b: _Ref, /, *args: Any, **kwargs: Any) -> ActorHandle[A]: ...
        @overload
        def remote(
            self, a: Any, b: Any, c: _Ref, /, *args: Any, **kwargs: Any
        ) -> ActorHandle[A]: ...
        @overload
        def remote(self, **kwargs: _Ref) -> ActorHandle[A]: ...
        @overload
        def remote(
            self: _Holds[Callable[Concatenate[B, ...], A]], a: B, /, **kwargs: _Ref
        ) -> ActorHandle[A]: ...

    def options(self, **given: Unpack[ActorOptions]) -> ActorClass[A]: ...
    def bind(self, *args: Any, **kwargs: Any) -> ClassNode: ...
    def _remote(
        self, args: Iterable[Any] | None = None, kwargs: dict[str, Any] | None = None, **given: Any
    ) -> ActorHandle[A]: ...
    def __getattr__(self, name: str) -> Any: ...  # static methods and class attributes
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class _MakesMethod(Protocol):
    """@method(...) with options."""
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> _Method[P, R]: ...

class _MakesMethodOfSeveral(Protocol):
    """@method(num_returns=..., ...)."""
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> _MethodOfSeveral[P, R]: ...

@overload
def method(function: Callable[Concatenate[Any, P], R], /) -> _Method[P, R]: ...
@overload
def method(  # type: ignore[overload-overlap] # 1 is an int, too
    *, num_returns: Literal[1] | None = None, **given: Unpack[MethodOptions]
) -> _MakesMethod: ...
@overload
def method(*, num_returns: NumReturns, **given: Unpack[MethodOptions]) -> _MakesMethodOfSeveral: ...
def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]: ...
@overload
def list_named_actors(all_namespaces: Literal[False] = False) -> list[str]: ...
@overload
def list_named_actors(all_namespaces: bool) -> list[Any]: ...
def exit_actor() -> None: ...
def current() -> ActorHandle[Any]: ...
def me() -> tuple[Any, int]: ...
def described(function: Any, number: int, name: str) -> tuple[str, str]: ...

_here: dict[int, Any]
BUILT_IN: dict[str, Any]

def __getattr__(name: str) -> Any: ...  # names that only skate itself uses
