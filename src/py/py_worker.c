/* py_worker.c - runs tasks: the sk_runner of a worker process (and of the inline engine), in C around the user's function.
 *
 * A definition stays bytes until its first use. A run decodes the arguments onto the C stack, calls by vectorcall, encodes the result straight
 * into the engine's memory. An exception of user code ends the task through the dumps_error hook; a failure of ours through *err.
 * Invariant: no run leaves an exception set, and the views of its arguments are the engine's unless a value kept them.
 * Cost: 0.25 us around a function of no arguments. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/wire.h"
#include "exec/exec.h"
#include "base/fault.h"
#include "block/block.h"
#include "py/py_int.h"

static _Thread_local struct sk_task *task_now;
static _Thread_local uint64_t exiting;      /* the task of this thread that called exit_actor() */
static _Thread_local PyThreadState *parked; /* between block_begin and block_end */

static struct py_state *async_state; /* this is the process of an async actor */

struct py_async {      /* a call whose coroutine is under way; in a capsule, which the coroutine's context holds */
    struct sk_task *t; /* NULL: over */
    PyObject *task;    /* of asyncio; until it is over */
};

static struct py_async *async_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, "skate.call"); }

struct sk_need py_home;

struct sk_task *py_current_task(void) {
    if (task_now || !async_state) return task_now;
    PyObject *capsule = NULL;
    if (PyContextVar_Get(async_state->ctx_task, NULL, &capsule) < 0) PyErr_Clear();
    struct sk_task *t = capsule ? async_of(capsule)->t : NULL;
    Py_XDECREF(capsule);
    return t;
}

static struct py_state *state_of(void *ctx) { return ctx; }

/* ---- definitions ------------------------------------------------------------------------------------------------------------------- */

static void fn_free(struct py_fn *f) {
    sk_free(f->name);
    sk_free(f->def);
    Py_XDECREF(f->callable);
    Py_XDECREF(f->retry_on);
    sk_free(f);
}

static sk_rc define(struct py_state *st, sk_fid id, const char *name, struct sk_bytes def, struct sk_err *err) {
    if (sk_map_get(&st->fns, id.v)) return SK_OK;
    struct py_fn *f = sk_calloc(SK_TAG_PY, sizeof *f);
    if (!f) return SK_ERR(err, SK_ENOMEM, "function %s", name);
    f->id = id;
    f->name = sk_strdup(SK_TAG_PY, name);
    f->def = sk_memdup(SK_TAG_PY, def.p, def.n);
    f->def_n = def.n;
    if (!f->name || !f->def || sk_map_put(&st->fns, id.v, f) != SK_OK) {
        fn_free(f);
        return SK_ERR(err, SK_ENOMEM, "function %s", name);
    }
    return SK_OK;
}

static sk_rc r_define(void *ctx, sk_fid id, const char *name, struct sk_bytes def, struct sk_err *err) {
    PyGILState_STATE g = PyGILState_Ensure(); /* guards st->fns: calls of an actor may run on several threads */
    sk_rc rc = define(state_of(ctx), id, name, def, err);
    PyGILState_Release(g);
    return rc;
}

static PyObject *of_actor_module(const char *what, PyObject *arg, bool is_table) /* skate.actor.<what>[arg] or (arg) */
{
    PyObject *m = PyImport_ImportModule("skate.actor"), *o = m ? PyObject_GetAttrString(m, what) : NULL;
    PyObject *r = !o ? NULL : is_table ? PyObject_GetItem(o, arg) : PyObject_CallOneArg(o, arg);
    Py_XDECREF(m);
    Py_XDECREF(o);
    return r;
}

/* A method: its name, or name, NUL and a pickled (classes of retry_exceptions or None, whether it is dynamic). */
static PyObject *method_of(struct py_state *st, struct py_fn *f) {
    const char *nul = memchr(f->def, 0, f->def_n);
    size_t n = nul ? (size_t)(nul - (const char *)f->def) : f->def_n;
    PyObject *name = PyUnicode_DecodeUTF8(f->def, (Py_ssize_t)n, NULL), *fn = NULL, *retry_on = NULL;
    int dynamic = 0;
    if (!name) return NULL;
    if (nul) {
        PyObject *def = PyBytes_FromStringAndSize(nul + 1, (Py_ssize_t)(f->def_n - n - 1));
        PyObject *more = def ? PyObject_CallOneArg(st->hook_load_function, def) : NULL;
        bool ok = more && PyArg_ParseTuple(more, "Op", &retry_on, &dynamic);
        if (ok && retry_on != Py_None) Py_XSETREF(f->retry_on, Py_NewRef(retry_on));
        Py_XDECREF(def);
        Py_XDECREF(more);
        if (!ok) goto out;
    }
    if (dynamic) {
        fn = of_actor_module("dynamic", name, false);
    } else if (n > 6 && memcmp(f->def, "__ray_", 6) == 0) { /* what every actor has */
        fn = of_actor_module("BUILT_IN", name, true);
    } else {
        fn = Py_NewRef(name);
        PyUnicode_InternInPlace(&fn);
    }
out:
    Py_DECREF(name);
    return fn;
}

static PyObject *callable_of(struct py_state *st, struct py_fn *f, bool method) /* borrowed */
{
    if (SK_LIKELY(f->callable != NULL)) return f->callable;
    if (method) return f->callable = method_of(st, f);
    PyObject *def = PyBytes_FromStringAndSize(f->def, (Py_ssize_t)f->def_n);
    if (!def) return NULL;
    st->around.arrived = 0;
    f->callable = PyObject_CallOneArg(st->hook_load_function, def);
    f->around = st->around.arrived;
    Py_DECREF(def);
    if (f->callable && !f->retry_on) {
        f->retry_on = PyObject_GetAttrString(f->callable, "__skate_retry_on__");
        if (!f->retry_on) PyErr_Clear(); /* it has none */
    }
    if (f->callable) { /* the bytes are not needed any more, and may be large */
        sk_free(f->def);
        f->def = NULL;
    }
    return f->callable;
}

