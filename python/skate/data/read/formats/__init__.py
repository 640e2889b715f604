"""The formats, one file each, found by name: the public function makes units at plan time;
run(params, task) reads one unit in a worker."""
