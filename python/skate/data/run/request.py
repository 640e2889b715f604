"""RunRequest, which a Dataset passes down to a run, and RunResult, which the run passes back.

A run knows its RunRequest only, never the Dataset: the Dataset may be in another process, and the
node may be one in the middle of a plan. A run passes what it has found out to RunRequest.back, and
the Dataset stores it.
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
    """A plan to run, and the facts known about it beforehand.

    Args:
        node: The last operator of the plan.
        context: The settings.
        facts: The facts known without running the plan.
        seen: The pyarrow.Schema of all batches of an earlier run of all rows.
        skip: A byte for each unit of the only source; a unit is left out if its byte is not 0. With
            it, blocks of different units are not joined, and have the number of their unit as a
            fifth item.
        back: A function that is called with a RunResult when a run begins, and again when the run
            is over.
    """

    node: Node
    context: DataContext
    facts: Facts = Facts()
    seen: Any = None
    skip: bytes | None = None
    back: Callable[[RunResult], None] | None = None

    def over(self, node: Node, skip: bytes | None = None) -> RunRequest:
        """The same request for another node, which is built on this request's node or replaces
        it."""
        return self._replace(node=node, skip=skip)

    def tell(
        self, errors: Errors | None = None, stats: DatasetStats | None = None, schema: Any = None
    ) -> None:
        """Passes a RunResult to `back`, if there is one."""
        if self.back is not None:
            self.back(RunResult(errors, stats, schema))

    def frames(self) -> bool:
        """Whether the blocks of the plan are shown as DataFrames with batch_format=None."""
        node = self.node
        while node.operator.first_rows or node.operator.blocking:
            node = node.inputs[0]
        return bool(self.context.enable_pandas_block) and node.operator.frames(node.params)
