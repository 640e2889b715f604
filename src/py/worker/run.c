/* run.c - runs one task: the sk_runner of a worker process (and of the inline engine), in C around
 * the user's function.
 *
 * A run decodes the arguments onto the C stack, calls the function by vectorcall, and sends the
 * result (result.c). Invariant: no run leaves an exception set, and the views of its arguments
 * belong to the engine unless a decoded value has taken them over. Cost: 0.25 us around a function
 * without arguments. */
#include "base/wire.h"
#include "py/worker/worker.h"

#define FEW 12

/* this thread's Python state, set between block_begin and block_end */
static _Thread_local PyThreadState *parked;

struct sk_need py_home;

static struct py_state *state_of(void *ctx) { return ctx; }

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

/* Decodes the task's arguments from number `from` on into args[1..]. -1: exception. */
static int decode_args(struct py_state *st, struct sk_task *t, uint32_t from, PyObject **args,
                       size_t *n) {
    for (uint32_t i = from; i < t->n_args; i++) {
        struct py_keep k = {.task = t, .arg = i};
        PyObject *o = py_decode(st, &t->args[i], &k);
        if (SK_UNLIKELY(!o)) return -1;
        args[(*n)++] = o;
    }
    return 0;
}

bool py_turn_take(struct py_state *st) {
    if (PyThread_acquire_lock(st->turn, NOWAIT_LOCK)) return true;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(st->turn, WAIT_LOCK);
    Py_END_ALLOW_THREADS return true;
}

void py_turn_let_go(struct py_state *st) { PyThread_release_lock(st->turn); }

/* Calls a method that the class of `self` defines, even if the instance has an attribute of that
 * name. args[0] is free for self. */
PyObject *py_call_method(PyObject *self, PyObject *name, PyObject **args, size_t n_pos,
                         PyObject *kwnames) {
    PyObject *d = _PyType_Lookup(Py_TYPE(self), name), *r;
    /* the class has no such method, but __getattr__ may make one */
    if (SK_UNLIKELY(!d)) return PyObject_VectorcallMethod(name, args, n_pos + 1, kwnames);
    Py_INCREF(d);
    if (SK_LIKELY(PyType_HasFeature(Py_TYPE(d), Py_TPFLAGS_METHOD_DESCRIPTOR))) {
        r = PyObject_Vectorcall(d, args, n_pos + 1, kwnames);
    } else {
        descrgetfunc get = Py_TYPE(d)->tp_descr_get;
        PyObject *bound = get ? get(d, self, (PyObject *)Py_TYPE(self)) : Py_NewRef(d);
        r = bound ? PyObject_Vectorcall(bound, args + 1, n_pos | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                        kwnames)
                  : NULL;
        Py_XDECREF(bound);
    }
    Py_DECREF(d);
    return r;
}

