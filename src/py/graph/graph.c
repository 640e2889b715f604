/* graph.c - Graph: a compiled graph in the process that compiled it, the driver or an actor: its
 * memory, the plans of its actors, inputs and outputs, its end.
 *
 * dag/graph.h has the shared part. The engine frees the graph's memory when the graph is closed and
 * no reader is left, and reports the deaths of actors to the graph. Not thread-safe: at most one
 * thread writes inputs and one reads outputs. Cost: see bench/py/graphs.py. */
#include "base/atomic.h"
#include "base/clock.h"
#include "dag/graph.h"
#include "ipc/ipc.h"
#include "py/graph/graph.h"

/* how often, in ns, the other outputs are checked while the caller waits for one output */
#define OTHERS_NS 10000000
/* size in bytes of the first buffer of each channel, enough for a short error */
#define FIRST_BUFFER 64u

struct port {
    struct sk_chan_end end;
    uint32_t node;
};

struct graph { /* the Python object */
    PyObject_HEAD uint32_t gen;
    uint64_t id;              /* id of the graph; 0: it was never opened */
    struct sk_dag_head *head; /* NULL: not made yet */
    uint64_t head_off;
    struct sk_chan_pool pool;
    struct sk_dag_plan plan;
    struct port *in, *out;
    uint32_t n_in, n_out, n_actors, n_nodes, n_cells;
    uint64_t *aids;
    uint32_t *n_lost; /* [actors]: number of deaths of each actor that were reported */
    struct py_held *held;
    struct py_written *written;
    bool reading;
};
static struct graph *graph_of(PyObject *o) { return (struct graph *)(void *)o; }
static struct py_state *state_of(const struct graph *o) {
    return py_state_of(Py_TYPE((PyObject *)(uintptr_t)o));
}
static bool is_open(const struct graph *o) { return o->head && py_open(state_of(o), o->gen); }

static sk_rc pool_alloc(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err) {
    struct graph *o = ctx;
    struct sk_engine *e = state_of(o)->engine;
    return e->channels->alloc(e, o->id, len, off, cap, err);
}
static void pool_free(void *ctx, sk_off off, uint64_t cap SK_UNUSED) {
    struct graph *o = ctx;
    struct sk_engine *e = state_of(o)->engine;
    e->channels->free(e, o->id, off);
}

/* ---- compiling: memory and channels of a graph ----------------------------------------------- */

struct given {
    PyObject *actors, *nodes, *edges, *outputs;
    uint32_t n_cells, n_bufs;
    bool overlap;
};
#define F(...) PY_FIELD(struct given, __VA_ARGS__)
static const struct py_field given_field[] = {
    F("actors", OBJECT, actors, .of = &PyList_Type),
    F("nodes", OBJECT, nodes, .of = &PyList_Type),
    F("edges", OBJECT, edges, .of = &PyList_Type),
    F("outputs", OBJECT, outputs, .of = &PyList_Type),
    F("cells", U32, n_cells),
    F("buffers", U32, n_bufs),
    F("overlap", BOOL, overlap),
};
#undef F
static const struct py_fields given_fields = {"Graph", SK_COUNT(given_field), 6, given_field};

static uint32_t *numbers_of(PyObject *list) {
    uint32_t n = (uint32_t)PyList_GET_SIZE(list), *out = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *out);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = (uint32_t)PyLong_AsUnsignedLong(PyList_GET_ITEM(list, (Py_ssize_t)i));
    if (!out) PyErr_NoMemory();
    if (!PyErr_Occurred()) return out;
    sk_free(out);
    return NULL;
}

/* Gives each channel its first buffer. */
static sk_rc first_buffers(struct graph *o, uint8_t *base, uint64_t size, struct sk_err *err) {
    for (uint32_t n = 0; n < o->n_nodes; n++) {
        struct sk_chan_end w;
        void *room, *c = sk_dag_channel(o->head, n);
        if (!c) continue;
        SK_TRY(sk_chan_attach(&w, c, SK_CHAN_WRITER, base, size, &o->pool, err));
        SK_TRY(sk_chan_reserve(&w, FIRST_BUFFER, INT64_MAX, &room, err));
    }
    return SK_OK;
}

