"""A stage in a worker: runs its operators over the input of one task and cuts the output into
blocks; saves failing batches for `skate replay`. It calls into data/op, data/values and data/files,
never into data/run or data/plan."""
