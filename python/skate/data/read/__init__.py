"""Readers, one module per file format. The public function makes units at plan time;
run(params, task) reads one unit in a worker."""
