/* exec.c - Exec: the Python type of a running pipeline (exec.h).
 *
 * The pipeline goes on whether or not a thread is in next(), since its sink is called inside the
 * engine. A stop from another thread does not wait: the last thread that leaves the run frees it.
 * Shutdown stops every run before it closes the engine. */
#include "base/clock.h"
#include "engine/view.h"
#include "exec/exec.h"
#include "py/data/data.h"
#include "shuffle/exchange.h"

struct py_exec {
    PyObject_HEAD struct sk_exec *x; /* NULL: stopped */
    struct py_state *st;
    PyObject *plan; /* the plan, which has to outlive the run */
    /* definitions of the run's three functions, kept because their closures hold references */
    PyObject *functions;
    uint32_t users; /* number of threads that are inside the run without the GIL */
    bool stop_wanted;
    struct py_exec *next, *prev; /* st->execs */
    PyObject *last_stats;        /* statistics of the run, kept when it is stopped */
    PyObject *last_failures;     /* failures that were not taken when the run was stopped */
    /* one byte for each unit, not 0 if the unit is done; must outlive the run */
    PyObject *skip;
    struct sk_gathers gathers; /* the table of gathers, which must outlive the run */
    uint64_t origin, schema;   /* origin and schema of the block that was given out last */
};

static PyObject *stats_dict(struct sk_exec *x);
static PyObject *failures_list(struct py_state *st, struct sk_exec *x);

/* Saves the statistics and dead letters of a run that is about to be freed. */
static void keep_last(struct py_exec *e) {
    /* if memory is short they are missing, and stats() reports that */
    if (!e->last_stats && !(e->last_stats = stats_dict(e->x))) PyErr_Clear();
    if (!e->last_failures && !(e->last_failures = failures_list(e->st, e->x))) PyErr_Clear();
}

static void unlink_exec(struct py_exec *e) {
    if (e->prev) e->prev->next = e->next;
    else if (e->st->execs == e) e->st->execs = e->next;
    if (e->next) e->next->prev = e->prev;
    e->next = e->prev = NULL;
}

static void stop(struct py_exec *e) {
    e->stop_wanted = true;
    if (!e->x || e->users) return;
    keep_last(e);
    struct sk_exec *x = e->x;
    SK_ASSERT(e->x && !e->users);
    e->x = NULL; /* no other thread can enter the run from now on */
    unlink_exec(e);
    struct py_state *st = e->st;
    PY_DROP(st)
    sk_exec_stop(&x);
    PY_TAKE(st)
}

void py_exec_forget(struct py_state *st) {
    while (st->execs) {
        struct py_exec *e = st->execs;
        e->x = NULL;
        e->users = 0;
        unlink_exec(e);
    }
}

/* Stops all runs while the engine closes, when no thread is inside a run. */
void py_exec_stop_all(struct py_state *st) {
    while (st->execs) {
        struct py_exec *e = st->execs;
        struct sk_exec *x = e->x;
        keep_last(e);
        e->x = NULL;
        unlink_exec(e);
        Py_BEGIN_ALLOW_THREADS sk_exec_stop(&x);
        Py_END_ALLOW_THREADS
    }
}

/* ---- starting a run -------------------------------------------------------------------------- */

struct given { /* the configuration of an Exec; borrowed */
    const char *policy;
    PyObject *run_stage, *stage_init, *stage_call, *skip_units;
    uint64_t memory_bytes, target_max_bytes, target_min_bytes, most_cpu_e4, most_gpu_e4;
    int64_t max_bad_rows, max_errored_blocks;
    uint32_t consumer_blocks;
    bool preserve_order;
};

#define F(...) PY_FIELD(struct given, __VA_ARGS__)

static const struct py_field field[] = {
    F("policy", TEXT, policy),
    F("run_stage", OBJECT, run_stage),
    F("stage_init", OBJECT, stage_init),
    F("stage_call", OBJECT, stage_call),
    F("skip_units", OBJECT, skip_units, .of = &PyBytes_Type),
    F("memory_bytes", U64, memory_bytes),
    F("target_max_bytes", U64, target_max_bytes),
    F("target_min_bytes", U64, target_min_bytes),
    F("most_cpu_e4", U64, most_cpu_e4),
    F("most_gpu_e4", U64, most_gpu_e4),
    F("max_bad_rows", I64, max_bad_rows),
    F("max_errored_blocks", I64, max_errored_blocks),
    F("consumer_blocks", U32, consumer_blocks),
    F("preserve_order", BOOL, preserve_order, .otherwise = true),
};
static const struct py_fields fields = {"Exec", SK_COUNT(field), 0, field};