static sk_rc make(struct graph *o, struct sk_engine *e, struct sk_dag_shape *shape,
                  struct sk_err *err) {
    /* called without the GIL */
    uint64_t size, cap, bytes = sk_dag_bytes(shape, err);
    uint8_t *base = e->channels->memory(e, &size);
    sk_off off;
    if (!bytes) return SK_EINVAL;
    SK_TRY(e->channels->open(e, &o->id, err));
    shape->id = o->id;
    SK_TRY(pool_alloc(o, bytes, &off, &cap, err));
    SK_TRY(sk_dag_create(base + off, shape, err));
    o->head_off = off;
    o->head = (struct sk_dag_head *)(void *)(base + off);
    return first_buffers(o, base, size, err);
}

static sk_rc attach_mine(struct graph *o, const uint32_t *actor, PyObject *outputs,
                         struct sk_err *err) {
    struct sk_engine *e = state_of(o)->engine;
    uint64_t size;
    uint8_t *base = e->channels->memory(e, &size);
    for (uint32_t n = 0; n < o->n_nodes; n++) {
        void *c = sk_dag_channel(o->head, n);
        if (actor[n] != o->n_actors || !c) continue;
        o->in[o->n_in].node = n;
        SK_TRY(sk_chan_attach(&o->in[o->n_in++].end, c, SK_CHAN_WRITER, base, size, &o->pool, err));
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); i++) {
        uint32_t n = (uint32_t)PyLong_AsUnsignedLong(PyList_GET_ITEM(outputs, i));
        uint32_t r = n < o->n_nodes ? sk_dag_reader(o->head, n, o->n_actors + 1) : SK_DAG_NONE;
        if (r == SK_DAG_NONE)
            return SK_ERR(err, SK_EINVAL, "node %u of a compiled graph is no output", n);
        o->out[o->n_out].node = n;
        SK_TRY(sk_chan_attach(&o->out[o->n_out].end, sk_dag_channel(o->head, n), r, base, size,
                              NULL, err));
        /* messages that were written before an actor died can still be read */
        o->out[o->n_out++].end.drains = true;
    }
    return SK_OK;
}

static sk_rc build(struct py_state *st, struct graph *o, const struct given *k,
                   struct sk_err *err) {
    uint32_t n_edges = (uint32_t)PyList_GET_SIZE(k->edges), *actor = numbers_of(k->nodes);
    struct sk_dag_edge *edges = sk_calloc(SK_TAG_PY, (n_edges + 1) * sizeof *edges);
    sk_rc rc =
        edges && actor ? SK_OK : SK_ERR(err, SK_ENOMEM, "compile a graph of %u nodes", o->n_nodes);
    for (uint32_t i = 0; rc == SK_OK && i < n_edges; i++) {
        unsigned from, to;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(k->edges, (Py_ssize_t)i), "II", &from, &to))
            rc = py_to_err(err, "an edge of a graph");
        else edges[i] = (struct sk_dag_edge){.from = from, .to = to};
    }
    struct sk_dag_graph d = {.n_nodes = o->n_nodes,
                             .n_actors = o->n_actors + 2,
                             .n_edges = n_edges,
                             .actor = actor,
                             .edges = edges,
                             .overlap = k->overlap};
    struct sk_dag_shape shape = {.n_actors = o->n_actors,
                                 .n_nodes = o->n_nodes,
                                 .n_edges = n_edges,
                                 .actor = actor,
                                 .edges = edges,
                                 .ids = o->aids,
                                 .n_cells = k->n_cells,
                                 .n_bufs = k->n_bufs};
    if (rc == SK_OK) rc = sk_dag_schedule(&o->plan, &d, err);
    if (rc == SK_OK) {
        PY_DROP(st)
        rc = make(o, st->engine, &shape, err);
        PY_TAKE(st)
    }
    if (rc == SK_OK) rc = attach_mine(o, actor, k->outputs, err);
    sk_free(edges);
    sk_free(actor);
    return rc;
}

