"""get_runtime_context(): the job, task, actor and process in which code runs."""

import os

from skate import _job, _labels, _skate, actor, ids, runtime_env, serialize
from skate._deps import json, tempfile, warnings
from skate.calls import in_actor, options
from skate.util.placement_group import get_current_placement_group

SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2  # the modes of a process, by Ray's numbers


def _deprecated(name):
    warnings.warn(f"Use {name}() instead", DeprecationWarning, stacklevel=3)


class RuntimeContext:
    """The place where this code runs: job, node, worker, task, actor, placement group. The
    methods `get_..._id()` return hexadecimal strings, or None."""

    # ---- The running task and its actor.

    def _task(self):
        return _skate.current_task()

    def get_task_id(self):
        t = self._task()
        return ids.TaskID._of(t[0]).hex() if t else None

    def get_task_name(self):
        """The name of the task: options(name=...), or else the function's name, with the actor's
        class in front."""
        t = self._task()
        return t[2] if t else None

    def get_task_function_name(self):
        """module.qualified name of the running function."""
        return serialize.function_name() if self._task() else None

    def get_attempt_number(self):
        """0 for the first run of the task, 1 for its first retry and so on; None outside of
        tasks."""
        t = self._task()
        return t[3] if t else None

    def get_actor_id(self):
        t = self._task()
        return ids.ActorID._of(t[1]).hex() if t and t[1] else None

    def get_actor_name(self):
        """The name of the actor that this code runs in; "" if the actor has no name; None outside
        actors."""
        t = self._task()
        if not t or not t[1]:
            return None
        return in_actor.me()[0].name

    @property
    def current_actor(self):
        """A handle of the actor that this code runs in; the handle does not keep the actor alive.
        RuntimeError outside actors."""
        t = self._task()
        if not t or not t[1]:
            raise RuntimeError("current_actor: this code runs in no actor")
        return actor.current()

    @property
    def was_current_actor_reconstructed(self):
        """Whether the actor that this code runs in was restarted."""
        t = self._task()
        if not t or not t[1]:
            raise AssertionError("was_current_actor_reconstructed: this code runs in no actor")
        return in_actor.me()[0].restarts > 0

    def is_canceled(self):
        """Whether cancel() was called on the running task. RuntimeError in the driver and in
        methods of async actors, where asyncio.CancelledError is raised instead."""
        t = self._task()
        if not t:
            raise RuntimeError("is_canceled: this code runs in no task")
        if serialize.in_coroutine():
            raise RuntimeError(
                "This method is not supported in an async actor. There, cancel() raises asyncio.CancelledError."
            )
        return _skate.task_cancelled()

    # ---- Job, node and process.

    @property
    def namespace(self):
        """The namespace of the job's named actors."""
        return _job.namespace()

    gcs_address = "local"

    def get_job_id(self):
        return ids.JOB.hex()

    def get_node_id(self):
        return _labels.node_id().hex()

    def get_worker_id(self):
        return ids.WorkerID._of(os.getpid()).hex()

    def get_session_name(self):
        """Name of this session, which lasts from init() to shutdown()."""
        return _job.session()

    def get_temp_dir(self):
        """The directory for temporary files: init(_temp_dir=), $RAY_TMPDIR, or the system's."""
        return _job.facts().get("temp_dir") or tempfile.gettempdir()

    def get_node_labels(self):
        """The labels of this node, {name: value}: its id, its kind of GPU, those of init()."""
        return _labels.node()

    def get_assigned_resources(self):
        """The resources that the running task or actor holds, e.g. {"CPU": 1.0}."""
        t = self._task()
        if not t:
            return {}
        if t[1]:
            return dict(in_actor.me()[0].resources)
        return {
            k: v
            for k, v in (_skate.current_need(_job.facts().get("custom", [])) or [{}])[0].items()
            if v
        }

    def get_placement_group_id(self):
        pg = get_current_placement_group()
        return pg.id.hex() if pg is not None else None

    @property
    def should_capture_child_tasks_in_placement_group(self):
        """Whether tasks submitted here run in the placement group in which this code runs."""
        need = _skate.current_need([])
        return bool(self._task()) and need is not None and need[5]

    def get_accelerator_ids(self):
        """{"GPU": ["0", ...], ...}: the accelerators that this process may use."""
        kind = os.environ.get("SKATE_DEVICES", "")
        mine = [i for i in os.environ.get(options.DEVICES.get(kind, ""), "").split(",") if i]
        return {
            "GPU": [str(i) for i in get_gpu_ids()],
            **{k: mine if k == kind else [] for k in options.DEVICES},
        }

    get_resource_ids = get_accelerator_ids

    @property
    def runtime_env(self):
        """The runtime_env that this process was started with, as a dict."""
        return runtime_env.current()

    def get_runtime_env_string(self):
        return json.dumps(dict(self.runtime_env), sort_keys=True)

    # ---- All ids in one dict, and older names.

    def get(self):
        """A dict of job_id, node_id, namespace and, inside of tasks and actors, task_id and
        actor_id, as id objects."""
        out = {"job_id": ids.JOB, "node_id": _labels.node_id(), "namespace": self.namespace}
        t = self._task()
        if t:
            out["task_id"] = ids.TaskID._of(t[0])
            if t[1]:
                out["actor_id"] = ids.ActorID._of(t[1])
        return out

    @property
    def job_id(self):
        _deprecated("get_job_id")
        return ids.JOB

    @property
    def node_id(self):
        _deprecated("get_node_id")
        return _labels.node_id()

    @property
    def task_id(self):
        _deprecated("get_task_id")
        t = self._task()
        if not t:
            raise AssertionError("task_id: this code runs in no task")
        return ids.TaskID._of(t[0])

    @property
    def actor_id(self):
        _deprecated("get_actor_id")
        t = self._task()
        return ids.ActorID._of(t[1]) if t and t[1] else None

    @property
    def current_placement_group_id(self):
        _deprecated("get_placement_group_id")
        pg = get_current_placement_group()
        return pg.id if pg is not None else None


_context = RuntimeContext()


def get_runtime_context():
    """The RuntimeContext of this process; starts the engine if none is running."""
    _job.ensure()
    return _context


def get_gpu_ids() -> list[int] | list[str]:
    """The GPUs that this process may use: numbers, or the names in CUDA_VISIBLE_DEVICES. In a task:
    the GPUs that the task was given."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [int(v) if v.isdigit() else v for v in visible.split(",") if v]  # pyright: ignore[reportReturnType]