/* Defines a function of skate with an empty name: messages name a task or an actor of a stage by
 * its operators, not by the function that runs them. */
static int define(struct py_state *st, PyObject *fn, bool method, sk_fid *out) {
    if (!fn) return 0;
    PyObject *name = PyObject_GetAttrString(fn, "__name__"), *none = PyUnicode_FromString(""),
             *def = NULL;
    if (name && none)
        def =
            method ? PyUnicode_AsUTF8String(name) : PyObject_CallOneArg(st->hook_dump_function, fn);
    int r = def ? py_define(st, def, none, method, out) : -1;
    Py_XDECREF(def);
    Py_XDECREF(name);
    Py_XDECREF(none);
    return r;
}

static int conf_read(struct py_state *st, PyObject *conf, struct given *g, struct sk_exec_conf *c) {
    if (py_fields_read(&fields, NULL, conf, g) < 0) return -1;
    *c = (struct sk_exec_conf){.policy = g->policy,
                               .memory_bytes = g->memory_bytes,
                               .target_max_bytes = g->target_max_bytes,
                               .target_min_bytes = g->target_min_bytes,
                               .most_cpu_e4 = g->most_cpu_e4,
                               .most_gpu_e4 = g->most_gpu_e4,
                               .max_bad_rows = g->max_bad_rows,
                               .max_errored_blocks = g->max_errored_blocks,
                               .consumer_blocks = g->consumer_blocks,
                               .preserve_order = g->preserve_order};
    if (g->skip_units) { /* one byte for each unit */
        c->keep_units = true;
        c->skip_units = (const uint8_t *)PyBytes_AS_STRING(g->skip_units);
        c->n_skip = (uint32_t)PyBytes_GET_SIZE(g->skip_units);
    }
    return define(st, g->run_stage, false, &c->run_stage) < 0 ||
                   define(st, g->stage_init, false, &c->stage_init) < 0 ||
                   define(st, g->stage_call, true, &c->stage_call) < 0
               ? -1
               : 0;
}

static PyObject *exec_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {"plan", "root", "conf", NULL};
    struct py_state *st = py_state_of(type);
    PyObject *plan, *conf;
    unsigned root;
    struct given g;
    struct sk_exec_conf c;
    const struct sk_plan *p;
    PY_ERR(err);
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O!IO!:Exec", names, st->plan_type, &plan, &root,
                                     &PyDict_Type, &conf) ||
        py_ensure(st) < 0 || !(p = py_plan_get(st, plan)))
        return NULL;
    if (root >= sk_plan_n_nodes(p))
        return PyErr_Format(PyExc_ValueError, "there is no node %u", root);
    if (conf_read(st, conf, &g, &c) < 0) return NULL;
    struct py_exec *e = (struct py_exec *)(void *)type->tp_alloc(type, 0);
    if (!e) return NULL;
    e->st = st;
    e->plan = Py_NewRef(plan);
    e->functions = Py_NewRef(conf);
    e->skip = Py_XNewRef(g.skip_units);
    e->gathers = sk_shuffle_gathers(sk_shuffle_find("auto"));
    c.gathers = &e->gathers;
    sk_rc rc;
    PY_DROP(st)
    rc = sk_exec_start(st->engine, p, root, &c, &e->x, &err);
    PY_TAKE(st)
    if (rc != SK_OK) {
        e->x = NULL;
        Py_DECREF(e);
        return py_raise(st, rc, &err);
    }
    e->next = st->execs;
    if (e->next) e->next->prev = e;
    st->execs = e;
    return (PyObject *)e;
}