/* This worker has the surroundings that a function or class was sent with; others ran here since. A method runs in those of its actor. */
static int be_around(const struct py_fn *f) {
    PyObject *m = PyImport_ImportModule("skate.surroundings"), *r = m ? PyObject_CallMethod(m, "again", "I", f->around) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

/* ---- the child of a fork in a task ---------------------------------------------------------------------------------------------------- */

/* This process was forked by the task that runs in it, and what the task called came back in it, or raised: it ends as the child of any fork would, after a word
 * to whoever wrote the task. */
static void __attribute__((noreturn)) end_stray(const struct py_state *st, const struct sk_task *t) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    PyObject *m = PyImport_ImportModule("skate.serialize"),
             *r = m ? PyObject_CallMethod(m, "end_stray", "siO", t->name, (int)st->forked_from, value ? value : Py_None) : NULL;
    if (!r) PyErr_Print();
    Py_XDECREF(r);
    _exit(1);
}

/* ---- results ---------------------------------------------------------------------------------------------------------------------------- */

/* Dead letters hold texts of errors, which may differ from run to run: a repeat is compared by their number alone. */
static struct sk_block_note note_block(PyObject *v, struct sk_block_sizes size) {
    struct sk_block_note note = {.magic = SK_BLOCK_NOTE, .bad = py_blockout_bad(v)};
    if (note.bad) return note;
    note.rows = size.n_rows;
    note.bytes = size.data_bytes;
    note.schema = size.schema_crc;
    return note;
}

/* The value of `v` to `give` (sk_task_return or yield with index). 0: rc is in *rc; -1: exception (the value cannot be encoded). */
static int send_value(struct py_state *st, struct sk_task *t, PyObject *v, uint32_t i, bool yields, sk_rc *rc, struct sk_err *err) {
    struct py_enc e;
    struct py_collector c = {0};
    struct sk_block_note note;
    struct sk_block_sizes size = {0};
    struct sk_payload p;
    int r = -1;
    bool block = Py_TYPE(v) == st->blockout_type;
    if (SK_UNLIKELY(st->stray)) end_stray(st, t);
    int room = py_room_send(st, v, t, i, yields, rc, err);
    if (SK_UNLIKELY(room)) return room < 0 ? -1 : 0;
    if ((block ? py_block_encode(st, v, &e, &size) : py_encode(st, v, &e, &c)) < 0) goto out;
    if (py_enc_payload(st, &e, &c, 0, &p) < 0) goto out;
    if (block) {
        note = note_block(v, size);
        p.note = (struct sk_bytes){&note, sizeof note};
    }
    py_enc_taken(&e);
    *rc = yields ? sk_task_yield(t, &p, err) : sk_task_return(t, i, &p, err);
    py_enc_done(st, &e);
    r = 0;
out:
    if (SK_UNLIKELY(c.refs.cap)) py_collector_free(&c);
    return r;
}

/* A yield that an earlier attempt has delivered: only its note is compared. */
static int skip_value(struct py_state *st, struct sk_task *t, PyObject *v, sk_rc *rc, struct sk_err *err) {
    struct sk_block_note note;
    struct sk_payload p = {.kind = PY_NONE};
    if (SK_UNLIKELY(st->stray)) end_stray(st, t);
    if (Py_TYPE(v) == st->blockout_type) {
        struct sk_block_sizes size;
        if (py_block_measure(st, v, &size) < 0) return -1;
        note = note_block(v, size);
        p.note = (struct sk_bytes){&note, sizeof note};
    }
    *rc = sk_task_yield(t, &p, err);
    return 0;
}

/* Its finally blocks run now, not at some collection. -1: they raised. */
static int close_generator(PyObject *it) {
    PyObject *closed = PyObject_CallMethod(it, "close", NULL);
    Py_XDECREF(closed);
    return closed ? 0 : -1;
}

static int run_stream(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc, struct sk_err *err) {
    PyObject *it = PyObject_GetIter(result), *v;
    if (!it) {
        PyErr_Format(PyExc_TypeError, "%s has num_returns=\"streaming\" and must be a generator or return an iterable, not %s", t->name,
                     Py_TYPE(result)->tp_name);
        return -1;
    }
    int r = 0;
    const char *most_given = getenv("RAY_max_num_generator_returns");
    uint64_t most = most_given ? strtoull(most_given, NULL, 10) : 100000000u; /* as in Ray: a generator without end ends with an error */
    while (r == 0 && *rc == SK_OK && (v = PyIter_Next(it))) {
        if (SK_UNLIKELY(t->n_yielded >= most)) {
            Py_DECREF(v);
            PyErr_Format(PyExc_ValueError, "%s yielded more than %llu values (RAY_max_num_generator_returns)", t->name,
                         (unsigned long long)most);
            r = -1;
            break;
        }
        r = t->n_yielded < sk_task_skip(t) ? skip_value(st, t, v, rc, err) : send_value(st, t, v, 0, true, rc, err);
        Py_DECREF(v);
    }
    if (r == 0 && *rc == SK_OK && PyErr_Occurred()) r = -1;
    if ((r < 0 || *rc != SK_OK) && PyGen_CheckExact(it)) {
        PyObject *type, *value, *tb;
        PyErr_Fetch(&type, &value, &tb);
        if (close_generator(it) < 0) PyErr_WriteUnraisable(it);
        PyErr_Restore(type, value, tb);
    }
    Py_DECREF(it);
    return r;
}

