"""Identifiers in the form of Ray: a fixed number of bytes with a class. The ids of objects are
`ObjectRef` (src/py/value/ref.c)."""

from __future__ import annotations

import os

__all__ = [
    "ActorClassID",
    "ActorID",
    "ClusterID",
    "FunctionID",
    "JobID",
    "NodeID",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
]

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Self


def random_uuid() -> str:
    """The same as str(uuid.uuid4()), without importing uuid and platform, which would delay
    init()."""
    h = bytearray(os.urandom(16))
    h[6], h[8] = h[6] & 0x0F | 0x40, h[8] & 0x3F | 0x80  # version 4, variant of RFC 4122
    t = h.hex()
    return f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}"


class UniqueID:
    """Base of all identifiers but ObjectRef. Immutable; equal by class and bytes.

    Args:
        id: The bytes of the identifier; size() says how many. TypeError, ValueError for anything
            else.
    """

    __slots__ = ("_bytes",)
    _SIZE = 28

    def __init__(self, id: bytes):
        if not isinstance(id, bytes):
            raise TypeError(
                f"Unsupported type: {type(id)}; {type(self).__name__} is made of {self._SIZE} bytes"
            )
        if len(id) != self._SIZE:
            raise ValueError(f"ID string needs to have length {self._SIZE}, got {len(id)}")
        self._bytes = id

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """The identifier with these bytes.

        Args:
            id_bytes: Bytes from binary().
        """
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """The identifier with these hexadecimal digits.

        Args:
            hex_id: Digits from hex().
        """
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_random(cls) -> Self:
        """An identifier of random bytes."""
        return cls(os.urandom(cls._SIZE))

    @classmethod
    def nil(cls) -> Self:
        """The identifier that names nothing; all its bits are set."""
        return cls(b"\xff" * cls._SIZE)

    @classmethod
    def size(cls) -> int:
        """The number of bytes of an identifier of this class."""
        return cls._SIZE

    @classmethod
    def _of(cls, number: int) -> Self:
        """The identifier of an actor, task or other object that the engine knows by a number."""
        return cls(number.to_bytes(cls._SIZE, "big"))

    def binary(self) -> bytes:
        """The bytes of this identifier."""
        return self._bytes

    def hex(self) -> str:
        """The bytes of this identifier as hexadecimal digits."""
        return self._bytes.hex()

    def is_nil(self) -> bool:
        """Whether this identifier names nothing."""
        return self._bytes == b"\xff" * self._SIZE

    def __eq__(self, other):
        return type(self) is type(other) and self._bytes == other._bytes

    def __hash__(self):
        return hash(self._bytes)

    def __lt__(self, other):
        return self._bytes < other._bytes if type(self) is type(other) else NotImplemented

    def __reduce__(self):
        return type(self), (self._bytes,)

    def __bytes__(self):
        return self._bytes

    def __str__(self):
        return repr(self)

    def __repr__(self):
        return f"{type(self).__name__}({self.hex()})"


class ActorID(UniqueID):
    """The id of an actor."""

    __slots__ = ()
    _SIZE = 16
    job_id = property(lambda self: JOB)


class TaskID(UniqueID):
    """The id of a task."""

    __slots__ = ()
    _SIZE = 24
    job_id = property(lambda self: JOB)


class NodeID(UniqueID):
    """The id of a machine."""

    __slots__ = ()


class WorkerID(UniqueID):
    """The id of a worker process."""

    __slots__ = ()


class FunctionID(UniqueID):
    """The id of a function."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """The id of an actor class."""

    __slots__ = ()


class ClusterID(UniqueID):
    """The id of an engine."""

    __slots__ = ()


class PlacementGroupID(UniqueID):
    """The id of a placement group."""

    __slots__ = ()
    _SIZE = 18


class JobID(UniqueID):
    """The id of a job."""

    __slots__ = ()
    _SIZE = 4

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """The JobID of the job with this number.

        Args:
            value: The number of the job.
        """
        return cls(value.to_bytes(4, "little"))

    def int(self):
        """The number of the job."""
        return int.from_bytes(self._bytes, "little")


JOB = JobID.from_int(1)  # there is one job in each engine
NODE = NodeID._of(1)  # there is one node on one machine
