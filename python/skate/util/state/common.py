"""Rows of the state lists: their fields, in Ray's order and spelling, and which of them may be filtered by."""

from dataclasses import dataclass, field, fields

DEFAULT_LIMIT = 100
DEFAULT_RPC_TIMEOUT = 30
RAY_MAX_LIMIT_FROM_API_SERVER = 10000
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10000


def _plain():
    return field(default=None, metadata={"detail": False, "filter": True})


def _detail(filter=False):
    return field(default=None, metadata={"detail": True, "filter": filter})


def _shown():
    return field(default=None, metadata={"detail": False, "filter": False})


class StateSchema:
    """A row: attributes, and items by the same names."""

    @classmethod
    def list_columns(cls, detail=True):
        """Names of the fields; without those of detail=True."""
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
    """An attempt of a task. Times are Unix milliseconds. state: PENDING_ARGS_AVAIL, PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER, RUNNING, FINISHED,
    FAILED. type: NORMAL_TASK, ACTOR_CREATION_TASK, ACTOR_TASK."""

    task_id: str = _plain()
    attempt_number: int = _plain()
    name: str = _plain()
    state: str = _plain()
    job_id: str = _plain()
    actor_id: str = _plain()
    type: str = _plain()
    func_or_class_name: str = _plain()
    parent_task_id: str = _plain()
    node_id: str = _plain()
    worker_id: str = _plain()
    worker_pid: int = _plain()
    error_type: str = _plain()
    language: str = _detail(True)
    required_resources: dict = _detail()
    runtime_env_info: dict = _detail()
    placement_group_id: str = _detail(True)
    events: list = _detail()
    profiling_data: dict = _detail()
    creation_time_ms: int = _detail()
    start_time_ms: int = _detail()
    end_time_ms: int = _detail()
    task_log_info: dict = _detail()
    error_message: str = _detail()
    is_debugger_paused: bool = _detail(True)
    call_site: str = _detail()
    label_selector: dict = _detail()
    fallback_strategy: dict = _detail()


@dataclass
class ActorState(StateSchema):
    """An actor. state: DEPENDENCIES_UNREADY, PENDING_CREATION, ALIVE, RESTARTING, DEAD."""

    actor_id: str = _plain()
    class_name: str = _plain()
    state: str = _plain()
    job_id: str = _plain()
    name: str = _plain()
    node_id: str = _plain()
    pid: int = _plain()
    ray_namespace: str = _plain()
    serialized_runtime_env: str = _detail()
    required_resources: dict = _detail()
    death_cause: dict = _detail()
    is_detached: bool = _detail()
    placement_group_id: str = _detail(True)
    repr_name: str = _detail(True)
    num_restarts: int = _detail()
    num_restarts_due_to_lineage_reconstruction: int = _detail()
    num_restarts_due_to_node_preemption: int = _detail()
    call_site: str = _detail()
    label_selector: dict = _detail()
    fallback_strategy: dict = _detail()


@dataclass
class ObjectState(StateSchema):
    """An object and one process that holds references of it (object_size in bytes); or what else holds it: a pending task, another object.

    reference_type: LOCAL_REFERENCE, USED_BY_PENDING_TASK (or captured in another object), ACTOR_HANDLE."""

    object_id: str = _plain()
    object_size: int = _plain()
    task_status: str = _plain()
    attempt_number: int = _plain()
    reference_type: str = _plain()
    call_site: str = _plain()
    type: str = _plain()
    pid: int = _plain()
    ip: str = _plain()


@dataclass
class WorkerState(StateSchema):
    """A process: the driver, or a worker that lives."""

    worker_id: str = _plain()
    is_alive: bool = _plain()
    worker_type: str = _plain()
    exit_type: str = _plain()
    node_id: str = _plain()
    ip: str = _plain()
    pid: int = _plain()
    exit_detail: str = _detail()
    worker_launch_time_ms: int = _detail()
    worker_launched_time_ms: int = _detail()
    start_time_ms: int = _detail()
    end_time_ms: int = _detail()
    debugger_port: int = _detail(True)
    num_paused_threads: int = _detail(True)


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group that was not removed. state: PENDING, CREATED."""

    placement_group_id: str = _plain()
    name: str = _plain()
    creator_job_id: str = _plain()
    state: str = _plain()
    bundles: list = _detail()
    is_detached: bool = _detail(True)
    stats: dict = _detail()


@dataclass
class NodeState(StateSchema):
    """This machine."""

    node_id: str = _plain()
    node_ip: str = _plain()
    is_head_node: bool = _plain()
    state: str = _plain()
    state_message: str = _shown()
    node_name: str = _plain()
    resources_total: dict = _shown()
    labels: dict = _shown()
    start_time_ms: int = _detail()
    end_time_ms: int = _detail()


@dataclass
class JobState(StateSchema):
    """The one job of this engine."""

    job_id: str = _plain()
    submission_id: str = _plain()
    entrypoint: str = _shown()
    type: str = _plain()
    status: str = _plain()
    message: str = _shown()
    error_type: str = _shown()
    driver_info: dict = _shown()
    start_time: int = _detail()
    end_time: int = _detail()
    metadata: dict = _detail()
    runtime_env: dict = _detail()
    driver_agent_http_address: str = _detail()
    driver_node_id: str = _detail()
    driver_exit_code: int = _detail()


@dataclass
class RuntimeEnvState(StateSchema):
    """The environment that the workers of the job were given."""

    runtime_env: dict = _plain()
    success: bool = _plain()
    creation_time_ms: float = _shown()
    node_id: str = _plain()
    ref_cnt: int = _detail()
    error: str = _detail(True)