static void graph_dealloc(PyObject *self) {
    struct graph *o = graph_of(self);
    PyTypeObject *type = Py_TYPE(self);
    struct py_state *st = py_state_of(type);
    for (uint32_t i = 0; o->held && i < o->n_in; i++) py_held_free(&o->held[i]);
    if (o->id && st && py_open(st, o->gen)) {
        if (o->head) sk_dag_close(o->head);
        st->engine->channels->close(st->engine, o->id);
    }
    sk_dag_plan_deinit(&o->plan);
    sk_free(o->aids);
    sk_free(o->n_lost);
    sk_free(o->in);
    sk_free(o->out);
    sk_free(o->held);
    sk_free(o->written);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    struct py_state *st = py_state_of(type);
    struct given k = {0};
    PY_ERR(err);
    if (py_fields_read(&given_fields, args, kw, &k) < 0 || py_ensure(st) < 0 ||
        !py_has(st, st->engine->channels, "compiled graphs over channels"))
        return NULL;
    struct graph *o = graph_of(type->tp_alloc(type, 0));
    if (!o) return NULL;
    o->gen = st->gen;
    o->pool = (struct sk_chan_pool){o, pool_alloc, pool_free};
    o->n_actors = (uint32_t)PyList_GET_SIZE(k.actors);
    o->n_nodes = (uint32_t)PyList_GET_SIZE(k.nodes);
    o->n_cells = k.n_cells;
    o->aids = sk_calloc(SK_TAG_PY, (o->n_actors + 1) * sizeof *o->aids);
    o->n_lost = sk_calloc(SK_TAG_PY, (o->n_actors + 1) * sizeof *o->n_lost);
    o->in = sk_calloc(SK_TAG_PY, (o->n_nodes + 1) * sizeof *o->in);
    o->out = sk_calloc(SK_TAG_PY, (o->n_nodes + 1) * sizeof *o->out);
    o->held = sk_calloc(SK_TAG_PY, (o->n_nodes + 1) * sizeof *o->held);
    o->written = sk_calloc(SK_TAG_PY, (o->n_nodes + 1) * sizeof *o->written);
    if (!o->aids || !o->n_lost || !o->in || !o->out || !o->held || !o->written) PyErr_NoMemory();
    for (uint32_t i = 0; !PyErr_Occurred() && i < o->n_actors; i++) {
        PyObject *t = PyList_GET_ITEM(k.actors, (Py_ssize_t)i);
        if (Py_TYPE(t) != st->token_type)
            PyErr_SetString(PyExc_TypeError, "Graph: actors are tokens");
        else if (py_token_alive(st, t)) o->aids[i] = py_token_actor(t).v;
    }
    if (!PyErr_Occurred()) {
        sk_rc rc = build(st, o, &k, &err);
        if (rc != SK_OK && !PyErr_Occurred()) py_raise(st, rc, &err);
    }
    if (!PyErr_Occurred()) return (PyObject *)o;
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    Py_DECREF(o);
    PyErr_Restore(t, v, tb);
    return NULL;
}

/* plan(index): what the loop of an actor gets: (graph, seat, actor, nodes, cells, states, [(kind,
 * node)], [(node, channel, end)]). */
