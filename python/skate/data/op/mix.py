"""mix: the rows of several inputs in turns, by weights. A round has parts[k] rows of input k, in the
order of turns(); a task gets whole rounds, and fewer rows only of an input that has ended. params:
parts, shortest (the first input that ends ends the mix), and schemas and seen as of a union."""

from __future__ import annotations

from typing import Any

from skate._deps import np
from skate.data.op import Batches, Columns, Operator, Params
from skate.data.values import selection, unify


class Mix(Operator):
    joins = mixes = True

    def columns(self, params: Params) -> Columns:
        return Columns()

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        sides: list[list[Any]] = [[] for _ in params["parts"]]
        for side, rb in zip(task.sides, batches, strict=True):
            sides[side].append(rb)
        rows = [sum(rb.num_rows for rb in side) for side in sides]
        together = unify.merge([rb for side in sides for rb in side])
        at = places(params["parts"], rows, params["shortest"])
        yield selection.take(together, at)


def turns(parts: list[int]) -> Any:
    """The inputs of the rows of a round, each as evenly spread as it can be: row j of input k stands
    where (j + 1/2) / parts[k] of the round are over; of equal places the first input comes first."""
    side = np.repeat(np.arange(len(parts)), parts)
    number = np.concatenate([np.arange(n) for n in parts])
    share = np.asarray(parts)[side]
    # compared as whole numbers: the sum of the parts is at most 1,000
    order = sorted(
        range(len(side)), key=lambda i: ((2 * int(number[i]) + 1) * SCALE // int(share[i]), side[i])
    )
    return side[np.array(order, np.int64)]


SCALE = 1 << 60


def places(parts: list[int], rows: list[int], shortest: bool) -> Any:
    """For each row of the mix its number among the inputs' rows, one input behind the other."""
    side = turns(parts)
    each = np.asarray(parts)
    rounds = max([1, *(-(-n // p) for n, p in zip(rows, parts, strict=True))])
    within = np.zeros(len(side), np.int64)  # the number of the row in its input's part of a round
    for k in range(len(parts)):
        within[side == k] = np.arange(parts[k])
    number = (np.arange(rounds)[:, None] * each[side] + within).ravel()
    of = np.tile(side, rounds)
    there = number < np.asarray(rows)[of]
    if shortest and not there.all():
        end = int(np.argmin(there))
        number, of, there = number[:end], of[:end], there[:end]
    first = np.concatenate([[0], np.cumsum(rows)])[:-1]
    return (first[of] + number)[there]


operator = Mix()
