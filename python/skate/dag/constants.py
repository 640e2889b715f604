"""Keys of DAGNode.get_other_args_to_resolve(), which has what a node needs besides its
arguments."""

PARENT_CLASS_NODE_KEY = "parent_class_node"  # the actor: a ClassNode or a handle
# the call of the same actor that was bound just before; only for actors that the graph makes
PREV_CLASS_METHOD_CALL_KEY = "prev_class_method_call"
BIND_INDEX_KEY = "bind_index"  # the position among the calls bound to a handle
IS_CLASS_METHOD_OUTPUT_KEY = "is_class_method_output"  # the node is one of several values of a call
