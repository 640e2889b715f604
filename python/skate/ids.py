"""Identifiers as Ray's programs see them: a fixed number of bytes with a class. Objects' own are `ObjectRef` (src/py/py_ref.c)."""

import os


class UniqueID:
    """Base of all identifiers but ObjectRef. Immutable; equal by class and bytes."""

    __slots__ = ("_bytes",)
    _SIZE = 28

    def __init__(self, id):
        if not isinstance(id, bytes):
            raise TypeError(f"Unsupported type: {type(id)}; {type(self).__name__} is made of {self._SIZE} bytes")
        if len(id) != self._SIZE:
            raise ValueError(f"ID string needs to have length {self._SIZE}, got {len(id)}")
        self._bytes = id

    @classmethod
    def from_binary(cls, id_bytes):
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id):
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_random(cls):
        return cls(os.urandom(cls._SIZE))

    @classmethod
    def nil(cls):
        return cls(b"\xff" * cls._SIZE)

    @classmethod
    def size(cls):
        return cls._SIZE

    @classmethod
    def _of(cls, number):
        """The identifier of one of the engine's numbers."""
        return cls(number.to_bytes(cls._SIZE, "big"))

    def binary(self):
        return self._bytes

    def hex(self):
        return self._bytes.hex()

    def is_nil(self):
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


def _kind(name, size):
    return type(name, (UniqueID,), {"_SIZE": size, "__slots__": (), "__module__": __name__, "__qualname__": name})


ActorID = _kind("ActorID", 16)
TaskID = _kind("TaskID", 24)
NodeID = _kind("NodeID", 28)
WorkerID = _kind("WorkerID", 28)
FunctionID = _kind("FunctionID", 28)
ActorClassID = _kind("ActorClassID", 28)
ClusterID = _kind("ClusterID", 28)
PlacementGroupID = _kind("PlacementGroupID", 18)


class JobID(UniqueID):
    __slots__ = ()
    _SIZE = 4

    @classmethod
    def from_int(cls, value):
        return cls(value.to_bytes(4, "little"))

    def int(self):
        return int.from_bytes(self._bytes, "little")


for _cls in (ActorID, TaskID):
    _cls.job_id = property(lambda self: JOB)
JOB = JobID.from_int(1)  # there is one job in an engine
NODE = NodeID._of(1)  # and one node