static PyObject *error_bytes(struct py_state *st, const struct sk_task *t, PyObject *value) {
    PyObject *attempt = PyLong_FromUnsignedLong(t->attempt), *name = PyUnicode_FromString(t->name);
    PyObject *bytes =
        attempt && name && st->hook_dumps_error ? PyObject_CallFunctionObjArgs(st->hook_dumps_error, value, name, attempt, NULL) : NULL;
    if (bytes && !(PyBytes_CheckExact(bytes) && PyBytes_GET_SIZE(bytes) <= (Py_ssize_t)SK_ERROR_VALUE_MAX)) Py_CLEAR(bytes);
    Py_XDECREF(attempt);
    Py_XDECREF(name);
    return bytes;
}

/* A generator that fills num_returns = n: what it yielded before it raised stays, the rest is the error. */
static int run_fill(struct py_state *st, struct sk_task *t, PyObject *it, sk_rc *rc, struct sk_err *err) {
    PyObject *v;
    uint32_t n = 0;
    int r = 0;
    while (r == 0 && *rc == SK_OK && n < t->n_returns && (v = PyIter_Next(it))) {
        r = send_value(st, t, v, n++, false, rc, err);
        Py_DECREF(v);
    }
    if (r < 0 || *rc != SK_OK) return r;
    if (!PyErr_Occurred() && n < t->n_returns)
        PyErr_Format(PyExc_ValueError, "Task %s yielded %u objects, but num_returns=%u.", t->name, n, t->n_returns);
    if (!PyErr_Occurred()) {
        v = PyIter_Next(it);
        Py_XDECREF(v);
        if (v) { /* as in Ray: said, and the others stand */
            PySys_FormatStderr("Task %s yielded more than num_returns=%u objects; the others are dropped\n", t->name, t->n_returns);
            return close_generator(it);
        }
        if (!PyErr_Occurred()) return 0;
    }
    if (n == 0 || !PyErr_ExceptionMatches(PyExc_Exception)) return -1; /* a cancel, or sys.exit(), is meant for the whole task */
    if (n == t->n_returns) {                                           /* as in Ray: there is no value left to hold it */
        PySys_FormatStderr("Task %s raised when all its num_returns=%u values were made, which stand:\n", t->name, n);
        PyErr_Print();
        return 0;
    }
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    PyObject *bytes = error_bytes(st, t, value);
    for (; bytes && n < t->n_returns && *rc == SK_OK; n++) {
        struct sk_payload p = {.kind = PY_ERROR, .bytes = {PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)}};
        *rc = sk_task_return(t, n, &p, err);
    }
    PyErr_Clear();
    if (!bytes) PyErr_Restore(Py_NewRef(type), Py_NewRef(value), Py_XNewRef(tb));
    r = bytes ? 0 : -1;
    Py_XDECREF(bytes);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return r;
}

static int run_results(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc, struct sk_err *err) {
    if (SK_LIKELY(t->n_returns == 1 && !PyGen_CheckExact(result))) return send_value(st, t, result, 0, false, rc, err);
    if (t->n_returns == SK_STREAMING) return run_stream(st, t, result, rc, err);
    if (t->n_returns == 0) return 0;
    if (PyGen_CheckExact(result)) return run_fill(st, t, result, rc, err);
    PyObject *seq = PyUnicode_Check(result) || PyBytes_Check(result) || PyDict_Check(result) || PySet_Check(result)
                        ? NULL
                        : PySequence_Fast(result, "");
    if (!seq) {
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s has num_returns=%u and must return a sequence of that many values, not %s", t->name,
                         t->n_returns, Py_TYPE(result)->tp_name);
        return -1;
    }
    int r = 0;
    if (PySequence_Fast_GET_SIZE(seq) != (Py_ssize_t)t->n_returns) {
        PyErr_Format(PyExc_ValueError, "Task %s returned %zd objects, but num_returns=%u.", t->name, PySequence_Fast_GET_SIZE(seq),
                     t->n_returns);
        r = -1;
    }
    for (uint32_t i = 0; r == 0 && *rc == SK_OK && i < t->n_returns; i++)
        r = send_value(st, t, PySequence_Fast_GET_ITEM(seq, (Py_ssize_t)i), i, false, rc, err);
    Py_DECREF(seq);
    return r;
}

/* Ends the task with an error value. That of a constructor is kept: calls that were sent behind it end with it too. */
static sk_rc fail(struct py_state *st, struct sk_task *t, uint32_t kind, const void *p, size_t n, struct sk_err *err) {
    struct sk_payload error = {.kind = kind, .bytes = {p, n}};
    if (t->is_actor_init) {
        sk_free(st->failed_error);
        st->failed_error = sk_memdup(SK_TAG_PY, p, n);
        st->failed_n = st->failed_error ? n : 0;
        st->failed_kind = kind;
        st->failed_actor = t->actor.v;
    }
    return sk_task_fail(t, &error, err);
}

/* sys.exit() in user code is meant for the process: what it ran ends as after any other death of a worker, with the exit code in the message. */
static void leave_by_exit(PyObject *e) {
    PyObject *m = PyImport_ImportModule("skate.serialize"), *r = m ? PyObject_CallMethod(m, "leave_by_exit", "O", e) : NULL;
    if (!r) PyErr_Print();
    Py_XDECREF(r);
    Py_XDECREF(m);
    _exit(1);
}

