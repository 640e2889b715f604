"""The keys of DAGNode.get_other_args_to_resolve(): what a node depends on besides its arguments."""

PARENT_CLASS_NODE_KEY = "parent_class_node"  # the actor: a ClassNode or a handle
# the previous bound call of the same actor; only for actors that the graph makes
PREV_CLASS_METHOD_CALL_KEY = "prev_class_method_call"
BIND_INDEX_KEY = "bind_index"  # the position of a call among the calls bound to its handle
IS_CLASS_METHOD_OUTPUT_KEY = "is_class_method_output"  # the node is one of several values of a call
