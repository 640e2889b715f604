"""CompiledDAGRef and CompiledDAGFuture, under Ray's module name."""

from skate.dag.compiled_dag_ref import CompiledDAGFuture, CompiledDAGRef

__all__ = ["CompiledDAGFuture", "CompiledDAGRef"]
