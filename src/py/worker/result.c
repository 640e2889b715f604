/* result.c - the results of a task: values (one, several, a stream), or its exception.
 *
 * A value is encoded straight into the engine's memory. An exception of user code ends the task
 * with an error value, made by the dumps_error hook; a failure of skate ends it by *err. */
#include <stdlib.h>
#include <unistd.h>

#include "py/worker/worker.h"

_Thread_local PyObject **py_pulled;

/* Ends a process that the running task has forked, after the task's function has returned or raised
 * in it. The process ends like the child of any fork, after a message to the author of the task. */
void py_end_stray(const struct py_state *st, const struct sk_task *t) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    PyObject *m = PyImport_ImportModule("skate._hooks"),
             *r = m ? PyObject_CallMethod(m, "end_stray", "NiO", py_text(t->name),
                                          (int)st->forked_from, value ? value : Py_None)
                    : NULL;
    if (!r) PyErr_Print();
    Py_XDECREF(r);
    _exit(1);
}

/* Encodes `v` and gives it to the engine, as return i of the task or as its next yield. 0: the
 * engine's result is in *rc; -1: exception (the value cannot be encoded). */
int py_send_value(struct py_state *st, struct sk_task *t, PyObject *v, uint32_t i, bool yields,
                  sk_rc *rc, struct sk_err *err) {
    struct py_enc e;
    struct py_collector c = {0};
    union sk_yield_note note;
    struct sk_block_sizes size = {0};
    struct sk_payload p;
    int r = -1;
    bool block = Py_TYPE(v) == st->blockout_type;
    if (SK_UNLIKELY(st->stray)) py_end_stray(st, t);
    int room = py_store_array_send(st, v, t, i, yields, rc, err);
    if (SK_UNLIKELY(room)) return room < 0 ? -1 : 0;
    if ((block ? py_block_encode(st, v, &e, &size) : py_encode(st, v, &e, &c)) < 0) goto out;
    if (py_enc_payload(st, &e, &c, 0, &p) < 0) goto out;
    if (block) {
        p.keep = e.has_buf ? e.keep : NULL;
        p.note = (struct sk_bytes){&note, py_blockout_note(v, size, &note)};
    }
    py_enc_taken(&e);
    *rc = yields ? sk_task_yield(t, &p, err) : sk_task_return(t, i, &p, err);
    py_enc_done(st, &e);
    r = 0;
out:
    if (SK_UNLIKELY(c.refs.cap)) py_collector_free(&c);
    return r;
}

/* Handles a yield that an earlier attempt has delivered already: the value is not sent, only its
 * note is compared. */
int py_skip_value(struct py_state *st, struct sk_task *t, PyObject *v, sk_rc *rc,
                  struct sk_err *err) {
    union sk_yield_note note;
    struct sk_payload p = {.kind = PY_NONE};
    if (SK_UNLIKELY(st->stray)) py_end_stray(st, t);
    if (Py_TYPE(v) == st->blockout_type) {
        struct sk_block_sizes size;
        if (py_block_measure(st, v, &size) < 0) return -1;
        p.note = (struct sk_bytes){&note, py_blockout_note(v, size, &note)};
    }
    *rc = sk_task_yield(t, &p, err);
    return 0;
}

/* Closes a generator, so that its finally blocks run now and not when it is collected. -1: they
 * raised. */
static int close_generator(PyObject *it) {
    PyObject *closed = PyObject_CallMethod(it, "close", NULL);
    Py_XDECREF(closed);
    return closed ? 0 : -1;
}

