/* get_wait.c - get and wait.
 *
 * A driver first calls the engine with a deadline in the past, holding the GIL, so that getting an
 * existing object costs one call. Otherwise the GIL is dropped for slices of 100 ms, and signals
 * (Ctrl-C) are checked in between. Cost: get of a scalar 0.1 us plus the engine's part. */
#include <math.h>

#include "base/clock.h"
#include "py/call/call.h"

/* Converts seconds or None to a deadline; INT64_MAX: none. -2 with an exception. */
static int64_t deadline_of(PyObject *timeout) {
    if (!timeout || timeout == Py_None) return INT64_MAX;
    double s = PyFloat_AsDouble(timeout);
    if (s == -1.0 && PyErr_Occurred()) return -2;
    if (isnan(s)) {
        PyErr_SetString(PyExc_ValueError, "timeout is not a number");
        return -2;
    }
    return s < 0 ? INT64_MAX : py_deadline(s, sk_now_ns()); /* as in Ray, -1 means no limit */
}

#define SOME 64 /* objects that are looked at by one call, which is a round trip in a worker */

/* Returns 1 and raises the error if one of at most SOME objects has failed, -1 without an exception
 * if not all of them can be had now. */
static int one_failed(struct py_state *st, const sk_oid *ids, size_t n) {
    PY_ERR(err);
    struct sk_view v[SOME];
    int failed = 0;
    if (st->engine->ops->get(st->engine, ids, n, 0, v, &err) != SK_OK) return -1;
    uint32_t gen = st->gen;
    for (size_t i = 0; i < n; i++) {
        if (!failed && SK_KIND_IS_ERROR(v[i].kind)) {
            py_raise_value(st, &v[i]);
            failed = 1;
        }
        py_view_release(st, gen, &v[i]);
    }
    if (failed) py_show_raised(st);
    return failed;
}

/* Returns 1 and raises the error if one of the n objects has failed; get() then does not wait for
 * the others. known[i]: object i was found without an error before; ready[n]: scratch memory. */
static int failed_already(struct py_state *st, const sk_oid *ids, size_t n, bool *known,
                          bool *ready) {
    PY_ERR(err);
    sk_rc rc = st->engine->ops->wait(st->engine, ids, n, n, 0, ready, &err);
    /* after another error the caller's get() reports it */
    if (rc != SK_OK && rc != SK_ETIMEOUT) return 0;
    for (size_t i = 0; i < n;) {
        sk_oid some[SOME];
        size_t k = 0;
        for (; i < n && k < SOME; i++) {
            if (!ready[i] || known[i]) continue;
            known[i] = true;
            some[k++] = ids[i];
        }
        int r = k ? one_failed(st, some, k) : 0;
        if (r < 0 && k > 1) {
            for (size_t j = 0; j < k && r <= 0; j++) r = one_failed(st, &some[j], 1);
        }
        if (r > 0) return 1;
    }
    return 0;
}

#define LATE_MAX 3 /* the most objects that the message of a timeout names */

/* Raises GetTimeoutError, whose message names objects that do not exist yet and the tasks that make
 * them. Returns -1. */
static int timed_out(struct py_state *st, const sk_oid *ids, size_t n) {
    PY_ERR(err);
    struct sk_err e = {.msg = "Get timed out: some object(s) not ready"};
    bool one = false, *ready = n == 1 ? &one : sk_calloc(SK_TAG_PY, n);
    size_t at = strlen(e.msg), late = 0;
    int64_t from = sk_now_ns();
    if (ready && n > 1 &&
        st->engine->ops->wait(st->engine, ids, n, n, 0, ready, &err) != SK_ETIMEOUT)
        memset(ready, 0, n);
    for (size_t i = 0; ready && i < n; i++) late += !ready[i];
    at += (size_t)snprintf(e.msg + at, sizeof e.msg - at, ": %zu of %zu", ready ? late : n, n);
    for (size_t i = 0, told = 0; ready && i < n && told < LATE_MAX; i++) {
        char what[400] = "";
        if (ready[i]) continue;
        /* nodes may be asked, each time for as long as the slowest of them takes */
        bool soon = sk_now_ns() - from < SK_SEC;
        if (soon && st->engine && st->engine->state && st->engine->state->about) {
            PY_DROP(st)
            st->engine->state->about(st->engine, ids[i], (sk_tid){0}, what, sizeof what);
            PY_TAKE(st)
        }
        int k = snprintf(e.msg + at, sizeof e.msg - at, "%s ObjectRef(%056llx)%s%s",
                         told ? "," : ":", (unsigned long long)ids[i].v, *what ? " " : "", what);
        at = SK_MIN(at + (size_t)k, sizeof e.msg - 1);
        told++;
    }
    if (late > LATE_MAX) snprintf(e.msg + at, sizeof e.msg - at, ", and %zu more", late - LATE_MAX);
    if (ready != &one) sk_free(ready);
    py_raise(st, SK_ETIMEOUT, &e);
    return -1;
}