static PyObject *graph_plan(PyObject *self, PyObject *index) {
    struct graph *o = graph_of(self);
    unsigned long a = PyLong_AsUnsignedLong(index);
    if (PyErr_Occurred()) return NULL;
    if (a >= o->n_actors || !is_open(o))
        return PyErr_Format(PyExc_IndexError, "a graph of %u actors has no actor %lu",
                            (unsigned)o->n_actors, a);
    const uint8_t *base = (const uint8_t *)o->head - o->head_off;
    PyObject *ops = PyList_New(0), *ports = PyList_New(0), *row = NULL;
    bool fine = ops && ports;
    for (uint32_t i = o->plan.first[a]; fine && i < o->plan.first[a + 1]; i++) {
        const struct sk_dag_op *op = &o->plan.ops[i];
        row = Py_BuildValue("(II)", (unsigned)op->kind, (unsigned)op->node);
        fine = row && PyList_Append(ops, row) == 0;
        Py_XDECREF(row);
        if (!fine || op->kind == SK_DAG_COMPUTE) continue;
        uint32_t end = op->kind == SK_DAG_WRITE ? SK_CHAN_WRITER
                                                : sk_dag_reader(o->head, op->node, (uint32_t)a);
        row =
            Py_BuildValue("(IKI)", (unsigned)op->node,
                          (unsigned long long)((uint8_t *)sk_dag_channel(o->head, op->node) - base),
                          (unsigned)end);
        fine = row && PyList_Append(ports, row) == 0;
        Py_XDECREF(row);
    }
    if (fine)
        return Py_BuildValue(
            "(KKKIIKNN)", (unsigned long long)o->id,
            (unsigned long long)((uint8_t *)sk_dag_seat(o->head, (uint32_t)a) - base),
            (unsigned long long)o->aids[a], (unsigned)o->n_nodes, (unsigned)o->n_cells,
            (unsigned long long)((uint8_t *)sk_dag_states(o->head, (uint32_t)a) - base), ops,
            ports);
    Py_XDECREF(ops);
    Py_XDECREF(ports);
    return NULL;
}

/* ---- writing inputs and reading outputs ------------------------------------------------------ */

/* Called without the GIL: true if the engine closes or a signal handler raises. */
static bool stop_waiting(struct py_state *st) {
    PyGILState_STATE s = PyGILState_Ensure();
    bool stop = st->closing || PyErr_CheckSignals() < 0;
    PyGILState_Release(s);
    return stop;
}

static PyObject *not_done(struct py_state *st, sk_rc rc, const struct sk_err *err) {
    if (PyErr_Occurred() && rc == SK_ECANCEL) return NULL;
    PyErr_Clear();
    if (rc == SK_ETIMEOUT) py_raise_class(st, "RayChannelTimeoutError", err->msg);
    else if (rc == SK_ECLOSED || rc == SK_EDEAD)
        py_raise_class(st, "RayChannelError", "Channel closed.");
    else py_raise(st, rc, err);
    return NULL;
}

/* Reads a timeout in seconds; negative: no deadline. */
static bool deadline_from(PyObject *o, int64_t *out) {
    double s = PyFloat_AsDouble(o);
    if (s == -1 && PyErr_Occurred()) return false;
    *out = py_deadline(s, sk_now_ns());
    return true;
}

static bool alive(struct py_state *st, const struct graph *o) {
    if (is_open(o)) return true;
    py_raise_class(st, "RayChannelError", "Channel closed.");
    return false;
}

static PyObject *graph_write(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct graph *o = graph_of(self);
    struct py_state *st = py_state_of(Py_TYPE(self));
    int64_t deadline;
    sk_rc rc = SK_OK;
    if (n != 2 || !PyTuple_Check(args[0]) || (uint32_t)PyTuple_GET_SIZE(args[0]) != o->n_in)
        return PyErr_Format(PyExc_TypeError, "write(a tuple of %u values, seconds)",
                            (unsigned)o->n_in);
    if (!deadline_from(args[1], &deadline) || !alive(st, o)) return NULL;
    for (uint32_t i = 0; i < o->n_in; i++) {
        /* all inputs are written before the first is published, so that an execution begins with
         * all its inputs or not at all */
        if (py_message_write(st, &o->in[i].end, PyTuple_GET_ITEM(args[0], (Py_ssize_t)i), deadline,
                             stop_waiting, &o->written[i], &rc) == 0)
            continue;
        while (i-- > 0) Py_CLEAR(o->written[i].refs);
        if (rc == SK_ETIMEOUT || rc == SK_ECLOSED || rc == SK_EDEAD) {
            PyErr_Clear();
            return not_done(
                st, rc,
                &(struct sk_err){
                    .msg =
                        "no room for another execution in time: an actor of the graph is behind"});
        }
        return NULL;
    }
    for (uint32_t i = 0; i < o->n_in; i++)
        py_message_publish(&o->in[i].end, &o->written[i], &o->held[i], o->n_cells);
    Py_RETURN_NONE;
}

