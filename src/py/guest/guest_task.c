/* guest_task.c - runs one task in a process of a guest engine (guest.c), by the runner of every
 * worker (run.c), with arguments and results as bytes.
 *
 *  for values in _skate.GuestTask(...):   [(kind, bytes), ...]: what the task gave out since the
 *                                         last iteration; a stream goes on with each iteration
 *
 * The engine of such a process has only what a running task needs: buffers and views. Its other
 * calls (get, put, remote) raise NotImplementedError. Invariant: a stream gives pairs of a note and
 * a value (sk_engine.no_notes). Cost: one copy of each result, none of the arguments. */
#include "engine/engine_int.h"
#include "py/guest/guest.h"

struct gtask {
    struct sk_task_priv p; /* must be first */
    /* list of (kind, bytes): values of the task that the caller has not taken yet */
    PyObject *out;
    PyObject *failed; /* (kind, bytes) of the error */
};

struct pull {
    PyObject_HEAD struct gtask t;
    struct py_state *st;
    struct sk_view *views; /* views of the arguments */
    char *name;
    PyObject *it; /* the iterator of a stream that is not over */
    bool begun;
};

/* ---- the engine that a task sees in such a process ------------------------------------------- */

#define NOT_HERE(err)                                                                         \
    SK_ERR(err, SK_ENOSYS,                                                                    \
           "a task of this engine cannot use skate itself: pass it values and references as " \
           "arguments")

