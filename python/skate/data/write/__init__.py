"""Writers, one file a format: run(params, batches, task) writes files in a worker and yields one
report row a file."""