static void exec_dealloc(PyObject *o) {
    struct py_exec *e = (struct py_exec *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    stop(e);
    PyErr_Restore(t, v, tb);
    Py_XDECREF(e->plan);
    Py_XDECREF(e->functions);
    Py_XDECREF(e->last_stats);
    Py_XDECREF(e->last_failures);
    Py_XDECREF(e->skip);
    type->tp_free(o);
    Py_DECREF(type);
}

/* ---- taking blocks from a run ---------------------------------------------------------------- */

static PyObject *raise_bad(struct py_state *st, sk_oid bad, sk_rc rc, const struct sk_err *err) {
    struct sk_view v;
    PY_ERR(e2);
    uint32_t gen = st->gen;
    if (!bad.v) {
        py_raise(st, rc, err);
        py_show_raised(st);
        return NULL;
    }
    sk_rc got = st->engine->ops->get(st->engine, &bad, 1, 0, &v, &e2);
    if (got == SK_OK) {
        if (SK_KIND_IS_ERROR(v.kind)) py_raise_value(st, &v);
        else py_raise(st, rc, err);
        py_view_release(st, gen, &v);
    } else {
        py_raise(st, rc, err);
    }
    if (py_open(st, gen)) st->engine->ops->release(st->engine, bad);
    py_show_raised(st);
    return NULL;
}

static PyObject *exec_next(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct py_exec *e = (struct py_exec *)(void *)self;
    struct py_state *st = e->st;
    struct sk_bref b;
    sk_oid bad = {0};
    int64_t deadline = INT64_MAX;
    PY_ERR(err);
    if (n > 1) return PyErr_Format(PyExc_TypeError, "next(timeout=None)");
    if (n == 1 && args[0] != Py_None) {
        double s = PyFloat_AsDouble(args[0]);
        if (s == -1.0 && PyErr_Occurred()) return NULL;
        deadline = py_deadline(s, sk_now_ns());
    }
    sk_rc rc = SK_ETIMEOUT;
    for (bool first = true; rc == SK_ETIMEOUT; first = false) {
        if (!e->x || e->stop_wanted || st->closing)
            return py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "this run was stopped"});
        int64_t now = first ? 0 : sk_now_ns();
        if (!first && now >= deadline)
            return py_raise(st, SK_ETIMEOUT,
                            &(struct sk_err){.msg = "no block within the timeout"});
        if (first) { /* a block that exists already is taken without dropping the GIL */
            rc = sk_exec_next(e->x, 0, &b, &bad, &err);
            continue;
        }
        e->users++;
        PY_DROP(st)
        rc = sk_exec_next(e->x, SK_MIN(deadline, now + PY_SLICE_NS), &b, &bad, &err);
        PY_TAKE(st)
        SK_ASSERT(e->users);
        e->users--;
        if (rc == SK_ETIMEOUT && PyErr_CheckSignals() < 0) return NULL;
    }
    PyObject *r = NULL;
    if (rc == SK_OK) {
        PyObject *ref = py_ref_new(st, (sk_oid){b.oid}, (sk_tid){0});
        e->origin = b.origin;
        e->schema = b.schema;
        r = ref ? Py_BuildValue("(NKKK)", ref, (unsigned long long)b.row0,
                                (unsigned long long)b.n_rows, (unsigned long long)b.bytes)
                : NULL;
    } else if (rc == SK_EDONE) {
        r = Py_NewRef(Py_None);
    } else {
        raise_bad(st, bad, rc, &err);
    }
    if (e->stop_wanted && e->x && !e->users) {
        PyObject *t, *v, *tb;
        PyErr_Fetch(&t, &v, &tb);
        stop(e);
        PyErr_Restore(t, v, tb);
    }
    return py_with_prints(st, r);
}

/* await_actors(seconds): waits until the actors are ready, in slices, so that signals are handled;
 * a stop from another thread ends the wait. */
static PyObject *exec_await_actors(PyObject *self, PyObject *seconds) {
    struct py_exec *e = (struct py_exec *)(void *)self;
    struct py_state *st = e->st;
    double s = PyFloat_AsDouble(seconds);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    int64_t deadline = py_deadline(s, sk_now_ns());
    PY_ERR(err);
    for (;;) {
        if (!e->x || e->stop_wanted || st->closing)
            return py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "this run was stopped"});
        int64_t now = sk_now_ns();
        e->users++;
        sk_rc rc;
        PY_DROP(st)
        rc = sk_exec_await_actors(e->x, SK_MIN(deadline, now + PY_SLICE_NS), &err);
        PY_TAKE(st)
        SK_ASSERT(e->users);
        e->users--;
        if (e->stop_wanted && e->x && !e->users) stop(e);
        if (rc == SK_OK) Py_RETURN_TRUE;
        if (rc != SK_ETIMEOUT) return py_raise(st, rc, &err);
        if (PyErr_CheckSignals() < 0) return NULL;
        if (now >= deadline) Py_RETURN_FALSE;
    }
}

