"""Lists the names of Ray that skate does not have, with the reason, and whether they are planned;
the errors about these names use it."""

from skate import _did_you_mean

_NOT = "not planned: "

_CLIENT = "it needs a service to be tested against; its own client gives Arrow tables or DataFrames: from_arrow, from_pandas, or a Datasource of yours"
_SINK = (
    "it needs a service to be tested against; its own client in map_batches, or a Datasink of yours"
)
_LISTS = "readers list files themselves; partition_filter and file_extensions choose among them"

# A name below skate -> why skate does not have it. The reason holds for names below it, too.
ABSENT = {
    "_private.ray_client_microbenchmark": _NOT + "there is no client and no server",
    "_private.ray_microbenchmark_helpers": _NOT + "a part of Ray's own benchmarks",
    "air": _NOT + "deprecated by Ray",
    "autoscaler": _NOT + "there is one machine",
    "client": _NOT + "the engine is in this process; there is no server to connect to",
    "ClientBuilder": _NOT + "the engine is in this process; there is no server to connect to",
    "cpp_function": _NOT + "tasks and actors are written in Python",
    "cross_language": _NOT + "tasks and actors are written in Python",
    "dashboard": _NOT
    + "`skate stack`, `skate memory`, skate.timeline() and skate.util.state show what runs",
    "data.ArrowTensorType": "skate.data.extensions.ArrowTensorType",
    "data.ArrowVariableShapedTensorType": "skate.data.extensions.ArrowVariableShapedTensorType",
    "data.Catalog": _NOT + "the service's own client, or a Datasource of yours",
    "data.CatalogAccessMode": _NOT + "there are no catalogs",
    "data.ClickHouseTableSettings": _NOT + _SINK,
    "data.DatabricksUnityCatalog": _NOT + "the service's own client, or a Datasource of yours",
    "data.Dataset.get_stats_summary": _NOT + "stats_dict() and stats_json()",
    "data.Dataset.map_batches_internal": _NOT + "map_batches",
    "data.Dataset.write_bigquery": _NOT + _SINK,
    "data.Dataset.write_clickhouse": _NOT + _SINK,
    "data.Dataset.write_kafka": _NOT + _SINK,
    "data.Dataset.write_mongo": _NOT + _SINK,
    "data.Dataset.write_snowflake": _NOT
    + "snowflake-connector-python is a DB-API connection: write_sql",
    "data.Dataset.write_turbopuffer": _NOT + _SINK,
    "data.KafkaAuthConfig": _NOT + _CLIENT,
    "data.MixStoppingCondition": _NOT + "stopping_condition of Dataset.mix is a text",
    "data.ReaderFormat": _NOT + "there are no catalogs",
    "data.ResolvedSource": _NOT + "there are no catalogs",
    "data.SinkMode": _NOT + "SaveMode says what a write does to files that are there",
    "data.configure_logging": _NOT + "the logger 'ray.data' is set up with Python's logging",
    "data.datasource.BaseFileMetadataProvider": _NOT + _LISTS,
    "data.datasource.Connection": _NOT
    + "read_sql takes a function that gives a connection of DB-API 2",
    "data.datasource.DefaultFileMetadataProvider": _NOT + _LISTS,
    "data.datasource.DeltaSharingDatasource": _NOT
    + "delta_sharing.load_as_pandas gives DataFrames: from_pandas",
    "data.datasource.FileMetadataProvider": _NOT + _LISTS,
    "data.datasource.LeRobotDatasource": _NOT
    + "read_parquet for its tables, read_videos for its videos",
    "data.datasource.MCAPDatasource": "skate.data.read_mcap",
    "data.datasource.TimeRange": "time_range of skate.data.read_mcap",
    "data.datasource.TurbopufferDatasink": _NOT + _SINK,
    "data.get_pyarrow_version": _NOT + "pyarrow.__version__",
    "data.list_stats_summaries": _NOT
    + "Dataset.stats_dict() and stats_json() have the numbers of a run",
    "data.parse_version": _NOT + "packaging.version.parse",
    "data.pyarrow_version": _NOT + "pyarrow.__version__",
    "data.read_bigquery": _NOT + _CLIENT,
    "data.read_clickhouse": _NOT + _CLIENT,
    "data.read_databricks_tables": _NOT
    + "databricks-sql-connector is a DB-API connection: read_sql",
    "data.read_delta_sharing_tables": _NOT
    + "delta_sharing.load_as_pandas gives DataFrames: from_pandas",
    "data.read_hudi": _NOT + "the package hudi gives Arrow record batches: from_arrow",
    "data.read_kafka": _NOT + _CLIENT,
    "data.read_lerobot": _NOT + "read_parquet for its tables, read_videos for its videos",
    "data.read_mongo": _NOT + _CLIENT,
    "data.read_snowflake": _NOT + "snowflake-connector-python is a DB-API connection: read_sql",
    "data.read_unity_catalog": _NOT + "databricks-sql-connector is a DB-API connection: read_sql",
    "data.read_zarr": _NOT + "zarr.open in map_batches, over the names of chunks: from_items",
    "internal": _NOT + "parts of Ray's own",
    "java_actor_class": _NOT + "tasks and actors are written in Python",
    "java_function": _NOT + "tasks and actors are written in Python",
    "job_submission": _NOT + "start the program; there is no server that would do it",
    "Language": _NOT + "tasks and actors are written in Python",
    "llm": "skate.data.llm",
    "rllib": _NOT + "skate is the engine and its data; this is a library on top of Ray",
    "serve": _NOT + "skate is the engine and its data; this is a library on top of Ray",
    "show_in_dashboard": _NOT + "there is no dashboard",
    "train": _NOT
    + "torch's own DistributedDataParallel takes its data from Dataset.streaming_split and iter_torch_batches",
    "tune": _NOT + "optuna runs in tasks; this is a library on top of Ray",
    "util.actor_group": _NOT + "deprecated by Ray: a list of actors, or skate.util.ActorPool",
    "util.client": _NOT + "the engine is in this process; there is no server to connect to",
    "util.collective": _NOT + "torch.distributed does it",
    "util.connect": _NOT + "the engine is in this process; there is no server to connect to",
    "util.disconnect": _NOT + "the engine is in this process; there is no server to connect to",
    "util.dask.ProgressBarCallback": _NOT + "skate.util.state counts tasks",
    "util.dask.dataframe_optimize": _NOT + "dask plans data frames itself since 2025",
    "util.iter": _NOT + "deprecated by Ray: skate.data",
    "util.rpdb": _NOT + "SKATE_ENGINE=inline and breakpoint()",
    "util.pdb": _NOT + "SKATE_ENGINE=inline and breakpoint()",
    "util.spark": _NOT + "it makes clusters of Ray out of Spark's",
    "widgets": _NOT + "a part of Ray's own front",
    "workflow": _NOT + "removed by Ray",
}


def why(dotted):
    """Why skate does not have a name; None if no reason is known."""
    parts = dotted.split(".")[1:]
    while parts:
        if ".".join(parts) in ABSENT:
            return ABSENT[".".join(parts)]
        parts.pop()
    return None


def attribute(of, dotted, name):
    """The AttributeError about an attribute that an object (whose public class is skate.<dotted>)
    does not have."""
    said = f"{type(of).__name__!r} object has no attribute {name!r}"
    reason = why(f"skate.{dotted}.{name}")
    if reason:
        return AttributeError(f"{said} ({reason})")
    near = (
        ""
        if name.startswith("_")
        else _did_you_mean.guess(name, [n for n in dir(type(of)) if not n.startswith("_")], 0.75)
    )
    return AttributeError(said + near)


def text(dotted):
    """The message about a module that skate does not have, with the name that a program imports
    from ray."""
    return f"skate has no ray{dotted[5:]} ({why(dotted) or 'docs/design/ray_api.md lists what is left out'})"
