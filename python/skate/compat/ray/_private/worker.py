"""The parts of Ray's worker object that tests and packages use. Programs should not use them."""

from skate import _skate


class _CoreWorker:
    def get_all_reference_counts(self):
        """In the driver: {hexadecimal id as bytes: {"local": number of ObjectRefs in this process,
        "submitted": number of other holders}} for the objects that the driver holds or has made
        (ids of workers have their number above bit 40)."""
        return {
            number.to_bytes(28, "big").hex().encode(): {"local": local, "submitted": others}
            for number, (local, others) in _skate.references().items()
            if local or not number >> 40
        }

    def object_exists(self, ref):
        """Whether the object exists: it was made, and has a holder."""
        return int.from_bytes(ref.binary()[-8:], "big") in _skate.references()


class _Worker:
    core_worker = _CoreWorker()

    @property
    def mode(self):
        """SCRIPT_MODE in the driver, WORKER_MODE in a worker, None before init()."""
        return 1 if _skate.in_worker() else 0 if _skate.is_initialized() else None

    @property
    def connected(self):
        return self.mode is not None


global_worker = _Worker()
