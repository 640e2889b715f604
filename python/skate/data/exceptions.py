"""Exceptions of data pipelines, under Ray's module name."""

from __future__ import annotations

from skate.data.on_error import UntrustedPickleError  # noqa: F401
from skate.data.run.dead_letters import TooManyErrors  # noqa: F401
from skate.exceptions import UserCodeException  # noqa: F401

__all__ = [
    "RayDataUserCodeException",
    "SystemException",
    "TooManyErrors",
    "UntrustedPickleError",
    "UserCodeException",
]

RayDataUserCodeException = UserCodeException


class SystemException(Exception):
    """Ray's name for errors that are not the user's fault; skate raises more exact classes."""
