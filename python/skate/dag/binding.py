"""The functions behind `.bind()` of a task, an actor class and a method. remote_function.py and
actor.py load this module at the first call of bind()."""

from skate.dag.class_node import ClassNode as ClassNode
from skate.dag.class_node import bind_method as bind_method
from skate.dag.function_node import bind as bind
