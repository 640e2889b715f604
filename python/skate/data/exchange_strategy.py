"""Strategies of exchanges in Python: a program that is told what has come of an exchange's maps and
says which tasks to make next, in the words of src/shuffle/shuffle.h. A recipe: "A strategy in
Python" in docs/design/exchange.md."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from skate import _did_you_mean, _skate

VALUES_MAX = 4096
_METHODS = {"values": "values(sizes)", "came": "came(shuffle, pack)", "ended": "ended(shuffle)"}


class Sizes(NamedTuple):
    """What is known of an exchange by now; bytes to 1/32."""

    memory_bytes: int  # of the run
    spills: bool  # what does not fit goes to disk; else it has to fit
    runs: bool  # packs are sorted runs: a sort, groups
    merges: bool  # packs can be merged; else (aggregates) all pass, and only values() is asked
    slots: int  # reduces that can run at once
    nodes: int  # at least 1
    bytes: int  # of all packs, about
    map_bytes: int  # of one map's, about
    reduce_bytes: int  # of one reduce, about


class Pack(NamedTuple):
    """A value that a map has made: rows of partitions first to end - 1 (of a sorted run 0, 1)."""

    first: int
    end: int
    node: int  # where it is
    bytes: int


class Group(NamedTuple):
    """Packs of the same partitions that wait to become one, as they were when this was made."""

    first: int
    end: int
    n: int  # packs
    bytes: int


class Over(BaseException):
    """Nobody wants the rows of this input any more: the strategy's method ends here."""


class Shuffle:
    """One input of an exchange, as its strategy sees it. It is to be used while a method of the
    strategy runs, by that method."""

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
        """Bytes in all groups."""
        return self._held

    @property
    def groups(self) -> list[Group]:
        """The groups, in no order."""
        found = self._say("groups")
        if found is None:
            raise Over
        return [Group(*g) for g in found]

    def hold(self, values: int | None = None, node: int | None = None) -> Group:
        """The pack at hand waits in the group of its partitions. Groups that have some of these,
        but are not of the same, end before: merged if they have several packs. So does its own
        where a hot partition would be too large with it.

        Args:
            values: In how many values the merge of the group is to be; None: 8 of sorted runs,
                else 1.
            node: Where it is merged; None: where most of it is.

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
        """The pack at hand, or a group's packs, go to the reduces as they are."""
        if group is None:
            self._take()
            self._answered("pass")
        else:
            self._end("pass_group", group)

    def merge(self, group: Group) -> None:
        """A group becomes a task now; also one of a single pack."""
        self._end("merge", group)

    def _end(self, what: str, group: Group) -> None:
        if self._answered(what, group.first) is False:
            raise ValueError(
                f"{what}: no packs of partitions {group.first} to {group.end - 1} are held: they were merged or passed already; `groups` has those that are"
            )


class ExchangeStrategy:
    """How an exchange is wired: the base class of strategies of your own. What it decides changes
    how long a run takes and how much it writes to disk, never its rows or their order.

    An instance goes to `strategy=` of sort(), random_shuffle(), groupby(), join(), distinct() or
    repartition(), or to DataContext.shuffle_strategy. Each input of each exchange of each run gets
    a copy of it (copy.deepcopy), whose methods run one at a time, on a thread of the run. A slow
    method holds maps back; what it raises is the failure of the run.

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
        """In how many values a map's packs are to be, 1 to 4096: few values are few objects, but
        one stays in memory while any reduce has a part of it. Asked before the first map begins,
        and again when sizes have changed.

        Args:
            sizes: A Sizes.
        """
        return 1 if sizes.runs and sizes.merges else 8

    def came(self, shuffle: Shuffle, pack: Pack) -> None:
        """A pack has come, behind those of earlier maps. Where this neither holds it nor passes it
        on, it passes.

        Args:
            shuffle: What may be asked and said: a Shuffle.
            pack: A Pack.
        """

    def ended(self, shuffle: Shuffle) -> None:
        """No more packs will come. What is still held when this returns passes as it is.

        Args:
            shuffle: What may be asked and said: a Shuffle.
        """


def checked_values(what: str, n: Any) -> int:
    """A number of values; ValueError, TypeError for what is none."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{what}: values are a whole number from 1 to {VALUES_MAX}, not {n!r}")
    if not 1 <= (n := operator.index(n)) <= VALUES_MAX:
        raise ValueError(f"{what}: values are a whole number from 1 to {VALUES_MAX}, not {n}")
    return n


def checked(what: str, v: Any) -> Any:
    """A strategy: a name or an object with the methods of one. ValueError for another name,
    TypeError for an object that lacks something, which it names."""
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
    """Of a node that moves rows: what was said of its strategy. None: as the context says."""
    return {} if strategy is None else {"strategy": checked(f"{what}: strategy", strategy)}