static int get_slices(struct py_state *st, const sk_oid *ids, size_t n, int64_t deadline_ns,
                      struct sk_view *v, bool *known);

static int get_views(struct py_state *st, const sk_oid *ids, size_t n, int64_t deadline_ns,
                     struct sk_view *v) {
    if (n == 1) return get_slices(st, ids, n, deadline_ns, v, NULL);
    bool *known = sk_calloc(SK_TAG_PY, 2 * n);
    if (!known) {
        PyErr_NoMemory();
        return -1;
    }
    int r = get_slices(st, ids, n, deadline_ns, v, known);
    sk_free(known);
    return r;
}

static int get_slices(struct py_state *st, const sk_oid *ids, size_t n, int64_t deadline_ns,
                      struct sk_view *v, bool *known) {
    PY_ERR(err);
    uint32_t gen = st->gen;
    int64_t began_ns = 0;
    sk_rc rc = st->driver ? st->engine->ops->get(st->engine, ids, n, 0, v, &err) : SK_ETIMEOUT;
    while (SK_UNLIKELY(rc == SK_ETIMEOUT)) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline_ns, now + PY_SLICE_NS);
        PY_DROP(st)
        rc = st->engine->ops->get(st->engine, ids, n, until, v, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (!began_ns) began_ns = now;
        if (py_between_slices(st, began_ns) < 0 || py_gone(st, gen)) return -1;
        if (known && failed_already(st, ids, n, known, known + n)) return -1;
        if (sk_now_ns() >= deadline_ns) return timed_out(st, ids, n);
    }
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        return -1;
    }
    return 0;
}

static PyObject *value_of(struct py_state *st, uint32_t gen, struct sk_view *v) {
    PyObject *r = NULL;
    /* decoding an earlier value ran user code, which may have closed the engine */
    if (SK_UNLIKELY(py_gone(st, gen))) return NULL;
    struct py_keep k = {0};
    if (SK_UNLIKELY(SK_KIND_IS_ERROR(v->kind))) {
        /* If this task and a task for which it waits were both cancelled, its own cancel is raised
         * first. */
        if (st->worker && py_interrupted()) PyErr_SetNone(PyExc_KeyboardInterrupt);
        else py_raise_value(st, v);
    } else r = py_decode(st, v, &k);
    if (!k.taken) py_view_release(st, gen, v);
    if (SK_UNLIKELY(!r)) py_show_raised(st);
    return r;
}

static PyObject *get_many(struct py_state *st, PyObject *seq, int64_t deadline_ns) {
    PyObject *fast = PySequence_Fast(seq, "get: takes an ObjectRef or a list of them"),
             *list = NULL;
    if (!fast) return NULL;
    uint32_t gen = st->gen;
    size_t n = (size_t)PySequence_Fast_GET_SIZE(fast);
    sk_oid *ids = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *ids);
    struct sk_view *v = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *v);
    if (!ids || !v) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i);
        if (SK_UNLIKELY(py_result_check(st, o)) && !(o = py_result_object(o))) goto out;
        if (!py_ref_check(st, o)) {
            PyErr_Format(PyExc_TypeError, "get: %R is no ObjectRef", o);
            goto out;
        }
        if (!py_ref_alive(st, o)) goto out;
        ids[i].v = ((struct py_ref *)(void *)o)->id;
    }
    /* `fast` keeps the ObjectRefs alive meanwhile */
    if (n && get_views(st, ids, n, deadline_ns, v) < 0) goto out;
    list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        if (!list) { /* only the first failure is raised */
            py_view_release(st, gen, &v[i]);
            continue;
        }
        PyObject *o = value_of(st, gen, &v[i]);
        if (o) PyList_SET_ITEM(list, (Py_ssize_t)i, o);
        else Py_CLEAR(list);
    }
