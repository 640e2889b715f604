/* py_codec.c - Python values to bytes and back.
 *
 *     by exact type: None bool int float str bytes | C-contiguous numpy arrays of plain numbers | everything else: pickle protocol 5 with
 *     its buffers out of band (C pickler first, the dumps hook = cloudpickle when that fails or when the value comes from __main__)
 *
 * Values up to SK_INLINE_MAX end in one piece of private memory; larger ones are written straight into a buffer of the engine: one copy,
 * without the GIL over 64 KiB, by two threads from 8 MiB (in a driver, which has a core to spare). On the way out large values are not
 * copied: buffers are read-only views over an exporter (_Buf) that owns the engine's view until the last array dies.
 * Invariant: what a reader gets can never be written to through us. Cost: 20-60 ns for a scalar, 0.5 us an array, else pickle's. */
#include <pthread.h>
#include <sys/mman.h>

#include "base/wire.h"
#include "exec/exec.h"
#include "base/copy.h"
#include "py/py_int.h"

#define BIG_COPY (64u << 10)
#define TWO_COPY (8u << 20)
#define HUGE ((size_t)2 << 20)

/* ---- copying -------------------------------------------------------------------------------------------------------------------------- */

static struct { /* the helper thread: made at the first large copy, lives as long as the process */
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool started, failed, busy; /* busy: between a request and its end */
    struct sk_engine *e;
    void *dst;
    const void *src;
    size_t n;
} helper = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};

/* Into fresh memory of the store the first touch costs more than the copy: huge page by huge page, warmed by the thread that writes it. */
static void copy_warm(struct sk_engine *e, uint8_t *dst, const uint8_t *src, size_t n) {
    while (e && e->ops->buf_warm && n >= 2 * HUGE) {
        size_t piece = (size_t)(SK_ALIGN((uintptr_t)dst + 1, HUGE) - (uintptr_t)dst);
        if (piece == HUGE) {
            e->ops->buf_warm(e, dst, piece);
            sk_copy_stream(dst, src, piece);
        } else {
            memcpy(dst, src, piece);
        }
        dst += piece;
        src += piece;
        n -= piece;
    }
    if (n) memcpy(dst, src, n);
}

static void *helper_main(void *arg SK_UNUSED) {
    pthread_mutex_lock(&helper.mu);
    for (;;) {
        while (!helper.n) pthread_cond_wait(&helper.cv, &helper.mu);
        struct sk_engine *e = helper.e;
        void *dst = helper.dst;
        const void *src = helper.src;
        size_t n = helper.n;
        pthread_mutex_unlock(&helper.mu);
        copy_warm(e, dst, src, n);
        pthread_mutex_lock(&helper.mu);
        helper.n = 0;
        pthread_cond_broadcast(&helper.cv);
    }
    return NULL;
}

static bool helper_take(struct sk_engine *e, void *dst, const void *src, size_t n) {
    pthread_mutex_lock(&helper.mu);
    if (!helper.started && !helper.failed) {
        pthread_t th;
        pthread_attr_t at;
        pthread_attr_init(&at);
        pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
        helper.started = pthread_create(&th, &at, helper_main, NULL) == 0;
        helper.failed = !helper.started; /* then one thread copies alone */
        pthread_attr_destroy(&at);
    }
    bool ok = helper.started && !helper.busy;
    if (ok) {
        helper.busy = true;
        helper.e = e;
        helper.dst = dst;
        helper.src = src;
        helper.n = n;
        pthread_cond_broadcast(&helper.cv);
    }
    pthread_mutex_unlock(&helper.mu);
    return ok;
}

static void helper_wait(void) {
    pthread_mutex_lock(&helper.mu);
    while (helper.n) pthread_cond_wait(&helper.cv, &helper.mu);
    helper.busy = false;
    pthread_mutex_unlock(&helper.mu);
}

void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n) {
    size_t half = (size_t)SK_ALIGN(n / 2, 4096);
    if (n >= TWO_COPY && st->driver && helper_take(e, (uint8_t *)dst + half, (const uint8_t *)src + half, n - half)) {
        copy_warm(e, dst, src, half);
        helper_wait();
    } else if (n) {
        copy_warm(e, dst, src, n);
    }
}