static PyObject *call(struct py_state *st, struct sk_task *t, PyObject *target, PyObject **args,
                      size_t n, PyObject *kwnames) {
    size_t n_pos = n - (kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *r;
    if (t->actor.v && !t->is_actor_init) {
        PyObject *self = sk_map_get(&st->actors, t->actor.v);
        if (!self) {
            PyErr_SetString(PyExc_RuntimeError, "the actor has no state here");
            return NULL;
        }
        args[0] = self; /* self goes into the slot before the arguments, borrowed */
        Py_INCREF(self);
        r = PyUnicode_CheckExact(target) ? py_call_method(self, target, args, n_pos, kwnames)
                                         : PyObject_Vectorcall(target, args, n_pos + 1, kwnames);
        Py_DECREF(self);
    } else {
        r = PyObject_Vectorcall(target, args + 1, n_pos | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    }
    if (SK_UNLIKELY(r && PyCoro_CheckExact(r))) {
        /* the event loop of an async actor runs the coroutine */
        if (t->is_async || !st->hook_run_coroutine) return r;
        PyObject *coro = r;
        r = PyObject_CallOneArg(st->hook_run_coroutine, coro);
        Py_DECREF(coro);
    }
    if (r && t->is_actor_init) r = py_keep_actor(st, t, r);
    return r;
}

static sk_rc run(struct py_state *st, struct sk_task *t, struct sk_err *err) {
    PyObject *few[FEW + 1], **args = few, *kwnames = NULL, *result = NULL;
    size_t n = 1;
    sk_rc rc = SK_OK;
    int r = -1;
    struct py_fn *f = sk_map_get(&st->fns, t->fn.v);
    if (!f) return SK_ERR(err, SK_EINVAL, "function of task %s is not defined", t->name);
    for (uint32_t i = 0; i < t->n_args; i++)
        /* a task with an argument that is an error fails with the same error */
        if (SK_UNLIKELY(SK_KIND_IS_ERROR(t->args[i].kind)))
            return py_fail(st, t, t->args[i].kind, t->args[i].data, t->args[i].len, err);
    bool method = t->actor.v && !t->is_actor_init;
    if (method && st->failed_n && st->failed_actor == t->actor.v &&
        !sk_map_get(&st->actors, t->actor.v))
        return py_fail(st, t, st->failed_kind, st->failed_error, st->failed_n, err);
    if (t->n_args > FEW && !(args = sk_alloc(SK_TAG_PY, (t->n_args + 1) * sizeof *args)))
        return SK_ERR(err, SK_ENOMEM, "%u arguments", t->n_args);
    PyObject *target = py_fn_callable(st, f, method);
    uint32_t from = t->n_args && t->args[0].kind == PY_KWNAMES;
    if (SK_UNLIKELY(target && !method && st->worker && f->ambient != st->ambient.content) &&
        py_fn_be_ambient(f) < 0)
        target = NULL;
    if (target && (!from || (kwnames = kwnames_of(&t->args[0]))) &&
        decode_args(st, t, from, args, &n) == 0 &&
        (!kwnames || (size_t)PyTuple_GET_SIZE(kwnames) < n))
        result = call(st, t, target, args, n - 1, kwnames);
    if (SK_UNLIKELY(result && t->is_async &&
                    (PyCoro_CheckExact(result) || PyAsyncGen_CheckExact(result)))) {
        bool failed;
        rc = py_async_start(st, t, result, &failed);
        r = failed ? -1 : 0;
    } else if (SK_LIKELY(result != NULL)) {
        r = py_send_results(st, t, result, &rc, err);
    }
    if (r < 0) rc = py_fail_with_exception(st, t, err);
    Py_XDECREF(result);
    Py_XDECREF(kwnames);
    while (n > 1) Py_DECREF(args[--n]);
    if (args != few) sk_free(args);
    return rc;
}

/* bit set of the GPUs that the environment variables of this process name */
static uint64_t gpus_now;

/* Sets the environment variables that name the task's GPUs. For a call of an actor nothing changes,
 * since its process has the GPUs of the actor. */
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

/* Runs a task that needs no Python code of operators, without the GIL. False: the task is not of
 * this kind, so run() has to run it. */
static bool ran_native(struct py_state *st, struct sk_task *t, sk_rc *rc, struct sk_err *err) {
    enum sk_native how;
    bool held = PyGILState_Check();
    py_title_set(t->name, "");
    if (held) {
        PY_DROP(st)
        *rc = sk_native_run(t, &how, err);
        PY_TAKE(st)
    } else {
        *rc = sk_native_run(t, &how, err);
    }
    if (how == SK_NATIVE_FAILED) {
        PyGILState_STATE g = PyGILState_Ensure();
        struct sk_task *outer = py_task_now;
        py_task_now = t;
        py_raise(st, *rc, err);
        *rc = py_fail_with_exception(st, t, err);
        py_task_now = outer;
        PyGILState_Release(g);
    }
    if (how != SK_NATIVE_NOT && !py_task_now) py_title_set("IDLE", "");
    return how != SK_NATIVE_NOT;
}

static sk_rc r_run(void *ctx, struct sk_task *t, struct sk_err *err) {
    sk_rc native;
    if (SK_UNLIKELY(!py_pulled && !t->actor.v && sk_native_may(t)) &&
        ran_native(state_of(ctx), t, &native, err))
        return native;
    PyGILState_STATE g = PyGILState_Ensure();
    struct sk_task *outer = py_task_now;
    py_task_now = t;
    if (SK_UNLIKELY(t->need && t->need->env)) py_home.env = t->need->env;
    if (SK_UNLIKELY(t->gpus != gpus_now)) show_gpus(state_of(ctx), t);
    py_title_set(t->name, t->is_actor_init ? ".__init__" : "");
    bool turn =
        SK_UNLIKELY(state_of(ctx)->turn != NULL) && t->actor.v && py_turn_take(state_of(ctx));
    sk_rc rc = run(state_of(ctx), t, err);
    if (turn) py_turn_let_go(state_of(ctx));
    if (SK_UNLIKELY(state_of(ctx)->stray)) py_end_stray(state_of(ctx), t);
    SK_DCHECK(!PyErr_Occurred() && py_task_now == t);
    if (SK_UNLIKELY(py_to_tidy)) py_tidy(state_of(ctx));
    py_task_now = outer;
    py_closing = false;
    if (!outer && !t->actor.v) py_title_set("IDLE", "");
    PyGILState_Release(g);
    return rc;
}

/* Called before the engine waits inside a worker. Drops the GIL during the wait, unless the caller
 * has dropped it already. */
static void r_block_begin(void *ctx SK_UNUSED) {
    parked = PyGILState_Check() ? PyEval_SaveThread() : NULL;
}

static void r_block_end(void *ctx SK_UNUSED) {
    if (parked) PyEval_RestoreThread(parked);
    parked = NULL;
}

/* Called on the main thread between tasks, with the GIL held. */
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

static sk_rc r_env(void *ctx, struct sk_bytes env, struct sk_err *err) {
    struct py_state *st = state_of(ctx);
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = st->hook_apply_env
                      ? PyObject_CallFunction(st->hook_apply_env, "y#", (const char *)env.p,
                                              (Py_ssize_t)env.n)
                      : PyErr_Format(PyExc_RuntimeError, "the apply_env hook is not set");
    sk_rc rc = r ? SK_OK : py_to_err(err, "runtime_env");
    Py_XDECREF(r);
    PyGILState_Release(g);
    return rc;
}

static void r_thread_begin(void *ctx SK_UNUSED) {
    /* the thread state is kept, so that threading.local keeps its values between calls */
    (void)PyGILState_Ensure();
    (void)PyEval_SaveThread();
}

void py_runner_init(struct py_state *st) {
    sk_map_init(&st->fns, SK_TAG_PY);
    sk_map_init(&st->actors, SK_TAG_PY);
    st->runner = (struct sk_runner){.ctx = st,
                                    .define = py_fn_define,
                                    .run = r_run,
                                    .block_begin = r_block_begin,
                                    .block_end = r_block_end,
                                    .idle = r_idle,
                                    .actor_gone = r_actor_gone,
                                    .thread_begin = r_thread_begin,
                                    .env = r_env,
                                    .serve_async = py_async_serve,
                                    .cancel = py_async_cancel};
}

void py_runner_clear(struct py_state *st) {
    uint64_t key;
    void *val;
    struct sk_map actors = st->actors;
    sk_free(st->failed_error);
    st->failed_error = NULL;
    st->failed_n = 0;
    /* the map is emptied first, since destructors called below are user code and may come back
     * here */
    sk_map_init(&st->actors, SK_TAG_PY);
    for (uint32_t i = 0; sk_map_next(&actors, &i, &key, &val);) Py_DECREF((PyObject *)val);
    sk_map_deinit(&actors);
    py_fn_clear(st);
}
