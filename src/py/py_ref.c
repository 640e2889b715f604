/* py_ref.c - ObjectRef, ObjectRefGenerator, and the collector of references found inside pickled values.
 *
 * One ObjectRef object stands for one reference of this process; its death gives it back. Refs of an engine that was shut down carry its
 * generation number and are dead weight: using them raises, freeing them does nothing. So are those made of bytes (generation 0, `foreign`
 * holds the 28 bytes): they can be compared, printed and pickled, nothing else. Cost: new 25 ns (free list), free 40 ns + release. */
#include <stdlib.h>

#include "base/clock.h"
#include "py/py_int.h"

#define FREE_REFS 512u

/* ---- collector -------------------------------------------------------------------------------------------------------------------- */

static _Thread_local struct py_collector *collector_now;

struct py_collector *py_collector_now(void) { return collector_now; }

void py_collector_push(struct py_collector *c) {
    c->outer = collector_now;
    collector_now = c;
}

void py_collector_pop(struct py_collector *c) { collector_now = c->outer; }

/* Pickled by the user's own hand: nobody will know when those bytes are gone. As in Ray the object then lives as long as the engine, unless
 * the environment forbids it. */
static int out_of_band(struct py_state *st, PyObject *ref) {
    if (py_ref_strict()) {
        py_raise_class(
            st, "OufOfBandObjectRefSerializationException",
            "an ObjectRef is pickled outside of arguments, results and put(): nothing would keep its object alive. Pass the ref (or a "
            "list of refs) itself, or unset RAY_allow_out_of_band_object_ref_serialization=0 to keep such objects for ever.");
        return -1;
    }
    if (!st->pinned && !(st->pinned = PySet_New(NULL))) return -1;
    return PySet_Add(st->pinned, ref);
}

bool py_ref_strict(void) {
    const char *s = getenv("RAY_allow_out_of_band_object_ref_serialization");
    return s && strcmp(s, "0") == 0;
}

int py_collector_add(struct py_state *st, PyObject *ref) {
    struct py_collector *c = collector_now;
    if (!c) return out_of_band(st, ref);
    if (!sk_vec_push(&c->refs, SK_TAG_PY, Py_NewRef(ref))) {
        Py_DECREF(ref);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void py_collector_cut(struct py_collector *c, uint32_t n) {
    while (c->refs.n > n) Py_DECREF(sk_vec_pop(&c->refs));
}

void py_collector_free(struct py_collector *c) {
    py_collector_cut(c, 0);
    sk_vec_free(&c->refs);
    sk_vec_free(&c->ids);
}

const sk_oid *py_collector_ids(struct py_collector *c, uint32_t from) {
    if (!sk_vec_reserve(&c->ids, SK_TAG_PY, c->refs.n + 1)) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t i = from; i < c->refs.n; i++) c->ids.p[i].v = ((struct py_ref *)(void *)c->refs.p[i])->id;
    return c->ids.p + from;
}

/* ---- ObjectRef ----------------------------------------------------------------------------------------------------------------------- */

PyObject *py_ref_new(struct py_state *st, sk_oid id, sk_tid task) {
    struct py_ref *r = st->free_refs;
    if (r) {
        st->free_refs = r->next;
        st->n_free_refs--;
        (void)PyObject_Init((PyObject *)r, st->ref_type);
    } else {
        r = PyObject_New(struct py_ref, st->ref_type);
        if (!r) {
            st->engine->ops->release(st->engine, id);
            return NULL;
        }
    }
    r->id = id.v;
    r->task = task.v;
    r->gen = st->gen;
    return (PyObject *)r;
}

static void ref_dealloc(PyObject *o) {
    struct py_ref *r = (struct py_ref *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (st && st->engine && r->gen == st->gen && !st->closing) st->engine->ops->release(st->engine, (sk_oid){r->id});
    if (SK_UNLIKELY(r->gen == 0)) sk_free(r->foreign);
    if (st && st->ref_type == type && st->n_free_refs < FREE_REFS) {
        r->next = st->free_refs;
        st->free_refs = r;
        st->n_free_refs++;
    } else {
        PyObject_Free(o);
    }
    Py_DECREF(type);
}

bool py_ref_alive(struct py_state *st, PyObject *o) {
    const struct py_ref *r = (struct py_ref *)(void *)o;
    if (SK_LIKELY(st->engine && r->gen == st->gen && !st->closing)) return true;
    if (!st->engine || st->closing) {
        py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "this ObjectRef is of an engine that was shut down"});
    } else { /* in Ray's words, which programs look for */
        py_raise_class(
            st, "UnknownOwnerError",
            r->gen && st->forked_from ? "a Ray object whose owner is unknown (Ray objects whose owner is unknown cannot be had): this "
                                        "ObjectRef is of the process "
                                        "from which this one was forked, and each has an engine of its own; get the value before the fork"
            : r->gen ? "a Ray object whose owner is unknown (Ray objects whose owner is unknown cannot be had): this ObjectRef is of an "
                       "engine that was shut down; make the object again"
                     : "a Ray object whose owner is unknown (Ray objects whose owner is unknown cannot be had): this ObjectRef was made "
                       "from bytes; pass the ref itself");
    }
    return false;
}

