"""Imports of third-party packages, each at its first use: `from skate._deps import np, pa`. Modules
of skate import each other at their head; the few that would delay start-up are listed at the end,
with the milliseconds that each takes."""

import sys

# An object of exactly this type: the interpreter finds its attributes as fast as those of a module.
_Module = type(sys)


# packages whose name for pip is not that of their module
_PIP = {
    "PIL": "pillow",
    "IPython": "ipython",
    "lance": "pylance",
    "prometheus_client": "prometheus-client",
    "opentelemetry": "opentelemetry-api",
}


def _missing(package):
    """The error for a package that is not installed."""
    pip = _PIP.get(package, package)
    return ModuleNotFoundError(
        f"this needs the package {pip}, which is not installed here: pip install {pip}",
        name=package,
    )


def _imported(name):
    try:
        __import__(name)  # importlib takes a millisecond, and is one of the stand-ins
    except ModuleNotFoundError as e:
        package = name.partition(".")[0]
        if e.name != package:
            raise
        raise _missing(package) from None


def need(package):
    """Raises the error for a package that is not installed; imports nothing."""
    if importlib_util.find_spec(package) is None:
        raise _missing(package)


def stand_in(name):
    """A stand-in for a module, which imports the module when an attribute is first read. It stores
    the attributes in its own dictionary, so later reads are fast. Variables of skate's own modules
    are not stored, since they may change."""
    made, ours = _Module(name), name.startswith("skate.")

    def __getattr__(attribute):
        try:
            _imported(name)
        except ModuleNotFoundError:
            # inspect and doctest read these names, for which the module is not imported
            if attribute.startswith("__"):
                raise AttributeError(attribute) from None
            raise
        value = getattr(sys.modules[name], attribute)
        if callable(value) or not ours:
            setattr(made, attribute, value)
        return value

    made.__getattr__ = __getattr__
    return made


def load(*modules):
    """Imports the modules of these stand-ins now: to use idle time, or for the side effects of an
    import (registering skate's types with Arrow)."""
    for m in modules:
        _imported(m.__name__)


TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    import asyncio as asyncio
    import concurrent.futures as futures  # noqa: F401
    import dataclasses as dataclasses
    import difflib as difflib
    import fractions as fractions
    import glob as glob
    import hashlib as hashlib
    import hmac as hmac
    import html as html
    import importlib as importlib
    import importlib.metadata as importlib_metadata  # noqa: F401
    import importlib.util as importlib_util  # noqa: F401
    import inspect as inspect
    import json as json
    import linecache as linecache
    import locale as locale
    import logging as logging
    import lzma as lzma
    import mmap as mmap
    import pdb as pdb
    import platform as platform
    import random as random
    import re as re
    import shutil as shutil
    import tempfile as tempfile
    import traceback as traceback
    import urllib.parse as urllib_parse  # noqa: F401
    import warnings as warnings

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
    import matplotlib.figure as mpl_figure  # noqa: F401
    import matplotlib.pyplot as pyplot  # noqa: F401
    import numpy as np  # noqa: F401
    import opentelemetry.trace as otel_trace  # noqa: F401
    import packaging.requirements as packaging_requirements  # noqa: F401
    import pandas as pd  # noqa: F401
    import pandas.api.extensions as pd_extensions  # noqa: F401
    import PIL as PIL
    import PIL._imaging as PIL_imaging  # noqa: F401
    import PIL._imagingft as PIL_imagingft  # noqa: F401
    import PIL.Image as Image  # noqa: F401
    import prometheus_client as prometheus  # noqa: F401
    import prometheus_client.core as prometheus_core  # noqa: F401
    import pyarrow as pa  # noqa: F401
    import pyarrow._compute as pa_kernels  # noqa: F401
    import pyarrow.compute as pc  # noqa: F401
    import pyarrow.csv as pacsv  # noqa: F401
    import pyarrow.dataset as pads  # noqa: F401
    import pyarrow.fs as pafs  # noqa: F401
    import pyarrow.json as pajson  # noqa: F401
    import pyarrow.orc as orc  # noqa: F401
    import pyarrow.parquet as pq  # noqa: F401
    import pyarrow.types as pa_types  # noqa: F401
    import pydot as pydot  # pyright: ignore[reportMissingImports]
    import rich.console as rich_console  # noqa: F401
    import rich.live as rich_live  # noqa: F401
    import rich.progress_bar as rich_progress_bar  # noqa: F401
    import rich.table as rich_table  # noqa: F401
    import rich.text as rich_text  # noqa: F401
    import torch as torch
    import torch.utils.data as torch_data  # noqa: F401

    from skate import logging_config as logging_config
    from skate.calls import by_value as by_value  # noqa: F401
    from skate.compat import as_ray as as_ray
    from skate.dag import binding as binding
    from skate.data import extensions as extensions
    from skate.data.expr import evaluation as evaluation
    from skate.data.methods import by_key as by_key  # noqa: F401
    from skate.data.methods import split as split
    from skate.data.write import job as write_job  # noqa: F401
    from skate.util.joblib import ray_backend as ray_backend
