"""Ray's settings that have no effect in skate, each with the reason."""

_ACTORS = "a shuffle runs in tasks, there are no actors that aggregate"
_BUDGET = "the engine measures memory and starts what fits"
_FRONT = "there is one line of progress (enable_progress_bars)"
_GPU = "shuffles run on CPUs"
_QUEUES = "the scheduling policy says how long queues are (scheduling_policy)"
_SERVER = "there are no servers besides the workers"
_SPILL = "the engine chooses which objects it spills, and when"
_STATS = "Dataset.stats() has what is measured"
_TABLES = "readers and writers of that kind are left out"
_UNUSED = "it chooses among ways that Ray has inside"

# Of DataContext: name -> (Ray's default, which programs may read, why it has no effect).
DATA_CONTEXT = {
    "_checkpoint_config": (None, "checkpoint_config is what is set"),
    "_enable_actor_pool_on_exit_hook": (False, "actors of a pool end as any others"),
    "_max_num_blocks_in_streaming_gen_buffer": (None, _QUEUES),
    "_shuffle_strategy": ("hash_shuffle", "shuffle_strategy is what is set"),
    "actor_prefetcher_enabled": (False, "batches are made ahead by threads (prefetch_batches)"),
    "autoscaling_config": (None, "a pool says its sizes itself (ActorPoolStrategy)"),
    "custom_execution_callback_classes": ((), _UNUSED),
    "dataset_logger_id": (None, "there are no log files of a Dataset"),
    "decoding_size_estimation": (True, "sizes of what was decoded are measured in a run"),
    "default_hash_shuffle_parallelism": (200, "num_partitions says it, or the size of the input"),
    "downstream_capacity_backpressure_ratio": (10.0, _QUEUES),
    "eager_free": (False, "an object goes with its last reference"),
    "enable_dynamic_output_queue_size_backpressure": (False, _QUEUES),
    "enable_get_object_locations_for_metrics": (False, "there is one machine"),
    "enable_operator_progress_bars": (True, _FRONT),
    "enable_per_node_metrics": (False, "there is one machine"),
    "enable_progress_bar_name_truncation": (True, _FRONT),
    "enable_rich_progress_bars": (False, _FRONT),
    "enforce_schemas": (False, "blocks of different schemas always become one schema"),
    "gpu_shuffle_num_actors": (None, _GPU),
    "gpu_shuffle_rmm_pool_size": (None, _GPU),
    "gpu_shuffle_setup_timeout_s": (120.0, _GPU),
    "gpu_shuffle_spill_memory_limit": ("auto", _GPU),
    "hash_aggregate_operator_actor_num_cpus_override": (None, _ACTORS),
    "hash_shuffle_aggregator_health_warning_interval_s": (30, _ACTORS),
    "hash_shuffle_operator_actor_num_cpus_override": (None, _ACTORS),
    "iceberg_config": (None, _TABLES),
    "issue_detectors_config": (None, _STATS),
    "join_operator_actor_num_cpus_override": (None, _ACTORS),
    "large_args_threshold": (50 << 20, "it chooses a strategy for tasks on several machines"),
    "max_hash_shuffle_aggregators": (None, _ACTORS),
    "max_hash_shuffle_finalization_batch_size": (None, _ACTORS),
    "memory_usage_poll_interval_s": (1, "memory_monitor_refresh_ms of init() says it"),
    "min_hash_shuffle_aggregator_wait_time_in_s": (300, _ACTORS),
    "min_parallelism": (200, "override_num_blocks of a reader says it, or the size of the input"),
    "op_resource_reservation_enabled": (True, _BUDGET),
    "op_resource_reservation_ratio": (0.5, _BUDGET),
    "override_object_store_memory_limit_fraction": (None, _BUDGET),
    "pandas_block_ignore_metadata": (False, "blocks are Arrow's"),
    "pipeline_push_based_shuffle_reduce_tasks": (True, _UNUSED),
    "print_on_execution_start": (True, _FRONT),
    "s3_try_create_dir": (False, "folders that are missing are made"),
    "scheduling_strategy_large_args": ("DEFAULT", "there is one machine"),
    "streaming_read_buffer_size": (32 << 20, "arrow_open_stream_args of a reader has buffer_size"),
    "trace_allocations": (False, "`skate memory` shows what holds memory"),
    "use_polars_sort": (False, "sorts run in the engine"),
    "use_ray_tqdm": (True, _FRONT),
    "warn_on_driver_memory_usage_bytes": (2 << 30, _BUDGET),
}

# Keywords of init() beside those in its signature.
INIT = {
    "_cluster_id": _SERVER,
    "_driver_object_store_memory": "object_store_memory is that of all processes",
    "_enable_object_reconstruction": "lost objects are always made again",
    "_metrics_export_port": _SERVER,
    "_node_ip_address": "there is one machine",
    "_node_name": "there is one machine",
    "_plasma_directory": "the store has no name in a file system",
    "_redis_max_memory": _SERVER,
    "_redis_password": _SERVER,
    "_redis_username": _SERVER,
    "_skip_env_hook": "there are no hooks of the environment",
    "_tracing_startup_hook": "skate.timeline() is the trace",
    "_proxy_server_url": _SERVER,
    "cgroup_path": "skate makes no cgroups",
}

# Names of _system_config that tests and programs of Ray set.
SYSTEM_CONFIG = {
    "max_io_workers": "threads of the engine write what is spilled",
    "min_spilling_size": _SPILL,
    "max_fused_object_count": _SPILL,
    "object_spilling_threshold": _SPILL,
    "object_store_full_delay_ms": _SPILL,
}

# Keys of a runtime_env.
RUNTIME_ENV = {
    "config": "nothing is installed, so nothing takes time",
    "excludes": "folders are used where they are, not copied",
    "_ray_commit": "it names a build of Ray",
    "_ray_release": "it names a build of Ray",
}