/* Ends the task with the current exception. */
static sk_rc fail_with_exception(struct py_state *st, struct sk_task *t, struct sk_err *err) {
    if (SK_UNLIKELY(st->stray)) end_stray(st, t);
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    bool whole_program = !st->worker && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt);
    if (st->worker && !t->is_async && exiting != t->id.v && PyErr_GivenExceptionMatches(type, PyExc_SystemExit)) leave_by_exit(value);
    const struct py_fn *f = sk_map_get(&st->fns, t->fn.v);
    if (f && f->retry_on && !PyErr_GivenExceptionMatches(type, f->retry_on)) sk_task_end_flags(t, SK_END_FINAL);
    PyObject *bytes = error_bytes(st, t, value);
    sk_rc rc;
    if (bytes) {
        rc = fail(st, t, t->is_actor_init ? PY_INIT_ERROR : PY_ERROR, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), err);
    } else {
        PyErr_Clear();
        PyErr_Restore(type, value, tb);
        type = value = tb = NULL;
        rc = py_to_err(err, t->name);
    }
    if (whole_program) PyErr_SetInterrupt(); /* inline: Ctrl-C was meant for the program, not only for this task */
    Py_XDECREF(bytes);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return rc;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------------------ */

#define FEW 12

static PyObject *kwnames_of(const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint32_t n = sk_rd_u32(&r);
    PyObject *t = n < 10000 ? PyTuple_New((Py_ssize_t)n) : NULL;
    for (uint32_t i = 0; t && i < n; i++) {
        struct sk_bytes b = sk_rd_bytes(&r);
        PyObject *s = PyUnicode_DecodeUTF8(b.p, (Py_ssize_t)b.n, NULL);
        if (!s) {
            Py_CLEAR(t);
            break;
        }
        PyUnicode_InternInPlace(&s);
        PyTuple_SET_ITEM(t, (Py_ssize_t)i, s);
    }
    if (!t && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "damaged keyword names");
    return t;
}

/* args[1..] from the task's arguments. -1: exception. */
static int decode_args(struct py_state *st, struct sk_task *t, uint32_t from, PyObject **args, size_t *n) {
    for (uint32_t i = from; i < t->n_args; i++) {
        struct py_keep k = {.task = t, .arg = i};
        PyObject *o = py_decode(st, &t->args[i], &k);
        if (SK_UNLIKELY(!o)) return -1;
        args[(*n)++] = o;
    }
    return 0;
}

/* The method of the class, whatever the instance has under that name. args[0] is self. */
static PyObject *call_method(PyObject *self, PyObject *name, PyObject **args, size_t n_pos, PyObject *kwnames) {
    PyObject *d = _PyType_Lookup(Py_TYPE(self), name), *r;
    if (SK_UNLIKELY(!d)) return PyObject_VectorcallMethod(name, args, n_pos + 1, kwnames); /* of __getattr__, or none */
    Py_INCREF(d);
    if (SK_LIKELY(PyType_HasFeature(Py_TYPE(d), Py_TPFLAGS_METHOD_DESCRIPTOR))) {
        r = PyObject_Vectorcall(d, args, n_pos + 1, kwnames);
    } else {
        descrgetfunc get = Py_TYPE(d)->tp_descr_get;
        PyObject *bound = get ? get(d, self, (PyObject *)Py_TYPE(self)) : Py_NewRef(d);
        r = bound ? PyObject_Vectorcall(bound, args + 1, n_pos | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames) : NULL;
        Py_XDECREF(bound);
    }
    Py_DECREF(d);
    return r;
}

/* What a constructor has made is the actor from now on; takes r. None, or NULL with an exception. */
static PyObject *keep_actor(struct py_state *st, const struct sk_task *t, PyObject *r) {
    PyObject *old = sk_map_del(&st->actors, t->actor.v);
    Py_XDECREF(old);
    if (sk_map_put(&st->actors, t->actor.v, r) == SK_OK) return Py_NewRef(Py_None);
    Py_DECREF(r);
    return PyErr_NoMemory();
}

static PyObject *call(struct py_state *st, struct sk_task *t, PyObject *target, PyObject **args, size_t n, PyObject *kwnames) {
    size_t n_pos = n - (kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *r;
    if (t->actor.v && !t->is_actor_init) {
        PyObject *self = sk_map_get(&st->actors, t->actor.v);
        if (!self) {
            PyErr_SetString(PyExc_RuntimeError, "the actor has no state here");
            return NULL;
        }
        args[0] = self; /* borrowed: the slot before the arguments */
        Py_INCREF(self);
        r = PyUnicode_CheckExact(target) ? call_method(self, target, args, n_pos, kwnames)
                                         : PyObject_Vectorcall(target, args, n_pos + 1, kwnames);
        Py_DECREF(self);
    } else {
        r = PyObject_Vectorcall(target, args + 1, n_pos | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    }
    if (SK_UNLIKELY(r && PyCoro_CheckExact(r))) {
        if (t->is_async || !st->hook_run_coroutine) return r; /* for its event loop */
        PyObject *coro = r;
        r = PyObject_CallOneArg(st->hook_run_coroutine, coro);
        Py_DECREF(coro);
    }
    if (r && t->is_actor_init) r = keep_actor(st, t, r);
    return r;
}

/* ---- calls of async actors --------------------------------------------------------------------------------------------------------------- */

static void async_free(PyObject *capsule) {
    struct py_async *a = async_of(capsule);
    Py_XDECREF(a->task);
    sk_free(a);
}

/* Hands a coroutine or an async generator to the event loop. SK_EAGAIN: on its way; SK_OK with *failed: an exception is set. */
static sk_rc start_async(struct py_state *st, struct sk_task *t, PyObject *coro, bool *failed) {
    struct py_async *a = sk_calloc(SK_TAG_PY, sizeof *a);
    PyObject *capsule = a ? PyCapsule_New(a, "skate.call", async_free) : PyErr_NoMemory(), *token = NULL, *task = NULL;
    *failed = true;
    if (!capsule) {
        sk_free(a);
        return SK_OK;
    }
    a->t = t;
    t->user = a;
    if ((token = PyContextVar_Set(st->ctx_task, capsule)) != NULL) /* the new task copies the context */
        task = PyObject_CallFunction(st->hook_start_async, "OOI", capsule, coro, (unsigned)t->stream_window);
    if (task) {
        a->task = task;
        *failed = false;
    } else {
        a->t = NULL;
        t->user = NULL;
    }
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    if (token && PyContextVar_Reset(st->ctx_task, token) < 0) PyErr_WriteUnraisable(st->ctx_task);
    PyErr_Restore(type, value, tb);
    Py_XDECREF(token);
    Py_DECREF(capsule);
    return *failed ? SK_OK : SK_EAGAIN;
}

static PyObject *m_async_done(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *capsule, *result, *error;
    struct py_async *a;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &result, &error) || !(a = async_of(capsule))) return NULL;
    struct sk_task *t = a->t, *outer = task_now;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this call is over");
    PY_ERR(err);
    sk_rc rc = SK_OK;
    int r = -1;
    task_now = t;
    if (error == Py_None && t->is_actor_init) result = keep_actor(st, t, Py_NewRef(result)); /* an `async def __init__` */
    if (error != Py_None) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    else if (result) r = t->n_returns == SK_STREAMING && result == Py_None ? 0 : run_results(st, t, result, &rc, &err);
    if (r < 0) rc = fail_with_exception(st, t, &err);
    if (SK_UNLIKELY(st->stray)) end_stray(st, t);
    task_now = outer;
    a->t = NULL;
    t->user = NULL;
    Py_CLEAR(a->task);
    sk_task_end(t, rc, &err);
    Py_RETURN_NONE;
}

