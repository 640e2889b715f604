"""datatrove's Ray executor writes the documents that its local executor writes."""

import json
import os
import tempfile

from datatrove.executor import LocalPipelineExecutor
from datatrove.executor.ray import RayPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

where = tempfile.mkdtemp(dir=".")
os.makedirs(where + "/in")
for f in range(4):
    with open(f"{where}/in/{f}.jsonl", "w") as out:
        out.writelines(
            json.dumps({"text": f"document {f} {i} " + "x" * i, "id": f"{f}-{i}"}) + "\n"
            for i in range(500)
        )


def pipeline(to):
    return [
        JsonlReader(where + "/in"),
        LambdaFilter(lambda d: len(d.text) % 2 == 0),
        JsonlWriter(where + to, compression=None),
    ]


def lines(of):
    return sorted(
        line for f in os.listdir(where + of) for line in open(os.path.join(where + of, f))
    )


RayPipelineExecutor(pipeline=pipeline("/ray"), tasks=4, logging_dir=where + "/logs-ray").run()
LocalPipelineExecutor(
    pipeline=pipeline("/local"), tasks=4, workers=1, logging_dir=where + "/logs-local"
).run()
assert lines("/ray") == lines("/local") and 0 < len(lines("/ray")) < 2000
