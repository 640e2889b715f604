"""A backend for joblib: each batch of calls is a task."""

from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

import skate


def _call(batch):
    return batch()


class RayBackend(AutoBatchingMixin, ParallelBackendBase):
    """parallel_backend("ray", n_jobs=-1, ray_remote_args={...}): batches of calls run as tasks;
    ray_remote_args are their options."""

    supports_retrieve_callback = True
    supports_return_generator = True
    supports_timeout = True
    uses_threads = False

    def __init__(
        self, nesting_level=None, inner_max_num_threads=None, ray_remote_args=None, **kwargs
    ):
        super().__init__(
            nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs
        )
        options: dict = {"num_cpus": 1, **(ray_remote_args or {})}
        self._submit = skate.remote(**options)(_call)
        self._refs = set()

    def effective_n_jobs(self, n_jobs):
        """The number of calls that run at a time: -1 means all CPUs, -2 all but one."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if not skate.is_initialized():
            skate.init()
        cpus = max(int(skate.cluster_resources().get("CPU", 1)), 1)
        if n_jobs is None:
            return 1
        return max(cpus + 1 + n_jobs, 1) if n_jobs < 0 else n_jobs

    def configure(self, n_jobs=1, parallel=None, **kwargs):
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None):
        ref = self._submit.remote(func)
        self._refs.add(ref)
        future = ref.future()
        future.add_done_callback(lambda f: self._refs.discard(ref))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit

    def retrieve_result_callback(self, out):
        return out.result()

    def retrieve_result(self, out, timeout=None):
        return out.result(timeout)

    def abort_everything(self, ensure_ready=True):
        for ref in list(self._refs):
            skate.cancel(ref, force=True)
        self._refs.clear()
