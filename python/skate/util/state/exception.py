"""Errors of the state lists, under Ray's names."""


class DataSourceUnavailable(Exception):
    """The engine could not be asked."""


class RayStateApiException(Exception):
    """A list could not be made as asked: too many rows are missing, or an argument is invalid."""


class ServerUnavailable(RayStateApiException):
    """There is no engine at that address."""