/* ---- values in -------------------------------------------------------------------------------------------------------------------------- */

struct part {
    const void *p;
    size_t n, at;
};

struct py_encx {
    PyObject *own;      /* the pickle */
    PyObject *own_bufs; /* list of PickleBuffers */
    Py_buffer *views;   /* taken from them */
    uint32_t n_views;
    uint8_t *flat; /* a small value with several parts, put together */
    uint8_t head[24 + 8 * 32];
    uint8_t *big_head; /* when `head` is too small */
    struct part *parts;
    uint32_t n_parts;
    struct part few[4];
    Py_buffer one;
};

static struct py_encx *encx(struct py_enc *e) {
    struct py_encx *x = sk_alloc(SK_TAG_PY, sizeof *x);
    if (!x) {
        PyErr_NoMemory();
        return NULL;
    }
    x->own = x->own_bufs = NULL;
    x->views = NULL;
    x->n_views = 0;
    x->flat = x->big_head = NULL;
    x->parts = x->few;
    x->n_parts = 0;
    e->x = x;
    return x;
}

void py_enc_done(struct py_state *st, struct py_enc *e) {
    struct py_encx *x = e->x;
    if (e->has_buf) {
        st->engine->ops->buf_abort(st->engine, &e->buf);
        e->has_buf = false;
    }
    if (!x) return;
    for (uint32_t i = 0; i < x->n_views; i++) PyBuffer_Release(&x->views[i]);
    if (x->views != &x->one) sk_free(x->views);
    Py_XDECREF(x->own);
    Py_XDECREF(x->own_bufs);
    sk_free(x->flat);
    sk_free(x->big_head);
    if (x->parts != x->few) sk_free(x->parts);
    sk_free(x);
    e->x = NULL;
}

static int to_buf(struct py_state *st, struct py_enc *e, const struct part *parts, uint32_t n_parts) {
    PY_ERR(err);
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->buf_alloc(st->engine, e->n, &e->buf, &err);
    if (rc == SK_OK && e->n > BIG_COPY)
        for (uint32_t i = 0; i < n_parts; i++) py_copy(st, st->engine, e->buf.data + parts[i].at, parts[i].p, parts[i].n);
    PY_TAKE(st)
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        return -1;
    }
    if (e->n <= BIG_COPY)
        for (uint32_t i = 0; i < n_parts; i++) memcpy(e->buf.data + parts[i].at, parts[i].p, parts[i].n);
    for (uint32_t i = 1; i < n_parts; i++) { /* no byte of an older value between the parts */
        size_t end = parts[i - 1].at + parts[i - 1].n;
        memset(e->buf.data + end, 0, parts[i].at - end);
    }
    e->has_buf = true;
    return 0;
}

/* One piece p[0..n) that lives as long as the value (or e->x). */
static int finish_one(struct py_state *st, struct py_enc *e, uint32_t kind, const void *p, size_t n) {
    e->kind = kind;
    e->p = p;
    e->n = n;
    if (SK_LIKELY(n <= SK_INLINE_MAX)) return 0;
    return to_buf(st, e, &(struct part){p, n, 0}, 1);
}

static int finish_parts(struct py_state *st, struct py_enc *e, uint32_t kind) {
    struct py_encx *x = e->x;
    const struct part *last = &x->parts[x->n_parts - 1];
    e->kind = kind;
    e->n = last->at + last->n;
    if (e->n > SK_INLINE_MAX) return to_buf(st, e, x->parts, x->n_parts);
    x->flat = sk_calloc(SK_TAG_PY, e->n);
    if (!x->flat) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < x->n_parts; i++)
        if (x->parts[i].n) memcpy(x->flat + x->parts[i].at, x->parts[i].p, x->parts[i].n);
    e->p = x->flat;
    return 0;
}

