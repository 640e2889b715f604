"""A stage in a worker: its operators over one task, its output cut into blocks; batches kept for
`skate replay`. Calls: op, values, files; never run or plan."""
