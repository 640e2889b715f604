"""`ray.types`: names for type annotations."""

from skate._skate import ObjectRef

__all__ = ["ObjectRef"]
