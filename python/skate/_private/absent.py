"""Which of Ray's names are not here, and whether they are planned: for the error of who asks for one."""

_NOT = "not planned: "

# name below skate: why it is not there. A name further below says the same.
ABSENT = {
    "air": _NOT + "deprecated by Ray",
    "autoscaler": _NOT + "there is one machine",
    "client": _NOT + "the engine is in this process; there is no server to connect to",
    "ClientBuilder": _NOT + "the engine is in this process; there is no server to connect to",
    "cpp_function": _NOT + "tasks and actors are written in Python",
    "cross_language": _NOT + "tasks and actors are written in Python",
    "dashboard": _NOT + "`skate stack`, `skate memory`, skate.timeline() and skate.util.state show what runs",
    "data.llm": _NOT + "call the model's own library in map_batches with a class",
    "java_actor_class": _NOT + "tasks and actors are written in Python",
    "java_function": _NOT + "tasks and actors are written in Python",
    "job_submission": _NOT + "start the program; there is no server that would do it",
    "Language": _NOT + "tasks and actors are written in Python",
    "llm": _NOT + "call the model's own library in tasks, actors or map_batches",
    "rllib": _NOT + "skate is the engine and its data; this is a library on top of Ray",
    "serve": _NOT + "skate is the engine and its data; this is a library on top of Ray",
    "show_in_dashboard": _NOT + "there is no dashboard",
    "train": _NOT + "torch's own DistributedDataParallel takes its data from Dataset.streaming_split and iter_torch_batches",
    "tune": _NOT + "optuna runs in tasks; this is a library on top of Ray",
    "util.client": _NOT + "the engine is in this process; there is no server to connect to",
    "util.collective": _NOT + "torch.distributed does it",
    "util.connect": _NOT + "the engine is in this process; there is no server to connect to",
    "util.disconnect": _NOT + "the engine is in this process; there is no server to connect to",
    "util.dask.ProgressBarCallback": _NOT + "skate.util.state counts tasks",
    "util.dask.dataframe_optimize": _NOT + "dask plans data frames itself since 2025",
    "util.rpdb": _NOT + "SKATE_ENGINE=inline and breakpoint()",
    "util.pdb": _NOT + "SKATE_ENGINE=inline and breakpoint()",
    "util.spark": _NOT + "it makes clusters of Ray out of Spark's",
    "widgets": _NOT + "a part of Ray's own front",
    "workflow": _NOT + "removed by Ray",
}


def why(dotted):
    """What is known of a name below skate that is not there; None when nothing is."""
    parts = dotted.split(".")[1:]
    while parts:
        if ".".join(parts) in ABSENT:
            return ABSENT[".".join(parts)]
        parts.pop()
    return None


def text(dotted):
    """The message for a module of skate that is not there, in the words of who imports it from ray."""
    return f"skate has no ray{dotted[5:]} ({why(dotted) or 'docs/design/ray_api.md lists what is left out'})"
