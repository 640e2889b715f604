"""ActorGroup: a number of actors of one class, whose methods are called on all of them. Ray calls
this interface deprecated."""

import warnings
from typing import Any

import skate


class _GroupMethod:
    def __init__(self, group: "ActorGroup", name: str):
        self._group, self._name = group, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"ActorGroup methods are called remotely: use group.{self._name}.remote(...)"
        )

    def remote(self, *args: Any, **kwargs: Any) -> list:
        """Calls the method on each actor; gives one reference for each."""
        return [getattr(a, self._name).remote(*args, **kwargs) for a in self._group.actors]


class ActorGroup:
    """`ActorGroup(cls, num_actors=4)`: four actors of the class; `group.method.remote(x)` calls all
    of them and gives a list of references.

    Args:
        actor_cls: The class, without `@remote`.
        num_actors: How many, 1 or more.
        num_cpus_per_actor: CPUs that each asks for.
        num_gpus_per_actor: GPUs that each asks for.
        resources_per_actor: Other resources that each asks for, amounts by name.
        init_args: Arguments of the constructor.
        init_kwargs: Keyword arguments of the constructor.

    Raises:
        ValueError: num_actors is less than 1, or an amount is negative.
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: dict[str, float] | None = None,
        init_args: tuple | None = None,
        init_kwargs: dict | None = None,
    ):
        warnings.warn(
            "ActorGroup is deprecated; use ray.util.multiprocessing.Pool, ActorPool or a list of actors",
            DeprecationWarning,
            stacklevel=2,
        )
        if num_actors < 1:
            raise ValueError(f"num_actors: 1 or more are wanted, not {num_actors}")
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                f"num_cpus_per_actor and num_gpus_per_actor: 0 or more, not {num_cpus_per_actor} and {num_gpus_per_actor}"
            )
        self._methods = {
            n for n in dir(actor_cls) if callable(getattr(actor_cls, n)) and not n.startswith("__")
        }
        self._class = skate.remote(actor_cls).options(
            num_cpus=num_cpus_per_actor, num_gpus=num_gpus_per_actor, resources=resources_per_actor
        )
        self._n, self._args, self._kwargs = num_actors, init_args or (), init_kwargs or {}
        self._actors: list = []
        self.start()

    def start(self) -> None:
        """Starts the actors again after shutdown(). RuntimeError: they run."""
        if self._actors:
            raise RuntimeError("start: the actors of this group run already")
        self._actors = [self._class.remote(*self._args, **self._kwargs) for _ in range(self._n)]

    def shutdown(self, patience_s: float = 5) -> None:
        """Ends the actors.

        Args:
            patience_s: Seconds that calls under way may take to end; with 0 or less the actors are
                killed at once.
        """
        if patience_s > 0:
            done = [a.__ray_terminate__.remote() for a in self._actors]
            skate.wait(done, num_returns=len(done), timeout=patience_s)
        for a in self._actors:
            skate.kill(a)
        self._actors = []

    @property
    def actors(self) -> list:
        """The handles. RuntimeError: the group was shut down."""
        if not self._actors:
            raise RuntimeError("this ActorGroup was shut down; start() starts its actors again")
        return self._actors

    @property
    def actor_metadata(self) -> list:
        """What the method get_actor_metadata gives on each actor. AttributeError: the class has no
        such method."""
        return skate.get(self.get_actor_metadata.remote())

    def __getattr__(self, name: str) -> _GroupMethod:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(
                f"the class of this ActorGroup has no method {name!r}; it has {', '.join(sorted(self.__dict__.get('_methods', ())))}"
            )
        return _GroupMethod(self, name)

    def __len__(self) -> int:
        return len(self._actors)

    def __getitem__(self, item: Any) -> Any:
        return self._actors[item]
