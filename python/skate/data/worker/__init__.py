"""A stage in a worker: runs its operators over the input of one task and cuts the output into
blocks; keeps failing batches for `skate replay`. Calls: op, values, files; never run or plan."""
