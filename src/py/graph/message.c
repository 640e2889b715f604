/* message.c - a Python value as a message of a channel, and back.
 *
 * A large value is not copied when it is read: its arrays show the message's bytes, and keep a
 * Message alive, which releases the buffer when it dies. The writer holds references inside a
 * message until all readers have passed that message; a reader in a worker passes it only after the
 * driver has counted the reader's own references. */
#include "base/clock.h"
#include "py/graph/graph.h"

/* ---- references that messages hold ----------------------------------------------------------- */

void py_held_drop(struct py_held *h, uint64_t below) {
    uint32_t n = 0;
    while (n < h->list.n && h->list.p[n].version < below) Py_DECREF(h->list.p[n++].refs);
    if (!n) return;
    h->list.n -= n;
    memmove(h->list.p, h->list.p + n, h->list.n * sizeof *h->list.p);
}

void py_held_free(struct py_held *h) {
    py_held_drop(h, UINT64_MAX);
    sk_vec_free(&h->list);
}

/* ---- writing a message ----------------------------------------------------------------------- */

struct into {
    struct py_into in; /* must be first */
    struct py_state *st;
    struct sk_chan_end *w;
    int64_t deadline;
    bool (*stop)(struct py_state *st);
};

static sk_rc room(struct py_into *in, size_t n, uint8_t **out, struct sk_err *err) {
    struct into *i = (struct into *)(void *)in;
    for (;;) {
        void *p = NULL;
        int64_t now = i->stop ? sk_now_ns() : 0;
        sk_rc rc = sk_chan_reserve(
            i->w, n, i->stop ? SK_MIN(i->deadline, now + PY_SLICE_NS) : i->deadline, &p, err);
        if (rc == SK_OK) *out = p;
        if (rc != SK_ETIMEOUT || !i->stop || sk_now_ns() >= i->deadline) return rc;
        if (i->stop(i->st))
            return SK_ERR(err, SK_ECANCEL, "interrupted while waiting for room in a channel");
    }
}

/* Waits until the driver has handled the earlier messages of this process, so that it has counted a
 * writer's references before another process reads them, and a reader's before the writer drops its
 * own. */
static int be_heard(struct py_state *st) {
    struct sk_node node;
    size_t n;
    PY_ERR(err);
    sk_rc rc;
    if (!st->worker) return 0;
    PY_DROP(st)
    rc = st->engine->ops->nodes(st->engine, &node, 1, &n, &err);
    PY_TAKE(st)
    return rc == SK_OK ? 0 : (py_raise(st, rc, &err), -1);
}

int py_message_write(struct py_state *st, struct sk_chan_end *w, PyObject *v, int64_t deadline,
                     bool (*stop)(struct py_state *st), struct py_written *out, sk_rc *rc) {
    struct py_enc e;
    struct py_collector c = {0};
    struct into in = {.in = {.room = room}, .st = st, .w = w, .deadline = deadline, .stop = stop};
    *rc = SK_OK;
    out->refs = NULL;
    int r = py_encode_into(st, v, &e, &c, &in.in);
    if (r < 0) *rc = in.in.rc;
    else if (SK_UNLIKELY(c.refs.n)) {
        out->refs = PyList_New((Py_ssize_t)c.refs.n);
        for (uint32_t i = 0; out->refs && i < c.refs.n; i++)
            PyList_SET_ITEM(out->refs, (Py_ssize_t)i, Py_NewRef(c.refs.p[i]));
        if (!out->refs || be_heard(st) < 0) r = -1;
    }
    if (r == 0) {
        out->len = e.n;
        out->kind = e.kind | (out->refs ? PY_HAS_REFS : 0);
    }
    py_enc_done(st, &e);
    if (SK_UNLIKELY(c.refs.cap)) py_collector_free(&c);
    return r;
}

void py_message_publish(struct sk_chan_end *w, struct py_written *m, struct py_held *h,
                        uint32_t n_cells) {
    /* the version w->next reuses the cell of version w->next - n_cells, so all readers have passed
     * that version and those before */
    if (SK_UNLIKELY(h->list.n) && w->next > n_cells) py_held_drop(h, w->next - n_cells);
    if (SK_UNLIKELY(m->refs != NULL) &&
        !sk_vec_push(&h->list, SK_TAG_PY, ((struct py_held_refs){w->next, m->refs}))) {
        /* without memory to record them, the references are never released */
    }
    m->refs = NULL;
    sk_chan_publish(w, m->len, m->kind);
}

/* ---- reading a message ----------------------------------------------------------------------- */

struct message { /* the Python object Message: bytes of a channel's buffer that arrays show */
    PyObject_HEAD struct sk_chan_end end;
    struct sk_chan_msg m;
    uint32_t gen;
};

static void message_dealloc(PyObject *o) {
    struct message *m = (struct message *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    /* a closed engine leaves the bytes mapped */
    if (st && py_open(st, m->gen)) sk_chan_release(&m->end, &m->m);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *message_new(struct py_state *st, const struct sk_chan_end *e,
                             const struct sk_chan_msg *m) {
    struct message *o = PyObject_New(struct message, st->message_type);
    if (!o) return NULL;
    o->end = *e;
    o->m = *m;
    o->gen = st->gen;
    return (PyObject *)o;
}

PyObject *py_message_value(struct py_state *st, struct sk_chan_end *e, struct py_read *r) {
    struct sk_view v = {.kind = r->m.kind & ~PY_HAS_REFS, .data = r->m.p, .len = (size_t)r->m.len};
    r->owner = NULL;
    if (SK_UNLIKELY(SK_KIND_IS_ERROR(v.kind))) {
        py_raise_value(st, &v);
        return NULL;
    }
    struct py_keep k = {0};
    if (v.len > SK_INLINE_MAX && !(r->owner = k.owner = message_new(st, e, &r->m))) return NULL;
    PyObject *o = py_decode(st, &v, &k);
    /* the driver has to count the references before the writer drops its own */
    if (SK_UNLIKELY(o && (r->m.kind & PY_HAS_REFS)) && be_heard(st) < 0) Py_CLEAR(o);
    return o;
}

void py_message_done(struct sk_chan_end *e, struct py_read *r) {
    if (r->owner) Py_CLEAR(r->owner);
    else sk_chan_release(e, &r->m);
}

static PyType_Slot message_slots[] = {
    {Py_tp_dealloc, message_dealloc},
    {Py_tp_doc, "A message of a channel, whose bytes are shown."},
    {0, NULL},
};
static PyType_Spec message_spec = {"skate._skate._Message", sizeof(struct message), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   message_slots};

int py_message_types(PyObject *module, struct py_state *st) {
    st->message_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &message_spec, NULL);
    return st->message_type ? 0 : -1;
}