static int run_stream(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc,
                      struct sk_err *err) {
    PyObject *it = PyObject_GetIter(result), *v;
    if (!it) {
        PyErr_Format(PyExc_TypeError,
                     "%s has num_returns=\"streaming\" and must be a generator or return an "
                     "iterable, not %s",
                     t->name, Py_TYPE(result)->tp_name);
        return -1;
    }
    /* the caller of this run needs the iterator itself, and takes the values from it */
    if (SK_UNLIKELY(py_pulled != NULL)) {
        *py_pulled = it;
        return 0;
    }
    int r = 0;
    const char *most_given = getenv("RAY_max_num_generator_returns");
    /* as in Ray, a generator without end is stopped by an error */
    uint64_t most = most_given ? strtoull(most_given, NULL, 10) : 100000000u;
    while (r == 0 && *rc == SK_OK && (v = PyIter_Next(it))) {
        if (SK_UNLIKELY(t->n_yielded >= most)) {
            Py_DECREF(v);
            PyErr_Format(PyExc_ValueError,
                         "%s yielded more than %llu values (RAY_max_num_generator_returns)",
                         t->name, (unsigned long long)most);
            r = -1;
            break;
        }
        r = t->n_yielded < sk_task_skip(t) ? py_skip_value(st, t, v, rc, err)
                                           : py_send_value(st, t, v, 0, true, rc, err);
        Py_DECREF(v);
    }
    if (r == 0 && *rc == SK_OK && PyErr_Occurred()) r = -1;
    if ((r < 0 || *rc != SK_OK) && PyGen_CheckExact(it)) {
        PyObject *type, *value, *tb;
        PyErr_Fetch(&type, &value, &tb);
        py_closing = true;
        if (close_generator(it) < 0) PyErr_WriteUnraisable(it);
        PyErr_Restore(type, value, tb);
    }
    Py_DECREF(it);
    return r;
}

static PyObject *error_bytes(struct py_state *st, const struct sk_task *t, PyObject *value) {
    PyObject *attempt = PyLong_FromUnsignedLong(t->attempt), *name = py_text(t->name);
    PyObject *bytes =
        attempt && name && st->hook_dumps_error
            ? PyObject_CallFunctionObjArgs(st->hook_dumps_error, value, name, attempt, NULL)
            : NULL;
    if (bytes &&
        !(PyBytes_CheckExact(bytes) && PyBytes_GET_SIZE(bytes) <= (Py_ssize_t)SK_ERROR_VALUE_MAX))
        Py_CLEAR(bytes);
    Py_XDECREF(attempt);
    Py_XDECREF(name);
    return bytes;
}

/* Runs the generator of a task with num_returns = n: values that it yielded before it raised stay,
 * the other returns become the error. */