sk_rc py_exec_call(struct py_state *st, PyObject *o, sk_rc (*fn)(void *arg, struct sk_err *err),
                   void *arg, struct sk_err *err) {
    struct py_exec *e = (struct py_exec *)(void *)o;
    if (!Py_IS_TYPE(o, st->exec_type)) {
        PyErr_Format(PyExc_TypeError, "%R is no run", o);
        return SK_EINVAL;
    }
    if (!e->x || e->stop_wanted || st->closing) return SK_ECLOSED;
    sk_rc rc;
    e->users++;
    PY_DROP(st)
    rc = sk_exec_call(e->x, fn, arg, err);
    PY_TAKE(st)
    SK_ASSERT(e->users);
    e->users--;
    if (e->stop_wanted && e->x && !e->users) stop(e);
    return rc;
}

static PyObject *exec_stop(PyObject *self, PyObject *unused SK_UNUSED) {
    stop((struct py_exec *)(void *)self);
    Py_RETURN_NONE;
}

/* ---- statistics of a run --------------------------------------------------------------------- */

/* Stores d[key] = v, taking v over. */
static int put_item(PyObject *d, const char *key, PyObject *v) {
    int r = v ? PyDict_SetItemString(d, key, v) : -1;
    Py_XDECREF(v);
    return r;
}

#define U(o, d, f) put_item(d, #f, PyLong_FromUnsignedLongLong((unsigned long long)(o).f))
#define I(o, d, f) put_item(d, #f, PyLong_FromLongLong((o).f))

/* Adds the statistics of an exchange under "exchange", to the operator behind the exchange. */
static bool add_exchange(PyObject *op, const struct sk_exec_op_stats *o) {
    static const char *const names[] = {
        [SK_XSTAT_VALUES] = "values",         [SK_XSTAT_MERGE] = "merge",
        [SK_XSTAT_PACKS] = "packs",           [SK_XSTAT_BYTES] = "pack_bytes",
        [SK_XSTAT_DISK] = "disk_bytes",       [SK_XSTAT_PARTITIONS] = "partitions",
        [SK_XSTAT_LARGEST] = "largest_bytes", [SK_XSTAT_TAKEN] = "taken_bytes",
        [SK_XSTAT_READ] = "read_bytes"};
    if (!o->gather.by) return true;
    if (o->gather.by == sk_merges_name) return PyDict_SetItemString(op, "merges", Py_True) == 0;
    PyObject *d = PyDict_New();
    bool ok = d && put_item(d, "strategy", PyUnicode_FromString(o->gather.by)) == 0;
    for (uint32_t i = 0; ok && i < SK_COUNT(names); i++)
        ok = put_item(d, names[i], PyLong_FromUnsignedLongLong(o->gather.n[i])) == 0;
    ok = ok && PyDict_SetItemString(op, "exchange", d) == 0;
    Py_XDECREF(d);
    return ok;
}