#define ID_BYTES 28

static void ref_bytes(PyObject *o, uint8_t b[ID_BYTES]) {
    const struct py_ref *r = (struct py_ref *)(void *)o;
    memset(b, 0, ID_BYTES);
    if (r->gen == 0) memcpy(b, r->foreign, ID_BYTES);
    else
        for (int i = 0; i < 8; i++) b[ID_BYTES - 1 - i] = (uint8_t)(r->id >> (8 * i));
}

static void ref_digits(PyObject *o, char s[2 * ID_BYTES]) {
    uint8_t b[ID_BYTES];
    ref_bytes(o, b);
    for (int i = 0; i < ID_BYTES; i++) {
        s[2 * i] = "0123456789abcdef"[b[i] >> 4];
        s[2 * i + 1] = "0123456789abcdef"[b[i] & 15];
    }
}

static PyObject *ref_hex(PyObject *o, PyObject *unused SK_UNUSED) {
    char s[2 * ID_BYTES];
    ref_digits(o, s);
    return PyUnicode_FromStringAndSize(s, sizeof s);
}

static PyObject *ref_binary(PyObject *o, PyObject *unused SK_UNUSED) {
    uint8_t b[ID_BYTES];
    ref_bytes(o, b);
    return PyBytes_FromStringAndSize((const char *)b, ID_BYTES);
}

static PyObject *ref_is_nil(PyObject *o, PyObject *unused SK_UNUSED) {
    uint8_t b[ID_BYTES], all = 0xff;
    ref_bytes(o, b);
    for (int i = 0; i < ID_BYTES; i++) all &= b[i];
    return PyBool_FromLong(all == 0xff);
}

static PyObject *ref_task_number(PyObject *o, PyObject *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct py_ref *)(void *)o)->task & ~PY_OF_METHOD);
}

static PyObject *ref_repr(PyObject *o) {
    char s[2 * ID_BYTES + 1] = {0};
    ref_digits(o, s);
    return PyUnicode_FromFormat("ObjectRef(%s)", s);
}

static PyObject *ref_from_bytes(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {"id", NULL};
    const char *p;
    Py_ssize_t n;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "y#:ObjectRef", names, &p, &n)) return NULL;
    if (n != ID_BYTES) return PyErr_Format(PyExc_ValueError, "ID string needs to have length %d, got %zd", ID_BYTES, n);
    struct py_ref *r = PyObject_New(struct py_ref, type);
    if (!r) return NULL;
    r->gen = 0;
    r->task = 0;
    r->foreign = sk_memdup(SK_TAG_PY, p, ID_BYTES);
    if (!r->foreign) {
        Py_DECREF(r);
        return PyErr_NoMemory();
    }
    memcpy(&r->id, p + ID_BYTES - 8, 8); /* for the hash */
    return (PyObject *)r;
}