/* True: go on; False: nobody wants the rest. May wait for the consumer, without the GIL. */
static PyObject *m_async_yield(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *capsule, *v;
    struct py_async *a;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &v) || !(a = async_of(capsule))) return NULL;
    struct sk_task *t = a->t;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this call is over");
    if (t->n_returns != SK_STREAMING)
        return PyErr_Format(PyExc_TypeError, "%s is an async generator: call it with num_returns=\"streaming\"", t->name);
    PY_ERR(err);
    sk_rc rc = SK_OK;
    int r = t->n_yielded < sk_task_skip(t) ? skip_value(st, t, v, &rc, &err) : send_value(st, t, v, 0, true, &rc, &err);
    if (r < 0) return NULL;
    if (rc == SK_ECANCEL) Py_RETURN_FALSE;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_TRUE;
}

static PyObject *m_async_step(PyObject *module, PyObject *group) {
    struct py_state *st = PyModule_GetState(module);
    unsigned long g = PyLong_AsUnsignedLong(group);
    if (g == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(sk_worker_step(st->engine, (uint32_t)g));
}

static sk_rc r_serve_async(void *ctx, struct sk_engine *client SK_UNUSED, int fd, uint32_t group, struct sk_err *err) {
    struct py_state *st = state_of(ctx);
    PyGILState_STATE g = PyGILState_Ensure();
    async_state = st;
    PyObject *r = st->hook_serve_async ? PyObject_CallFunction(st->hook_serve_async, "iI", fd, (unsigned)group)
                                       : PyErr_Format(PyExc_RuntimeError, "the serve_async hook is not set");
    sk_rc rc = r ? SK_OK : py_to_err(err, "the event loop of an actor");
    Py_XDECREF(r);
    PyGILState_Release(g);
    return rc;
}

static void r_cancel(void *ctx, struct sk_task *t) {
    PyGILState_STATE g = PyGILState_Ensure();
    struct py_async *a = t->user;
    PyObject *r = a && a->task ? PyObject_CallMethod(a->task, "cancel", NULL) : Py_NewRef(Py_None);
    if (!r) PyErr_WriteUnraisable(state_of(ctx)->module);
    Py_XDECREF(r);
    PyGILState_Release(g);
}

static sk_rc r_env(void *ctx, struct sk_bytes env, struct sk_err *err) {
    struct py_state *st = state_of(ctx);
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = st->hook_apply_env ? PyObject_CallFunction(st->hook_apply_env, "y#", (const char *)env.p, (Py_ssize_t)env.n)
                                     : PyErr_Format(PyExc_RuntimeError, "the apply_env hook is not set");
    sk_rc rc = r ? SK_OK : py_to_err(err, "runtime_env");
    Py_XDECREF(r);
    PyGILState_Release(g);
    return rc;
}

static void r_thread_begin(void *ctx SK_UNUSED) { /* its thread state lasts: threading.local keeps its values between calls */
    (void)PyGILState_Ensure();
    (void)PyEval_SaveThread();
}

static sk_rc run(struct py_state *st, struct sk_task *t, struct sk_err *err) {
    PyObject *few[FEW + 1], **args = few, *kwnames = NULL, *result = NULL;
    size_t n = 1;
    sk_rc rc = SK_OK;
    int r = -1;
    struct py_fn *f = sk_map_get(&st->fns, t->fn.v);
    if (!f) return SK_ERR(err, SK_EINVAL, "function of task %s is not defined", t->name);
    for (uint32_t i = 0; i < t->n_args; i++)
        if (SK_UNLIKELY(SK_KIND_IS_ERROR(t->args[i].kind))) /* what it depends on failed: so does it, in the same words */
            return fail(st, t, t->args[i].kind, t->args[i].data, t->args[i].len, err);
    bool method = t->actor.v && !t->is_actor_init;
    if (method && st->failed_n && st->failed_actor == t->actor.v && !sk_map_get(&st->actors, t->actor.v))
        return fail(st, t, st->failed_kind, st->failed_error, st->failed_n, err);
    if (t->n_args > FEW && !(args = sk_alloc(SK_TAG_PY, (t->n_args + 1) * sizeof *args)))
        return SK_ERR(err, SK_ENOMEM, "%u arguments", t->n_args);
    PyObject *target = callable_of(st, f, method);
    uint32_t from = t->n_args && t->args[0].kind == PY_KWNAMES;
    if (SK_UNLIKELY(target && !method && st->worker && f->around != st->around.content) && be_around(f) < 0) target = NULL;
    if (target && (!from || (kwnames = kwnames_of(&t->args[0]))) && decode_args(st, t, from, args, &n) == 0 &&
        (!kwnames || (size_t)PyTuple_GET_SIZE(kwnames) < n))
        result = call(st, t, target, args, n - 1, kwnames);
    if (SK_UNLIKELY(result && t->is_async && (PyCoro_CheckExact(result) || PyAsyncGen_CheckExact(result)))) {
        bool failed;
        rc = start_async(st, t, result, &failed);
        r = failed ? -1 : 0;
    } else if (SK_LIKELY(result != NULL)) {
        r = run_results(st, t, result, &rc, err);
    }
    if (r < 0) rc = fail_with_exception(st, t, err);
    Py_XDECREF(result);
    Py_XDECREF(kwnames);
    while (n > 1) Py_DECREF(args[--n]);
    if (args != few) sk_free(args);
    return rc;
}

static uint64_t gpus_now; /* of this process: those that its environment shows */

/* A call of an actor says nothing of GPUs: it has those of its actor. */
static void show_gpus(struct py_state *st, const struct sk_task *t) {
    if (!st->worker || !st->hook_set_gpus || (t->actor.v && !t->is_actor_init)) return;
    PyObject *list = PyList_New(0), *r = NULL;
    for (int i = 0; list && i < 64; i++) {
        PyObject *v = t->gpus >> i & 1 ? PyLong_FromLong(i) : NULL;
        if (v && PyList_Append(list, v) < 0) Py_CLEAR(list);
        Py_XDECREF(v);
    }
    if (list) r = PyObject_CallOneArg(st->hook_set_gpus, list);
    if (!r) PyErr_WriteUnraisable(st->module);
    gpus_now = t->gpus;
    Py_XDECREF(r);
    Py_XDECREF(list);
}

static sk_rc r_run(void *ctx, struct sk_task *t, struct sk_err *err) {
    PyGILState_STATE g = PyGILState_Ensure();
    struct sk_task *outer = task_now;
    task_now = t;
    if (SK_UNLIKELY(t->need && t->need->env)) py_home.env = t->need->env;
    if (SK_UNLIKELY(t->gpus != gpus_now)) show_gpus(state_of(ctx), t);
    py_title_set(t->name, t->is_actor_init ? ".__init__" : "");
    sk_rc rc = run(state_of(ctx), t, err);
    if (SK_UNLIKELY(state_of(ctx)->stray)) end_stray(state_of(ctx), t);
    task_now = outer;
    if (!outer && !t->actor.v) py_title_set("IDLE", "");
    PyGILState_Release(g);
    return rc;
}

/* The engine waits inside a worker: the GIL is free meanwhile, unless the caller has dropped it already. */
static void r_block_begin(void *ctx SK_UNUSED) { parked = PyGILState_Check() ? PyEval_SaveThread() : NULL; }

static void r_block_end(void *ctx SK_UNUSED) {
    if (parked) PyEval_RestoreThread(parked);
    parked = NULL;
}

/* Called on the main thread, which holds the GIL between tasks. */
static void r_idle(void *ctx) {
    struct py_state *st = state_of(ctx);
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = st->hook_idle ? PyObject_CallNoArgs(st->hook_idle) : Py_NewRef(Py_None);
    if (!r) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
    PyGILState_Release(g);
}

static void r_actor_gone(void *ctx, sk_aid aid) {
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *o = sk_map_del(&state_of(ctx)->actors, aid.v);
    Py_XDECREF(o);
    PyGILState_Release(g);
}

void py_runner_init(struct py_state *st) {
    sk_map_init(&st->fns, SK_TAG_PY);
    sk_map_init(&st->actors, SK_TAG_PY);
    st->runner = (struct sk_runner){.ctx = st,
                                    .define = r_define,
                                    .run = r_run,
                                    .block_begin = r_block_begin,
                                    .block_end = r_block_end,
                                    .idle = r_idle,
                                    .actor_gone = r_actor_gone,
                                    .thread_begin = r_thread_begin,
                                    .env = r_env,
                                    .serve_async = r_serve_async,
                                    .cancel = r_cancel};
}

void py_runner_clear(struct py_state *st) {
    uint64_t key;
    void *val;
    struct sk_map fns = st->fns, actors = st->actors;
    sk_free(st->failed_error);
    st->failed_error = NULL;
    st->failed_n = 0;
    sk_map_init(&st->fns, SK_TAG_PY); /* destructors below are user code and may come back here */
    sk_map_init(&st->actors, SK_TAG_PY);
    for (uint32_t i = 0; sk_map_next(&actors, &i, &key, &val);) Py_DECREF((PyObject *)val);
    for (uint32_t i = 0; sk_map_next(&fns, &i, &key, &val);) fn_free(val);
    sk_map_deinit(&actors);
    sk_map_deinit(&fns);
}

/* ---- fork server and workers ---------------------------------------------------------------------------------------------------------- */

static void on_note(void *ctx, const void *p, size_t n) {
    struct py_state *st = state_of(ctx);
    PyObject *bytes = PyBytes_FromStringAndSize(p, (Py_ssize_t)n),
             *r = bytes && st->hook_note ? PyObject_CallOneArg(st->hook_note, bytes) : NULL;
    if (!r)
        PyErr_WriteUnraisable(st->module); /* a module that cannot be imported here is imported again, and complained about, by the task */
    Py_XDECREF(r);
    Py_XDECREF(bytes);
}

/* What os.fork does around fork(): locks of the interpreter are taken before it and let go on both sides, which 3.13 insists on, and what modules have
 * registered by os.register_at_fork is called. The server holds the GIL. */
static void before_fork(void *ctx SK_UNUSED) { PyOS_BeforeFork(); }
static void after_fork(void *ctx SK_UNUSED) { PyOS_AfterFork_Parent(); }

static void begin(void *ctx, struct sk_engine *client) {
    PyOS_AfterFork_Child();
    py_title_init();
    struct py_state *st = state_of(ctx);
    const char *faults = getenv("SKATE_FAULT"); /* "worker.after_yield:kill:3": see base/fault.h */
    struct sk_err err = {0};
    if (faults && sk_fault_parse(faults, &err) != SK_OK) fprintf(stderr, "SKATE_FAULT: %s\n", err.msg);
    st->engine = client;
    st->gen++;
    st->driver = false;
    st->worker = true;
    PyObject *r = st->hook_after_fork ? PyObject_CallNoArgs(st->hook_after_fork) : Py_NewRef(Py_None);
    if (!r) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
}

/* The actors of this process hear that it ends in order. */
static void leave(struct py_state *st) {
    PyObject *list = PyList_New(0);
    uint64_t key;
    void *val;
    for (uint32_t i = 0; list && sk_map_next(&st->actors, &i, &key, &val);)
        if (PyList_Append(list, val) < 0) Py_CLEAR(list);
    PyObject *r = list && st->hook_leave && PyList_GET_SIZE(list) ? PyObject_CallOneArg(st->hook_leave, list) : NULL;
    if (PyErr_Occurred()) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
    Py_XDECREF(list);
}

static PyObject *m_serve(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_worker_hooks hooks = {on_note, before_fork, after_fork, begin, st};
    bool was = false;
    PY_ERR(err);
    sk_rc rc = sk_worker_serve(&st->runner, &hooks, &was, &err);
    if (was) { /* the driver said stop; what is left of refs must not talk to it */
        st->engine = NULL;
        st->gen++;
        leave(st);
        py_runner_clear(st);
    }
    return rc == SK_OK ? PyBool_FromLong(was) : py_raise(st, rc, &err);
}

static int crash_fd = -1;

static PyObject *m_crash_fd(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return PyLong_FromLong(crash_fd = sk_worker_crash_fd());
}

void py_worker_forget(void) { /* how it crashes is not how the worker crashes */
    if (crash_fd >= 0) (void)dup3(STDERR_FILENO, crash_fd, O_CLOEXEC);
    crash_fd = -1;
}

static PyObject *m_doing(PyObject *module SK_UNUSED, PyObject *text) {
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(text, &n);
    if (!s) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
        PyErr_Clear(); /* a file's name that is no text: for the message about a death only */
        s = "?", n = 1;
    }
    sk_worker_doing(s, (size_t)n);
    Py_RETURN_NONE;
}