else:
    # ---- Packages of third parties.
    np = stand_in("numpy")
    pa = stand_in("pyarrow")
    # pyarrow's compute functions, without the module pyarrow.compute, whose import takes ten times
    # as long.
    pa_kernels = stand_in("pyarrow._compute")
    pa_types = stand_in("pyarrow.types")
    pacsv = stand_in("pyarrow.csv")
    pads = stand_in("pyarrow.dataset")
    pafs = stand_in("pyarrow.fs")
    pajson = stand_in("pyarrow.json")
    pc = stand_in("pyarrow.compute")
    orc = stand_in("pyarrow.orc")
    pq = stand_in("pyarrow.parquet")
    pd = stand_in("pandas")
    pd_extensions = stand_in("pandas.api.extensions")
    torch = stand_in("torch")
    torch_data = stand_in("torch.utils.data")
    cloudpickle = stand_in("cloudpickle")
    dask = stand_in("dask")
    datasets = stand_in("datasets")  # the package of Hugging Face
    fastavro = stand_in("fastavro")
    fsspec = stand_in("fsspec")
    graphviz = stand_in("graphviz")
    ipython_display = stand_in("IPython.display")
    joblib_parallel = stand_in("joblib.parallel")
    lance = stand_in("lance")
    lance_fragment = stand_in("lance.fragment")
    mpl_figure = stand_in("matplotlib.figure")
    pyplot = stand_in("matplotlib.pyplot")
    otel_trace = stand_in("opentelemetry.trace")
    packaging_requirements = stand_in("packaging.requirements")
    prometheus = stand_in("prometheus_client")
    prometheus_core = stand_in("prometheus_client.core")
    PIL = stand_in("PIL")
    PIL_imaging = stand_in("PIL._imaging")
    PIL_imagingft = stand_in("PIL._imagingft")
    Image = stand_in("PIL.Image")
    pydot = stand_in("pydot")
    rich_console = stand_in("rich.console")
    rich_live = stand_in("rich.live")
    rich_progress_bar = stand_in("rich.progress_bar")
    rich_table = stand_in("rich.table")
    rich_text = stand_in("rich.text")

    # ---- Modules of the standard library that take more than a millisecond to import and that a
    # process without Datasets may not need.
    asyncio = stand_in("asyncio")
    dataclasses = stand_in("dataclasses")
    difflib = stand_in("difflib")
    fractions = stand_in("fractions")
    futures = stand_in("concurrent.futures")
    glob = stand_in("glob")
    hashlib = stand_in("hashlib")
    hmac = stand_in("hmac")
    html = stand_in("html")
    importlib = stand_in("importlib")
    importlib_metadata = stand_in("importlib.metadata")
    importlib_util = stand_in("importlib.util")
    inspect = stand_in("inspect")
    json = stand_in("json")
    linecache = stand_in("linecache")
    locale = stand_in("locale")
    logging = stand_in("logging")
    lzma = stand_in("lzma")
    mmap = stand_in("mmap")
    pdb = stand_in("pdb")
    platform = stand_in("platform")
    random = stand_in("random")
    re = stand_in("re")
    shutil = stand_in("shutil")
    tempfile = stand_in("tempfile")
    traceback = stand_in("traceback")
    urllib_parse = stand_in("urllib.parse")
    warnings = stand_in("warnings")

    # ---- Modules of skate, with the milliseconds that their import would add to `import skate` or
    # to the first rows of a Dataset: no more than ten modules (tests/shape.py).
    as_ray = stand_in("skate.compat.as_ray")  # 23, with importlib.metadata
    by_value = stand_in("skate.calls.by_value")  # 16, with cloudpickle
    by_key = stand_in("skate.data.methods.by_key")  # 3: 7 modules
    binding = stand_in("skate.dag.binding")  # 36, with asyncio and skate.dag
    evaluation = stand_in(
        "skate.data.expr.evaluation"
    )  # 0: it and expressions.py import each other
    extensions = stand_in("skate.data.extensions")  # 290, with pandas
    logging_config = stand_in("skate.logging_config")  # 12, with logging, json and dataclasses
    # 160, with joblib, which may be missing
    ray_backend = stand_in("skate.util.joblib.ray_backend")
    split = stand_in("skate.data.methods.split")  # 1: 3 modules
    write_job = stand_in("skate.data.write.job")  # 3: 9 modules, for writes only