static int run_fill(struct py_state *st, struct sk_task *t, PyObject *it, sk_rc *rc,
                    struct sk_err *err) {
    PyObject *v;
    uint32_t n = 0;
    int r = 0;
    while (r == 0 && *rc == SK_OK && n < t->n_returns && (v = PyIter_Next(it))) {
        r = py_send_value(st, t, v, n++, false, rc, err);
        Py_DECREF(v);
    }
    if (r < 0 || *rc != SK_OK) return r;
    if (!PyErr_Occurred() && n < t->n_returns)
        PyErr_Format(PyExc_ValueError, "Task %s yielded %u objects, but num_returns=%u.", t->name,
                     n, t->n_returns);
    if (!PyErr_Occurred()) {
        v = PyIter_Next(it);
        Py_XDECREF(v);
        if (v) { /* as in Ray, the exception is printed, and the values before it stay */
            PySys_FormatStderr(
                "Task %s yielded more than num_returns=%u objects; the others are dropped\n",
                t->name, t->n_returns);
            return close_generator(it);
        }
        if (!PyErr_Occurred()) return 0;
    }
    /* a cancel or sys.exit() makes the whole task fail */
    if (n == 0 || !PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    if (n == t->n_returns) {
        /* as in Ray, the exception is only printed if all values exist already, since none can hold
         * it */
        PySys_FormatStderr(
            "Task %s raised when all its num_returns=%u values were made, which stand:\n", t->name,
            n);
        PyErr_Print();
        return 0;
    }
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    PyObject *bytes = error_bytes(st, t, value);
    for (; bytes && n < t->n_returns && *rc == SK_OK; n++) {
        struct sk_payload p = {
            .kind = PY_ERROR, .bytes = {PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)}};
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

int py_send_results(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc,
                    struct sk_err *err) {
    if (SK_LIKELY(t->n_returns == 1 && !PyGen_CheckExact(result)))
        return py_send_value(st, t, result, 0, false, rc, err);
    if (t->n_returns == SK_STREAMING) return run_stream(st, t, result, rc, err);
    if (t->n_returns == 0) return 0;
    if (PyGen_CheckExact(result)) return run_fill(st, t, result, rc, err);
    PyObject *seq = PyUnicode_Check(result) || PyBytes_Check(result) || PyDict_Check(result) ||
                            PySet_Check(result)
                        ? NULL
                        : PySequence_Fast(result, "");
    if (!seq) {
        if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(
                PyExc_TypeError,
                "%s has num_returns=%u and must return a sequence of that many values, not %s",
                t->name, t->n_returns, Py_TYPE(result)->tp_name);
        return -1;
    }
    int r = 0;
    if (PySequence_Fast_GET_SIZE(seq) != (Py_ssize_t)t->n_returns) {
        PyErr_Format(PyExc_ValueError, "Task %s returned %zd objects, but num_returns=%u.", t->name,
                     PySequence_Fast_GET_SIZE(seq), t->n_returns);
        r = -1;
    }
    for (uint32_t i = 0; r == 0 && *rc == SK_OK && i < t->n_returns; i++)
        r = py_send_value(st, t, PySequence_Fast_GET_ITEM(seq, (Py_ssize_t)i), i, false, rc, err);
    Py_DECREF(seq);
    return r;
}

/* Ends the task with an error value. The error of a constructor is stored, since calls that are
 * queued behind the constructor end with the same error. */
sk_rc py_fail(struct py_state *st, struct sk_task *t, uint32_t kind, const void *p, size_t n,
              struct sk_err *err) {
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

/* sys.exit() in user code ends the process: its tasks end as after any other death of a worker,
 * with the exit code in the message. */
void py_leave_by_exit(PyObject *e) {
    PyObject *m = PyImport_ImportModule("skate._hooks"),
             *r = m ? PyObject_CallMethod(m, "leave_by_exit", "O", e) : NULL;
    if (!r) PyErr_Print();
    Py_XDECREF(r);
    Py_XDECREF(m);
    _exit(1);
}

/* Ends the task with the current exception. */
sk_rc py_fail_with_exception(struct py_state *st, struct sk_task *t, struct sk_err *err) {
    if (SK_UNLIKELY(st->stray)) py_end_stray(st, t);
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    bool whole_program = !st->worker && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt);
    if (st->worker && !t->is_async && py_exiting != t->id.v &&
        PyErr_GivenExceptionMatches(type, PyExc_SystemExit))
        py_leave_by_exit(value);
    const struct py_fn *f = sk_map_get(&st->fns, t->fn.v);
    if (f && f->retry_on && !PyErr_GivenExceptionMatches(type, f->retry_on))
        sk_task_end_flags(t, SK_END_FINAL);
    PyObject *bytes = error_bytes(st, t, value);
    sk_rc rc;
    if (bytes) {
        rc = py_fail(st, t, t->is_actor_init ? PY_INIT_ERROR : PY_ERROR, PyBytes_AS_STRING(bytes),
                     (size_t)PyBytes_GET_SIZE(bytes), err);
    } else {
        PyErr_Clear();
        PyErr_Restore(type, value, tb);
        type = value = tb = NULL;
        rc = py_to_err(err, t->name);
    }
    /* in the inline engine, Ctrl-C has to stop the program, not only this task */
    if (whole_program) PyErr_SetInterrupt();
    Py_XDECREF(bytes);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return rc;
}