/* ---- inside a task ---------------------------------------------------------------------------------------------------------------------- */

static struct sk_task *inside(const char *what) {
    if (!task_now) PyErr_Format(PyExc_RuntimeError, "%s works only inside a task", what);
    return task_now;
}

static PyObject *m_current_task(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    const struct sk_task *t = py_current_task();
    if (!t) Py_RETURN_NONE;
    return Py_BuildValue("(KKsI)", (unsigned long long)t->id.v, (unsigned long long)t->actor.v, t->name, (unsigned)t->attempt);
}

/* ({resource: amount}, placement group or 0, its bundle, environment, [GPU, ...], whether its children go to the group, too) of the running task;
 * an actor's call: of its actor. */
static PyObject *m_current_need(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    const struct sk_task *t = py_current_task();
    if (!PyList_Check(names)) return PyErr_Format(PyExc_TypeError, "current_need(list of the names of custom resources)");
    if (!t) Py_RETURN_NONE;
    struct sk_need need = {.res = {.amount = {[SK_RES_CPU] = t->actor.v ? 0 : SK_RES_UNIT}}};
    if (t->need) need = *t->need;
    PyObject *gpus = PyList_New(0), *d = py_amounts(&need.res, names), *r = NULL;
    for (int i = 0; gpus && i < 64; i++) {
        if (!(t->gpus >> i & 1)) continue;
        PyObject *v = PyLong_FromLong(i);
        if (!v || PyList_Append(gpus, v) < 0) Py_CLEAR(gpus);
        Py_XDECREF(v);
    }
    if (gpus && d && py_add_more(st, d, need.more, names) == 0)
        r = Py_BuildValue("(OKiIOO)", d, (unsigned long long)need.group, (int)need.bundle, (unsigned)need.env, gpus,
                          need.capture ? Py_True : Py_False);
    Py_XDECREF(gpus);
    Py_XDECREF(d);
    return r;
}

