"""A plugin of mypy, which knows what Python's types cannot say of tasks and actors:

    [mypy]
    plugins = skate.util.mypy_plugin

With it a class under @remote has .remote, .options and .bind (mypy ignores what the decorator of a
class returns); the methods of a handle have the signatures of the class, decorated or not, and a
name that the class lacks is an error; and each argument of .remote(...) may be a reference to a
value of the parameter's type, and is checked as such.

mypy imports this module; skate itself never does.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from mypy.expandtype import expand_type_by_instance
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import ARG_NAMED, ARG_OPT, ARG_POS, ARG_STAR2, Decorator, FuncDef, Var
from mypy.plugin import AttributeContext, ClassDefContext, MethodSigContext, Plugin
from mypy.plugins.common import add_attribute_to_class
from mypy.typeops import bind_self
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    Parameters,
    ParamSpecType,
    Type,
    TypeOfAny,
    TypeType,
    UnionType,
    get_proper_type,
)

HANDLE = "skate.actor.ActorHandle"
ACTOR_CLASS = "skate.actor.ActorClass"
REF = "skate._skate.ObjectRef"
OF_A_CLASS = ("remote", "options", "bind")  # what a class has under @remote
OF_EVERY_HANDLE = (
    "__ray_ready__",
    "__ray_call__",
    "__ray_terminate__",
    "_actor_id",
    "_ray_actor_id",
    "_token",
    "_meta",
    "_cls_name",
)


def plugin(version: str) -> type[Plugin]:
    """mypy's entry: the class of the plugin."""
    return SkatePlugin


class SkatePlugin(Plugin):
    """The hooks, by the full names that mypy asks for."""

    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return _remote_class if fullname in ("skate.api.remote", "skate.remote") else None

    def get_class_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        name = fullname.rpartition(".")[2]
        return (lambda context: _of_remote_class(context, name)) if name in OF_A_CLASS else None

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        owner, _, name = fullname.rpartition(".")
        return (lambda context: _of_handle(context, name)) if owner == HANDLE else None

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        if fullname == ACTOR_CLASS + ".remote":
            return lambda context: _of_constructor(
                context.api, context.default_signature, get_proper_type(context.type)
            )
        return _with_references if fullname == "skate.remote_function._Call.__call__" else None


def _any() -> Type:
    return AnyType(TypeOfAny.explicit)


def _instance(api: Any, fullname: str, args: Sequence[Type]) -> Instance:
    """The class of skate with these type arguments."""
    module, _, name = fullname.rpartition(".")
    info = api.modules[module].names[name].node
    return Instance(info, args)


def _is(t: Type | None, *names: str) -> TypeGuard[Instance]:
    return isinstance(t, Instance) and t.type.fullname in names


def _taking_references(api: Any, signature: CallableType) -> CallableType:
    """The signature with each parameter a value or a reference to one."""

    def taking(t: Type) -> Type:
        if isinstance(get_proper_type(t), (AnyType, ParamSpecType)):
            return t
        return UnionType.make_union([t, _instance(api, REF, [t])])

    return signature.copy_modified(arg_types=[taking(t) for t in signature.arg_types])


def _with_references(context: MethodSigContext) -> CallableType:
    """`.remote(...)` of functions and methods. The first of the overloads has the parameters of the
    function. The others are for checkers without this plugin, and are given a parameter that no
    call gives."""
    signature = context.default_signature
    if not any(_is_any_reference(get_proper_type(t)) for t in signature.arg_types):
        return _taking_references(context.api, signature)
    types, kinds, names = signature.arg_types, signature.arg_kinds, signature.arg_names
    if kinds[-1] != ARG_STAR2:
        return signature
    return signature.copy_modified(
        arg_types=[*types[:-1], _any(), types[-1]],
        arg_kinds=[*kinds[:-1], ARG_NAMED, kinds[-1]],
        arg_names=[*names[:-1], "(nothing)", names[-1]],
    )


def _is_any_reference(t: Type) -> bool:
    return _is(t, REF) and isinstance(get_proper_type(t.args[0]), AnyType)