static sk_rc w_define(struct sk_engine *e SK_UNUSED, sk_fid f SK_UNUSED, const char *n SK_UNUSED,
                      struct sk_bytes d SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_shape(struct sk_engine *e SK_UNUSED, const struct sk_need *n SK_UNUSED,
                     sk_shape *o SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_submit(struct sk_engine *e SK_UNUSED, const struct sk_task_spec *s SK_UNUSED,
                      sk_oid *f SK_UNUSED, sk_tid *t SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_cancel(struct sk_engine *e SK_UNUSED, sk_tid t SK_UNUSED, uint32_t f SK_UNUSED,
                      struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_actor_create(struct sk_engine *e SK_UNUSED, const struct sk_actor_spec *s SK_UNUSED,
                            sk_aid *o SK_UNUSED, sk_oid *r SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_actor_end(struct sk_engine *e SK_UNUSED, sk_aid a SK_UNUSED, bool n SK_UNUSED,
                         struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_get(struct sk_engine *e SK_UNUSED, const sk_oid *i SK_UNUSED, size_t n SK_UNUSED,
                   int64_t d SK_UNUSED, struct sk_view *o SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_wait(struct sk_engine *e SK_UNUSED, const sk_oid *i SK_UNUSED, size_t n SK_UNUSED,
                    size_t w SK_UNUSED, int64_t d SK_UNUSED, bool *r SK_UNUSED,
                    struct sk_err *err) {
    return NOT_HERE(err);
}
/* objects are not counted, since an engine of this kind has none */
static void w_count(struct sk_engine *e SK_UNUSED, sk_oid o SK_UNUSED) {}
static sk_rc w_drive(struct sk_engine *e SK_UNUSED, bool (*done)(void *) SK_UNUSED,
                     void *a SK_UNUSED, int64_t d SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}
static sk_rc w_nodes(struct sk_engine *e SK_UNUSED, struct sk_node *o SK_UNUSED, size_t c SK_UNUSED,
                     size_t *n SK_UNUSED, struct sk_err *err) {
    return NOT_HERE(err);
}

static sk_rc w_buf_alloc(struct sk_engine *e SK_UNUSED, size_t len, struct sk_buf *out,
                         struct sk_err *err) {
    uint8_t *p = sk_alloc_aligned(SK_TAG_PY, 64, len);
    if (!p) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", len);
    *out = (struct sk_buf){p, len, 1};
    return SK_OK;
}
static void w_buf_abort(struct sk_engine *e SK_UNUSED, struct sk_buf *b) {
    sk_free(b->data);
    *b = (struct sk_buf){0};
}
static sk_rc w_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *o SK_UNUSED,
                   struct sk_err *err) {
    if (p->buf) w_buf_abort(e, p->buf);
    return NOT_HERE(err);
}
static void w_view_release(struct sk_engine *e SK_UNUSED, struct sk_view *v) {
    /* NOLINTNEXTLINE: pull_args stored the pointer in the token, which the checker does not know */
    Py_buffer *b = (Py_buffer *)(uintptr_t)v->token;
    if (b && Py_IsInitialized()) {
        PyGILState_STATE g = PyGILState_Ensure();
        PyBuffer_Release(b);
        PyMem_Free(b);
        PyGILState_Release(g);
    }
    *v = (struct sk_view){0};
}

static const struct sk_engine_ops WORKER_OPS = {.define = w_define,
                                                .shape = w_shape,
                                                .submit = w_submit,
                                                .cancel = w_cancel,
                                                .actor_create = w_actor_create,
                                                .actor_end = w_actor_end,
                                                .put = w_put,
                                                .get = w_get,
                                                .wait = w_wait,
                                                .retain = w_count,
                                                .release = w_count,
                                                .buf_alloc = w_buf_alloc,
                                                .buf_abort = w_buf_abort,
                                                .view_release = w_view_release,
                                                .drive = w_drive,
                                                .nodes = w_nodes};
/* this engine is never opened or closed */
static const struct sk_engine_class WORKER_CLASS = {.name = "guest"};
static struct sk_engine worker = {.cls = &WORKER_CLASS, .ops = &WORKER_OPS, .no_notes = true};

static PyObject *m_guest_worker(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (st->engine == &worker) Py_RETURN_NONE;
    if (st->engine || st->worker)
        return PyErr_Format(PyExc_RuntimeError,
                            "guest_worker: this process has an engine of its own");
    st->engine = &worker;
    st->gen++;
    st->driver = false;
    st->worker = true;
    Py_RETURN_NONE;
}

/* ---- calls that the task makes --------------------------------------------------------------- */

static void free_bytes(PyObject *capsule) { sk_free(PyCapsule_GetPointer(capsule, "bytes")); }

/* Returns (kind, bytes or a buffer over the payload's memory, which is taken over) for a value of
 * the task. NULL with an exception. */
static PyObject *given_out(struct py_state *st, const struct sk_payload *p) {
    if (!p->buf)
        return Py_BuildValue("(Iy#)", (unsigned)p->kind, p->bytes.n ? (const char *)p->bytes.p : "",
                             (Py_ssize_t)p->bytes.n);
    PyObject *owner = PyCapsule_New(p->buf->data, "bytes", free_bytes);
    if (!owner) {
        sk_free(p->buf->data);
        return NULL;
    }
    PyObject *buf = py_buf_new(st, p->buf->data, SK_MIN(p->buf_len, p->buf->len), owner);
    Py_DECREF(owner);
    return buf ? Py_BuildValue("(IN)", (unsigned)p->kind, buf) : NULL;
}

static struct pull *pull_of(struct sk_task *t) {
    struct gtask *g = sk_container_of(sk_container_of(t, struct sk_task_priv, t), struct gtask, p);
    return sk_container_of(g, struct pull, t);
}

static sk_rc out_of_memory(struct sk_err *err) {
    PyErr_Clear();
    return SK_ERR(err, SK_ENOMEM, "no memory for what a task gives out");
}

static sk_rc t_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) {
    /* the runner calls this with the GIL held */
    struct pull *x = pull_of(t);
    SK_ASSERT(PyGILState_Check());
    if (p->n_contains) {
        if (p->buf) w_buf_abort(t->engine, p->buf);
        return NOT_HERE(err);
    }
    PyObject *v = given_out(x->st, p);
    int r = v ? PyList_Append(x->t.out, v) : -1;
    Py_XDECREF(v);
    if (r < 0) return out_of_memory(err);
    t->n_yielded++;
    return SK_OK;
}
static sk_rc t_ret(struct sk_task *t, uint32_t i, const struct sk_payload *p, struct sk_err *err) {
    /* the runner sets the returns in order */
    SK_ASSERT((Py_ssize_t)i == PyList_GET_SIZE(pull_of(t)->t.out));
    return t_yield(t, p, err);
}
static uint32_t t_skip(const struct sk_task *t SK_UNUSED) { return 0; }
static sk_rc t_fail(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) {
    struct pull *x = pull_of(t);
    PyObject *v = given_out(x->st, p);
    if (!v) return out_of_memory(err);
    if (x->t.failed) Py_DECREF(v);
    else x->t.failed = v;
    return SK_OK;
}
/* a task's note at its end is dropped, since only streams use notes */
static void t_note(struct sk_task *t SK_UNUSED, struct sk_bytes note SK_UNUSED) {}
static struct sk_view t_keep_arg(struct sk_task *t, uint32_t i) {
    struct sk_view v = pull_of(t)->views[i];
    pull_of(t)->views[i].token = 0;
    return v;
}
/* a task of a guest engine is cancelled by ending its process */
static bool t_cancelled(const struct sk_task *t SK_UNUSED) { return false; }
static const struct sk_task_ops TASK_OPS = {.ret = t_ret,
                                            .yield = t_yield,
                                            .skip = t_skip,
                                            .fail = t_fail,
                                            .note = t_note,
                                            .keep_arg = t_keep_arg,
                                            .cancelled = t_cancelled};

/* ---- the iterator over a task's values ------------------------------------------------------- */

struct given {
    uint64_t fn, task, actor;
    const char *name;
    struct sk_bytes definition;
    PyObject *args, *n_returns;
    uint32_t attempt;
    bool is_init;
};
#define F(...) PY_FIELD(struct given, __VA_ARGS__)
static const struct py_field field[] = {
    F("fn", U64, fn),
    F("name", TEXT, name),
    F("definition", BYTES, definition),
    F("args", OBJECT, args, .of = &PyList_Type),
    F("task", U64, task),
    F("actor", U64, actor),
    F("n_returns", OBJECT, n_returns, .of = &PyLong_Type),
    F("attempt", U32, attempt),
    F("is_init", BOOL, is_init),
};
static const struct py_fields fields = {"GuestTask", SK_COUNT(field), 4, field};

/* Makes a view of each argument (kind, buffer). A view holds its buffer until it is released. */
static int pull_args(struct pull *x, PyObject *args) {
    Py_ssize_t n = PyList_GET_SIZE(args);
    x->views = sk_calloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *x->views);
    if (!x->views) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned kind;
        PyObject *o;
        if (!PyTuple_Check(PyList_GET_ITEM(args, i)) ||
            !PyArg_ParseTuple(PyList_GET_ITEM(args, i), "IO;an argument is (kind, bytes)", &kind,
                              &o)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an argument is (kind, bytes)");
            return -1;
        }
        Py_buffer *b = PyMem_Calloc(1, sizeof *b);
        if (!b || PyObject_GetBuffer(o, b, PyBUF_SIMPLE) < 0) {
            PyMem_Free(b);
            if (!PyErr_Occurred()) PyErr_NoMemory();
            return -1;
        }
        x->views[i] = (struct sk_view){
            .data = b->buf, .len = (size_t)b->len, .kind = kind, .token = (uintptr_t)b};
        x->t.p.t.n_args++;
    }
    return 0;
}

static PyObject *pull_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    struct py_state *st = py_state_of(type);
    struct given g;
    PY_ERR(err);
    if (py_fields_read(&fields, args, kw, &g) < 0) return NULL;
    if (st->engine != &worker)
        return PyErr_Format(PyExc_RuntimeError, "GuestTask: guest_worker() first");
    long n_returns = g.n_returns ? PyLong_AsLong(g.n_returns) : 0;
    if (n_returns < 0 || n_returns > SK_MAX_RETURNS)
        return PyErr_Format(PyExc_ValueError, "GuestTask: n_returns=%ld", n_returns);
    struct pull *x = (struct pull *)(void *)type->tp_alloc(type, 0);
    if (!x) return NULL;
    x->st = st;
    x->name = sk_strdup(SK_TAG_PY, g.name);
    x->t.out = PyList_New(0);
    if (!x->name || !x->t.out) {
        Py_DECREF(x);
        return PyErr_NoMemory();
    }
    x->t.p =
        (struct sk_task_priv){.t = {.engine = &worker,
                                    .id = {g.task},
                                    .fn = {g.fn},
                                    .actor = {g.actor},
                                    .is_actor_init = g.is_init,
                                    .attempt = g.attempt,
                                    .n_returns = g.n_returns ? (uint32_t)n_returns : SK_STREAMING,
                                    .name = x->name},
                              .ops = &TASK_OPS};
    sk_rc rc = py_fn_define(st, (sk_fid){g.fn}, g.name, g.definition, &err);
    if (rc != SK_OK || pull_args(x, g.args) < 0) {
        if (rc != SK_OK) py_raise(st, rc, &err);
        Py_DECREF(x);
        return NULL;
    }
    x->t.p.t.args = x->views;
    return (PyObject *)x;
}

static void release_args(struct pull *x) {
    for (uint32_t i = 0; i < x->t.p.t.n_args; i++) w_view_release(&worker, &x->views[i]);
    x->t.p.t.n_args = 0;
}

static void pull_dealloc(PyObject *o) {
    struct pull *x = (struct pull *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    Py_XDECREF(x->it);
    release_args(x);
    Py_XDECREF(x->t.out);
    Py_XDECREF(x->t.failed);
    sk_free(x->views);
    sk_free(x->name);
    type->tp_free(o);
    Py_DECREF(type);
}

/* Reports a failure of skate, or of encoding a value, as the failure of the task. */
static void fail(struct pull *x, sk_rc rc, const struct sk_err *err) {
    if (rc == SK_OK || x->t.failed) return;
    char text[sizeof err->msg + 5];
    int32_t code = rc;
    memcpy(text, &code, 4);
    size_t n = strnlen(err->msg, sizeof err->msg - 1);
    memcpy(text + 4, err->msg, n);
    text[4 + n] = 0;
    x->t.failed = Py_BuildValue("(Iy#)", (unsigned)SK_KIND_ENGINE_ERROR, text, (Py_ssize_t)(n + 5));
    if (!x->t.failed) PyErr_Clear();
}

static void begin(struct pull *x) {
    struct sk_err err = {0};
    PyObject **outer = py_pulled;
    x->begun = true;
    py_pulled = &x->it;
    sk_rc rc = x->st->runner.run(x->st->runner.ctx, &x->t.p.t, &err);
    py_pulled = outer;
    fail(x, rc, &err);
    release_args(x); /* values that use bytes of an argument have references of their own */
}

/* Lets a stream make one more value. */
static void go_on(struct pull *x) {
    struct sk_err err = {0};
    sk_rc rc = SK_OK;
    struct sk_task *outer = py_task_now, *t = &x->t.p.t;
    py_task_now = t;
    PyObject *v = PyIter_Next(x->it);
    int r = v ? py_send_value(x->st, t, v, 0, true, &rc, &err) : PyErr_Occurred() ? -1 : 0;
    bool over = !v || r < 0 || rc != SK_OK;
    Py_XDECREF(v);
    if (r < 0) rc = py_fail_with_exception(x->st, t, &err);
    fail(x, rc, &err);
    if (over) Py_CLEAR(x->it); /* release the iterator, so that its finally blocks run now */
    py_task_now = outer;
}

static PyObject *pull_next(PyObject *o) {
    struct pull *x = (struct pull *)(void *)o;
    if (!x->begun) begin(x);
    while (x->it && !PyList_GET_SIZE(x->t.out)) go_on(x);
    if (!PyList_GET_SIZE(x->t.out)) return NULL;
    PyObject *empty = PyList_New(0), *out = x->t.out;
    if (empty) x->t.out = empty;
    return empty ? out : NULL;
}

static PyObject *pull_failed(PyObject *o, void *unused SK_UNUSED) {
    PyObject *f = ((struct pull *)(void *)o)->t.failed;
    return Py_NewRef(f ? f : Py_None);
}

static PyGetSetDef pull_getset[] = {
    {"failed", pull_failed, NULL,
     "After the last values: the error that the task ended with, as (kind, bytes), or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot pull_slots[] = {
    {Py_tp_new, pull_new},
    {Py_tp_dealloc, pull_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, pull_next},
    {Py_tp_getset, pull_getset},
    {Py_tp_doc, "GuestTask(fn, name, definition, args, *, task, actor, n_returns, attempt, "
                "is_init): runs a task of a guest engine as its "
                "values are asked for."},
    {0, NULL},
};
static PyType_Spec pull_spec = {"skate._skate.GuestTask", sizeof(struct pull), 0,
                                Py_TPFLAGS_DEFAULT, pull_slots};

int py_guest_types(PyObject *module, struct py_state *st) {
    (void)st;
    PyObject *type = PyType_FromModuleAndSpec(module, &pull_spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return r;
}

PyMethodDef py_guest_methods[] = {
    {"guest_worker", m_guest_worker, METH_NOARGS,
     "This process runs tasks of a guest engine from now on. Idempotent."},
    {NULL, NULL, 0, NULL},
};