out:
    sk_free(ids);
    sk_free(v);
    Py_DECREF(fast);
    return list;
}

/* Gets the value of an object that is not an ObjectRef: a result of a compiled graph. */
static PyObject *get_other(PyObject *o, PyObject *timeout) {
    PyObject *get = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__skate_get__");
    if (!get) {
        PyErr_Clear();
        return PyErr_Format(PyExc_ValueError, "get: takes an ObjectRef or a list of them, not %R",
                            Py_TYPE(o));
    }
    PyObject *v =
        timeout ? PyObject_CallFunctionObjArgs(get, o, timeout, NULL) : PyObject_CallOneArg(get, o);
    Py_DECREF(get);
    return v;
}

static PyObject *m_get(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *timeout = n > 1 ? args[1] : NULL;
    Py_ssize_t n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < n_kw; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (PyUnicode_CompareWithASCIIString(name, "timeout") == 0 && !timeout)
            timeout = args[n + i];
        /* Ray's argument for transports between GPUs is ignored */
        else if (PyUnicode_CompareWithASCIIString(name, "_use_object_store") != 0)
            return PyErr_Format(PyExc_TypeError, "get() got an unexpected keyword argument '%U'",
                                name);
    }
    if (n < 1 || n > 2)
        return PyErr_Format(PyExc_TypeError, "get() takes 1 or 2 arguments (%zd given)", n);
    int64_t deadline = deadline_of(timeout);
    if (deadline == -2 || SK_UNLIKELY(py_ensure(st) < 0)) return NULL;
    PyObject *o = args[0];
    if (SK_LIKELY(py_ref_check(st, o))) {
        struct sk_view v;
        sk_oid id = {((struct py_ref *)(void *)o)->id};
        if (!py_ref_alive(st, o)) return NULL;
        return py_with_prints(
            st, get_views(st, &id, 1, deadline, &v) < 0 ? NULL : value_of(st, st->gen, &v));
    }
    if (PyList_Check(o) || PyTuple_Check(o)) {
        PyObject *first = PySequence_Fast_GET_SIZE(o) ? PySequence_Fast_GET_ITEM(o, 0) : NULL;
        if (SK_UNLIKELY(first && !py_ref_check(st, first) &&
                        PyObject_HasAttrString((PyObject *)Py_TYPE(first), "__skate_get_all__")))
            return PyObject_CallMethod(first, "__skate_get_all__", "OO", o,
                                       timeout ? timeout : Py_None);
        return py_with_prints(st, get_many(st, o, deadline));
    }
    /* as in Ray, getting a generator gives the generator itself */
    if (Py_TYPE(o) == st->gen_type) return Py_NewRef(o);
    return py_with_prints(st, get_other(o, timeout));
}

/* raw(ref): a buffer over the bytes of a block in the store; they stay in place as long as the
 * result lives. */
static PyObject *m_raw(PyObject *module, PyObject *ref) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_view v;
    struct py_keep k = {0};
    if (!py_ref_check(st, ref)) return PyErr_Format(PyExc_TypeError, "raw(reference to a block)");
    if (py_ensure(st) < 0 || !py_ref_alive(st, ref)) return NULL;
    sk_oid id = {((struct py_ref *)(void *)ref)->id};
    if (get_views(st, &id, 1, INT64_MAX, &v) < 0) return NULL;
    uint32_t gen = st->gen;
    PyObject *r = NULL;
    if (SK_KIND_IS_ERROR(v.kind)) py_raise_value(st, &v);
    else if (v.kind != PY_BLOCK) PyErr_SetString(PyExc_TypeError, "raw: this object is no block");
    else r = py_pack_decode(st, &v, &k);
    if (!k.taken) py_view_release(st, gen, &v);
    return r;
}

/* get_each(refs): [(True, value) or (False, exception)] of objects that are ready, by one engine
 * call for all. A failure of one object does not affect the others. */
