"""Serializers that the user registers for classes."""

import copyreg

_registered = set()


def register_serializer(cls, *, serializer, deserializer):
    """Instances of exactly this class are pickled in this process as serializer(instance), and made
    again by deserializer() from that value.

    Register it in the process that sends; the deserializer goes along. It holds for pickle as a
    whole (copyreg), not for skate only."""
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
