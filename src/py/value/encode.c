/* encode.c - Python values to bytes.
 *
 * By exact type:
 *     None bool int float str bytes
 *     C-contiguous numpy arrays of plain numbers
 *     everything else: pickle protocol 5 with its buffers out of band (the C pickler first; the
 *     dumps hook, which is cloudpickle, if that fails or the value comes from __main__)
 *
 * Values of up to SK_INLINE_MAX end in one piece of private memory; larger ones are written
 * straight into a buffer of the engine: one copy, without the GIL over 64 KiB. The way back is
 * decode.c. Cost: 20-60 ns for a scalar, 0.5 us an array, else pickle's. */
#include "block/block.h"
#include "py/value/value.h"

struct part {
    const void *p;
    size_t n, at;
};

struct py_encx {
    PyObject *own;      /* the pickle */
    PyObject *own_bufs; /* a list of PickleBuffers */
    Py_buffer *views;   /* their buffers */
    uint32_t n_views;
    uint8_t *flat; /* the joined parts of a small value that has several */
    uint8_t head[24 + 8 * 32];
    uint8_t *big_head; /* used instead of `head` when that is too small */
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
        if (py_open(st, e->gen)) st->engine->ops->buf_abort(st->engine, &e->buf);
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

static int to_buf(struct py_state *st, struct py_enc *e, const struct part *parts,
                  uint32_t n_parts) {
    PY_ERR(err);
    sk_rc rc;
    /* pickling runs user code, which may have closed the engine */
    if (py_gone(st, st->gen)) return -1;
    e->gen = st->gen;
    PY_DROP(st)
    if (SK_UNLIKELY(e->into != NULL))
        rc = e->into->rc = e->into->room(e->into, e->n, &e->buf.data, &err);
    else rc = st->engine->ops->buf_alloc(st->engine, e->n, &e->buf, &err);
    if (rc == SK_OK && e->n > PY_BIG_COPY)
        for (uint32_t i = 0; i < n_parts; i++)
            py_copy(st, st->engine, e->buf.data + parts[i].at, parts[i].p, parts[i].n);
    PY_TAKE(st)
    if (rc != SK_OK) {
        /* if an exception is set, a signal handler has raised it during the wait for room */
        if (!PyErr_Occurred()) py_raise(st, rc, &err);
        return -1;
    }
    if (e->n <= PY_BIG_COPY)
        for (uint32_t i = 0; i < n_parts; i++)
            memcpy(e->buf.data + parts[i].at, parts[i].p, parts[i].n);
    /* the gaps between parts are zeroed, so that readers do not see bytes of an older value */
    for (uint32_t i = 1; i < n_parts; i++) {
        size_t end = parts[i - 1].at + parts[i - 1].n;
        memset(e->buf.data + end, 0, parts[i].at - end);
    }
    e->has_buf = !e->into;
    e->is_there = e->into != NULL;
    return 0;
}

/* Finishes a value that is one piece of memory, p[0..n), which lives as long as the Python value or
 * e->x. */
static int finish_one(struct py_state *st, struct py_enc *e, uint32_t kind, const void *p,
                      size_t n) {
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

/* Encodes a NumPy array of plain numbers. 1: done; 0: the array has to be pickled; -1:
 * exception. */
static int enc_ndarray(struct py_state *st, PyObject *v, struct py_enc *e) {
    struct py_encx *x = encx(e);
    if (!x) return -1;
    if (PyObject_GetBuffer(v, &x->one, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear(); /* the array is not contiguous, or its items have no format */
        py_enc_done(st, e);
        return 0;
    }
    x->views = &x->one;
    x->n_views = 1;
    char c = py_number_char(x->one.format);
    if (!c || x->one.ndim > 32) {
        py_enc_done(st, e);
        return 0;
    }
    size_t head_n = py_ndarray_head(&x->one, c, x->head);
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
    if (n + 2 > (Py_ssize_t)SK_COUNT(x->few) &&
        !(x->parts = sk_alloc(SK_TAG_PY, ((size_t)n + 2) * sizeof *x->parts))) {
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
        if (PyObject_GetBuffer(PyList_GET_ITEM(x->own_bufs, i), b, PyBUF_ANY_CONTIGUOUS) < 0)
            return -1;
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

static int enc_pickle(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    struct py_encx *x = encx(e);
    if (!x || py_dump(st, v, &x->own, &x->own_bufs, c) < 0) return -1;
    if (!PyList_GET_SIZE(x->own_bufs))
        return finish_one(st, e, PY_PICKLE, PyBytes_AS_STRING(x->own),
                          (size_t)PyBytes_GET_SIZE(x->own));
    return oob_parts(st, e);
}

static int encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    e->x = NULL;
    e->has_buf = e->is_there = false;
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
        PyErr_Clear(); /* the str has lone surrogates, which only pickle can encode */
    } else if (t == &PyBytes_Type) {
        return finish_one(st, e, PY_BYTES, PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v));
    } else if (t == st->blockout_type) {
        struct sk_block_sizes size;
        return py_block_encode(st, v, e, &size);
    } else if (py_ndarray_type(st) && t == st->ndarray) {
        int r = enc_ndarray(st, v, e);
        if (r) return r < 0 ? -1 : 0;
    }
    return enc_pickle(st, v, e, c);
}

int py_encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c) {
    e->into = NULL;
    int r = encode(st, v, e, c);
    if (SK_UNLIKELY(r < 0)) py_enc_done(st, e);
    return r;
}

int py_encode_into(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c,
                   struct py_into *in) {
    e->into = in;
    in->rc = SK_OK;
    int r = encode(st, v, e, c);
    if (r == 0 && !e->is_there) r = to_buf(st, e, &(struct part){e->p, e->n, 0}, 1);
    if (SK_UNLIKELY(r < 0)) py_enc_done(st, e);
    return r;
}

int py_enc_payload(struct py_state *st, struct py_enc *e, struct py_collector *c, uint32_t from,
                   struct sk_payload *out) {
    *out = (struct sk_payload){.kind = e->kind};
    if (e->has_buf) {
        out->buf = &e->buf;
        out->buf_len = e->n;
    } else {
        out->bytes = (struct sk_bytes){e->p, e->n};
    }
    if (!c || SK_LIKELY(c->refs.n == from)) return 0;
    out->n_contains = c->refs.n - from;
    out->contains = py_collector_ids(c, from);
    if (out->contains) return 0;
    py_enc_done(st, e);
    return -1;
}
