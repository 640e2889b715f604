"""RunRequest, which goes down from a Dataset that is run, and RunResult, which comes back.

A run knows its RunRequest only, never the Dataset: the Dataset may live in another process, and the
node may be one in the middle of a plan. A run hands what it has found out to RunRequest.back; the
Dataset keeps it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from skate.data.plan.node import Node
from skate.data.read.source import Facts

if TYPE_CHECKING:
    from skate.data.context import DataContext
    from skate.data.run.dead_letters import Errors
    from skate.data.run.stats import DatasetStats


class RunResult(NamedTuple):
    """The result of a run. A field is None as long as there is nothing to report for it.

    Args:
        errors: The dead letters; known from the start of the run on, and growing while it goes on.
        stats: The statistics; known when the run is over.
        schema: The pyarrow.Schema that all batches were brought to; known when a run of all rows is
            over.
    """

    errors: Errors | None = None
    stats: DatasetStats | None = None
    schema: Any = None


class RunRequest(NamedTuple):
    """A plan that is to be run, and the facts known about it beforehand.

    Args:
        node: The last operator of the plan.
        context: The settings.
        facts: The facts known without running the plan.
        seen: The pyarrow.Schema that an earlier run of all rows has brought its batches to.
        skip: A byte for each unit of the only source, not 0 if the unit is left out. Units are
            kept apart then: blocks have the number of their unit as a fifth item.
        back: Takes a RunResult when a run begins, and another one when the run is over.
    """

    node: Node
    context: DataContext
    facts: Facts = Facts()
    seen: Any = None
    skip: bytes | None = None
    back: Callable[[RunResult], None] | None = None

    def over(self, node: Node, skip: bytes | None = None) -> RunRequest:
        """The same request for another node, which is made of this request's node or takes its
        place."""
        return self._replace(node=node, skip=skip)

    def tell(
        self, errors: Errors | None = None, stats: DatasetStats | None = None, schema: Any = None
    ) -> None:
        """Hands a RunResult to `back`, if there is one."""
        if self.back is not None:
            self.back(RunResult(errors, stats, schema))

    def frames(self) -> bool:
        """Whether the blocks of the plan are DataFrames, as batch_format=None gives them."""
        node = self.node
        while node.operator.first_rows or node.operator.blocking:
            node = node.inputs[0]
        return bool(self.context.enable_pandas_block) and node.operator.frames(node.params)
