"""Runs Ray's microbenchmark: ray_perf.py PATH, which is in a checkout of Ray. It imports two modules
of Ray beside it: what it measures with is taken from there; its client, which skate has none of, is
left out."""

import importlib.util
import os
import runpy
import sys
import types

import ray

path = sys.argv[1]
if ray.__name__ == "skate":
    name = "ray._private.ray_microbenchmark_helpers"
    beside = os.path.join(os.path.dirname(path), "ray_microbenchmark_helpers.py")
    spec = importlib.util.spec_from_file_location(name, beside)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    client = types.ModuleType("ray._private.ray_client_microbenchmark")
    client.main = lambda results=None: results
    sys.modules[client.__name__] = client
sys.argv[:] = sys.argv[1:]
runpy.run_path(path, run_name="__main__")