static PyObject *m_get_each(PyObject *module, PyObject *seq) {
    struct py_state *st = PyModule_GetState(module);
    if (!PyList_Check(seq)) return PyErr_Format(PyExc_TypeError, "get_each(list of refs)");
    PyObject *refs = PyList_AsTuple(seq), *list = NULL;
    if (!refs || py_ensure(st) < 0) {
        Py_XDECREF(refs);
        return NULL;
    }
    size_t n = (size_t)PyTuple_GET_SIZE(refs);
    uint32_t gen = st->gen;
    sk_oid *ids = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *ids);
    struct sk_view *v = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *v);
    if (!ids || !v) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(refs, (Py_ssize_t)i);
        if (!py_ref_check(st, o)) PyErr_Format(PyExc_TypeError, "get_each(list of refs)");
        if (!py_ref_check(st, o) || !py_ref_alive(st, o)) goto out;
        ids[i].v = ((struct py_ref *)(void *)o)->id;
    }
    if (n && get_slices(st, ids, n, INT64_MAX, v, NULL) < 0) goto out;
    list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; i < n; i++) {
        if (!list) {
            py_view_release(st, gen, &v[i]);
            continue;
        }
        PyObject *o = value_of(st, gen, &v[i]), *type, *tb, *pair;
        bool good = o != NULL;
        if (!good) {
            PyErr_Fetch(&type, &o, &tb);
            PyErr_NormalizeException(&type, &o, &tb);
            Py_XDECREF(type);
            Py_XDECREF(tb);
        }
        pair = PyTuple_Pack(2, good ? Py_True : Py_False, o);
        Py_XDECREF(o);
        if (pair) PyList_SET_ITEM(list, (Py_ssize_t)i, pair);
        else Py_CLEAR(list);
    }
out:
    sk_free(ids);
    sk_free(v);
    Py_DECREF(refs);
    return list;
}

/* ---- waiting for some of several objects ----------------------------------------------------- */

static int cmp_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sets *dup if an id occurs twice. False: out of memory. */
static bool has_duplicate(const sk_oid *ids, size_t n, bool *dup) {
    *dup = false;
    bool sorted = true; /* ids of a usual list grow, in the order of submission */
    for (size_t i = 1; i < n && sorted; i++) sorted = ids[i - 1].v < ids[i].v;
    if (sorted) return true;
    uint64_t *s = sk_memdup(SK_TAG_PY, ids, n * sizeof *s);
    if (!s) return false;
    qsort(s, n, sizeof *s, cmp_u64);
    for (size_t i = 1; i < n; i++) *dup |= s[i - 1] == s[i];
    sk_free(s);
    return true;
}

static int wait_ready(struct py_state *st, const sk_oid *ids, size_t n, size_t want,
                      int64_t deadline_ns, bool *ready) {
    PY_ERR(err);
    uint32_t gen = st->gen;
    int64_t began_ns = 0;
    sk_rc rc =
        st->driver ? st->engine->ops->wait(st->engine, ids, n, want, 0, ready, &err) : SK_ETIMEOUT;
    while (rc == SK_ETIMEOUT) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline_ns, now + PY_SLICE_NS);
        PY_DROP(st)
        rc = st->engine->ops->wait(st->engine, ids, n, want, until, ready, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (!began_ns) began_ns = now;
        if (py_between_slices(st, began_ns) < 0 || py_gone(st, gen)) return -1;
        if (sk_now_ns() >= deadline_ns) return 0;
    }
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        return -1;
    }
    return 0;
}

static PyObject *split_lists(PyObject *const *items, size_t n, size_t want, const bool *ready) {
    PyObject *yes = PyList_New(0), *no = PyList_New(0), *r = NULL;
    size_t have = 0;
    for (size_t i = 0; yes && no && i < n; i++) {
        bool take = ready[i] && have < want;
        have += take;
        if (PyList_Append(take ? yes : no, items[i]) < 0) Py_CLEAR(yes);
    }
    if (yes && no) r = PyTuple_Pack(2, yes, no);
    Py_XDECREF(yes);
    Py_XDECREF(no);
    return r;
}

static PyObject *m_wait(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *r = NULL;
    if (n_args != 3 || !PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "wait(list of refs, num_returns, timeout)");
    Py_ssize_t want = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
    int64_t deadline = deadline_of(args[2]);
    if (deadline == -2 || (want == -1 && PyErr_Occurred()) || py_ensure(st) < 0) return NULL;
    /* the list is copied, since another thread may change it */
    PyObject *items = PyList_AsTuple(args[0]);
    if (!items) return NULL;
    size_t n = (size_t)PyTuple_GET_SIZE(items);
    sk_oid *ids = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *ids);
    bool *ready = sk_calloc(SK_TAG_PY, n + 1), dup;
    if (!ids || !ready) {
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(items, (Py_ssize_t)i);
        if (!py_ref_check(st, o)) {
            PyErr_Format(PyExc_TypeError, "wait: the list holds %R, which is no ObjectRef",
                         Py_TYPE(o));
            goto out;
        }
        if (!py_ref_alive(st, o)) goto out;
        ids[i].v = ((struct py_ref *)(void *)o)->id;
    }
    if (!has_duplicate(ids, n, &dup)) {
        PyErr_NoMemory();
    } else if (dup) {
        PyErr_SetString(PyExc_ValueError, "wait: a ref is in the list more than once");
    } else if (want <= 0 || (size_t)want > n) {
        PyErr_Format(PyExc_ValueError, "wait: num_returns=%zd: 1 to %zu, the length of the list",
                     want, n);
    } else if (wait_ready(st, ids, n, (size_t)want, deadline, ready) == 0) {
        r = split_lists(&PyTuple_GET_ITEM(items, 0), n, (size_t)want, ready);
    }
