"""The part of skate.data.extensions for Python objects, under Ray's module name."""

from skate.data.extensions import (  # noqa: F401
    ArrowPythonObjectArray,
    ArrowPythonObjectScalar,
    ArrowPythonObjectType,
    PythonObjectArray,
    PythonObjectDtype,
)