static PyObject *m_task_cancelled(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    const struct sk_task *t = py_current_task();
    return PyBool_FromLong(t && sk_task_cancelled(t));
}

bool py_interrupted(void) { return task_now && !task_now->actor.v && sk_task_interrupt(task_now); }

/* Whether this frame, or one that called it, is in the middle of an import. */
static bool importing(PyObject *frame) {
    bool found = false;
    PyFrameObject *f = frame && PyFrame_Check(frame) ? (PyFrameObject *)Py_NewRef(frame) : NULL;
    while (f && !found) {
        PyCodeObject *code = PyFrame_GetCode(f);
        const char *file = PyUnicode_AsUTF8(code->co_filename);
        found = file && strcmp(file, "<frozen importlib._bootstrap>") == 0;
        if (!file) PyErr_Clear();
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    return found;
}

/* Python's handler of SIGINT in a worker. A signal that comes late, when another task runs, means nobody. An import that is broken off leaves modules that are half
 * there (parts of C cannot be imported again): the process then runs nothing more. */
static PyObject *m_on_interrupt(PyObject *module, PyObject *args) {
    if (!task_now || ((struct py_state *)PyModule_GetState(module))->stray || !sk_task_interrupt(task_now)) Py_RETURN_NONE;
    if (!task_now->actor.v && PyTuple_GET_SIZE(args) == 2 && importing(PyTuple_GET_ITEM(args, 1)))
        sk_task_end_flags(task_now, SK_END_PROCESS);
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}

static PyObject *m_end_flags(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned flags;
    struct sk_task *t = py_current_task();
    if (!PyArg_ParseTuple(args, "I", &flags)) return NULL;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this works only inside a task");
    sk_task_end_flags(t, flags);
    Py_RETURN_NONE;
}

static PyObject *m_actor_exit(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_task *t = py_current_task();
    PY_ERR(err);
    if (t && t->actor.v) {
        sk_task_end_flags(t, SK_END_EXIT_ACTOR | SK_END_FINAL);
        exiting = t->id.v;
        Py_RETURN_NONE;
    }
    if (t || !async_state || !st->engine->ops->actor_leave) return PyErr_Format(PyExc_TypeError, "exit_actor: this process runs no actor");
    sk_rc rc = st->engine->ops->actor_leave(st->engine, &err); /* in a coroutine that outlived the call that started it */
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_current_function(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    const struct sk_task *t = py_current_task();
    const struct py_fn *f = t ? sk_map_get(&st->fns, t->fn.v) : NULL;
    if (!f || !f->callable) Py_RETURN_NONE;
    PyObject *self = t->actor.v && !t->is_actor_init ? sk_map_get(&st->actors, t->actor.v) : NULL;
    return self ? Py_BuildValue("(OO)", Py_TYPE(self), f->callable) : Py_NewRef(f->callable);
}

static PyObject *m_task_note(PyObject *module SK_UNUSED, PyObject *ops) {
    struct sk_task *t = inside("task_note");
    PyObject *fast = t ? PySequence_Fast(ops, "task_note takes a list of (rows, ns, io_retries)") : NULL;
    if (!fast) return NULL;
    struct {
        struct sk_task_note h;
        struct sk_task_note_op op[(SK_NOTE_MAX - sizeof(struct sk_task_note)) / sizeof(struct sk_task_note_op)];
    } note;
    Py_ssize_t n = SK_MIN(PySequence_Fast_GET_SIZE(fast), (Py_ssize_t)SK_COUNT(note.op));
    note.h.magic = SK_TASK_NOTE;
    note.h.n = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long rows, ns, again;
        PyObject *row = PySequence_Fast_GET_ITEM(fast, i);
        if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "KKK", &rows, &ns, &again)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "task_note takes a list of (rows, ns, io_retries)");
            Py_DECREF(fast);
            return NULL;
        }
        note.op[i] = (struct sk_task_note_op){rows, ns, again};
    }
    Py_DECREF(fast);
    sk_task_note(t, (struct sk_bytes){&note, sizeof note.h + (size_t)n * sizeof note.op[0]});
    Py_RETURN_NONE;
}

