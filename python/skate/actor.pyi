"""Types of actor.py: `A.remote()` is an ActorHandle[A], its methods give ObjectRefs. Kept beside it because typing is slow to import."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

from skate.dag.class_node import ClassNode
from skate.remote_function import CommonOptions, NumReturns

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

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

class ActorMethod:
    """handle.method: .remote(...), .options(...).remote(...)."""
    def remote(self, *args: Any, **kwargs: Any) -> Any: ...
    def options(
        self,
        *,
        concurrency_group: str | None = ...,
        enable_task_events: bool | None = ...,
        max_task_retries: int | None = ...,
        name: str | None = ...,
        num_returns: NumReturns = ...,
        retry_exceptions: bool | list[type[BaseException]] | None = ...,
        tensor_transport: str | None = ...,
        _generator_backpressure_num_objects: int | None = ...,
    ) -> ActorMethod: ...
    def bind(
        self, *args: Any, **kwargs: Any
    ) -> Any: ...  # a ClassMethodNode; of a method with several values a tuple of them
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class ActorHandle(Generic[A]):
    """A reference to an actor. The actor ends when the last handle on it, in whatever process or object, is gone."""

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

class ActorClass(Generic[A]):
    """The result of @remote for a class: A.remote(...), A.options(...).remote(...)."""

    __name__: str
    __qualname__: str
    def __init__(self, cls: type[A], given: dict[str, Any], base: Any = None) -> None: ...
    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[A]: ...
    def options(self, **given: Unpack[ActorOptions]) -> ActorClass[A]: ...
    def bind(self, *args: Any, **kwargs: Any) -> ClassNode: ...
    def _remote(
        self, args: Iterable[Any] | None = None, kwargs: dict[str, Any] | None = None, **given: Any
    ) -> ActorHandle[A]: ...
    def __getattr__(self, name: str) -> Any: ...  # static methods and class attributes
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

@overload
def method(function: F, /) -> F: ...
@overload
def method(
    *,
    concurrency_group: str | None = ...,
    enable_task_events: bool | None = ...,
    max_task_retries: int | None = ...,
    name: str | None = ...,
    num_returns: NumReturns = ...,
    retry_exceptions: bool | list[type[BaseException]] | None = ...,
    tensor_transport: str | None = ...,
    _generator_backpressure_num_objects: int | None = ...,
) -> Callable[[F], F]: ...
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
