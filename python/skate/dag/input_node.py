"""InputNode: stands for the arguments of execute() in a graph; InputAttributeNode: for a part of
them."""

from skate.dag.dag_node import DAGNode

IN_CONTEXT_MANAGER = "__in_context_manager__"


class InputNode(DAGNode):
    """Stands for the arguments of execute(): a single argument itself, or several arguments as
    DAGInputData. input[0], input["x"] and input.x are parts of it. A graph has one InputNode.

    Args:
        input_type: The type of the input, or {key: type}; only tools that show the graph use it.

    Example:
        >>> import skate
        >>> from skate.dag import InputNode
        >>> @skate.remote
        ... def add(a, b):
        ...     return a + b
        >>> with InputNode() as inp:
        ...     graph = add.bind(inp[0], inp.b)
        >>> skate.get(graph.execute(1, b=2))
        3
    """

    is_input = True

    def __init__(self, *args, input_type=None, **kwargs):
        if args or kwargs:
            raise ValueError("InputNode should not take any args or kwargs.")
        self.input_attribute_nodes, self.input_type = {}, input_type
        self._bound = []  # all nodes that depend on it
        super().__init__((), {}, {}, {})

    def __enter__(self):
        self._bound_other_args_to_resolve[IN_CONTEXT_MANAGER] = True
        return self

    def __exit__(self, *exc):
        return None

    def _run(self, values, args, kwargs):
        if not self._bound_other_args_to_resolve.get(IN_CONTEXT_MANAGER):
            raise AssertionError(
                "InputNode is a singleton instance that should be only used in context manager for dag building and execution. See the docstring of class "
                "InputNode for examples."
            )
        if not args and not kwargs:
            raise ValueError(
                "dag.execute() was called without arguments, and the graph has an InputNode: give it what the node stands for"
            )
        return args[0] if len(args) == 1 and not kwargs else DAGInputData(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("__") or "input_attribute_nodes" not in self.__dict__:
            raise AttributeError(name)
        return self._part(name, "__getattr__")

    def __getitem__(self, key):
        if not isinstance(key, (str, int)):
            raise AssertionError(
                "Please only use int index or str as first-level key to access fields of dag input."
            )
        return self._part(key, "__getitem__")

    def _part(self, key, how):
        parts = self.input_attribute_nodes
        if key not in parts:
            parts[key] = InputAttributeNode(self, key, how)
        return parts[key]


class InputAttributeNode(DAGNode):
    """A part of the input: the argument with this index or name or, of a single argument, its item
    or attribute.

    Args:
        dag_input_node: The InputNode.
        key: An index or a name.
        accessor_method: "__getitem__" or "__getattr__".
    """

    def __init__(self, dag_input_node, key, accessor_method):
        self._dag_input_node, self._key, self._accessor_method = (
            dag_input_node,
            key,
            accessor_method,
        )
        super().__init__(
            (),
            {},
            {},
            {"dag_input_node": dag_input_node, "key": key, "accessor_method": accessor_method},
        )

    def _run(self, values, args, kwargs):
        whole = values.of(self._dag_input_node)
        try:
            if isinstance(whole, DAGInputData) or self._accessor_method == "__getitem__":
                return whole[self._key]
            return getattr(whole, self._key)
        except (IndexError, KeyError, AttributeError, TypeError) as e:
            given = (
                f"{len(args)} positional and {sorted(kwargs) or 'no'} keyword arguments"
                if isinstance(whole, DAGInputData)
                else repr(type(whole))
            )
            raise ValueError(
                f"the graph takes {self._name()}, which the arguments of dag.execute() do not have: {given} ({e!r})"
            ) from e

    def _name(self):
        return (
            f"input.{self._key}"
            if self._accessor_method == "__getattr__"
            else f"input[{self._key!r}]"
        )

    @property
    def key(self):
        """The index or name."""
        return self._key


class DAGInputData:
    """All arguments of execute(), if there are several: data[0], data["name"]."""

    def __init__(self, *args, **kwargs):
        self._args, self._kwargs = list(args), kwargs

    def __getitem__(self, key):
        if not isinstance(key, (int, str)):
            raise ValueError(
                "Please only use int index or str as first-level key to access fields of dag input."
            )
        return self._args[key] if isinstance(key, int) else self._kwargs[key]
