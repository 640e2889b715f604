/* memory.c - a report about memory to be read by people: the machine's limits, and the use of the
 * engine's budget.
 *
 * Also huge pages for large Python values: reading 100 MB into bytes costs 24,400 page faults of 4
 * KiB, 0.06 s, while the read itself takes 0.02 s (measured: 1.8 GB/s; on huge pages 7 GB/s). NumPy
 * asks for huge pages for its arrays by itself.
 *
 * Not here: the table that is made of it (skate/memory.py), any rule (engine/rules/memory.c). Cost:
 * 0.1 ms and 10 us a worker. */
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/usage.h"
#include "ipc/ipc.h"
#include "py/worker/worker.h"

/* ---- huge pages for large values of Python --------------------------------------------------- */

/* the allocator that was set before; all memory still comes from it */
static PyMemAllocatorEx raw;

static void *raw_malloc(void *ctx SK_UNUSED, size_t n) {
    void *p = raw.malloc(raw.ctx, n);
    sk_mem_advise(p, n);
    return p;
}
static void *raw_calloc(void *ctx SK_UNUSED, size_t n, size_t size) {
    void *p = raw.calloc(raw.ctx, n, size);
    if (n && size <= SIZE_MAX / n) sk_mem_advise(p, n * size);
    return p;
}
static void *raw_realloc(void *ctx SK_UNUSED, void *of, size_t n) {
    void *p = raw.realloc(raw.ctx, of, n);
    sk_mem_advise(p, n);
    return p;
}
static void raw_free(void *ctx SK_UNUSED, void *p) { raw.free(raw.ctx, p); }

void py_memory_advise(void) {
    if (raw.malloc) return;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW,
                       &(PyMemAllocatorEx){NULL, raw_malloc, raw_calloc, raw_realloc, raw_free});
}

/* ---- a report for people --------------------------------------------------------------------- */

static PyObject *m_machine(PyObject *module, PyObject *unused SK_UNUSED) {
    struct sk_sysmem *m;
    struct sk_sysmem_now now;
    PY_ERR(err);
    sk_rc rc = sk_sysmem_create(&m, NULL, &err);
    if (rc == SK_OK) rc = sk_sysmem_read(m, 1000, &now, &err);
    if (rc != SK_OK) return py_raise(PyModule_GetState(module), rc, &err);
    uint64_t milli = sk_sysmem_cpu_milli(m);
    sk_sysmem_destroy(m);
    return Py_BuildValue("{sKsKsKsssd}", "memory_bytes", (unsigned long long)now.total_bytes,
                         "limit_bytes", (unsigned long long)now.limit_bytes, "used_bytes",
                         (unsigned long long)now.used_bytes, "where", now.where, "cpus",
                         (double)milli / 1000.0);
}

static PyObject *row_of(const struct sk_memory_worker *w) {
    return Py_BuildValue("{sisIsKsKsKsOsOsN}", "pid", (int)w->pid, "number", (unsigned)w->number,
                         "heap_bytes", (unsigned long long)w->heap_bytes, "peak_bytes",
                         (unsigned long long)w->peak_bytes, "asked_bytes",
                         (unsigned long long)w->asked_bytes, "busy", w->busy ? Py_True : Py_False,
                         "actor", w->is_actor ? Py_True : Py_False, "name", py_text(w->name));
}

static PyObject *m_memory(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_memory_info m;
    SK_VEC(struct sk_memory_worker) w = {0};
    size_t n = 0;
    PyObject *list = NULL, *out = NULL;
    PY_ERR(err);
    if (py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->usage, "memory to tell of: the driver of the local one has"))
        return NULL;
    for (;;) { /* the call is repeated until the array has room for all processes */
        sk_rc rc;
        PY_DROP(st)
        rc = st->engine->usage->memory(st->engine, &m, w.p, w.cap, &n, &err);
        PY_TAKE(st)
        if (rc != SK_OK) {
            sk_vec_free(&w);
            return py_raise(st, rc, &err);
        }
        if (n <= w.cap) break;
        if (!sk_vec_reserve(&w, SK_TAG_PY, n)) {
            sk_vec_free(&w);
            return PyErr_NoMemory();
        }
    }
    list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = row_of(&w.p[i]);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (list)
        out = Py_BuildValue(
            "{sKsKsssKsKsKsKsKsKsKsKsKsKsO}", "limit_bytes", (unsigned long long)m.limit_bytes,
            "used_bytes", (unsigned long long)m.used_bytes, "where", m.where, "store_limit_bytes",
            (unsigned long long)m.store_limit_bytes, "store_may_bytes",
            (unsigned long long)m.store_may_bytes, "store_used_bytes",
            (unsigned long long)m.store_used_bytes, "store_present_bytes",
            (unsigned long long)m.store_present_bytes, "spilled_bytes",
            (unsigned long long)m.spilled_bytes, "heap_bytes", (unsigned long long)m.heap_bytes,
            "driver_heap_bytes", (unsigned long long)m.driver_heap_bytes, "stopped",
            (unsigned long long)m.n_stopped, "kernel_killed", (unsigned long long)m.n_kernel_killed,
            "alone", (unsigned long long)m.n_alone, "workers", list);
    Py_XDECREF(list);
    sk_vec_free(&w);
    return out;
}

PyMethodDef py_memory_methods[] = {
    {"machine", m_machine, METH_NOARGS, "Limits of the machine and of our cgroup."},
    {"memory", m_memory, METH_NOARGS, "What store and workers use, measured now."},
    {NULL, NULL, 0, NULL},
};
