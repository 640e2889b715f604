"""Strategies of exchanges in Python. A strategy gets the packs that the maps have made and says
which tasks to make next, in the terms of src/shuffle/shuffle.h. "A strategy in Python" in
docs/design/exchange.md explains how to write one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from skate import _did_you_mean, _skate

__all__ = [
    "ExchangeStrategy",
    "Group",
    "Pack",
    "Shuffle",
    "Sizes",
]

VALUES_MAX = 4096
_METHODS = {"values": "values(sizes)", "came": "came(shuffle, pack)", "ended": "ended(shuffle)"}


class Sizes(NamedTuple):
    """The facts about an exchange that are known so far; numbers of bytes are rounded to 1/32."""

    memory_bytes: int  # memory budget of the run
    spills: bool  # whether data beyond the memory budget goes to disk; if not, all data must fit
    runs: bool  # whether packs are sorted runs (a sort, groups)
    merges: bool  # whether packs can be merged; if not, only values() is called
    slots: int  # number of reduces that can run at once
    nodes: int  # number of nodes, at least 1
    bytes: int  # bytes of all packs, approximate
    map_bytes: int  # bytes that one map makes, approximate
    reduce_bytes: int  # bytes that one reduce reads, approximate


class Pack(NamedTuple):
    """A value that a map has made: the rows of partitions first to end - 1 (for a sorted run, first
    is 0 and end is 1)."""

    first: int
    end: int
    node: int  # the node that holds the value
    bytes: int


class Group(NamedTuple):
    """A snapshot of packs of the same partitions that wait to be merged."""

    first: int
    end: int
    n: int  # number of packs; 0 while what comes back is being merged
    bytes: int
    back: int  # bytes of those packs that have come back from a merge


class Over(BaseException):
    """Raised inside a strategy's method to end the method: the rows of this input are not needed
    any more."""


class Shuffle:
    """One input of an exchange, as its strategy sees it. Only the strategy's methods may use it,
    and only while they run."""

    def __init__(self, say: Callable[..., Any]):
        self._say, self._at_hand, self._held = say, False, 0
        self.sizes: Sizes

    def _answered(self, what: str, *more: int) -> Any:
        state = self._say(what, *more)
        if state is None:
            raise Over
        if state:
            self._held = state[0]
        return state

    def _take(self) -> None:
        if not self._at_hand:
            raise RuntimeError(
                "no pack is at hand: came() decides on its pack once, by hold() or pass_on()"
            )
        self._at_hand = False

    @property
    def held(self) -> int:
        """The bytes of the packs in all groups."""
        return self._held

    @property
    def groups(self) -> list[Group]:
        """The groups, in arbitrary order."""
        found = self._say("groups")
        if found is None:
            raise Over
        return [Group(*g) for g in found]

    def hold(self, values: int | None = None, node: int | None = None) -> Group:
        """Puts the current pack into the group of its partitions, where it waits.

        Groups whose partitions overlap those of the pack, but are not the same, are ended first: a
        group with several packs is merged. The same is done with the pack's own group if a hot
        partition would become too large.

        Args:
            values: The number of values that the group's merge task makes; None: 8 for sorted runs,
                else 1.
            node: The node where the group is merged; None: the node that has most of the group's
                bytes.

        Returns:
            The group, with the pack.
        """
        if values is None:
            values = 8 if self.sizes.runs else 1
        values = checked_values("hold", values)
        if node is not None and not 0 <= operator.index(node) < self.sizes.nodes:
            raise ValueError(f"hold: node={node!r}: there are nodes 0 to {self.sizes.nodes - 1}")
        self._take()
        return Group(*self._answered("hold", values, 0xFFFFFFFF if node is None else node)[1])

    def pass_on(self, group: Group | None = None) -> None:
        """Passes the current pack, or the packs of a group, to the reduces unmerged."""
        if group is None:
            self._take()
            self._answered("pass")
        else:
            self._end("pass_group", group)

    def merge(self, group: Group, again: int = 0) -> None:
        """Makes the merge task of a group now, even for a single pack.

        Args:
            group: The group.
            again: If the merge yields at most this many bytes, they come back and wait in the
                group, in front of the packs that came meanwhile; else they pass to the reduces. With
                `again`, nothing is merged unless two packs wait, of which one has not come back
                yet; and while such a merge of the group runs, the next one waits for it.
        """
        if isinstance(again, bool) or operator.index(again) < 0:
            raise ValueError(f"merge: again={again!r}: it is a number of bytes, 0 or more")
        if again:
            self._end("merge_again", group, 0, min(operator.index(again), 2**64 - 1))
        else:
            self._end("merge", group)

    def _end(self, what: str, group: Group, *more: int) -> None:
        if self._answered(what, group.first, *more) is False:
            raise ValueError(
                f"{what}: no packs of partitions {group.first} to {group.end - 1} are held: they were merged or passed already; `groups` has those that are"
            )


class ExchangeStrategy:
    """The base class of a user's own strategies: it decides which tasks of an exchange work on
    which packs. A strategy changes how long a run takes and how much it writes to disk, never the
    rows or their order.

    Pass an instance as `strategy=` to sort(), random_shuffle(), groupby(), join(), distinct() or
    repartition(), or set DataContext.shuffle_strategy. Each input of each exchange of each run gets
    a copy (copy.deepcopy), whose methods are called one at a time, on a thread of the run. A slow
    method holds maps back; an exception in a method fails the run.

    Example:
        >>> import skate
        >>> class Rounds(skate.data.ExchangeStrategy):
        ...     def came(self, shuffle, pack):
        ...         shuffle.hold()
        ...         if shuffle.held > shuffle.sizes.memory_bytes // 4:
        ...             for group in shuffle.groups:
        ...                 shuffle.merge(group)
        >>> skate.data.range(3).sort("id", descending=True, strategy=Rounds()).take_all()
        [{'id': 2}, {'id': 1}, {'id': 0}]
    """

    def values(self, sizes: Sizes) -> int:
        """Returns the number of values that a map's packs are put into, 1 to 4096. Few values mean
        few objects, but a value stays in memory while any reduce reads a part of it. The method is
        called before the first map begins, and again when the sizes have changed.

        Args:
            sizes: A Sizes.
        """
        return 1 if sizes.runs and sizes.merges else 8

    def came(self, shuffle: Shuffle, pack: Pack) -> None:
        """Is called for each pack, in the order of the maps. A pack that this method neither holds
        nor passes on is passed on.

        Args:
            shuffle: The Shuffle to query and to command.
            pack: The new Pack.
            pack: A Pack.
        """

    def ended(self, shuffle: Shuffle) -> None:
        """Is called when there are no more packs. Packs that are still held when this method
        returns are passed on unmerged.

        Args:
            shuffle: The Shuffle to query and to command.
        """


def checked_values(what: str, n: Any) -> int:
    """Returns n if it is a valid number of values; else raises ValueError or TypeError."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{what}: values are a whole number from 1 to {VALUES_MAX}, not {n!r}")
    if not 1 <= (n := operator.index(n)) <= VALUES_MAX:
        raise ValueError(f"{what}: values are a whole number from 1 to {VALUES_MAX}, not {n}")
    return n