out:
    Py_DECREF(items);
    sk_free(ids);
    sk_free(ready);
    return py_with_prints(st, r);
}

/* ---- objects that another process holds, by their id ----------------------------------------- */

static int number_of(struct py_state *st, PyObject *number, sk_oid *out) {
    out->v = PyLong_AsUnsignedLongLong(number);
    if (out->v == UINT64_MAX && PyErr_Occurred()) return -1;
    if (!st->worker)
        PyErr_SetString(PyExc_RuntimeError, "only in a worker: the driver has the ObjectRef");
    return st->worker && py_ensure(st) == 0 ? 0 : -1;
}

static PyObject *m_borrowed(PyObject *module, PyObject *number) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_view v;
    sk_oid id;
    if (number_of(st, number, &id) < 0 || get_slices(st, &id, 1, INT64_MAX, &v, NULL) < 0)
        return NULL;
    return value_of(st, st->gen, &v);
}

static PyObject *m_exists(PyObject *module, PyObject *number) {
    struct py_state *st = PyModule_GetState(module);
    PY_ERR(err);
    bool ready;
    sk_oid id;
    sk_rc rc;
    if (number_of(st, number, &id) < 0) return NULL;
    PY_DROP(st)
    rc = st->engine->ops->wait(st->engine, &id, 1, 1, 0, &ready, &err);
    PY_TAKE(st)
    if (rc == SK_OK || rc == SK_ETIMEOUT) Py_RETURN_TRUE;
    if (rc == SK_ELOST) Py_RETURN_FALSE;
    return py_raise(st, rc, &err);
}

static const char get_doc[] =
    "get($module, refs, timeout=None)\n--\n\n"
    "Waits for objects and returns their values.\n\n"
    "Args:\n"
    "    refs: An ObjectRef, or a list of them: then the values come as a list in its order.\n"
    "    timeout: Seconds to wait at most, for all of them; None: as long as it takes; 0: only "
    "what is there.\n\n"
    "Returns:\n"
    "    The value or the values. Arrays are views of the shared memory, and read-only.\n\n"
    "Raises:\n"
    "    RayTaskError: The task that makes it has failed. The error is an instance of the class of "
    "its exception, too.\n"
    "    GetTimeoutError: Not all are there within the timeout.\n"
    "    WorkerCrashedError, ActorDiedError, ObjectLostError, TaskCancelledError, "
    "OutOfMemoryError: There will be no value.\n"
    "    TypeError: It is neither a reference nor a list of them.\n\n"
    "Example:\n"
    "    >>> import skate\n"
    "    >>> skate.get([skate.put(1), skate.put(\"a\")], timeout=10)\n"
    "    [1, 'a']\n";

PyMethodDef py_get_wait_methods[] = {
    {"raw", m_raw, METH_O,
     "raw(ref): the bytes of a block; in the store they stay where they are as long as somebody "
     "has them."},
    {"get", (PyCFunction)(void (*)(void))m_get, METH_FASTCALL | METH_KEYWORDS, get_doc},
    {"get_each", m_get_each, METH_O,
     "get_each(list of refs): [(True, value) or (False, exception)]."},
    {"wait", (PyCFunction)(void (*)(void))m_wait, METH_FASTCALL,
     "wait(refs, num_returns, timeout): (ready, not ready)."},
    {"borrowed", m_borrowed, METH_O,
     "borrowed(number): the value of an object that another process holds; ObjectLostError: nobody "
     "does."},
    {"exists", m_exists, METH_O, "exists(number): whether anybody holds that object."},
    {NULL, NULL, 0, NULL},
};