static PyObject *op_dict(const struct sk_exec_op_stats *o) {
    static const char *const kinds[] = {"blocks", "tasks", "actors", "limit", "union"};
    PyObject *d = PyDict_New(), *fused = PyList_New(0);
    bool ok =
        d && fused && put_item(d, "label", PyUnicode_FromString(o->label ? o->label : "?")) == 0 &&
        put_item(d, "kind",
                 PyUnicode_FromString(o->kind < SK_COUNT(kinds) ? kinds[o->kind] : "?")) == 0 &&
        U(*o, d, tasks_queued) == 0 && U(*o, d, tasks_running) == 0 && U(*o, d, tasks_done) == 0 &&
        U(*o, d, retries) == 0 && U(*o, d, rows_in) == 0 && U(*o, d, bytes_in) == 0 &&
        U(*o, d, rows_out) == 0 && U(*o, d, bytes_out) == 0 && U(*o, d, blocks_out) == 0 &&
        U(*o, d, queued_blocks) == 0 && U(*o, d, queued_bytes) == 0 &&
        U(*o, d, peak_queued_bytes) == 0 && I(*o, d, task_ns_total) == 0 &&
        I(*o, d, task_ns_max) == 0 && I(*o, d, wait_input_ns) == 0 &&
        I(*o, d, wait_memory_ns) == 0 && I(*o, d, wait_resource_ns) == 0 &&
        I(*o, d, wait_consumer_ns) == 0 && I(*o, d, first_out_ns) == 0 && U(*o, d, n_actors) == 0 &&
        I(*o, d, total_units) == 0 && U(*o, d, tasks_expected) == 0;
    for (uint32_t i = 0; ok && i < SK_MIN(o->n_fused, SK_COUNT(o->fused)); i++) {
        const struct sk_task_note_op *f = &o->fused[i];
        PyObject *row = Py_BuildValue(
            "{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "rows_out", (unsigned long long)f->rows_out, "ns",
            (unsigned long long)f->ns, "io_retries", (unsigned long long)f->io_retries, "fallbacks",
            (unsigned long long)f->fallbacks, "in_place", (unsigned long long)f->in_place,
            "no_room", (unsigned long long)f->no_room, "native", (unsigned long long)f->native);
        ok = row && PyList_Append(fused, row) == 0;
        Py_XDECREF(row);
    }
    ok = ok && PyDict_SetItemString(d, "fused", fused) == 0 && add_exchange(d, o);
    Py_XDECREF(fused);
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *exec_samples(PyObject *self, PyObject *unused SK_UNUSED) {
    struct sk_exec *x = ((struct py_exec *)(void *)self)->x;
    uint32_t width;
    if (!x) Py_RETURN_NONE;
    size_t cap = SK_VIEW_SAMPLES * SK_VIEW_WIDTH;
    int64_t *rows = sk_alloc(SK_TAG_PY, cap * sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    size_t n = sk_exec_samples(x, &width, rows, cap);
    PyObject *d = py_samples(rows, n, width);
    sk_free(rows);
    return d;
}

static PyObject *stats_dict(struct sk_exec *x) {
    struct sk_exec_stats s = {0};
    uint32_t n = sk_exec_n_ops(x);
    struct sk_exec_op_stats *ops = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *ops);
    if (!ops) return PyErr_NoMemory();
    sk_exec_get_stats(x, &s, ops, n);
    PyObject *d = PyDict_New(), *list = PyList_New(0);
    bool ok = d && list && I(s, d, wall_ns) == 0 && U(s, d, memory_limit) == 0 &&
              U(s, d, memory_now) == 0 && U(s, d, memory_peak) == 0 && U(s, d, memory_disk) == 0 &&
              U(s, d, memory_disk_peak) == 0 && U(s, d, forced) == 0 &&
              put_item(d, "bottleneck",
                       s.bottleneck == UINT32_MAX ? Py_NewRef(Py_None)
                                                  : PyLong_FromUnsignedLong(s.bottleneck)) == 0 &&
              put_item(d, "bottleneck_why",
                       PyUnicode_FromString(s.bottleneck_why ? s.bottleneck_why : "")) == 0 &&
              U(s, d, bad_rows) == 0 && U(s, d, errored_blocks) == 0 &&
              put_item(d, "share", PyFloat_FromDouble(s.share)) == 0 && I(s, d, left_ns) == 0 &&
              put_item(d, "left_guess", PyBool_FromLong(s.left_guess)) == 0 &&
              put_item(d, "done", PyBool_FromLong(s.done)) == 0;
    for (uint32_t i = 0; ok && i < SK_MIN(n, s.n_ops); i++) {
        PyObject *o = op_dict(&ops[i]);
        ok = o && PyList_Append(list, o) == 0;
        Py_XDECREF(o);
    }
    ok = ok && PyDict_SetItemString(d, "ops", list) == 0;
    Py_XDECREF(list);
    sk_free(ops);
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *exec_stats(PyObject *self, PyObject *unused SK_UNUSED) {
    struct py_exec *e = (struct py_exec *)(void *)self;
    if (e->x) return stats_dict(e->x);
    return e->last_stats ? PyDict_Copy(e->last_stats) : PyDict_New();
}

/* Returns all failures since the last call that did not end the run: a list of (stage, bad rows,
 * ObjectRef or None, message). */
static PyObject *failures_list(struct py_state *st, struct sk_exec *x) {
    PyObject *list = PyList_New(0);
    struct sk_exec_failure s;
    while (list && sk_exec_next_failure(x, &s) == SK_OK) {
        PyObject *ref = s.oid.v ? py_ref_new(st, s.oid, (sk_tid){0}) : Py_NewRef(Py_None);
        PyObject *row =
            ref ? Py_BuildValue("(IINN)", s.stage, s.bad, ref, py_text(s.err.msg)) : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *exec_quiet(PyObject *self, PyObject *unused SK_UNUSED) {
    struct py_exec *e = (struct py_exec *)(void *)self;
    char text[800] = "";
    int64_t ns = e->x ? sk_exec_quiet(e->x, text, sizeof text) : 0;
    return Py_BuildValue("(dN)", (double)ns / 1e9, py_text(text));
}

static PyObject *exec_failures(PyObject *self, PyObject *unused SK_UNUSED) {
    struct py_exec *e = (struct py_exec *)(void *)self;
    if (e->x) return failures_list(e->st, e->x);
    PyObject *last = e->last_failures;
    e->last_failures = NULL;
    return last ? last : PyList_New(0);
}

static PyObject *exec_origin(PyObject *self, PyObject *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct py_exec *)(void *)self)->origin);
}

static PyObject *exec_schema(PyObject *self, PyObject *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct py_exec *)(void *)self)->schema);
}

