"""ClassNode: an actor that the graph makes; ClassMethodNode: a call of such an actor, or of an
actor that exists already."""

from skate.calls import options
from skate.dag.constants import (
    BIND_INDEX_KEY,
    IS_CLASS_METHOD_OUTPUT_KEY,
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
)
from skate.dag.dag_node import DAGNode, check_arguments


class ClassNode(DAGNode):
    """An actor. Each execute() makes a new one, whose methods are called in the order of their
    bind(); it ends when the last reference to it is gone.

    Args:
        actor_class: The ActorClass, with its options.
        args: Positional arguments of the constructor.
        kwargs: Keyword arguments.
    """

    def __init__(self, actor_class, args, kwargs):
        self._actor_class, self._body = actor_class, actor_class._cls
        self._last_call = None
        check_arguments(self._body.__init__, 1, args, kwargs, self._body.__name__)
        super().__init__(args, kwargs, dict(actor_class._options), {})
        if any(node.is_input for node in self._ordered()):
            raise ValueError(
                "InputNode handles user dynamic input the DAG, and cannot be used as args, kwargs, or other_args_to_resolve in ClassNode constructor "
                "because it is not available at class construction or binding time."
            )

    def _run(self, values, args, kwargs):
        return self._actor_class.remote(*values.args(), **values.kwargs())

    def _name(self):
        return self._bound_options.get("name") or self._body.__name__

    def __getattr__(self, name):
        body = self.__dict__.get("_body")
        if body is None or name.startswith("__"):
            raise AttributeError(name)
        if name == "bind" and not hasattr(body, "bind"):
            raise AttributeError(f".bind() cannot be used again on {type(self)} ")
        getattr(body, name)
        return _Method(self, name, {})


class _Method:
    """A method of a ClassNode, before bind()."""

    def __init__(self, actor, name, given):
        self._actor, self._name, self._given = actor, name, given

    def options(self, **given):
        """The same method with other options."""
        return _Method(
            self._actor,
            self._name,
            {**self._given, **options.check(options.METHOD, given, "methods")},
        )

    def bind(self, *args, **kwargs):
        """Makes a node for a call of the method; the call runs after the calls that were bound
        before it."""
        actor = self._actor
        other = {PARENT_CLASS_NODE_KEY: actor, PREV_CLASS_METHOD_CALL_KEY: actor._last_call}
        declared, function = actor._actor_class._base._all_methods.get(self._name, ({}, None))
        check_arguments(function, 1, args, kwargs, self._name)
        actor._last_call = ClassMethodNode(
            self._name,
            args,
            kwargs,
            self._given,
            other,
            {**declared, **self._given}.get("num_returns"),
        )
        return actor._last_call

    def __getattr__(self, name):
        if name == "remote":
            raise AttributeError(
                ".remote() cannot be used on ClassMethodNodes. Use .bind() instead to express an symbolic actor call."
            )
        raise AttributeError(
            f"a method of a ClassNode has no attribute '{name}'; it has .bind() and .options()"
        )


class ClassMethodNode(DAGNode):
    """A call of an actor's method, or one of the values of a call with several values.

    Args:
        name: The name of the method.
        args: Positional arguments; for one value of a call: (the call, the value's index).
        kwargs: Keyword arguments.
        given: The options of the call.
        other: The actor, and the previous call of it: see skate.dag.constants.
        returns: The number of values that the call has.
        method: The ActorMethod with its options, if the actor exists already.
    """

    def __init__(self, name, args, kwargs, given, other, returns: int | None = 1, method=None):
        self._method_name, self._returns, self._method = name, returns, method
        self._is_class_method_output = other.get(IS_CLASS_METHOD_OUTPUT_KEY, False)
        super().__init__(args, kwargs, given, other)

    def _run(self, values, args, kwargs):
        if self._is_class_method_output:
            return values.of(self._bound_args[0])[self._bound_args[1]]
        method = self._method
        if method is None:
            method = getattr(
                values.of(self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]),
                self._method_name,
            )
            if self._bound_options:
                method = method.options(**self._bound_options)
        return method.remote(*values.args(), **values.kwargs())

    def _name(self):
        return self._bound_options.get("name") or f"{self._method_name}()"

    def _called(self):
        return self.get_method_name()

    def get_method_name(self):
        """The name of the method; for a value of a call, return_idx_<index>."""
        return self._method_name

    @property
    def num_returns(self):
        """The number of values that the call has."""
        return 1 if self._returns is None else self._returns

    @property
    def is_class_method_call(self):
        """Whether the node is a call."""
        return not self._is_class_method_output

    @property
    def is_class_method_output(self):
        """Whether the node is one of the values of a call."""
        return self._is_class_method_output

    @property
    def class_method_call(self):
        """The call of which this node is one of several values; None if this node is a call."""
        return self._bound_args[0] if self._is_class_method_output else None

    @property
    def output_idx(self):
        """The index of this value among the values of its call; None if this node is a call."""
        return self._bound_args[1] if self._is_class_method_output else None


def bind_method(handle, method, args, kwargs):
    """handle.method.bind(*args, **kwargs): a node, or a tuple of nodes if the method has several
    values. method: the ActorMethod."""
    check_arguments(method._func, 1, args, kwargs, method._name)
    given = {k: v for k, v in method._given.items() if k != "_decorate"}
    returns = given.get("num_returns")
    call = ClassMethodNode(
        method._name,
        args,
        kwargs,
        given,
        {PARENT_CLASS_NODE_KEY: handle, PREV_CLASS_METHOD_CALL_KEY: None},
        returns,
        method,
    )
    call._bound_other_args_to_resolve[BIND_INDEX_KEY] = call._number
    if not isinstance(returns, int) or returns < 2:
        return call
    part = {PARENT_CLASS_NODE_KEY: handle, IS_CLASS_METHOD_OUTPUT_KEY: True}
    return tuple(
        ClassMethodNode(f"return_idx_{i}", (call, i), {}, {}, part, returns) for i in range(returns)
    )
