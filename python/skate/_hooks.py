"""The Python functions that C calls (src/py: hooks), and install(), which passes them to C: for the
fork server, for workers, and around calls. The other hooks are in serialize.py, user_errors.py and
ref.py."""

import _pickle as pickle  # without re and struct
import _signal
import atexit
import faulthandler
import gc
import os
import sys

from skate import _job, _skate, ref, runtime_env, serialize
from skate._deps import as_ray, asyncio, by_value, inspect, logging_config
from skate.calls import options, user_errors
from skate.calls.user_errors import only_text
from skate.terminal import debugger, prints


def preload_note(modules=(), path=None, cwd=None, hook=None, job=None, labels=None):
    """Makes a note for the fork server, as bytes. None for an argument: the value of an earlier
    note stays. If `import ray` means skate in this process, it does in the fork server, too.

    Args:
        modules: Names of modules to import.
        path: The sys.path to use.
        cwd: The working directory.
        hook: A function, or its name, that each worker calls first.
        job: What workers know about their job, pickled.
        labels: Whether the prints of workers have labels.
    """
    if hook is not None:
        hook = by_value.dumps(hook, protocol=5)
    as_ray = sys.modules.get("skate.compat.as_ray")
    return pickle.dumps(
        {
            "modules": list(modules),
            "path": path,
            "cwd": cwd,
            "hook": hook,
            "job": job,
            "labels": labels,
            "ray": bool(as_ray and as_ray.active()),
        },
        5,
    )


_setup_hook = None


def note(data):
    global _setup_hook
    d = pickle.loads(data)
    _setup_hook = d.get("hook") or _setup_hook
    if d["job"]:
        _job.hand(d["job"])
    if d["labels"] is not None:
        prints.labelled = d["labels"]
    if d["cwd"]:
        try:
            os.chdir(d["cwd"])
        except OSError:
            pass  # the folder was removed in the meantime: workers stay in the fork server's folder
    if d["path"] is not None:
        try:
            __import__(
                "cloudpickle"
                # Import the modules of the standard library that the hook needs before sys.path
                # changes: a folder of the program may have modules with the same names
            )
        except ImportError:
            pass  # only the program's sys.path can find this module
        sys.path[:] = d["path"]
    gc.disable()  # imports make no garbage that is worth collecting
    if d["ray"]:
        as_ray.install()
    for name in d["modules"]:
        try:
            __import__(name)
            # modules that a worker would import when it first uses the module `name`
            for more in getattr(sys.modules[name], "WORKERS_IMPORT", ()):
                __import__(more)
        except Exception as e:  # the task that needs the module will raise a proper error
            print(f"skate: cannot preload {name}: {only_text(e)}", file=sys.stderr)
    # A collection in a worker would write to each object, and so copy every page of memory that
    # workers share with this process.
    gc.freeze()
    gc.enable()


def after_fork():
    """Prepares a fresh worker."""
    if os.environ.get("SKATE_GPUS") or os.environ.get("SKATE_DEVICES"):  # the job has devices
        # the names of the driver's GPUs
        _gpu_names[:] = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
        set_gpus(())
    # C has unset these variables, but os.environ was read before C did so.
    for name in ("SKATE_FORK_FD", "SKATE_CTL", "SKATE_VIEW"):
        os.environ.pop(name, None)
    prints.begin()
    debugger.begin()
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    random = sys.modules.get("random")
    if random is not None:
        random.seed()
    # SIGINT means a cancelled task here; Ctrl-C is for the driver.
    _signal.signal(_signal.SIGINT, _skate.on_interrupt)
    fd = _skate.crash_fd()
    if fd >= 0:  # the driver reads from this file what killed this process
        faulthandler.enable(fd, all_threads=False)
    _skate.stack_install(False)
    # only if the job has a LoggingConfig, because loading the module takes time
    if b"logging" in _job.handed:
        if _job.facts().get("logging"):
            logging_config.LoggingConfig(**_job.facts()["logging"])._apply()
    if _setup_hook is not None:
        runtime_env.run_hook(_setup_hook)


def idle():
    """Runs in a worker that has been idle for a second: collects garbage, since cycles may hold
    handles and objects, and returns the free memory of Arrow's allocator. C returns the free memory
    of Python and malloc."""
    gc.collect()
    stage = sys.modules.get("skate.data.worker.stage")
    if stage is not None:
        stage.forget()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()


def run_coroutine(coro):
    """Runs an `async def` task or method to its end (one call at a time), and returns its
    result."""
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    return _loop.run_until_complete(coro)


_loop = None