/* numpy is never imported here: when nobody has, no value is an array. */
static bool ndarray_type(struct py_state *st) {
    if (st->ndarray) return true;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *np = PyDict_GetItemString(modules, "numpy");
    PyObject *t = np ? PyObject_GetAttrString(np, "ndarray") : NULL;
    if (!t) PyErr_Clear(); /* numpy is half imported */
    st->ndarray = (PyTypeObject *)t;
    return t != NULL;
}

/* Struct character of a plain number, complex as D, F, G; 0: another format. */
static char number_char(const char *f) {
    if (!f || !f[0]) return 0;
    if (f[0] == 'Z' && f[1] && !f[2]) return f[1] == 'd' ? 'D' : f[1] == 'f' ? 'F' : f[1] == 'g' ? 'G' : 0;
    return !f[1] && strchr("?bBhHiIlLqQefdg", f[0]) ? f[0] : 0;
}

/* 1: done, 0: not for us (pickle), -1: exception */
static int enc_ndarray(struct py_state *st, PyObject *v, struct py_enc *e) {
    struct py_encx *x = encx(e);
    if (!x) return -1;
    if (PyObject_GetBuffer(v, &x->one, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear(); /* not contiguous, or items that have no format */
        py_enc_done(st, e);
        return 0;
    }
    x->views = &x->one;
    x->n_views = 1;
    char c = number_char(x->one.format);
    if (!c || x->one.ndim > 32) {
        py_enc_done(st, e);
        return 0;
    }
    uint32_t head[2] = {(uint8_t)c, (uint32_t)x->one.ndim};
    size_t head_n = 8 + 8 * (size_t)x->one.ndim;
    memcpy(x->head, head, 8);
    for (int i = 0; i < x->one.ndim; i++) {
        int64_t d = x->one.shape[i];
        memcpy(x->head + 8 + 8 * i, &d, 8);
    }
    x->parts[0] = (struct part){x->head, head_n, 0};
    x->parts[1] = (struct part){x->one.buf, (size_t)x->one.len, (size_t)SK_ALIGN(head_n, 64)};
    x->n_parts = 2;
    return finish_parts(st, e, PY_NDARRAY) < 0 ? -1 : 1;
}

static int oob_parts(struct py_state *st, struct py_enc *e) {
    struct py_encx *x = e->x;
    Py_ssize_t n = PyList_GET_SIZE(x->own_bufs);
    size_t head_n = 16 + 16 * (size_t)n, at;
    uint8_t *head = x->head;
    if (n > 1 && !(x->views = sk_alloc(SK_TAG_PY, (size_t)n * sizeof *x->views))) goto nomem;
    if (n == 1) x->views = &x->one;
    if (n + 2 > (Py_ssize_t)SK_COUNT(x->few) && !(x->parts = sk_alloc(SK_TAG_PY, ((size_t)n + 2) * sizeof *x->parts))) {
        x->parts = x->few;
        goto nomem;
    }
    if (head_n > sizeof x->head && !(head = x->big_head = sk_alloc(SK_TAG_PY, head_n))) goto nomem;
    uint32_t h32[2] = {(uint32_t)n, 0};
    uint64_t pickle_n = (uint64_t)PyBytes_GET_SIZE(x->own);
    memcpy(head, h32, 8);
    memcpy(head + 8, &pickle_n, 8);
    x->parts[0] = (struct part){head, head_n, 0};
    x->parts[1] = (struct part){PyBytes_AS_STRING(x->own), pickle_n, head_n};
    at = head_n + pickle_n;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_buffer *b = &x->views[i];
        if (PyObject_GetBuffer(PyList_GET_ITEM(x->own_bufs, i), b, PyBUF_ANY_CONTIGUOUS) < 0) return -1;
        x->n_views++;
        at = (size_t)SK_ALIGN(at, 64);
        uint64_t row[2] = {at, (uint64_t)b->len};
        memcpy(head + 16 + 16 * i, row, 16);
        x->parts[2 + i] = (struct part){b->buf, (size_t)b->len, at};
        at += (size_t)b->len;
    }
    x->n_parts = (uint32_t)n + 2;
    return finish_parts(st, e, PY_PICKLE_OOB);
nomem:
    x->views = NULL;
    PyErr_NoMemory();
    return -1;
}