/* Returns (number of the output, value or exception, whether it is an exception) for a message that
 * was read. */
static PyObject *noted(struct py_state *st, struct port *p, uint32_t output,
                       const struct sk_chan_msg *m) {
    struct py_read r = {.m = *m};
    PyObject *v = py_message_value(st, &p->end, &r);
    bool failed = !v;
    if (failed) {
        PyObject *type, *tb;
        PyErr_Fetch(&type, &v, &tb);
        PyErr_NormalizeException(&type, &v, &tb);
        if (tb) PyException_SetTraceback(v, tb);
        Py_XDECREF(type);
        Py_XDECREF(tb);
    }
    sk_chan_pass(&p->end);
    py_message_done(&p->end, &r);
    return Py_BuildValue("(INO)", (unsigned)output, v, failed ? Py_True : Py_False);
}

/* Returns the number of the first execution of which an output has not been read; each output has
 * one message for each execution. */
static uint64_t first_unread(const struct graph *o) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < o->n_out; i++) least = SK_MIN(least, o->out[i].end.next);
    return least;
}

/* Checks the unread outputs of the first execution with any, then waits for a message of one: of
 * `wanted` if that is unread, else of the first. *at: the output whose message was read. *slice:
 * how long, in ns, the caller may wait before it checks the other outputs again. */
static sk_rc read_any(struct graph *o, uint32_t wanted, uint32_t *at, struct sk_chan_msg *m,
                      int64_t *slice) {
    uint64_t execution = first_unread(o);
    uint32_t missing = 0;
    *at = o->n_out;
    for (uint32_t i = 0; i < o->n_out; i++) {
        if (o->out[i].end.next != execution) continue;
        sk_rc rc = sk_chan_read(&o->out[i].end, 0, m, NULL);
        if (rc != SK_ETIMEOUT) {
            *at = i;
            return rc;
        }
        missing++;
        if (i == wanted || *at == o->n_out) *at = i;
    }
    /* the first unread execution has at least one unread output */
    SK_ASSERT(*at < o->n_out);
    *slice = missing > 1 ? OTHERS_NS : PY_SLICE_NS;
    return SK_ETIMEOUT;
}

/* read(...): the next message of the first unread execution, from any output, so that the failure
 * of one output is seen while others are missing. */
static PyObject *graph_read(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct graph *o = graph_of(self);
    struct py_state *st = py_state_of(Py_TYPE(self));
    int64_t deadline, slice;
    PY_ERR(err);
    if (n != 2) return PyErr_Format(PyExc_TypeError, "read(seconds, output)");
    unsigned long wanted = PyLong_AsUnsignedLong(args[1]);
    if (PyErr_Occurred() || !deadline_from(args[0], &deadline) || !alive(st, o)) return NULL;
    if (o->reading)
        return PyErr_Format(PyExc_RuntimeError, "another thread waits for a result of this graph");
    for (;;) {
        struct sk_chan_msg m;
        uint32_t at;
        sk_rc rc = read_any(o, (uint32_t)wanted, &at, &m, &slice);
        int64_t now = rc == SK_ETIMEOUT ? sk_now_ns() : 0;
        if (rc == SK_ETIMEOUT && now < deadline) {
            o->reading = true;
            PY_DROP(st)
            rc = sk_chan_read(&o->out[at].end, SK_MIN(deadline, now + slice), &m, &err);
            PY_TAKE(st)
            o->reading = false;
            if (rc == SK_ETIMEOUT) {
                if (PyErr_CheckSignals() < 0 || !alive(st, o)) return NULL;
                continue;
            }
        }
        return rc == SK_OK ? noted(st, &o->out[at], at, &m) : not_done(st, rc, &err);
    }
}

