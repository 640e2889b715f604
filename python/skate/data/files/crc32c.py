"""CRC-32C as record formats use it: rotated and shifted ("masked"), so that the checksum of data
which contains checksums is still a good one."""

from __future__ import annotations

from skate._skate import crc32c


def masked(data: bytes) -> int:
    """The masked CRC-32C of TFRecord and of the snappy framing format."""
    c = crc32c(data)
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF
