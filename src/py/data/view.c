/* view.c - the view of an engine, or a record of one (engine/view.h), as Python values: for
 * skate/_private/view.py, where the fields are described. No policy. Invariant: nothing of what was
 * read is used as a length or an index that the reader of engine/view.h has not checked. */
#include "engine/view.h"
#include "py/data/data.h"
#include "shuffle/exchange.h"

#define S(ns) ((double)(ns) / 1e9)
#define N(x) ((unsigned long long)(x))

static int put(PyObject *d, const char *key, PyObject *v) {
    int r = v ? PyDict_SetItemString(d, key, v) : -1;
    Py_XDECREF(v);
    return r;
}

static PyObject *none_or(bool known, double v) {
    return known ? PyFloat_FromDouble(v) : Py_NewRef(Py_None);
}

static PyObject *fused(const struct sk_view_op *o) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < o->n_fused; i++) {
        PyObject *d =
            Py_BuildValue("{s:N,s:K,s:d}", "label", py_text(o->fused[i].label), "rows_out",
                          N(o->fused[i].rows_out), "seconds", S(o->fused[i].ns));
        if (!d || PyList_Append(list, d) < 0) Py_CLEAR(list);
        Py_XDECREF(d);
    }
    return list;
}

static PyObject *inputs(const struct sk_view_op *o) {
    PyObject *list = PyList_New(o->n_inputs);
    for (uint32_t i = 0; list && i < o->n_inputs; i++) {
        PyObject *v = PyLong_FromUnsignedLong(o->inputs[i]);
        if (v) PyList_SET_ITEM(list, i, v);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *exchange(const struct sk_view_op *o) {
    static const char *const phases[] = {"map", "reduce", "done"};
    if (!o->by[0] || strcmp(o->by, sk_merges_name) == 0) Py_RETURN_NONE;
    return Py_BuildValue("{s:N,s:K,s:K,s:K,s:K,s:K,s:s}", "strategy", py_text(o->by), "partitions",
                         N(o->gather[SK_XSTAT_PARTITIONS]), "packs", N(o->gather[SK_XSTAT_PACKS]),
                         "pack_bytes", N(o->gather[SK_XSTAT_BYTES]), "disk_bytes",
                         N(o->gather[SK_XSTAT_DISK]), "taken_bytes", N(o->gather[SK_XSTAT_TAKEN]),
                         "phase", o->phase < SK_COUNT(phases) ? phases[o->phase] : "?");
}

static PyObject *op(const struct sk_view_op *o) {
    static const char *const kinds[] = {"blocks", "tasks", "actors", "limit", "union"};
    PyObject *d = Py_BuildValue(
        "{s:N,s:s,s:N,s:K,s:K,s:K,s:N,s:K,s:K,s:K,s:K,s:K,s:K}", "label", py_text(o->label), "kind",
        o->kind < SK_COUNT(kinds) ? kinds[o->kind] : "?", "inputs", inputs(o), "running",
        N(o->running), "queued", N(o->queued), "done", N(o->done), "total",
        o->total < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(o->total), "retries", N(o->retries),
        "rows_in", N(o->rows_in), "rows_out", N(o->rows_out), "bytes_in", N(o->bytes_in),
        "bytes_out", N(o->bytes_out), "blocks_out", N(o->blocks_out));
    PyObject *rest =
        d ? Py_BuildValue("{s:K,s:K,s:K,s:d,s:d,s:d,s:d,s:d,s:K,s:N,s:N}", "queued_blocks",
                          N(o->queued_blocks), "queued_bytes", N(o->queued_bytes),
                          "peak_queued_bytes", N(o->peak_queued_bytes), "busy", S(o->busy_ns),
                          "wait_input", S(o->wait_input_ns), "wait_memory", S(o->wait_memory_ns),
                          "wait_resource", S(o->wait_resource_ns), "wait_consumer",
                          S(o->wait_consumer_ns), "actors", N(o->actors), "fused", fused(o),
                          "exchange", exchange(o))
          : NULL;
    if (!rest || PyDict_Update(d, rest) < 0) Py_CLEAR(d);
    Py_XDECREF(rest);
    return d;
}

/* Column `col` of rows of `width` numbers, as a list; seconds: the numbers are ns. */
static PyObject *column(const int64_t *rows, size_t n, uint32_t width, uint32_t col, bool seconds) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        int64_t x = rows[i * width + col];
        PyObject *v = seconds ? PyFloat_FromDouble(S(x)) : PyLong_FromLongLong(x);
        if (v) PyList_SET_ITEM(list, (Py_ssize_t)i, v);
        else Py_CLEAR(list);
    }
    return list;
}

PyObject *py_samples(const int64_t *rows, size_t n, uint32_t width) {
    static const char *const names[] = {[SK_VS_TIME] = "t",
                                        [SK_VS_MEMORY] = "memory",
                                        [SK_VS_DISK] = "disk",
                                        [SK_VS_ROWS_OUT] = "rows_out",
                                        [SK_VS_ROWS_IN] = "rows_in"};
    PyObject *d = PyDict_New(), *queued = PyList_New(0);
    bool ok = d && queued;
    for (uint32_t i = 0; ok && i < SK_VS_N; i++)
        ok = put(d, names[i], column(rows, n, width, i, i == SK_VS_TIME)) == 0;
    for (uint32_t i = SK_VS_N; ok && i < width; i++) {
        PyObject *c = column(rows, n, width, i, false);
        ok = c && PyList_Append(queued, c) == 0;
        Py_XDECREF(c);
    }
    ok = ok && PyDict_SetItemString(d, "queued", queued) == 0;
    Py_XDECREF(queued);
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *history(const struct sk_view_history *h) {
    static const char *const names[] = {[SK_VH_TIME] = "t",          [SK_VH_STORE] = "store",
                                        [SK_VH_SPILLED] = "spilled", [SK_VH_RUNNING] = "running",
                                        [SK_VH_QUEUED] = "queued",   [SK_VH_DONE] = "done"};
    PyObject *d = PyDict_New();
    for (uint32_t i = 0; d && i < SK_VH_N; i++)
        if (put(d, names[i], column(h->rows, h->n, SK_VH_N, i, i == SK_VH_TIME)) < 0) Py_CLEAR(d);
    return d;
}

static PyObject *run_dict(const struct sk_view_about *about, const struct sk_view_run *r) {
    static const char *const states[] = {[SK_VIEW_RUNNING] = "running",
                                         [SK_VIEW_DONE] = "done",
                                         [SK_VIEW_FAILED] = "failed",
                                         [SK_VIEW_STOPPED] = "stopped"};
    PyObject *ops = PyList_New(0);
    for (uint32_t i = 0; ops && i < r->n_shown; i++) {
        PyObject *o = op(&r->ops[i]);
        if (!o || PyList_Append(ops, o) < 0) Py_CLEAR(ops);
        Py_XDECREF(o);
    }
    if (!ops) return NULL;
    return Py_BuildValue(
        "{s:K,s:d,s:d,s:s,s:N,s:N,s:{s:K,s:K,s:K,s:K},s:N,s:N,s:K,s:K,s:N,s:I,s:N}", "id", N(r->id),
        "started", S(r->started_ns - about->started_ns), "seconds", S(r->wall_ns), "state",
        r->state && r->state < SK_COUNT(states) ? states[r->state] : "?", "share",
        none_or(r->share >= 0, r->share), "left", none_or(r->left_ns >= 0, S(r->left_ns)), "memory",
        "now", N(r->memory_now), "peak", N(r->memory_peak), "limit", N(r->memory_limit), "disk",
        N(r->memory_disk), "bottleneck",
        r->bottleneck == UINT32_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(r->bottleneck),
        "bottleneck_why", py_text(r->why), "bad_rows", N(r->bad_rows), "errored_blocks",
        N(r->errored_blocks), "ops", ops, "ops_left_out", r->n_ops - r->n_shown, "samples",
        py_samples(r->samples, r->n_samples, SK_VS_N + r->n_shown));
}

/* Appends a dict to a list, taking it over. */
static int append(PyObject *list, PyObject *d) {
    int r = d ? PyList_Append(list, d) : -1;
    Py_XDECREF(d);
    return r;
}

/* A slot without a run is passed over; damage ends the reading. */
static sk_rc add_runs(struct sk_view_reader *v, PyObject *list, struct sk_err *err) {
    struct sk_view_run *run = sk_alloc(SK_TAG_PY, sizeof *run);
    if (!run) return SK_ERR(err, SK_ENOMEM, "no memory to read a run");
    sk_rc first = SK_OK;
    for (uint32_t i = 0; i < SK_VIEW_RUNS && first == SK_OK; i++) {
        sk_rc rc = sk_view_run(v, i, run, err);
        if (rc == SK_OK && append(list, run_dict(&v->about, run)) < 0) first = SK_ENOMEM;
        if (rc != SK_OK && rc != SK_EAGAIN) first = rc;
    }
    sk_free(run);
    return first;
}

static sk_rc add_errors(struct sk_view_reader *v, PyObject *list, struct sk_err *err) {
    for (uint32_t i = 0; i < SK_VIEW_ERRORS; i++) {
        struct sk_view_error e;
        sk_rc rc = sk_view_error(v, i, &e, err);
        if (rc == SK_EAGAIN) continue;
        if (rc != SK_OK) return rc;
        if (append(list, Py_BuildValue("{s:d,s:N,s:N,s:N}", "seconds",
                                       S(e.ns - v->about.started_ns), "text", py_text(e.text),
                                       "operator", py_text(e.op), "replay", py_text(e.replay))) < 0)
            return SK_ENOMEM;
    }
    return SK_OK;
}

static sk_rc add_nodes(struct sk_view_reader *v, PyObject *list, struct sk_err *err) {
    struct sk_view_nodes all;
    sk_rc rc = sk_view_nodes(v, &all, err);
    if (rc == SK_EAGAIN) return SK_OK;
    for (uint64_t i = 0; rc == SK_OK && i < all.n; i++) {
        const struct sk_view_node *n = &all.of[i];
        const struct sk_load *l = &n->load;
        if (append(list,
                   Py_BuildValue("{s:I,s:N,s:s,s:d,s:d,s:d,s:d,s:{s:K,s:K,s:K,s:K,s:K,s:K},"
                                 "s:{s:K,s:K,s:I,s:I},s:I}",
                                 "number", n->number, "name", py_text(n->name), "state",
                                 n->alive == 2 ? "draining"
                                 : n->alive    ? "alive"
                                               : "gone",
                                 "cpus", (double)n->cpu_e4 / 1e4, "cpus_free",
                                 (double)n->cpu_free_e4 / 1e4, "gpus", (double)n->gpu_e4 / 1e4,
                                 "gpus_free", (double)n->gpu_free_e4 / 1e4, "store", "used",
                                 N(n->store_used), "capacity", N(n->store_capacity), "spilled_now",
                                 N(n->spilled_now), "spilled_total", N(l->spilled_bytes),
                                 "restored_total", N(l->restored_bytes), "objects", N(l->objects),
                                 "tasks", "done", N(l->done), "failed", N(l->failed), "running",
                                 l->running, "queued", l->queued, "workers", l->workers)) < 0)
            return SK_ENOMEM;
    }
    return rc;
}

static sk_rc add_workers(struct sk_view_reader *v, PyObject *list, struct sk_err *err) {
    struct sk_view_workers *all = sk_alloc(SK_TAG_PY, sizeof *all);
    if (!all) return SK_ERR(err, SK_ENOMEM, "no memory to read workers");
    sk_rc rc = sk_view_workers(v, all, err);
    for (uint64_t i = 0; rc == SK_OK && i < all->n; i++) {
        const struct sk_view_worker *w = &all->of[i];
        if (append(list, Py_BuildValue("(iLNI)", (int)w->pid, (long long)w->since_ns,
                                       py_text(w->name), w->node)) < 0)
            rc = SK_ENOMEM;
    }
    sk_free(all);
    return rc == SK_EAGAIN ? SK_OK : rc;
}

static PyObject *whole(const struct sk_view_about *a, const struct sk_view_counters *c,
                       const struct sk_view_history *h, PyObject *runs, PyObject *errors,
                       PyObject *nodes, PyObject *workers) {
    return Py_BuildValue(
        "{s:i,s:L,s:i,s:N,s:d,s:d,s:I,s:d,s:d,s:N,s:{s:K,s:K,s:K,s:K,s:K,s:K},s:{s:K,s:K,s:K,s:K},"
        "s:O,"
        "s:O,s:O,s:O,s:N}",
        "version", 1, "started_ns", (long long)a->started_ns, "pid", (int)a->pid, "program",
        py_text(a->program), "started", S(a->started_wall_ns), "seconds",
        S(c->now_ns - a->started_ns), "ended", a->ended, "cpus", (double)a->cpu_e4 / 1e4, "gpus",
        (double)a->gpu_e4 / 1e4, "waits", py_text(c->waits), "store", "used", N(c->store_used),
        "capacity", N(c->store_capacity), "spilled_now", N(c->spilled_now), "spilled_total",
        N(c->spilled_total), "restored_total", N(c->restored_total), "objects", N(c->objects),
        "tasks", "done", N(c->done), "failed", N(c->failed), "running", N(c->running), "queued",
        N(c->queued), "errors", errors, "runs", runs, "nodes", nodes, "node_workers", workers,
        "samples", history(h));
}

static PyObject *m_view_read(PyObject *module, PyObject *path) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_view_reader v;
    struct sk_view_counters c = {0};
    struct sk_view_history h = {0};
    PyObject *p = NULL, *d = NULL;
    PY_ERR(err);
    if (!PyUnicode_FSConverter(path, &p)) return NULL;
    sk_rc rc = sk_view_open(PyBytes_AS_STRING(p), &v, &err);
    Py_DECREF(p);
    if (rc != SK_OK) return py_raise(st, rc, &err);
    PyObject *runs = PyList_New(0), *errors = PyList_New(0), *nodes = PyList_New(0),
             *workers = PyList_New(0);
    rc = runs && errors && nodes && workers ? sk_view_counters(&v, &c, &err) : SK_ENOMEM;
    if (rc == SK_OK) rc = sk_view_history(&v, &h, &err);
    if (rc == SK_EAGAIN) rc = SK_OK;
    if (rc == SK_OK) rc = add_runs(&v, runs, &err);
    if (rc == SK_OK) rc = add_errors(&v, errors, &err);
    if (rc == SK_OK) rc = add_nodes(&v, nodes, &err);
    if (rc == SK_OK) rc = add_workers(&v, workers, &err);
    sk_view_close(&v);
    if (rc == SK_OK) d = whole(&v.about, &c, &h, runs, errors, nodes, workers);
    else if (!PyErr_Occurred()) py_raise(st, rc, &err);
    Py_XDECREF(runs);
    Py_XDECREF(errors);
    Py_XDECREF(nodes);
    Py_XDECREF(workers);
    return d;
}

static PyObject *task_rows(const struct sk_view_task *t, size_t n, char (*names)[SK_VIEW_NAME],
                           size_t n_names) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = Py_BuildValue(
            "(KKKLLLNiHHbbH)", N(t[i].id), N(t[i].parent), N(t[i].actor), (long long)t[i].submit_ns,
            (long long)t[i].start_ns, (long long)t[i].end_ns,
            py_text(t[i].name < n_names ? names[t[i].name] : "?"), (int)t[i].pid, t[i].attempt,
            t[i].worker, t[i].kind, t[i].failed, t[i].node);
        if (row) PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *flow_rows(const struct sk_view_flow *f, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = Py_BuildValue("(KKL)", N(f[i].block), N(f[i].task), (long long)f[i].ns);
        if (row) PyList_SET_ITEM(list, (Py_ssize_t)i, row);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *m_view_tasks(PyObject *module, PyObject *path) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_view_reader v;
    size_t n_tasks, n_flows, n_names;
    PyObject *p = NULL, *tasks = NULL, *flows = NULL;
    PY_ERR(err);
    if (!PyUnicode_FSConverter(path, &p)) return NULL;
    sk_rc rc = sk_view_open(PyBytes_AS_STRING(p), &v, &err);
    Py_DECREF(p);
    if (rc != SK_OK) return py_raise(st, rc, &err);
    struct sk_view_task *t = sk_alloc(SK_TAG_PY, SK_VIEW_TASKS * sizeof *t);
    struct sk_view_flow *f = sk_alloc(SK_TAG_PY, SK_VIEW_FLOWS * sizeof *f);
    char (*names)[SK_VIEW_NAME] = sk_alloc(SK_TAG_PY, SK_VIEW_NAMES * sizeof *names);
    if (!t || !f || !names) rc = SK_ERR(&err, SK_ENOMEM, "no memory to read the tasks of a view");
    /* names are read last, so that the name of each task is there */
    if (rc == SK_OK) rc = sk_view_tasks(&v, t, &n_tasks, &err);
    if (rc == SK_OK) rc = sk_view_flows(&v, f, &n_flows, &err);
    if (rc == SK_OK) rc = sk_view_names(&v, names, &n_names, &err);
    sk_view_close(&v);
    if (rc == SK_OK) {
        tasks = task_rows(t, n_tasks, names, n_names);
        flows = tasks ? flow_rows(f, n_flows) : NULL;
    } else {
        py_raise(st, rc, &err);
    }
    PyObject *r = flows ? PyTuple_Pack(2, tasks, flows) : NULL;
    Py_XDECREF(tasks);
    Py_XDECREF(flows);
    sk_free(t);
    sk_free(f);
    sk_free(names);
    return r;
}

PyMethodDef py_view_methods[] = {
    {"view_read", m_view_read, METH_O,
     "view_read(path of a view or a record): what it shows, as dicts; see skate/_private/view.py."},
    {"view_tasks", m_view_tasks, METH_O,
     "view_tasks(path of a view or a record): (ended tasks, flow of blocks)."},
    {NULL, NULL, 0, NULL},
};
