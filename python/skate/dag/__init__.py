"""Graphs of tasks and actor calls that are described before they run: `f.bind(...)`, InputNode,
MultiOutputNode, `node.execute(...)`. The interface is that of Ray's ray.dag."""

from skate import _lazy
from skate.dag.class_node import ClassMethodNode, ClassNode
from skate.dag.collective_node import CollectiveOutputNode
from skate.dag.compiled_dag_node import CompiledDAG
from skate.dag.constants import (
    BIND_INDEX_KEY,
    IS_CLASS_METHOD_OUTPUT_KEY,
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
)
from skate.dag.context import DAGContext
from skate.dag.dag_node import DAGNode
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import DAGInputData, InputAttributeNode, InputNode
from skate.dag.output_node import MultiOutputNode
from skate.dag.vis_utils import plot

__all__ = [
    "DAGContext",
    "BIND_INDEX_KEY",
    "IS_CLASS_METHOD_OUTPUT_KEY",
    "PARENT_CLASS_NODE_KEY",
    "PREV_CLASS_METHOD_CALL_KEY",
    "ClassMethodNode",
    "ClassNode",
    "CollectiveOutputNode",
    "CompiledDAG",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
    "plot",
]

TYPE_CHECKING = False  # typing is slow to import
if not TYPE_CHECKING:

    def __getattr__(name):
        return _lazy.attribute("skate.dag", name)