static Py_hash_t ref_hash(PyObject *o) { return (Py_hash_t)(((struct py_ref *)(void *)o)->id * 0x9E3779B97F4A7C15u >> 1); }

static PyObject *ref_richcompare(PyObject *a, PyObject *b, int op) {
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    const struct py_ref *x = (struct py_ref *)(void *)a, *y = (struct py_ref *)(void *)b;
    bool same = x->id == y->id && x->gen == y->gen && (x->gen || memcmp(x->foreign, y->foreign, ID_BYTES) == 0);
    return PyBool_FromLong(same == (op == Py_EQ));
}

static PyObject *ref_reduce(PyObject *o, PyObject *unused SK_UNUSED) {
    struct py_state *st = py_state_of(Py_TYPE(o));
    if (((struct py_ref *)(void *)o)->gen == 0) return Py_BuildValue("O(N)", Py_TYPE(o), ref_binary(o, NULL));
    if (!py_ref_alive(st, o) || py_collector_add(st, o) < 0) return NULL;
    return Py_BuildValue("O(K)", st->restore_ref, (unsigned long long)((struct py_ref *)(void *)o)->id);
}

/* A copy is counted by itself. */
static PyObject *ref_copy(PyObject *o, PyObject *unused SK_UNUSED) {
    struct py_state *st = py_state_of(Py_TYPE(o));
    const struct py_ref *r = (struct py_ref *)(void *)o;
    if (!st->engine || st->closing || r->gen != st->gen) return Py_NewRef(o); /* nothing to count */
    st->engine->ops->addref(st->engine, (sk_oid){r->id});
    return py_ref_new(st, (sk_oid){r->id}, (sk_tid){r->task});
}

static PyObject *ref_future(PyObject *o, PyObject *unused SK_UNUSED) {
    return PyObject_CallOneArg(py_state_of(Py_TYPE(o))->hook_ref_future, o);
}

static PyObject *ref_await(PyObject *o) { return PyObject_CallOneArg(py_state_of(Py_TYPE(o))->hook_ref_await, o); }

static PyMethodDef ref_methods[] = {
    {"hex", ref_hex, METH_NOARGS, "56 hexadecimal digits, as in Ray."},
    {"binary", ref_binary, METH_NOARGS, "28 bytes."},
    {"is_nil", ref_is_nil, METH_NOARGS, "Whether it is the reference to nothing."},
    {"_task_number", ref_task_number, METH_NOARGS, "Number of the task that makes it; 0 when not known here."},
    {"future", ref_future, METH_NOARGS, "A concurrent.futures.Future of the value."},
    {"__reduce__", ref_reduce, METH_NOARGS, NULL},
    {"__copy__", ref_copy, METH_NOARGS, NULL},
    {"__deepcopy__", ref_copy, METH_O, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ref_slots[] = {
    {Py_tp_new, ref_from_bytes},
    {Py_tp_dealloc, ref_dealloc},
    {Py_tp_repr, ref_repr},
    {Py_tp_hash, ref_hash},
    {Py_tp_richcompare, ref_richcompare},
    {Py_tp_methods, ref_methods},
    {Py_am_await, ref_await},
    {Py_tp_doc, "A reference to an immutable object; the object lives at least as long."},
    {0, NULL},
};

static PyType_Spec ref_spec = {"skate._skate.ObjectRef", sizeof(struct py_ref), 0, Py_TPFLAGS_DEFAULT, ref_slots};

/* ---- ObjectRefGenerator ------------------------------------------------------------------------------------------------------------ */

struct gen {
    PyObject_HEAD uint64_t task;
    PyObject *end; /* the ref of completed(), or of the failure */
    uint32_t gen;
    bool done;
};

PyObject *py_gen_new(struct py_state *st, sk_tid task) {
    struct gen *g = PyObject_New(struct gen, st->gen_type);
    if (!g) {
        st->engine->ops->stream_drop(st->engine, task);
        return NULL;
    }
    g->task = task.v;
    g->end = NULL;
    g->gen = st->gen;
    g->done = false;
    return (PyObject *)g;
}

static void gen_drop(struct gen *g) {
    struct py_state *st = py_state_of(Py_TYPE((PyObject *)g));
    if (g->task && st && st->engine && g->gen == st->gen && !st->closing) st->engine->ops->stream_drop(st->engine, (sk_tid){g->task});
    g->task = 0;
    g->done = true;
}

static void gen_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    gen_drop((struct gen *)(void *)o);
    Py_XDECREF(((struct gen *)(void *)o)->end);
    PyObject_Free(o);
    Py_DECREF(type);
}

bool py_gen_stream(struct py_state *st, PyObject *gen, sk_tid *out) {
    const struct gen *g = (struct gen *)(void *)gen;
    if (g->done) return false;
    if (!st->engine || g->gen != st->gen || st->closing) {
        py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "this generator is of an engine that was shut down"});
        return false;
    }
    *out = (sk_tid){g->task};
    return true;
}

