"""FunctionNode: the node that f.bind(...) makes of a remote function."""

from skate.dag.dag_node import DAGNode, check_arguments


class FunctionNode(DAGNode):
    """A task.

    Args:
        remote: The RemoteFunction, with its options.
        args: Positional arguments of the function.
        kwargs: Keyword arguments.
        options: The options, for get_options().
    """

    def __init__(self, remote, args, kwargs, options):
        self._remote_function, self._body = remote, remote._function
        super().__init__(args, kwargs, options, {})

    def _check(self):
        check_arguments(self._body, 0, self._bound_args, self._bound_kwargs, self._body.__name__)

    def _run(self, values, args, kwargs):
        return self._remote_function.remote(*values.args(), **values.kwargs())

    def _called(self):
        return self._body.__name__

    def _name(self):
        return self._bound_options.get("name") or self._body.__name__


def bind(remote, own, args, kwargs):
    """f.bind(*args, **kwargs). own: whether the options are those of @remote; as in Ray, options
    from f.options() leave max_calls out."""
    options = dict(remote._options)
    if not own:
        options.pop("max_calls", None)
    elif options.get("num_gpus"):
        options.setdefault("max_calls", 1)
    return FunctionNode(remote, args, kwargs, options)
