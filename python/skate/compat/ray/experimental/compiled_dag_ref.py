"""CompiledDAGRef and CompiledDAGFuture, under the name that Ray has for them."""

from skate.dag.compiled_dag_ref import CompiledDAGFuture, CompiledDAGRef

__all__ = ["CompiledDAGFuture", "CompiledDAGRef"]
