"""Errors of the state lists, under Ray's names."""

__all__ = [
    "DataSourceUnavailable",
    "RayStateApiException",
    "ServerUnavailable",
]


class DataSourceUnavailable(Exception):
    """The engine did not answer."""


class RayStateApiException(Exception):
    """A list could not be made as requested: too many rows are missing, or an argument is
    invalid."""


class ServerUnavailable(RayStateApiException):
    """There is no engine at the given address."""
