"""The part of skate.data.extensions for Python objects, under Ray's name of the module."""

from skate.data.extensions import (  # noqa: F401
    ArrowPythonObjectArray,
    ArrowPythonObjectScalar,
    ArrowPythonObjectType,
    PythonObjectArray,
    PythonObjectDtype,
)