static int pickle_ready(struct py_state *st) {
    if (SK_LIKELY(st->pickle_dumps != NULL)) return 0;
    PyObject *m = PyImport_ImportModule("_pickle");
    if (!m) return -1;
    st->pickle_loads = PyObject_GetAttrString(m, "loads");
    st->pickle_dumps = PyObject_GetAttrString(m, "dumps");
    Py_DECREF(m);
    return st->pickle_loads && st->pickle_dumps ? 0 : -1;
}

/* C pickler with the buffers out of band; the cloudpickle hook when it fails or names __main__, which is another module in a worker. */
static int dump(struct py_state *st, PyObject *v, struct py_encx *x, struct py_collector *c) {
    uint32_t mark = c->refs.n;
    if (pickle_ready(st) < 0 || !(x->own_bufs = PyList_New(0))) return -1;
    PyObject *append = PyObject_GetAttr(x->own_bufs, st->s_append);
    if (!append) return -1;
    PyObject *args[3] = {v, st->int5, append};
    py_collector_push(c);
    x->own = PyObject_Vectorcall(st->pickle_dumps, args, 2, st->kw_buffer_callback);
    py_collector_pop(c);
    Py_DECREF(append);
    if (x->own && !memmem(PyBytes_AS_STRING(x->own), (size_t)PyBytes_GET_SIZE(x->own), "__main__", 8)) return 0;
    if (!x->own && (PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))) return -1;
    PyErr_Clear();
    Py_CLEAR(x->own);
    Py_CLEAR(x->own_bufs);
    py_collector_cut(c, mark);
    if (!st->hook_dumps) {
        PyErr_SetString(PyExc_RuntimeError, "the dumps hook is not set");
        return -1;
    }
    py_collector_push(c);
    PyObject *r = PyObject_CallOneArg(st->hook_dumps, v);
    py_collector_pop(c);
    if (!r) return -1;
    if (!PyTuple_CheckExact(r) || PyTuple_GET_SIZE(r) != 2 || !PyBytes_CheckExact(PyTuple_GET_ITEM(r, 0)) ||
        !PyList_CheckExact(PyTuple_GET_ITEM(r, 1))) {
        Py_DECREF(r);
        PyErr_SetString(PyExc_TypeError, "the dumps hook must return (bytes, list)");
        return -1;
    }
    x->own = Py_NewRef(PyTuple_GET_ITEM(r, 0));
    x->own_bufs = Py_NewRef(PyTuple_GET_ITEM(r, 1));
    Py_DECREF(r);
    return 0;
}

static int enc_pickle(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    struct py_encx *x = encx(e);
    if (!x || dump(st, v, x, c) < 0) return -1;
    if (!PyList_GET_SIZE(x->own_bufs)) return finish_one(st, e, PY_PICKLE, PyBytes_AS_STRING(x->own), (size_t)PyBytes_GET_SIZE(x->own));
    return oob_parts(st, e);
}

static int encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    e->x = NULL;
    e->has_buf = false;
    if (v == Py_None || PyBool_Check(v)) {
        e->kind = v == Py_None ? PY_NONE : v == Py_True ? PY_TRUE : PY_FALSE;
        e->p = "";
        e->n = 0;
        return 0;
    }
    PyTypeObject *t = Py_TYPE(v);
    if (t == &PyLong_Type) {
        int over;
        long long i = PyLong_AsLongLongAndOverflow(v, &over);
        if (!over) {
            memcpy(&e->scalar, &i, 8);
            e->kind = PY_INT;
            e->p = &e->scalar;
            e->n = 8;
            return 0;
        }
    } else if (t == &PyFloat_Type) {
        double d = PyFloat_AS_DOUBLE(v);
        memcpy(&e->scalar, &d, 8);
        e->kind = PY_FLOAT;
        e->p = &e->scalar;
        e->n = 8;
        return 0;
    } else if (t == &PyUnicode_Type) {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(v, &n);
        if (s) return finish_one(st, e, PY_STR, s, (size_t)n);
        PyErr_Clear(); /* lone surrogates: pickle knows how */
    } else if (t == &PyBytes_Type) {
        return finish_one(st, e, PY_BYTES, PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v));
    } else if (t == st->blockout_type) {
        uint64_t rows, nbytes;
        return py_block_encode(st, py_blockout_batch(v), e, &rows, &nbytes);
    } else if (ndarray_type(st) && t == st->ndarray) {
        int r = enc_ndarray(st, v, e);
        if (r) return r < 0 ? -1 : 0;
    }
    return enc_pickle(st, v, e, c);
}