def _of_constructor(api: Any, signature: CallableType, actor_class: Type) -> CallableType:
    """ActorClass[C].remote with the parameters of C's constructor."""
    actor = get_proper_type(actor_class.args[0]) if _is(actor_class, ACTOR_CLASS) else None
    if not isinstance(actor, Instance):
        return signature
    init = actor.type.get("__init__")
    method = init.node if init is not None else None
    t = get_proper_type(method.type) if isinstance(method, FuncDef) else None
    if not isinstance(t, CallableType):
        return signature
    t = _taking_references(api, _without_self(expand_type_by_instance(t, actor)))
    return signature.copy_modified(
        arg_types=t.arg_types, arg_kinds=t.arg_kinds, arg_names=t.arg_names
    )


def _without_self(t: CallableType) -> CallableType:
    if not t.arg_kinds or t.arg_kinds[0] not in (ARG_POS, ARG_OPT):
        return t  # (*args, **kwargs)
    return t.copy_modified(
        arg_types=t.arg_types[1:], arg_kinds=t.arg_kinds[1:], arg_names=t.arg_names[1:]
    )


def _remote_class(context: ClassDefContext) -> bool:
    """A class under @remote: it gets the attributes of an ActorClass, whose types come later."""
    for name in OF_A_CLASS:
        add_attribute_to_class(context.api, context.cls, name, _any(), is_classvar=True)
    context.cls.info.metadata["skate"] = {}
    return True


def _of_remote_class(context: AttributeContext, name: str) -> Type:
    """C.remote, C.options and C.bind of a class under @remote are those of ActorClass[C]."""
    t = get_proper_type(context.type)
    if isinstance(t, TypeType):
        t = get_proper_type(t.item)
    elif isinstance(t, CallableType):
        t = get_proper_type(t.ret_type)
    if not isinstance(t, Instance) or "skate" not in t.type.metadata:
        return context.default_attr_type
    owner = _instance(context.api, ACTOR_CLASS, [t])
    found = owner.type.get_method(name)
    declared = get_proper_type(found.type) if found is not None else None
    if not isinstance(declared, CallableType):
        return context.default_attr_type
    signature = bind_self(expand_type_by_instance(declared, owner), owner)
    return _of_constructor(context.api, signature, owner) if name == "remote" else signature


def _of_handle(context: AttributeContext, name: str) -> Type:
    """What a handle on an actor of class C has under a name: C's method, with .remote(...)."""
    handle, api = get_proper_type(context.type), context.api
    actor = get_proper_type(handle.args[0]) if _is(handle, HANDLE) else None
    if not isinstance(actor, Instance) or name in OF_EVERY_HANDLE:
        return context.default_attr_type
    found = actor.type.get(name)
    if found is None:
        if actor.type.fallback_to_any or actor.type.get_method("__getattr__"):
            return context.default_attr_type
        api.fail(f'The actor class "{actor.type.name}" has no method "{name}"', context.context)
        return _any()
    node = found.node
    if not isinstance(node, (FuncDef, Var, Decorator)):
        return context.default_attr_type  # a method with overloads
    t = get_proper_type(node.type)
    if t is None and isinstance(node, Decorator):
        t = get_proper_type(node.var.type)
    if t is None:
        return context.default_attr_type  # without annotations
    t = get_proper_type(expand_type_by_instance(t, map_instance_to_supertype(actor, node.info)))
    if _is(t, "skate.actor._Method"):  # under @method
        return _instance(api, "skate.actor.TypedActorMethod", t.args)
    if _is(t, "skate.actor._MethodOfSeveral"):
        return _instance(api, "skate.actor._ActorMethodOfSeveral", t.args)
    if not isinstance(t, CallableType):
        return context.default_attr_type
    if not getattr(node, "is_static", False):
        t = _without_self(t)
    parameters = Parameters(t.arg_types, t.arg_kinds, t.arg_names)
    return _instance(api, "skate.actor.TypedActorMethod", [parameters, t.ret_type])