static PyObject *m_task_skip(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    struct sk_task *t = inside("task_skip");
    return t ? PyLong_FromUnsignedLong(sk_task_skip(t)) : NULL;
}

PyMethodDef py_worker_methods[] = {
    {"serve", m_serve, METH_NOARGS, "Fork server and workers: first call of skate._worker_main. False when this process is none."},
    {"crash_fd", m_crash_fd, METH_NOARGS, "Where a crash handler may write in a worker; -1 elsewhere."},
    {"doing", m_doing, METH_O, "doing(text): what this worker has in hand, for the message about its death. Elsewhere nothing."},
    {"current_task", m_current_task, METH_NOARGS, "(task, actor or 0, name, attempt), or None outside of tasks."},
    {"current_function", m_current_function, METH_NOARGS, "The function that the current task runs; for a method (class, name)."},
    {"current_need", m_current_need, METH_O,
     "current_need(custom names): (resources, placement group, bundle, environment, GPUs, captures children) or None."},
    {"task_cancelled", m_task_cancelled, METH_NOARGS, "Somebody has cancelled the running task."},
    {"on_interrupt", m_on_interrupt, METH_VARARGS, "Handler of SIGINT in workers: KeyboardInterrupt when the running task was cancelled."},
    {"task_end_flags", m_end_flags, METH_VARARGS,
     "1: the failure of the running task is final (no retry). 4: its process runs nothing more."},
    {"actor_exit", m_actor_exit, METH_NOARGS, "The actor ends with the running call, which must raise. TypeError outside of actors."},
    {"async_done", m_async_done, METH_VARARGS, "async_done(call, result, exception or None)"},
    {"async_yield", m_async_yield, METH_VARARGS, "async_yield(call, value): False when nobody wants more"},
    {"async_step", m_async_step, METH_O, "async_step(group): starts what may start; False: the process is to leave."},
    {"task_note", m_task_note, METH_O, "(rows_out, ns, io_retries) per fused operator, for the DONE event."},
    {"task_skip", m_task_skip, METH_NOARGS, "How many first yields exist from an earlier attempt."},
    {NULL, NULL, 0, NULL},
};