static PyMethodDef exec_methods[] = {
    {"next", (PyCFunction)(void (*)(void))exec_next, METH_FASTCALL,
     "(block, first row, rows, bytes), None at the end."},
    {"await_actors", exec_await_actors, METH_O,
     "Waits so many seconds for the actors that began with the run; whether all have ended their "
     "start."},
    {"failures", exec_failures, METH_NOARGS,
     "Failures since the last call that did not end the run: (stage, bad rows, ObjectRef or None, "
     "message)."},
    {"samples", exec_samples, METH_NOARGS,
     "The run's numbers over time: {t, memory, disk, rows_out, rows_in, queued}; None after the "
     "end."},
    {"quiet", exec_quiet, METH_NOARGS,
     "(seconds since anything moved, who waits for what): for a user who waits."},
    {"origin", exec_origin, METH_NOARGS,
     "Unit of the source that the last block of next() stems from; of runs with skip_units."},
    {"schema", exec_schema, METH_NOARGS,
     "Checksum of the schema of the last block of next(); 0: not known, the block existed before "
     "the run."},
    {"stop", exec_stop, METH_NOARGS, "Cancels what runs and frees the run; idempotent."},
    {"stats", exec_stats, METH_NOARGS,
     "Numbers of the run and of each stage; after stop(), the last ones."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot exec_slots[] = {
    {Py_tp_new, exec_new},
    {Py_tp_dealloc, exec_dealloc},
    {Py_tp_methods, exec_methods},
    {Py_tp_doc, "Exec(plan, root, conf): a running pipeline."},
    {0, NULL},
};
static PyType_Spec exec_spec = {"skate._skate.Exec", sizeof(struct py_exec), 0, Py_TPFLAGS_DEFAULT,
                                exec_slots};

/* Adds a tuple of names, as _skate.POLICIES (scheduling policies). */
static int add_names(PyObject *module, const char *as, const char *(*name_of)(unsigned i)) {
    unsigned n = 0;
    while (name_of(n)) n++;
    PyObject *names = PyTuple_New(n);
    for (unsigned i = 0; names && i < n; i++) {
        PyObject *name = PyUnicode_FromString(name_of(i));
        if (name) PyTuple_SET_ITEM(names, i, name);
        else Py_CLEAR(names);
    }
    int rc = names ? PyModule_AddObjectRef(module, as, names) : -1;
    Py_XDECREF(names);
    return rc;
}

/* Adds _skate.SHUFFLES: names of the strategies of exchanges, and whether each may merge packs. */
static int add_shuffles(PyObject *module) {
    PyObject *all = PyDict_New();
    int rc = all ? 0 : -1;
    for (unsigned i = 0; rc == 0 && sk_shuffle_name(i); i++)
        rc = PyDict_SetItemString(all, sk_shuffle_name(i),
                                  sk_shuffle_find(sk_shuffle_name(i))->merges ? Py_True : Py_False);
    if (rc == 0) rc = PyModule_AddObjectRef(module, "SHUFFLES", all);
    Py_XDECREF(all);
    return rc;
}

int py_exec_types(PyObject *module, struct py_state *st) {
    st->exec_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &exec_spec, NULL);
    if (!st->exec_type || PyModule_AddType(module, st->exec_type) < 0) return -1;
    return add_names(module, "POLICIES", sk_policy_name) < 0 || add_shuffles(module) < 0 ? -1 : 0;
}