static PyObject *gen_take(struct gen *g, int64_t deadline_ns) /* NULL without an exception: the end */
{
    struct py_state *st = py_state_of(Py_TYPE((PyObject *)g));
    PY_ERR(err);
    sk_oid id = {0};
    sk_tid t;
    if (!py_gen_stream(st, (PyObject *)g, &t)) return NULL;
    sk_rc rc = st->driver ? st->engine->ops->stream_next(st->engine, t, 0, &id, &err) : SK_ETIMEOUT;
    while (rc == SK_ETIMEOUT) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline_ns, now + PY_SLICE_NS);
        if (deadline_ns == 0 || now >= deadline_ns) return py_raise(st, SK_ETIMEOUT, &(struct sk_err){.msg = "the next item is not ready"});
        PY_DROP(st)
        rc = st->engine->ops->stream_next(st->engine, t, until, &id, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (PyErr_CheckSignals() < 0) return NULL;
        if (st->closing || g->done) return py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "the engine was shut down during the wait"});
    }
    if (rc == SK_OK) return py_ref_new(st, id, t);
    if (rc == SK_EDONE) {
        gen_drop(g);
        return NULL;
    }
    if (!id.v) return py_raise(st, rc, &err);
    g->done = true; /* the failure comes as a last ref, and getting it raises; the task is over, its number is kept for task_id() */
    PyObject *failure = py_ref_new(st, id, t);
    if (failure && !g->end) g->end = Py_NewRef(failure);
    return failure;
}

static PyObject *gen_next(PyObject *o) { return gen_take((struct gen *)(void *)o, INT64_MAX); }

static PyObject *gen_next_within(PyObject *o, PyObject *arg) {
    double s = PyFloat_AsDouble(arg);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    PyObject *r = gen_take((struct gen *)(void *)o, py_deadline(s, sk_now_ns()));
    if (!r && !PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
    return r;
}

static PyObject *gen_peek(PyObject *o, PyObject *arg) {
    struct py_state *st = py_state_of(Py_TYPE(o));
    double s = PyFloat_AsDouble(arg);
    sk_tid t;
    PY_ERR(err);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    if (!py_gen_stream(st, o, &t)) return PyErr_Occurred() ? NULL : PyLong_FromLong(2);
    int64_t deadline = py_deadline(s, sk_now_ns());
    sk_rc rc = st->driver ? st->engine->ops->stream_wait(st->engine, t, 0, &err) : SK_ETIMEOUT;
    for (bool more = s != 0 || !st->driver; rc == SK_ETIMEOUT && more;) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline, now + PY_SLICE_NS);
        PY_DROP(st)
        rc = st->engine->ops->stream_wait(st->engine, t, until, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (PyErr_CheckSignals() < 0) return NULL;
        if (st->closing || ((struct gen *)(void *)o)->done)
            return py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "the engine was shut down during the wait"});
        more = sk_now_ns() < deadline;
    }
    if (rc != SK_OK && rc != SK_EDONE && rc != SK_ETIMEOUT) return py_raise(st, rc, &err);
    return PyLong_FromLong(rc == SK_OK ? 1 : rc == SK_EDONE ? 2 : 0);
}

