"""Addresses, under the module name that programs import from Ray."""

from skate.util.helpers import get_node_ip_address as _address


def get_node_ip_address(address=None):
    """The IP address of this machine, as in nodes(); `address` has no effect."""
    return _address()