int py_encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    int r = encode(st, v, e, c);
    if (SK_UNLIKELY(r < 0)) py_enc_done(st, e);
    return r;
}

struct sk_payload py_enc_payload(struct py_enc *e) {
    struct sk_payload p = {.kind = e->kind};
    if (e->has_buf) {
        p.buf = &e->buf;
        p.buf_len = e->n;
    } else {
        p.bytes = (struct sk_bytes){e->p, e->n};
    }
    return p;
}

/* ---- the exporter ------------------------------------------------------------------------------------------------------------------------ */

struct buf { /* read-only bytes: of a view that it owns, or of another object */
    PyObject_HEAD const uint8_t *p;
    size_t n;
    PyObject *base; /* or NULL: */
    struct sk_view view;
    uint32_t gen;
};

static PyObject *buf_new(struct py_state *st, const uint8_t *p, size_t n, PyObject *base) {
    struct buf *b = PyObject_New(struct buf, st->buf_type);
    if (!b) return NULL;
    b->p = p;
    b->n = n;
    b->base = Py_XNewRef(base);
    b->view.token = 0;
    b->gen = st->gen;
    return (PyObject *)b;
}

PyObject *py_buf_of_view(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    struct buf *b = (struct buf *)(void *)buf_new(st, v->data, v->len, NULL);
    if (!b) return NULL;
    b->view = k->task ? sk_task_keep_arg(k->task, k->arg) : *v;
    b->base = NULL;
    k->taken = true;
    return (PyObject *)b;
}

static void buf_dealloc(PyObject *o) {
    struct buf *b = (struct buf *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (b->base) Py_DECREF(b->base);
    else if (st && st->engine && b->gen == st->gen && !st->closing) /* else: the engine left the bytes mapped (engine.h, rule 7) */
        st->engine->ops->view_release(st->engine, &b->view);
    PyObject_Free(o);
    Py_DECREF(type);
}

static int buf_getbuffer(PyObject *o, Py_buffer *view, int flags) {
    struct buf *b = (struct buf *)(void *)o;
    return PyBuffer_FillInfo(view, o, (void *)(uintptr_t)b->p, (Py_ssize_t)b->n, 1, flags);
}

static PyType_Slot buf_slots[] = {
    {Py_tp_dealloc, buf_dealloc},
    {Py_bf_getbuffer, buf_getbuffer},
    {Py_tp_doc, "Read-only bytes of an object."},
    {0, NULL},
};
static PyType_Spec buf_spec = {"skate._skate._Buf", sizeof(struct buf), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               buf_slots};

int py_codec_types(PyObject *module, struct py_state *st) {
    st->buf_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &buf_spec, NULL);
    return st->buf_type ? 0 : -1;
}

/* ---- values out -------------------------------------------------------------------------------------------------------------------------- */

static PyObject *corrupt(struct py_state *st, const struct sk_view *v) {
    struct sk_err err;
    py_raise(st, SK_ERR(&err, SK_ECORRUPT, "a value of kind %#x and %zu bytes is damaged", v->kind, v->len), &err);
    return NULL;
}

/* bytes-like over the value from which zero-copy pieces are cut: the view itself when it is large, else a copy. */
static PyObject *root_of(struct py_state *st, const struct sk_view *v, struct py_keep *k, const uint8_t **data) {
    PyObject *root;
    if (v->len > SK_INLINE_MAX) {
        root = py_buf_of_view(st, v, k);
        *data = v->data;
    } else {
        root = PyBytes_FromStringAndSize((const char *)v->data, (Py_ssize_t)v->len);
        *data = root ? (const uint8_t *)PyBytes_AS_STRING(root) : NULL;
    }
    return root;
}

