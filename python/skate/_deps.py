"""What skate imports of others, each at its first use: `from skate._deps import np, pa`. Modules of skate import each other at their head."""

import importlib
import sys

_Module = type(sys)  # an exact module: the interpreter looks its attributes up as fast as those of the real one


def _module(name):
    """Stands for a module and imports it at the first look into it. What was found is kept, so that a later look is one into the module's own dictionary."""
    stand_in = _Module(name)

    def __getattr__(attribute):
        value = getattr(importlib.import_module(name), attribute)
        setattr(stand_in, attribute, value)
        return value

    stand_in.__getattr__ = __getattr__
    return stand_in


TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    import asyncio as asyncio
    import concurrent.futures as futures  # noqa: F401
    import dataclasses as dataclasses
    import difflib as difflib
    import hashlib as hashlib
    import hmac as hmac
    import importlib.metadata as importlib_metadata  # noqa: F401
    import importlib.util as importlib_util  # noqa: F401
    import inspect as inspect
    import json as json
    import linecache as linecache
    import logging as logging
    import lzma as lzma
    import pdb as pdb
    import platform as platform
    import re as re
    import tempfile as tempfile
    import traceback as traceback
    import urllib.parse as urllib_parse  # noqa: F401

    import cloudpickle as cloudpickle
    import dask as dask  # pyright: ignore[reportMissingImports]
    import datasets as datasets  # pyright: ignore[reportMissingImports]
    import fastavro as fastavro
    import fsspec as fsspec
    import graphviz as graphviz  # pyright: ignore[reportMissingImports]
    import IPython.display as ipython_display  # noqa: F401
    import joblib.parallel as joblib_parallel  # noqa: F401
    import lance as lance
    import lance.fragment as lance_fragment  # noqa: F401
    import numpy as np  # noqa: F401
    import packaging.requirements as packaging_requirements  # noqa: F401
    import pandas as pd  # noqa: F401
    import pandas.api.extensions as pd_extensions  # noqa: F401
    import PIL as PIL
    import PIL._imaging as PIL_imaging  # noqa: F401
    import PIL._imagingft as PIL_imagingft  # noqa: F401
    import PIL.Image as Image  # noqa: F401
    import pyarrow as pa  # noqa: F401
    import pyarrow._compute as pa_kernels  # noqa: F401
    import pyarrow.compute as pc  # noqa: F401
    import pyarrow.csv as pacsv  # noqa: F401
    import pyarrow.dataset as pads  # noqa: F401
    import pyarrow.fs as pafs  # noqa: F401
    import pyarrow.json as pajson  # noqa: F401
    import pyarrow.orc as orc  # noqa: F401
    import pyarrow.parquet as pq  # noqa: F401
    import pydot as pydot  # pyright: ignore[reportMissingImports]
    import rich.console as rich_console  # noqa: F401
    import rich.progress_bar as rich_progress_bar  # noqa: F401
    import rich.table as rich_table  # noqa: F401
    import rich.text as rich_text  # noqa: F401
    import torch as torch
    import torch.utils.data as torch_data  # noqa: F401
else:
    # ---- Packages of others.
    np = _module("numpy")
    pa = _module("pyarrow")
    pa_kernels = _module("pyarrow._compute")  # the kernels without pyarrow.compute, which takes ten times as long
    pacsv = _module("pyarrow.csv")
    pads = _module("pyarrow.dataset")
    pafs = _module("pyarrow.fs")
    pajson = _module("pyarrow.json")
    pc = _module("pyarrow.compute")
    orc = _module("pyarrow.orc")
    pq = _module("pyarrow.parquet")
    pd = _module("pandas")
    pd_extensions = _module("pandas.api.extensions")
    torch = _module("torch")
    torch_data = _module("torch.utils.data")
    cloudpickle = _module("cloudpickle")
    dask = _module("dask")
    datasets = _module("datasets")  # of Hugging Face
    fastavro = _module("fastavro")
    fsspec = _module("fsspec")
    graphviz = _module("graphviz")
    ipython_display = _module("IPython.display")
    joblib_parallel = _module("joblib.parallel")
    lance = _module("lance")
    lance_fragment = _module("lance.fragment")
    packaging_requirements = _module("packaging.requirements")
    PIL = _module("PIL")
    PIL_imaging = _module("PIL._imaging")
    PIL_imagingft = _module("PIL._imagingft")
    Image = _module("PIL.Image")
    pydot = _module("pydot")
    rich_console = _module("rich.console")
    rich_progress_bar = _module("rich.progress_bar")
    rich_table = _module("rich.table")
    rich_text = _module("rich.text")

    # ---- Modules of the standard library that take more than a millisecond, where a process that runs no Datasets may do without them.
    asyncio = _module("asyncio")
    dataclasses = _module("dataclasses")
    difflib = _module("difflib")
    futures = _module("concurrent.futures")
    hashlib = _module("hashlib")
    hmac = _module("hmac")
    importlib_metadata = _module("importlib.metadata")
    importlib_util = _module("importlib.util")
    inspect = _module("inspect")
    json = _module("json")
    linecache = _module("linecache")
    logging = _module("logging")
    lzma = _module("lzma")
    pdb = _module("pdb")
    platform = _module("platform")
    re = _module("re")
    tempfile = _module("tempfile")
    traceback = _module("traceback")
    urllib_parse = _module("urllib.parse")
