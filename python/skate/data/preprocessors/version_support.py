"""The names under which classes of preprocessors are serialized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from skate.data import preprocessors as package

_C = TypeVar("_C", bound=type)
_CLASSES: dict[str, Any] = {}
# Ray's names of the built-in classes, so that each library can read what the other has written
OURS = "io.ray.preprocessors."


class UnknownPreprocessorError(ValueError):
    """The error if no class has the name that the serialized data contain."""

    def __init__(self, preprocessor_type: str):
        self.preprocessor_type = preprocessor_type
        super().__init__(
            f"there is no preprocessor with the identifier {preprocessor_type!r}; import the module that defines it first"
        )


def SerializablePreprocessor(version: int, identifier: str) -> Callable[[_C], _C]:
    """Decorates a preprocessor class: its objects are serialized under this name.

    Args:
        version: Version of the fields that the class writes.
        identifier: The name. A class that has it already gives it up.

    Raises:
        TypeError: The class is no SerializablePreprocessorBase.
    """

    def named(cls: Any) -> Any:
        if not hasattr(cls, "set_preprocessor_class_id"):
            raise TypeError(
                f"@SerializablePreprocessor is for classes that inherit from SerializablePreprocessorBase; {cls.__name__} does not"
            )
        cls.set_version(version)
        cls.set_preprocessor_class_id(identifier)
        _CLASSES[identifier] = cls
        return cls

    return named


def class_of(identifier: str) -> Any:
    """The class of a name, imported if it is built in; else raises UnknownPreprocessorError."""
    if identifier not in _CLASSES and identifier.startswith(OURS):
        for name in dir(package):
            getattr(package, name)
    if identifier not in _CLASSES:
        raise UnknownPreprocessorError(identifier)
    return _CLASSES[identifier]