def serve_async(fd, group):
    """Runs the event loop of one concurrency group of an async actor until the process is to end.
    group: its number; 0 is the group of calls that name none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def step():
        if not _skate.async_step(group):
            loop.stop()

    loop.add_reader(fd, step)
    loop.run_forever()


async def _run_call(call, coro):
    try:
        result, error = await coro, None
    # SystemExit is caught, too: it would end the event loop and with it all other calls.
    except BaseException as e:
        result, error = None, e
    _skate.async_done(call, result, error)
    # The traceback refers to this frame, so the values of the call would stay in memory until a
    # garbage collection. Delete the reference.
    error = None


async def _run_stream(call, values, window):
    error = None
    try:
        async for value in values:
            if window:  # not on the loop, since this may wait for the consumer
                go_on = await asyncio.get_running_loop().run_in_executor(
                    None, _skate.async_yield, call, value
                )
            else:
                go_on = _skate.async_yield(call, value)
            if not go_on:
                await values.aclose()
                break
    except BaseException as e:
        error = e
    _skate.async_done(call, None, error)
    error = None  # deletes the reference to the traceback, as in the function above


def start_async(call, coro, window):
    """Starts a call of an async actor, and returns its asyncio.Task."""
    work = _run_stream(call, coro, window) if hasattr(coro, "__anext__") else _run_call(call, coro)
    return asyncio.get_running_loop().create_task(work)


def apply_env(data):
    runtime_env.apply(data)


def set_gpus(numbers):
    """Sets the devices that this worker may use, if they differ from those of the previous task.
    Numbers from 16 on are devices other than GPUs. Only libraries that are initialised later see
    the change."""
    if os.environ.get("SKATE_GPUS"):
        gpus = [i for i in numbers if i < 16]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(
            _gpu_names[i] if i < len(_gpu_names) else str(i) for i in gpus
        )
    kind = os.environ.get("SKATE_DEVICES")
    if kind:
        os.environ[options.DEVICES[kind]] = ",".join(str(i - 16) for i in numbers if i >= 16)


_gpu_names = []  # in a worker: the names of the driver's GPUs


def leave_by_exit(e):
    """Handles sys.exit() of user code in a worker: the process ends with this exit code after
    running its exit handlers."""
    code = e.code
    if code is None:
        code = 0
    elif not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def end_stray(task, worker, error):
    """Ends a process that a task has forked, when the task's function has returned or raised
    `error` in it, as at the end of a program."""
    if isinstance(error, SystemExit):
        leave_by_exit(error)
    what = "came back from it"
    if error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        what = f"raised {type(error).__name__} in it"
    print(
        f"skate: process {os.getpid()}, which the task {task} had forked, {what} and ended: the task goes on in process {worker} alone. "
        "End a forked child by os._exit(), or use multiprocessing.",
        file=sys.stderr,
    )
    for out in (sys.stdout, sys.stderr):
        if out is not None:
            out.flush()
    os._exit(0 if error is None else 1)


def leave(actors):
    """Calls __ray_shutdown__ of these actors before their process ends in order (it is not
    killed)."""
    for a in actors:
        end = getattr(type(a), "__ray_shutdown__", None)
        if end is not None:
            try:
                end(a)
            except Exception as e:
                sys.excepthook(type(e), e, e.__traceback__)


def check_call(func, skip, args, kwargs):
    """Is called when a call does not fit its function: raises a TypeError that names the function
    and its parameters."""
    sig = inspect.signature(func, follow_wrapped=False)
    try:
        sig.bind(*([None] * skip), *args, **kwargs)
    except TypeError as e:
        takes = list(sig.parameters.values())[skip:]
        given = f"{len(args)} positional argument{'s' if len(args) != 1 else ''}" + "".join(
            f", {k}=" for k in kwargs
        )
        name = getattr(func, "__qualname__", None) or repr(func)
        shown = str(sig.replace(parameters=takes, return_annotation=sig.empty))
        shown = shown if len(shown) <= 400 else shown[:400] + " ..."
        # without the frames of inspect
        raise TypeError(f"{name}(): {e}; it takes {shown}, and was given {given}") from None


def install():
    _skate.set_hooks(
        dumps=serialize.dumps,
        dumps_error=user_errors.dumps_error,
        load_error=user_errors.load_error,
        load_block=serialize.load_block,
        dump_function=serialize.dump_function,
        load_function=serialize.load_function,
        note=note,
        after_fork=after_fork,
        run_coroutine=run_coroutine,
        serve_async=serve_async,
        apply_env=apply_env,
        set_gpus=set_gpus,
        start_async=start_async,
        check_call=check_call,
        leave=leave,
        idle=idle,
        task_over=debugger.task_over,
        ref_await=ref.await_ref,
        ref_future=ref.future_of,
    )
