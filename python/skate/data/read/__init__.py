"""Readers, one file a format: the public function makes units at plan time, run(params, task) reads
one unit in a worker."""
