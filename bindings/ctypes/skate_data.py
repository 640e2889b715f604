"""skate_data.h from Python by ctypes: pipelines of libskate, without skate's own Python package.

Batches cross as structs of the Arrow C Data Interface, functions of batches are callbacks, and
workers run the same script up to start(). The variable LIBSKATE may name the library.

    @skate_data.batches
    def halve(batch):                       # pyarrow.RecordBatch -> batches; runs in workers
        yield batch.set_column(0, "x", pc.divide(batch["id"], 2))

    skate_data.start()                      # returns in the script itself, not in workers
    ds = skate_data.range(1000000).map(halve).sort("x", descending=True)
    print(ds.stream().read_all())           # a pyarrow.RecordBatchReader
"""

import ctypes as c
import os
import sys

import pyarrow as pa

lib = c.CDLL(os.environ.get("LIBSKATE", "libskate.so.0"))
_P, _S, _I64, _SIZE = c.c_void_p, c.c_char_p, c.c_int64, c.c_size_t


def _struct(name, /, **fields):
    return type(name, (c.Structure,), {"_fields_": list(fields.items())})


_BATCH_FN = c.CFUNCTYPE(c.c_int, _P, _P, _P)
_RELEASE = c.CFUNCTYPE(None, _P)
_Fns = _struct("Fns", size=_SIZE, batch=_BATCH_FN, init=_P, fini=_P, begin=_P, end=_P, drop=_P)
_Key = _struct("Key", column=_S, descending=c.c_bool, nulls_first=c.c_bool)
_Agg = _struct("Agg", kind=_S, column=_S, name=_S, nulls=c.c_bool, ddof=c.c_int32, q=c.c_double)
_SCHEMA, _ARRAY, _STREAM = c.c_uint64 * 9, c.c_uint64 * 10, c.c_uint64 * 5  # structs, in words
_SCHEMA_RELEASE = 7  # the word of the callback

_FUNCTIONS = {  # the type of the result, then those of the arguments
    "skate_error": (_S,),
    "skate_worker_main": (c.c_int, c.c_int, _P),
    "skate_init": (c.c_int, _P),
    "skate_register_batches": (c.c_int, _S, _P),
    "skate_emit": (c.c_int, _P, _P, _P),
    "skate_fail": (c.c_int, _P, _S),
    "skate_dataset_retain": (_P, _P),
    "skate_dataset_release": (None, _P),
    "skate_range": (_P, _I64, _S, _P),
    "skate_from_stream": (_P, _P),
    "skate_map": (_P, _P, _S, _P),
    "skate_sort": (_P, _P, _P, _SIZE, _P),
    "skate_groupby": (_P, _P, _P, _SIZE, _P, _SIZE, _P),
    "skate_stream": (c.c_int, _P, _P, _P),
}
for _name, (_result, *_args) in _FUNCTIONS.items():
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _result, _args


def _check(fine):
    if not fine:
        raise RuntimeError(lib.skate_error().decode(errors="replace"))


_no_release = _RELEASE(lambda at: _SCHEMA.from_address(at).__setitem__(_SCHEMA_RELEASE, 0))


def _import(schema, array):
    """Makes a RecordBatch of a batch, which it takes over, and a schema, which stays skate's."""
    copy = _SCHEMA.from_buffer_copy(_SCHEMA.from_address(schema))
    copy[_SCHEMA_RELEASE] = c.cast(_no_release, _P).value
    return pa.RecordBatch._import_from_c(array, c.addressof(copy))


def _emit(task, batch):
    schema, array = _SCHEMA(), _ARRAY()
    batch._export_to_c(c.addressof(array), c.addressof(schema))
    rc = lib.skate_emit(task, schema, array)
    _RELEASE(schema[_SCHEMA_RELEASE])(c.addressof(schema))
    return rc


_registered = []  # callbacks, which live as long as the process


def batches(function):
    """Registers a generator of batches under its name; to be called before start()."""

    def call(task, schema, array):
        try:
            given = _import(schema, array)
            return next((rc for out in function(given) if (rc := _emit(task, out))), 0)
        except BaseException as e:
            return lib.skate_fail(task, b"%s", f"{type(e).__name__}: {e}".encode())

    name, fns = function.__name__.encode(), _Fns(size=c.sizeof(_Fns), batch=_BATCH_FN(call))
    _registered.append((name, fns))
    _check(lib.skate_register_batches(name, c.byref(fns)) == 0)
    return function


def start():
    """Starts the engine. In a worker process it runs tasks instead, and the process ends here."""
    words = [sys.executable, *sys.orig_argv[1:]]
    argv = (_S * (len(words) + 1))(*map(os.fsencode, words))
    if worker := lib.skate_worker_main(len(words), argv):
        os._exit(worker < 0)
    _check(lib.skate_init(None) == 0)


class Dataset:
    """A plan. Nothing runs until it is streamed, and each stream runs it anew."""

    def __init__(self, ds):
        _check(ds)
        self._ds = ds

    def __del__(self):
        lib.skate_dataset_release(getattr(self, "_ds", None))

    def _then(self, operator, *args):
        return Dataset(operator(lib.skate_dataset_retain(self._ds), *args))

    def map(self, function):
        return self._then(lib.skate_map, function.__name__.encode(), None)

    def sort(self, *columns, descending=False):
        keys = (_Key * len(columns))(*(_Key(k.encode(), descending) for k in columns))
        return self._then(lib.skate_sort, keys, len(keys), None)

    def groupby(self, keys, **aggs):
        """aggs: names of results, each with (kind, column)."""
        names = (_S * len(keys))(*(k.encode() for k in keys))
        rows = [_Agg(kind.encode(), of.encode(), k.encode()) for k, (kind, of) in aggs.items()]
        results = (_Agg * len(rows))(*rows)
        return self._then(lib.skate_groupby, names, len(keys), results, len(rows), None)

    def stream(self):
        out = _STREAM()
        _check(lib.skate_stream(self._ds, None, out) == 0)
        return pa.RecordBatchReader._import_from_c(c.addressof(out))


def range(rows, column="id"):
    return Dataset(lib.skate_range(rows, column.encode(), None))


def from_reader(reader):
    """The batches of a pyarrow.RecordBatchReader, which can be streamed once."""
    stream = _STREAM()
    reader._export_to_c(c.addressof(stream))
    return Dataset(lib.skate_from_stream(stream))
