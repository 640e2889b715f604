"""JobConfig: the settings of a job in one object, for init(job_config=...)."""

from skate import runtime_env as _runtime_env


class JobConfig:
    """Settings of a job. skate uses runtime_env, ray_namespace, default_actor_lifetime and
    metadata; the other settings are for languages and machines that skate does not have."""

    def __init__(
        self,
        jvm_options=None,
        code_search_path=None,
        runtime_env=None,
        _client_job=False,
        metadata=None,
        ray_namespace=None,
        default_actor_lifetime="non_detached",
        _py_driver_sys_path=None,
    ):
        self.jvm_options = jvm_options or []
        self.code_search_path = code_search_path or []
        if not isinstance(self.code_search_path, (list, tuple)):
            raise AssertionError(
                f"JobConfig: code_search_path is a list of folders, not {type(code_search_path)}"
            )
        self._client_job = _client_job
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)
        self._py_driver_sys_path = _py_driver_sys_path or []
        self.py_logging_config = None

    def set_metadata(self, key, value):
        """Adds one pair of strings to the metadata."""
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env, validate=False):
        """Sets the runtime_env of the job's workers; validate=True checks it now, else init()
        checks it."""
        if validate and runtime_env:
            runtime_env = _runtime_env.RuntimeEnv(**runtime_env)
        self.runtime_env = runtime_env

    def set_py_logging_config(self, logging_config=None):
        """Sets the LoggingConfig for the driver and the workers of the job."""
        self.py_logging_config = logging_config

    def set_ray_namespace(self, ray_namespace):
        """Sets the namespace in which the job's named actors are."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime):
        """Sets the lifetime ("detached" or "non_detached") of actors whose options name none.
        ValueError for anything else."""
        if default_actor_lifetime not in ("detached", "non_detached"):
            raise ValueError(
                f"JobConfig: default_actor_lifetime is 'detached' or 'non_detached', not {default_actor_lifetime!r}"
            )
        self._default_actor_lifetime = default_actor_lifetime

    @classmethod
    def from_json(cls, job_config_json):
        """Makes a JobConfig from the "JSON" part of a job submission: runtime_env, metadata,
        code_search_path."""
        return cls(
            runtime_env=job_config_json.get("runtime_env"),
            metadata=job_config_json.get("metadata"),
            code_search_path=job_config_json.get("code_search_path"),
        )
