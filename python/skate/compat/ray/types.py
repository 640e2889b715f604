"""`ray.types`: names for annotations."""

from skate._skate import ObjectRef

__all__ = ["ObjectRef"]
