"""Serializers that the user registers for classes."""

import copyreg

_registered = set()


def register_serializer(cls, *, serializer, deserializer):
    """Makes this process pickle instances of exactly this class as serializer(instance); the
    receiver makes them again with deserializer(value).

    Call it in the process that sends; the deserializer is sent along. It changes pickle as a whole
    (copyreg), not only skate."""
    if not isinstance(cls, type):
        raise TypeError(f"register_serializer: a class is wanted, not {cls!r}")
    if not callable(serializer) or not callable(deserializer):
        raise TypeError("register_serializer: serializer and deserializer must be callable")

    def reduce(obj):
        return deserializer, (serializer(obj),)

    copyreg.pickle(cls, reduce)
    _registered.add(cls)


def deregister_serializer(cls):
    """Undoes register_serializer; does nothing for a class without a serializer."""
    if cls in _registered:
        _registered.discard(cls)
        copyreg.dispatch_table.pop(cls, None)