/* ready(): whether a message of the first unread execution exists. */
static PyObject *graph_ready(PyObject *self, PyObject *unused SK_UNUSED) {
    const struct graph *o = graph_of(self);
    uint64_t execution = first_unread(o);
    for (uint32_t i = 0; i < o->n_out && is_open(o); i++)
        if (o->out[i].end.next == execution && sk_chan_written(o->out[i].end.shm) > execution)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* ---- deaths of actors, and the end of the graph ---------------------------------------------- */

static PyObject *graph_close(PyObject *self, PyObject *unused SK_UNUSED) {
    struct graph *o = graph_of(self);
    if (is_open(o)) sk_dag_close(o->head);
    Py_RETURN_NONE;
}

/* fail(...): records that an actor gets no new process. */
static PyObject *graph_fail(PyObject *self, PyObject *args) {
    struct graph *o = graph_of(self);
    unsigned a;
    const char *why;
    if (!PyArg_ParseTuple(args, "Is", &a, &why)) return NULL;
    if (a >= o->n_actors || !is_open(o)) Py_RETURN_NONE;
    sk_dag_seat_leave(sk_dag_seat(o->head, a), SK_EACTOR, why);
    sk_dag_close(o->head);
    Py_RETURN_NONE;
}

/* Returns the actors that have lost a process since the last call and whose next process may
 * begin. */
static PyObject *look_for_lost(struct graph *o) {
    PyObject *out = PyList_New(0);
    for (uint32_t i = 0; out && i < o->n_actors; i++) {
        uint32_t n = sk_load_acq(&sk_dag_seat(o->head, i)->n_lost);
        if (n == o->n_lost[i]) continue;
        o->n_lost[i] = n;
        PyObject *index = PyLong_FromUnsignedLong(i);
        if (!index || PyList_Append(out, index) < 0) Py_CLEAR(out);
        Py_XDECREF(index);
    }
    return out;
}

/* lost(seconds): waits until look_for_lost() finds an actor; None: the graph is closed. */
static PyObject *graph_lost(PyObject *self, PyObject *seconds) {
    struct graph *o = graph_of(self);
    struct py_state *st = py_state_of(Py_TYPE(self));
    int64_t deadline, now;
    if (!deadline_from(seconds, &deadline)) return NULL;
    while (is_open(o)) {
        _Atomic uint32_t *changes = sk_dag_changes(o->head);
        uint32_t seen = sk_load_seq(changes);
        if (sk_dag_closed(o->head)) break;
        PyObject *lost = look_for_lost(o);
        if (!lost || PyList_GET_SIZE(lost) || (now = sk_now_ns()) >= deadline) return lost;
        Py_DECREF(lost);
        PY_DROP(st)
        /* after any result of the wait, the loop checks again */
        SK_IGNORE(sk_futex_wait(changes, seen, SK_MIN(deadline, now + PY_SLICE_NS)));
        PY_TAKE(st)
    }
    Py_RETURN_NONE;
}

static PyObject *graph_join(PyObject *self, PyObject *seconds) {
    struct graph *o = graph_of(self);
    struct py_state *st = py_state_of(Py_TYPE(self));
    int64_t deadline;
    if (!deadline_from(seconds, &deadline)) return NULL;
    for (uint32_t i = 0; i < o->n_actors; i++) {
        sk_rc rc = SK_ETIMEOUT;
        while (rc == SK_ETIMEOUT && is_open(o)) {
            int64_t now = sk_now_ns();
            PY_DROP(st)
            rc = sk_dag_seat_wait(sk_dag_seat(o->head, i), SK_MIN(deadline, now + PY_SLICE_NS));
            PY_TAKE(st)
            if (PyErr_CheckSignals() < 0) return NULL;
            if (rc == SK_ETIMEOUT && sk_now_ns() >= deadline) Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

static PyObject *graph_dead(PyObject *self, void *unused SK_UNUSED) {
    const struct graph *o = graph_of(self);
    const char *how;
    uint32_t who = is_open(o) ? sk_dag_dead(o->head, &how) : SK_DAG_NONE;
    if (who >= o->n_actors) Py_RETURN_NONE;
    return Py_BuildValue("(Is)", (unsigned)who, how);
}

static PyObject *graph_broke(PyObject *self, void *unused SK_UNUSED) {
    const struct graph *o = graph_of(self);
    for (uint32_t i = 0; i < o->n_actors && is_open(o); i++) {
        const struct sk_dag_seat *s = sk_dag_seat(o->head, i);
        if (sk_dag_seat_state(s) == SK_SEAT_LEFT && s->rc && s->rc != SK_ECLOSED &&
            s->rc != SK_EDEAD)
            return Py_BuildValue("(IiN)", (unsigned)i, (int)s->rc, py_text(s->why));
    }
    Py_RETURN_NONE;
}

static PyObject *graph_living(PyObject *type, PyObject *unused SK_UNUSED) {
    const struct py_state *st = py_state_of((PyTypeObject *)type);
    return PyLong_FromUnsignedLong(
        st->engine && st->engine->channels ? st->engine->channels->living(st->engine) : 0);
}

/* results(class): sets the class of graph results. As arguments of calls they become objects: see
 * py_result_object. */
static PyObject *graph_results(PyObject *type, PyObject *of) {
    struct py_state *st = py_state_of((PyTypeObject *)type);
    if (!PyType_Check(of)) return PyErr_Format(PyExc_TypeError, "results(class)");
    Py_XSETREF(st->result_type, (PyTypeObject *)Py_NewRef(of));
    Py_RETURN_NONE;
}

static PyObject *graph_possible(PyObject *type, PyObject *unused SK_UNUSED) {
    struct py_state *st = py_state_of((PyTypeObject *)type);
    if (py_ensure(st) < 0) return NULL;
    return PyBool_FromLong(st->engine->channels != NULL);
}

static PyMethodDef graph_methods[] = {
    {"plan", graph_plan, METH_O, "plan(index): what an actor has to do, for graph_run."},
    {"write", (PyCFunction)(void (*)(void))graph_write, METH_FASTCALL,
     "write(values, seconds): begins an execution."},
    {"read", (PyCFunction)(void (*)(void))graph_read, METH_FASTCALL,
     "read(seconds, output): (output, its value or exception, whether it failed), the next of the "
     "execution that is read; waits for that "
     "output first."},
    {"ready", graph_ready, METH_NOARGS, "read() need not wait."},
    {"close", graph_close, METH_NOARGS, "Every wait in it ends."},
    {"fail", graph_fail, METH_VARARGS,
     "fail(index, why): that actor cannot go on: every wait ends, and is told so."},
    {"lost", graph_lost, METH_O,
     "lost(seconds): actors whose process died and whose next one may begin; None: the graph is "
     "closed."},
    {"join", graph_join, METH_O, "join(seconds): whether no loop runs in it any more."},
    {"results", graph_results, METH_O | METH_CLASS,
     "results(class): what executions give, which can be passed on."},
    {"possible", graph_possible, METH_NOARGS | METH_CLASS,
     "The engine of this process has channels."},
    {"living", graph_living, METH_NOARGS | METH_CLASS,
     "How many graphs of this engine have memory: for tests, in the driver."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef graph_getset[] = {
    {"dead", graph_dead, NULL, "(index of the actor that died, how), or None.", NULL},
    {"broke", graph_broke, NULL, "(index of the actor whose loop failed, code, why), or None.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot graph_slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_getset},
    {Py_tp_doc, "A compiled graph: its channels, in the driver."},
    {0, NULL},
};
static PyType_Spec graph_spec = {"skate._skate.Graph", sizeof(struct graph), 0, Py_TPFLAGS_DEFAULT,
                                 graph_slots};

int py_graph_types(PyObject *module, struct py_state *st) {
    if (py_message_types(module, st) < 0) return -1;
    st->graph_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &graph_spec, NULL);
    return st->graph_type ? PyModule_AddType(module, st->graph_type) : -1;
}
