"""Random numbers and UUIDs that are functions of a seed and a row's place, so that a row has the same
one whichever worker computes it, and after a retry. The numbers are SplitMix64's (Steele et al.,
2014), which passes BigCrush: number i of a stream is a mix of seed + i * GOLDEN."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa

GOLDEN = 0x9E3779B97F4A7C15
_ALL = (1 << 64) - 1


def _mixed(z: int) -> int:
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _ALL
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _ALL
    return z ^ z >> 31


def bits_at(seed: int, places: Any, stream: int = 0) -> Any:
    """64 random bits for each place of a NumPy array of whole numbers."""
    z = places.astype(np.uint64) * np.uint64(GOLDEN)
    # seeds are mixed, so that seed + GOLDEN is not the same stream, one place further on
    z += np.uint64(_mixed(_mixed(seed) ^ stream))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def numbers(seed: int, first: int, last: int) -> Any:
    """A NumPy array of numbers in [0, 1), one for each place."""
    return (bits_at(seed, np.arange(first, last)) >> np.uint64(11)) * (1.0 / (1 << 53))


def uuids(seed: int, first: int, last: int) -> Any:
    """An Arrow array of the texts of UUIDs of version 4, one for each place."""
    n = last - first
    places = np.arange(first, last)
    raw = np.stack([bits_at(seed, places, 1), bits_at(seed, places, 2)], axis=1)
    raw = raw.astype(">u8").view(np.uint8).reshape(n, 16)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    hexed = np.stack([digits[raw >> 4], digits[raw & 15]], axis=2).reshape(n, 32)
    text = np.full((n, 36), ord("-"), np.uint8)
    for to, start, end in ((0, 0, 8), (9, 8, 12), (14, 12, 16), (19, 16, 20), (24, 20, 32)):
        text[:, to : to + end - start] = hexed[:, start:end]
    offsets = np.arange(n + 1, dtype=np.int64) * 36
    return pa.Array.from_buffers(
        pa.large_string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    ).cast(pa.string())
