/* async.c - calls of async actors: coroutines on the event loop of the process, whose results
 * come back through async_done() and async_yield(). */
#include "py/worker/worker.h"

static struct py_state *async_state; /* set in the process of an async actor, else NULL */

/* A call whose coroutine is running; a capsule with it is in the coroutine's context. */
struct py_async {
    struct sk_task *t; /* NULL: the call has ended */
    PyObject *task;    /* the asyncio task, until it ends */
};

static struct py_async *async_of(PyObject *capsule) {
    return PyCapsule_GetPointer(capsule, "skate.call");
}

bool py_async_serves(void) { return async_state != NULL; }

struct sk_task *py_async_task(void) {
    PyObject *capsule = NULL;
    if (!async_state) return NULL;
    if (PyContextVar_Get(async_state->ctx_task, NULL, &capsule) < 0) PyErr_Clear();
    struct sk_task *t = capsule ? async_of(capsule)->t : NULL;
    Py_XDECREF(capsule);
    return t;
}

static void async_free(PyObject *capsule) {
    struct py_async *a = async_of(capsule);
    Py_XDECREF(a->task);
    sk_free(a);
}

/* Gives a coroutine or an async generator to the event loop. SK_EAGAIN: the coroutine is running;
 * SK_OK with *failed: an exception is set. */
sk_rc py_async_start(struct py_state *st, struct sk_task *t, PyObject *coro, bool *failed) {
    struct py_async *a = sk_calloc(SK_TAG_PY, sizeof *a);
    PyObject *capsule = a ? PyCapsule_New(a, "skate.call", async_free) : NULL, *token = NULL,
             *task = NULL;
    *failed = true;
    if (!a) PyErr_NoMemory();
    if (!a || !capsule) {
        sk_free(a);
        return SK_OK;
    }
    a->t = t;
    t->user = a;
    /* the new asyncio task copies the context, so the capsule has to be in the context now */
    if ((token = PyContextVar_Set(st->ctx_task, capsule)) != NULL)
        task = PyObject_CallFunction(st->hook_start_async, "OOI", capsule, coro,
                                     (unsigned)t->stream_window);
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
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &result, &error) || !(a = async_of(capsule)))
        return NULL;
    struct sk_task *t = a->t, *outer = py_task_now;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this call is over");
    PY_ERR(err);
    sk_rc rc = SK_OK;
    int r = -1;
    py_task_now = t;
    /* the actor is kept in place of None, which an `async def __init__` returns */
    if (error == Py_None && t->is_actor_init) result = py_keep_actor(st, t, Py_NewRef(result));
    if (error != Py_None) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    else if (result)
        r = t->n_returns == SK_STREAMING && result == Py_None
                ? 0
                : py_send_results(st, t, result, &rc, &err);
    if (r < 0) rc = py_fail_with_exception(st, t, &err);
    if (SK_UNLIKELY(st->stray)) py_end_stray(st, t);
    SK_ASSERT(t->user == a && a->t == t);
    if (SK_UNLIKELY(py_to_tidy)) py_tidy(st);
    py_task_now = outer;
    a->t = NULL;
    t->user = NULL;
    Py_CLEAR(a->task);
    sk_task_end(t, rc, &err);
    Py_RETURN_NONE;
}

/* async_yield(...): sends a value of an async generator. True: the generator is to go on; False:
 * further values are not needed. May wait for the consumer, without the GIL. */
static PyObject *m_async_yield(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *capsule, *v;
    struct py_async *a;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &v) || !(a = async_of(capsule))) return NULL;
    struct sk_task *t = a->t;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this call is over");
    if (t->n_returns != SK_STREAMING)
        return PyErr_Format(PyExc_TypeError,
                            "%s is an async generator: call it with num_returns=\"streaming\"",
                            t->name);
    PY_ERR(err);
    sk_rc rc = SK_OK;
    int r = t->n_yielded < sk_task_skip(t) ? py_skip_value(st, t, v, &rc, &err)
                                           : py_send_value(st, t, v, 0, true, &rc, &err);
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

sk_rc py_async_serve(void *ctx, struct sk_engine *client SK_UNUSED, int fd, uint32_t group,
                     struct sk_err *err) {
    struct py_state *st = ctx;
    PyGILState_STATE g = PyGILState_Ensure();
    async_state = st;
    PyObject *r = st->hook_serve_async
                      ? PyObject_CallFunction(st->hook_serve_async, "iI", fd, (unsigned)group)
                      : PyErr_Format(PyExc_RuntimeError, "the serve_async hook is not set");
    sk_rc rc = r ? SK_OK : py_to_err(err, "the event loop of an actor");
    Py_XDECREF(r);
    PyGILState_Release(g);
    return rc;
}

void py_async_cancel(void *ctx, struct sk_task *t) {
    PyGILState_STATE g = PyGILState_Ensure();
    struct py_async *a = t->user;
    PyObject *r = a && a->task ? PyObject_CallMethod(a->task, "cancel", NULL) : Py_NewRef(Py_None);
    if (!r) PyErr_WriteUnraisable(((struct py_state *)ctx)->module);
    Py_XDECREF(r);
    PyGILState_Release(g);
}

PyMethodDef py_async_methods[] = {
    {"async_done", m_async_done, METH_VARARGS, "async_done(call, result, exception or None)"},
    {"async_yield", m_async_yield, METH_VARARGS,
     "async_yield(call, value): False when nobody wants more"},
    {"async_step", m_async_step, METH_O,
     "async_step(group): starts what may start; False: the process is to leave."},
    {NULL, NULL, 0, NULL},
};
