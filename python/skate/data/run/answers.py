"""Runs shuffle strategies that are written in Python. Each exchange with such a strategy has a
thread that waits for questions of the run (src/shuffle/told.h), calls the strategy and passes its
answer on.

The thread waits without the GIL, and passes answers to the run without it. The run ends without
waiting for the thread, since the user's code may take long.
"""

from __future__ import annotations

import copy
import threading
from typing import Any, NamedTuple

from skate.data.exchange_strategy import Over, Pack, Shuffle, Sizes, checked_values


class Own(NamedTuple):
    """An exchange of a plan whose strategy is written in Python. told: the _skate.Told object that
    stands for the strategy in the plan."""

    told: Any
    strategy: Any
    inputs: int


class Answers:
    """The threads that call the strategies of one run. error: the exception that a strategy raised;
    the run fails with it. Raises TypeError for a strategy that cannot be copied."""

    def __init__(self, own: list[Own]) -> None:
        self.error: BaseException | None = None
        self._todo = [(o.told, [_copied(o.strategy) for _ in range(o.inputs)]) for o in own]

    def begin(self, x: Any) -> None:
        """Starts the threads for the run x, a _skate.Exec."""
        for told, copies in self._todo:
            threading.Thread(
                target=self._answer, args=(x, told, copies), name="skate-shuffle", daemon=True
            ).start()

    def end(self) -> None:
        """Tells the threads that the run is over, and does not wait for them."""
        for told, _ in self._todo:
            told.close()

    def _answer(self, x: Any, told: Any, strategies: list[Any]) -> None:
        shuffles = [
            Shuffle(lambda what, *more, side=side: told.say(x, what, side, *more))
            for side in range(len(strategies))
        ]
        try:
            while (asked := told.next(x)) is not None:
                what, side, sizes, pack = asked
                shuffles[side].sizes = Sizes(*sizes)
                try:
                    _ask(strategies[side], shuffles[side], what, Pack(*pack))
                except Over:
                    pass
        except BaseException as e:
            self.error = e
            told.say(x, "fail", 0)


def _copied(strategy: Any) -> Any:
    try:
        return copy.deepcopy(strategy)
    except Exception as e:
        raise TypeError(
            f"strategy {type(strategy).__name__}: each input of an exchange gets a copy of it, and copy.deepcopy() raises {type(e).__name__}: {e}; give its class a __deepcopy__"
        ) from e


def _ask(strategy: Any, shuffle: Shuffle, what: str, pack: Pack) -> None:
    """Passes one question to a strategy, which answers by calling methods of `shuffle`."""
    if what == "values":
        n = strategy.values(shuffle.sizes)
        shuffle._say("values", checked_values(f"{type(strategy).__name__}.values()", n))
    elif what == "came":
        shuffle._at_hand = True
        strategy.came(shuffle, pack)
        if shuffle._at_hand:
            shuffle.pass_on()
    else:
        strategy.ended(shuffle)
        shuffle._answered("over")