static PyObject *dtype_of(struct py_state *st, uint32_t c) /* borrowed */
{
    if (c < SK_COUNT(st->dtype) && st->dtype[c]) return st->dtype[c];
    PyObject *np = PyImport_ImportModule("numpy");
    if (!np || !ndarray_type(st)) {
        Py_XDECREF(np);
        return NULL;
    }
    PyObject *d = PyObject_CallMethod(np, "dtype", "C", (int)c);
    Py_DECREF(np);
    if (d) st->dtype[c] = d;
    return d;
}

static PyObject *dec_ndarray(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    uint32_t head[2];
    if (v->len < 8) return corrupt(st, v);
    memcpy(head, v->data, 8);
    size_t head_n = 8 + 8 * (size_t)head[1], at = (size_t)SK_ALIGN(head_n, 64);
    if (head[0] >= SK_COUNT(st->dtype) || head[1] > 32 || v->len < at) return corrupt(st, v);
    PyObject *dtype = dtype_of(st, head[0]), *shape = dtype ? PyTuple_New((Py_ssize_t)head[1]) : NULL, *base = NULL, *a = NULL;
    if (!shape) return NULL;
    for (uint32_t i = 0; i < head[1]; i++) {
        int64_t d;
        memcpy(&d, v->data + 8 + 8 * i, 8);
        PyObject *o = PyLong_FromLongLong(d);
        if (!o) goto out;
        PyTuple_SET_ITEM(shape, (Py_ssize_t)i, o);
    }
    if (v->len > SK_INLINE_MAX) {
        PyObject *root = py_buf_of_view(st, v, k);
        base = root ? buf_new(st, v->data + at, v->len - at, root) : NULL;
        Py_XDECREF(root);
    } else {
        base = PyBytes_FromStringAndSize((const char *)v->data + at, (Py_ssize_t)(v->len - at));
    }
    if (base) {
        PyObject *args[3] = {shape, dtype, base};
        a = PyObject_Vectorcall((PyObject *)st->ndarray, args, 3, NULL);
    }
out:
    Py_XDECREF(base);
    Py_DECREF(shape);
    return a;
}

static PyObject *call_loads(struct py_state *st, PyObject *data, PyObject *buffers) {
    if (pickle_ready(st) < 0) return NULL;
    PyObject *args[2] = {data, buffers};
    return PyObject_Vectorcall(st->pickle_loads, args, 1, buffers ? st->kw_buffers : NULL);
}

static PyObject *dec_oob(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    uint32_t n;
    uint64_t pickle_n;
    if (v->len < 16) return corrupt(st, v);
    memcpy(&n, v->data, 4);
    memcpy(&pickle_n, v->data + 8, 8);
    size_t head_n = 16 + 16 * (size_t)n;
    if (v->len < head_n || v->len - head_n < pickle_n) return corrupt(st, v);
    const uint8_t *data;
    PyObject *root = root_of(st, v, k, &data), *bufs = root ? PyTuple_New((Py_ssize_t)n) : NULL, *pickle = NULL, *r = NULL;
    for (uint32_t i = 0; bufs && i < n; i++) {
        uint64_t row[2];
        memcpy(row, data + 16 + 16 * i, 16);
        if (row[0] > v->len || row[1] > v->len - row[0]) {
            corrupt(st, v);
            goto out;
        }
        PyObject *b = buf_new(st, data + row[0], row[1], root), *m = b ? PyMemoryView_FromObject(b) : NULL;
        Py_XDECREF(b);
        if (!m) goto out;
        PyTuple_SET_ITEM(bufs, (Py_ssize_t)i, m);
    }
    if (bufs && (pickle = buf_new(st, data + head_n, pickle_n, root))) r = call_loads(st, pickle, bufs);
out:
    Py_XDECREF(pickle);
    Py_XDECREF(bufs);
    Py_XDECREF(root);
    return r;
}

static PyObject *bytes_of(struct sk_bytes b) { return PyBytes_FromStringAndSize(b.p, (Py_ssize_t)b.n); }