static PyObject *gen_completed(PyObject *o, PyObject *unused SK_UNUSED) {
    struct gen *g = (struct gen *)(void *)o;
    struct py_state *st = py_state_of(Py_TYPE(o));
    sk_tid t;
    sk_oid id = {0};
    PY_ERR(err);
    if (!g->end) {
        if (py_gen_stream(st, o, &t)) {
            sk_rc rc;
            PY_DROP(st)
            rc = st->engine->ops->stream_end(st->engine, t, PY_NONE, &id, &err);
            PY_TAKE(st)
            g->end = rc == SK_OK ? py_ref_new(st, id, t) : py_raise(st, rc, &err);
        } else if (!PyErr_Occurred() && py_ensure(st) == 0) { /* it was read to its end, and went well */
            g->end = py_put(st, Py_None);
        }
    }
    return Py_XNewRef(g->end);
}

static PyObject *gen_completed_attr(PyObject *o, void *unused SK_UNUSED) { return gen_completed(o, NULL); }

static PyObject *gen_is_finished(PyObject *o, PyObject *unused SK_UNUSED) { return PyBool_FromLong(((struct gen *)(void *)o)->done); }

static PyObject *gen_close(PyObject *o, PyObject *unused SK_UNUSED) {
    gen_drop((struct gen *)(void *)o);
    Py_RETURN_NONE;
}

static PyObject *gen_task_id(PyObject *o, PyObject *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct gen *)(void *)o)->task);
}

static PyObject *gen_reduce(PyObject *o SK_UNUSED, PyObject *unused SK_UNUSED) {
    PyErr_SetString(PyExc_TypeError, "an ObjectRefGenerator cannot be sent to another process; send the refs that it yields");
    return NULL;
}

static PyMethodDef gen_methods[] = {
    {"close", gen_close, METH_NOARGS, "Drops what is left and cancels the task."},
    {"next_within", gen_next_within, METH_O, "The next ref within so many seconds; GetTimeoutError, StopIteration."},
    {"peek", gen_peek, METH_O, "peek(seconds): whether next() would not wait: 1 when an item is there, 2 at the end. Takes nothing."},
    {"completed", gen_completed, METH_NOARGS, "A ref that is ready when the task has ended: None, or its failure."},
    {"is_finished", gen_is_finished, METH_NOARGS, "Everything was taken, the failure included."},
    {"task_id", gen_task_id, METH_NOARGS, "Number of its task."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {"__reduce__", gen_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef gen_getset[] = {
    {"_generator_ref", gen_completed_attr, NULL, "completed(), by the name it has in Ray.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot gen_slots[] = {
    {Py_tp_dealloc, gen_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, gen_next},
    {Py_tp_methods, gen_methods},
    {Py_tp_getset, gen_getset},
    {Py_tp_doc, "Iterator over the yields of a streaming task: ObjectRefs. Dropping it cancels what is left."},
    {0, NULL},
};

static PyType_Spec gen_spec = {"skate._skate.ObjectRefGenerator", sizeof(struct gen), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, gen_slots};

int py_ref_types(PyObject *module, struct py_state *st) {
    st->ref_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &ref_spec, NULL);
    st->gen_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &gen_spec, NULL);
    if (!st->ref_type || !st->gen_type || PyModule_AddType(module, st->ref_type) < 0 || PyModule_AddType(module, st->gen_type) < 0)
        return -1;
    return 0;
}
