"""The rows of the state lists: their fields, in Ray's order and spelling, and the fields that
filters may use."""

from dataclasses import dataclass, field, fields
from typing import Any

__all__ = [
    "ActorState",
    "JobState",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "RuntimeEnvState",
    "StateSchema",
    "TaskState",
    "WorkerState",
]

DEFAULT_LIMIT = 100
DEFAULT_RPC_TIMEOUT = 30
RAY_MAX_LIMIT_FROM_API_SERVER = 10000
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10000


def _plain() -> Any:
    return field(default=None, metadata={"detail": False, "filter": True})


def _detail(filter: bool = False) -> Any:
    return field(default=None, metadata={"detail": True, "filter": filter})


def _shown() -> Any:
    return field(default=None, metadata={"detail": False, "filter": False})


@dataclass
class StateSchema:
    """A row: its fields as attributes, and as items with the same names."""

    @classmethod
    def list_columns(cls, detail=True):
        """The names of the fields; detail=False leaves out those that only detailed lists show."""
        return [f.name for f in fields(cls) if detail or not f.metadata["detail"]]

    @classmethod
    def columns(cls):
        return set(cls.list_columns())

    @classmethod
    def filterable_columns(cls):
        return {f.name for f in fields(cls) if f.metadata["filter"]}

    @classmethod
    def base_columns(cls):
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls):
        return cls.columns()

    def asdict(self):
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def get(self, key, default=None):
        return getattr(self, key, default)

    def __getitem__(self, key):
        if key not in self.columns():
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key):
        return key in self.columns()

    def __iter__(self):
        return iter(self.list_columns())

    def keys(self):
        return self.list_columns()


@dataclass
class TaskState(StateSchema):
    """An attempt of a task. Times are Unix milliseconds. state: PENDING_ARGS_AVAIL,
    PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER, RUNNING, FINISHED,
    FAILED. type: NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK."""

    task_id: str | None = _plain()
    attempt_number: int | None = _plain()
    name: str | None = _plain()
    state: str | None = _plain()
    job_id: str | None = _plain()
    actor_id: str | None = _plain()
    type: str | None = _plain()
    func_or_class_name: str | None = _plain()
    parent_task_id: str | None = _plain()
    node_id: str | None = _plain()
    worker_id: str | None = _plain()
    worker_pid: int | None = _plain()
    error_type: str | None = _plain()
    language: str | None = _detail(True)
    required_resources: dict | None = _detail()
    runtime_env_info: dict | None = _detail()
    placement_group_id: str | None = _detail(True)
    events: list | None = _detail()
    profiling_data: dict | None = _detail()
    creation_time_ms: int | None = _detail()
    start_time_ms: int | None = _detail()
    end_time_ms: int | None = _detail()
    task_log_info: dict | None = _detail()
    error_message: str | None = _detail()
    is_debugger_paused: bool | None = _detail(True)
    call_site: str | None = _detail()
    label_selector: dict | None = _detail()
    fallback_strategy: dict | None = _detail()


@dataclass
class ActorState(StateSchema):
    """An actor. state: DEPENDENCIES_UNREADY, PENDING_CREATION, ALIVE, RESTARTING, DEAD."""

    actor_id: str | None = _plain()
    class_name: str | None = _plain()
    state: str | None = _plain()
    job_id: str | None = _plain()
    name: str | None = _plain()
    node_id: str | None = _plain()
    pid: int | None = _plain()
    ray_namespace: str | None = _plain()
    serialized_runtime_env: str | None = _detail()
    required_resources: dict | None = _detail()
    death_cause: dict | None = _detail()
    is_detached: bool | None = _detail()
    placement_group_id: str | None = _detail(True)
    repr_name: str | None = _detail(True)
    num_restarts: int | None = _detail()
    num_restarts_due_to_lineage_reconstruction: int | None = _detail()
    num_restarts_due_to_node_preemption: int | None = _detail()
    call_site: str | None = _detail()
    label_selector: dict | None = _detail()
    fallback_strategy: dict | None = _detail()


@dataclass
class ObjectState(StateSchema):
    """An object and one process that holds references to it (object_size in bytes), or another
    holder of the object: a pending task, or another object.

    reference_type: LOCAL_REFERENCE, USED_BY_PENDING_TASK (or captured in another object),
    ACTOR_HANDLE."""

    object_id: str | None = _plain()
    object_size: int | None = _plain()
    task_status: str | None = _plain()
    attempt_number: int | None = _plain()
    reference_type: str | None = _plain()
    call_site: str | None = _plain()
    type: str | None = _plain()
    pid: int | None = _plain()
    ip: str | None = _plain()


@dataclass
class WorkerState(StateSchema):
    """A process: the driver, or a worker. exit_type of a process that has ended:
    INTENDED_USER_EXIT, INTENDED_SYSTEM_EXIT, USER_ERROR, SYSTEM_ERROR, NODE_OUT_OF_MEMORY."""

    worker_id: str | None = _plain()
    is_alive: bool | None = _plain()
    worker_type: str | None = _plain()
    exit_type: str | None = _plain()
    node_id: str | None = _plain()
    ip: str | None = _plain()
    pid: int | None = _plain()
    exit_detail: str | None = _detail()
    worker_launch_time_ms: int | None = _detail()
    worker_launched_time_ms: int | None = _detail()
    start_time_ms: int | None = _detail()
    end_time_ms: int | None = _detail()
    debugger_port: int | None = _detail(True)
    num_paused_threads: int | None = _detail(True)


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group that was not removed. state: PENDING, CREATED."""

    placement_group_id: str | None = _plain()
    name: str | None = _plain()
    creator_job_id: str | None = _plain()
    state: str | None = _plain()
    bundles: list | None = _detail()
    is_detached: bool | None = _detail(True)
    stats: dict | None = _detail()


@dataclass
class NodeState(StateSchema):
    """The machine on which this engine runs."""

    node_id: str | None = _plain()
    node_ip: str | None = _plain()
    is_head_node: bool | None = _plain()
    state: str | None = _plain()
    state_message: str | None = _shown()
    node_name: str | None = _plain()
    resources_total: dict | None = _shown()
    labels: dict | None = _shown()
    start_time_ms: int | None = _detail()
    end_time_ms: int | None = _detail()


@dataclass
class JobState(StateSchema):
    """The one job of this engine."""

    job_id: str | None = _plain()
    submission_id: str | None = _plain()
    entrypoint: str | None = _shown()
    type: str | None = _plain()
    status: str | None = _plain()
    message: str | None = _shown()
    error_type: str | None = _shown()
    driver_info: dict | None = _shown()
    start_time: int | None = _detail()
    end_time: int | None = _detail()
    metadata: dict | None = _detail()
    runtime_env: dict | None = _detail()
    driver_agent_http_address: str | None = _detail()
    driver_node_id: str | None = _detail()
    driver_exit_code: int | None = _detail()


@dataclass
class RuntimeEnvState(StateSchema):
    """The environment that the workers of the job were given."""

    runtime_env: dict | None = _plain()
    success: bool | None = _plain()
    creation_time_ms: float | None = _shown()
    node_id: str | None = _plain()
    ref_cnt: int | None = _detail()
    error: str | None = _detail(True)
