"""Addresses, at the place where programs look for them."""

from skate.util.helpers import get_node_ip_address as _address


def get_node_ip_address(address=None):
    """The IP address of this machine, as in nodes(); `address` has no effect."""
    return _address()