static PyObject *str_of(struct sk_bytes b) { return PyUnicode_DecodeUTF8(b.p, (Py_ssize_t)b.n, "replace"); }

/* [(op, label, params)] */
static PyObject *dec_stage(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint32_t n = sk_rd_u32(&r);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(&r); i++) {
        PyObject *op = str_of(sk_rd_bytes(&r)), *label = str_of(sk_rd_bytes(&r)), *params = bytes_of(sk_rd_bytes(&r));
        PyObject *row = op && label && params ? PyTuple_Pack(3, op, label, params) : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(op);
        Py_XDECREF(label);
        Py_XDECREF(params);
        Py_XDECREF(row);
    }
    if (list && !sk_rd_ok(&r)) {
        Py_DECREF(list);
        return corrupt(st, v);
    }
    return list;
}

/* (task_seq, cap_rows, target_max_bytes, unit params, [(row0, n_rows)]) */
static PyObject *dec_exec(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint64_t seq = sk_rd_u64(&r);
    int64_t cap = sk_rd_i64(&r);
    uint64_t target = sk_rd_u64(&r);
    struct sk_bytes unit = sk_rd_bytes(&r);
    uint32_t n = sk_rd_u32(&r);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(&r); i++) {
        uint64_t row0 = sk_rd_u64(&r), rows = sk_rd_u64(&r);
        PyObject *row = Py_BuildValue("(KK)", (unsigned long long)row0, (unsigned long long)rows);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (list && !sk_rd_ok(&r)) {
        Py_DECREF(list);
        return corrupt(st, v);
    }
    return list ? Py_BuildValue("(KLKy#N)", (unsigned long long)seq, (long long)cap, (unsigned long long)target, (const char *)unit.p,
                                (Py_ssize_t)unit.n, list)
                : NULL;
}

static PyObject *dec_bytes(struct py_state *st, const struct sk_view *v) {
    if (v->len <= BIG_COPY) return PyBytes_FromStringAndSize((const char *)v->data, (Py_ssize_t)v->len);
    PyObject *b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)v->len);
    if (b) {
        char *dst = PyBytes_AS_STRING(b);
        if (v->len >=
            2 * HUGE) { /* fresh pages from malloc: the faults of small ones cost ten times the copy. A hint: errors do not matter */
            uintptr_t at = (uintptr_t)SK_ALIGN((uintptr_t)dst, HUGE), end = (uintptr_t)dst + v->len;
            (void)madvise((void *)at, (size_t)(end - at) & ~(HUGE - 1), MADV_HUGEPAGE);
        }
        PY_DROP(st)
        py_copy(st, NULL, dst, v->data, v->len);
        PY_TAKE(st)
    }
    return b;
}

PyObject *py_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    switch (v->kind) {
    case PY_NONE: Py_RETURN_NONE;
    case PY_TRUE: Py_RETURN_TRUE;
    case PY_FALSE: Py_RETURN_FALSE;
    case PY_INT: {
        int64_t i;
        if (v->len != 8) return corrupt(st, v);
        memcpy(&i, v->data, 8);
        return PyLong_FromLongLong(i);
    }
    case PY_FLOAT: {
        double d;
        if (v->len != 8) return corrupt(st, v);
        memcpy(&d, v->data, 8);
        return PyFloat_FromDouble(d);
    }
    case PY_STR: return PyUnicode_DecodeUTF8((const char *)v->data, (Py_ssize_t)v->len, NULL);
    case PY_BYTES: return dec_bytes(st, v);
    case PY_PICKLE: {
        PyObject *m = buf_new(st, v->data, v->len, Py_None), *r = m ? call_loads(st, m, NULL) : NULL;
        Py_XDECREF(m); /* the unpickler keeps nothing of its input */
        return r;
    }
    case PY_PICKLE_OOB: return dec_oob(st, v, k);
    case PY_NDARRAY: return dec_ndarray(st, v, k);
    case PY_BLOCK: return py_block_decode(st, v, k);
    case SK_KIND_STAGE: return dec_stage(st, v);
    case SK_KIND_EXEC: return dec_exec(st, v);
    default: return corrupt(st, v);
    }
}
