"""`skate replay`: runs a function again under pdb, on the batch on which it failed."""

from __future__ import annotations

import faulthandler
import sys

from skate._deps import pa, pdb
from skate.data import op
from skate.data.values import marks
from skate.data.worker import replay, task


def run(name: str, step: bool = False) -> None:
    """Runs the function again on the saved batch `name`, with pdb at the frame that raises. step:
    also stops at the function's first line."""
    faulthandler.enable()  # prints a stack if the function ends the process
    sys.path.insert(0, "")
    try:
        data = replay.load(name)
        params = data["params"]
    except ModuleNotFoundError as e:
        raise LookupError(f"{e}: run it in the environment and folder of the program") from None
    with pa.ipc.open_stream(data["batch"]) as r:
        rb = marks.as_kept(r.read_next_batch(), data["schema"])
    print(
        f"{params['label']}: {data['where']}; {rb.num_rows} row{'s' if rb.num_rows != 1 else ''} of {', '.join(rb.schema.names)}",
        flush=True,
    )
    if "ctor" in params:
        args, kwargs = params["ctor"]
        params["fn"] = params["fn"](*args, **kwargs)
    if step:
        fn = params["fn"]
        params["fn"] = lambda *a, **k: pdb.runcall(fn, *a, **k)
    try:
        for _ in op.find(params["op"]).run(params, iter([rb]), task.task):
            pass
    except Exception as e:
        print(f"{type(e).__name__}: {e}", flush=True)
        pdb.post_mortem(e.__traceback__)
    else:
        print("It does not fail this time.")
