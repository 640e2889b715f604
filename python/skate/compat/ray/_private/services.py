"""Addresses, where programs look for them."""

from skate.util.helpers import get_node_ip_address as _address


def get_node_ip_address(address=None):
    """This machine's, as nodes() has it; `address`, a server to reach it by, has no meaning
    here."""
    return _address()