def checked(what: str, v: Any) -> Any:
    """Returns v if it is a strategy: a name, or an object with a strategy's methods. ValueError for
    an unknown name; TypeError for an object, naming the method that it lacks."""
    if isinstance(v, str):
        if v not in _skate.SHUFFLES:
            near = _did_you_mean.nearest(v, list(_skate.SHUFFLES))
            raise ValueError(
                f"{what}: no strategy is called {v!r}{f' (did you mean {near!r}?)' if near else ''}: it is one of {', '.join(map(repr, _skate.SHUFFLES))}, or a skate.data.ExchangeStrategy"
            )
        return v
    if isinstance(v, type):
        raise TypeError(f"{what}: {v.__name__} is a class: give an instance, {v.__name__}(...)")
    lacks = [said for name, said in _METHODS.items() if not callable(getattr(v, name, None))]
    if lacks:
        raise TypeError(
            f"{what}: {v!r} is no strategy: it has no {' and no '.join(lacks)}; derive its class from skate.data.ExchangeStrategy, which has defaults, or give the name of a strategy: {', '.join(map(repr, _skate.SHUFFLES))}"
        )
    return v


def option(what: str, strategy: Any) -> dict[str, Any]:
    """The parameters for the strategy of a node that moves rows; none if strategy is None
    (DataContext then decides)."""
    return {} if strategy is None else {"strategy": checked(f"{what}: strategy", strategy)}
