/* loop.c - an actor's part of a compiled graph in Python: the actions of dag/loop.c over values
 * that are Python objects, and the actor's turn.
 *
 * The loop is a thread of the actor's process beside the one that runs its calls. Around each
 * method of the graph it holds the turn, so that an actor runs one method at a time, whether the
 * graph or a call makes it. Invariant: no action leaves an exception set; an exception of user code
 * becomes an error value of its node. Cost: an execution without waiting takes 1 us around the
 * user's method. */
#include <sys/syscall.h>
#include <unistd.h>

#include "py/graph/graph.h"

#define FEW 12

struct slot { /* value of a node in the current execution; v NULL: not computed yet */
    PyObject *v;
    uint32_t error; /* kind of the error if the value is an error (v is then its bytes), else 0 */
};

struct call { /* how the value of a node is computed */
    /* A str: the name of a method of the actor. Otherwise a function of (instance, arguments ...)
     * or, with `alone`, of the arguments only. NULL: the node computes nothing in this actor. */
    PyObject *target;
    bool alone;
    PyObject *consts; /* tuple */
    /* tuple or NULL: names of the keyword arguments, which are the last constants */
    PyObject *kwnames;
    /* for each positional argument: the number i >= 0 of a node, or -1 - the index of a constant */
    int32_t *args;
    uint32_t n_args, n_kw, n_returns;
    /* part_of != NONE: the value is item `part` of the value of node part_of */
    uint32_t part_of, part;
    struct py_at at;
};
#define NONE UINT32_MAX

struct loop {
    struct py_state *st;
    uint32_t gen;
    PyObject *self;
    uint64_t graph, actor;
    uint32_t n_nodes, n_cells;
    struct slot *slots;
    struct call *calls;
    struct py_read *read; /* the message read last, for each port */
    bool *has_read;
    struct py_held *held; /* for each port: the references that its messages hold */
    struct sk_dag_loop dag;
    struct sk_dag_op *ops;
    uint32_t *port_of;
    struct sk_dag_seat *seat;
    struct sk_dag_states states;
    /* saves(instance) returns bytes; restores(instance, bytes) undoes it. NULL: the actor's state
     * is not saved. */
    PyObject *saves, *restores;
    struct sk_chan_pool pool;
    PyThreadState *parked;
};

/* ---- memory for the messages of channels ----------------------------------------------------- */

static sk_rc pool_alloc(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err) {
    struct loop *l = ctx;
    return l->st->engine->channels->alloc(l->st->engine, l->graph, len, off, cap, err);
}

static void pool_free(void *ctx, sk_off off, uint64_t cap SK_UNUSED) {
    struct loop *l = ctx;
    l->st->engine->channels->free(l->st->engine, l->graph, off);
}

/* ---- values of nodes ------------------------------------------------------------------------- */

/* Sets the value, which is taken over. */
static void slot_set(struct slot *s, PyObject *v, uint32_t error) {
    Py_XSETREF(s->v, v);
    s->error = error;
}

static void engine_error(struct slot *s, sk_rc rc, const char *msg) {
    int32_t code = rc;
    PyObject *b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(5 + strlen(msg)));
    if (b) {
        memcpy(PyBytes_AS_STRING(b), &code, 4);
        memcpy(PyBytes_AS_STRING(b) + 4, msg, strlen(msg) + 1);
    } else {
        PyErr_Clear();
        b = PyBytes_FromStringAndSize("\0\0\0\0", 5);
    }
    slot_set(s, b, SK_KIND_ENGINE_ERROR);
}

/* Makes the current exception the node's value. */
static void raised(struct loop *l, struct slot *s, const struct py_at *at) {
    PyObject *type, *value, *tb, *bytes = NULL;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb) PyException_SetTraceback(value, tb);
    if (PyErr_GivenExceptionMatches(type, PyExc_SystemExit)) py_leave_by_exit(value);
    if (l->st->hook_dumps_error)
        bytes = PyObject_CallFunction(l->st->hook_dumps_error, "ONi", value, py_text(at->name), 0);
    if (bytes && PyBytes_CheckExact(bytes) &&
        PyBytes_GET_SIZE(bytes) <= (Py_ssize_t)SK_ERROR_VALUE_MAX) {
        slot_set(s, bytes, PY_ERROR);
        bytes = NULL;
    } else {
        PY_ERR(err);
        PyErr_Clear();
        PyErr_Restore(type, value, tb);
        type = value = tb = NULL;
        sk_rc rc = py_to_err(&err, at->name);
        engine_error(s, rc, err.msg);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
}

/* ---- the actions of a loop (dag/loop.h) ------------------------------------------------------ */

static sk_rc take(void *ctx, uint32_t port, const struct sk_chan_msg *m,
                  struct sk_err *err SK_UNUSED) {
    struct loop *l = ctx;
    struct sk_dag_port *p = &l->dag.ports[port];
    struct slot *s = &l->slots[p->node];
    struct py_read *r = &l->read[port];
    *r = (struct py_read){.m = *m};
    l->has_read[port] = true;
    uint32_t kind = m->kind & ~PY_HAS_REFS;
    if (SK_UNLIKELY(SK_KIND_IS_ERROR(kind))) {
        PyObject *b = PyBytes_FromStringAndSize((const char *)m->p, (Py_ssize_t)m->len);
        if (b) slot_set(s, b, kind);
        else
            PyErr_Clear(), engine_error(s, SK_ENOMEM, "no memory for an error of a compiled graph");
        return SK_OK;
    }
    PyObject *v = py_message_value(l->st, &p->end, r);
    if (SK_LIKELY(v != NULL)) slot_set(s, v, 0);
    else raised(l, s, &(struct py_at){l->actor, "an argument", l->self, Py_None});
    return SK_OK;
}

/* Runs a coroutine, which is taken over, to its end. */
static PyObject *run_coroutine(PyObject *coro) {
    PyObject *m = PyImport_ImportModule("asyncio"),
             *r = m ? PyObject_CallMethod(m, "run", "O", coro) : NULL;
    Py_XDECREF(m);
    Py_DECREF(coro);
    return r;
}

static PyObject *call(struct loop *l, const struct call *c) {
    PyObject *few[FEW + 2], **args = few;
    uint32_t n = c->n_args + c->n_kw;
    if (n > FEW && !(args = sk_alloc(SK_TAG_PY, (n + 2) * sizeof *args))) return PyErr_NoMemory();
    args[0] = l->self;
    for (uint32_t i = 0; i < c->n_args; i++)
        args[i + 1] =
            c->args[i] < 0 ? PyTuple_GET_ITEM(c->consts, -1 - c->args[i]) : l->slots[c->args[i]].v;
    for (uint32_t i = 0; i < c->n_kw; i++)
        args[1 + c->n_args + i] =
            PyTuple_GET_ITEM(c->consts, PyTuple_GET_SIZE(c->consts) - (Py_ssize_t)(c->n_kw - i));
    PyObject *r = PyUnicode_CheckExact(c->target)
                      ? py_call_method(l->self, c->target, args, c->n_args, c->kwnames)
                  : c->alone ? PyObject_Vectorcall(c->target, args + 1, c->n_args, c->kwnames)
                             : PyObject_Vectorcall(c->target, args, c->n_args + 1, c->kwnames);
    if (args != few) sk_free(args);
    if (SK_UNLIKELY(r && PyCoro_CheckExact(r))) r = run_coroutine(r);
    if (SK_UNLIKELY(r && c->n_returns > 1)) { /* other nodes take the items of the value */
        PyObject *t = PySequence_Check(r) && !PyUnicode_Check(r) && !PyBytes_Check(r)
                          ? PySequence_Tuple(r)
                          : NULL;
        if (!t && !PyErr_Occurred())
            PyErr_Format(PyExc_ValueError,
                         "Expected %u return values, but the method %s returned one of type %s",
                         c->n_returns, c->at.name, Py_TYPE(r)->tp_name);
        if (t && PyTuple_GET_SIZE(t) != (Py_ssize_t)c->n_returns) {
            PyErr_Format(PyExc_ValueError, "Expected %u return values, got %zd instead",
                         c->n_returns, PyTuple_GET_SIZE(t));
            Py_CLEAR(t);
        }
        Py_SETREF(r, t);
    }
    return r;
}

static sk_rc compute(void *ctx, uint32_t node, struct sk_err *err SK_UNUSED) {
    struct loop *l = ctx;
    const struct call *c = &l->calls[node];
    struct slot *s = &l->slots[node];
    if (c->part_of != NONE) {
        const struct slot *of = &l->slots[c->part_of];
        slot_set(s, Py_NewRef(of->error ? of->v : PyTuple_GET_ITEM(of->v, (Py_ssize_t)c->part)),
                 of->error);
        return SK_OK;
    }
    for (uint32_t i = 0; i < c->n_args; i++) {
        const struct slot *a = c->args[i] < 0 ? NULL : &l->slots[c->args[i]];
        if (SK_UNLIKELY(a && a->error)) {
            /* a node with an argument that is an error gets the same error */
            slot_set(s, Py_NewRef(a->v), a->error);
            return SK_OK;
        }
    }
    bool turn = l->st->turn && py_turn_take(l->st);
    py_at_now = &c->at;
    PyObject *r = call(l, c);
    if (SK_LIKELY(r != NULL)) slot_set(s, r, 0);
    else raised(l, s, &c->at);
    py_at_now = NULL;
    if (turn) py_turn_let_go(l->st);
    return SK_OK;
}

static sk_rc give(void *ctx, uint32_t port, struct sk_err *err) {
    struct loop *l = ctx;
    struct sk_dag_port *p = &l->dag.ports[port];
    struct slot *s = &l->slots[p->node];
    struct py_written w;
    sk_rc rc;
    if (SK_LIKELY(!s->error)) {
        if (py_message_write(l->st, &p->end, s->v, INT64_MAX, NULL, &w, &rc) == 0) {
            py_message_publish(&p->end, &w, &l->held[port], l->n_cells);
            return SK_OK;
        }
        if (rc == SK_ECLOSED || rc == SK_EDEAD || rc == SK_ECORRUPT) {
            PyErr_Clear();
            return SK_ERR(err, rc, "write the value of node %u: %s", p->node, sk_rc_name(rc));
        }
        raised(l, s,
               l->calls[p->node].part_of == NONE ? &l->calls[p->node].at
                                                 : &l->calls[l->calls[p->node].part_of].at);
    }
    void *room = NULL;
    size_t n = (size_t)PyBytes_GET_SIZE(s->v);
    PY_DROP(l->st)
    rc = sk_chan_reserve(&p->end, n, INT64_MAX, &room, err);
    if (rc == SK_EFULL || rc == SK_ENOSPC || rc == SK_ENOMEM) {
        /* without memory for a larger buffer the first one is used: each channel has had one since
         * the graph began */
        n = SK_MIN(n, (size_t)64);
        rc = sk_chan_reserve(&p->end, n, INT64_MAX, &room, err);
        if (rc == SK_OK && s->error != SK_KIND_ENGINE_ERROR) s->error = SK_KIND_ENGINE_ERROR;
    }
    PY_TAKE(l->st)
    if (rc != SK_OK) return rc;
    memcpy(room, PyBytes_AS_STRING(s->v), n);
    sk_chan_publish(&p->end, n, s->error);
    return SK_OK;
}

static void let_go(struct loop *l) {
    for (uint32_t i = 0; i < l->n_nodes; i++)
        if (l->slots[i].v) slot_set(&l->slots[i], NULL, 0);
    for (uint32_t i = 0; i < l->dag.n_ports; i++) {
        if (!l->has_read[i]) continue;
        l->has_read[i] = false;
        py_message_done(&l->dag.ports[i].end, &l->read[i]);
    }
}

static sk_rc turn(void *ctx, struct sk_err *err) {
    struct loop *l = ctx;
    let_go(l);
    return py_open(l->st, l->gen) ? SK_OK : SK_ERR(err, SK_ECLOSED, "the engine is shut down");
}

/* ---- the actor's state, for a successor ------------------------------------------------------ */

static sk_rc put_state(struct py_state *st, struct sk_chan_end *into, PyObject *state,
                       struct sk_err *err) {
    size_t n = (size_t)PyBytes_GET_SIZE(state);
    void *room = NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = sk_chan_reserve(into, n, INT64_MAX, &room, err);
    if (rc == SK_OK) memcpy(room, PyBytes_AS_STRING(state), n);
    PY_TAKE(st)
    if (rc == SK_OK) sk_chan_publish(into, n, 0);
    return rc;
}

static sk_rc save(void *ctx, struct sk_chan_end *into, struct sk_err *err) {
    struct loop *l = ctx;
    bool turn = l->st->turn && py_turn_take(l->st);
    PyObject *b = PyObject_CallOneArg(l->saves, l->self);
    if (turn) py_turn_let_go(l->st);
    if (b && !PyBytes_CheckExact(b)) {
        PyErr_Format(PyExc_TypeError, "the state of an actor as bytes, not %s",
                     Py_TYPE(b)->tp_name);
        Py_CLEAR(b);
    }
    if (!b) return py_to_err(err, "__skate_checkpoint__()");
    sk_rc rc = put_state(l->st, into, b, err);
    Py_DECREF(b);
    return rc;
}

static sk_rc restore(void *ctx, const struct sk_chan_msg *m, struct sk_err *err) {
    struct loop *l = ctx;
    bool turn = l->st->turn && py_turn_take(l->st);
    PyObject *b = PyBytes_FromStringAndSize((const char *)m->p, (Py_ssize_t)m->len);
    PyObject *r = b ? PyObject_CallFunctionObjArgs(l->restores, l->self, b, NULL) : NULL;
    if (turn) py_turn_let_go(l->st);
    Py_XDECREF(b);
    if (!r) return py_to_err(err, "__skate_restore__()");
    Py_DECREF(r);
    return SK_OK;
}

static void wait_begin(void *ctx) { ((struct loop *)ctx)->parked = PyEval_SaveThread(); }
static void wait_end(void *ctx) { PyEval_RestoreThread(((struct loop *)ctx)->parked); }

/* ---- reading the plan that the driver sent --------------------------------------------------- */

static int bad(const char *what) {
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "the plan of a compiled graph is damaged: %s", what);
    return -1;
}

static int read_call(struct loop *l, PyObject *row) {
    unsigned node, n_returns, part_of, part;
    PyObject *target, *args, *consts, *kwnames;
    const char *name;
    if (!PyArg_ParseTuple(row, "IOsO!O!OIII", &node, &target, &name, &PyTuple_Type, &args,
                          &PyTuple_Type, &consts, &kwnames, &n_returns, &part_of, &part))
        return -1;
    if (node >= l->n_nodes || l->calls[node].target) return bad("a call");
    struct call *c = &l->calls[node];
    /* a tuple of one item stands for a function that is not a method of the actor */
    bool alone = PyTuple_Check(target) && PyTuple_GET_SIZE(target) == 1;
    if (alone) target = PyTuple_GET_ITEM(target, 0);
    *c = (struct call){.target = Py_NewRef(target),
                       .alone = alone,
                       .consts = Py_NewRef(consts),
                       .kwnames = kwnames == Py_None ? NULL : Py_NewRef(kwnames),
                       .n_args = (uint32_t)PyTuple_GET_SIZE(args),
                       .n_returns = n_returns,
                       .part_of = part_of,
                       .part = part,
                       .at = {l->actor, name, l->self, target}};
    if (c->kwnames) c->n_kw = (uint32_t)PyTuple_GET_SIZE(c->kwnames);
    c->at.name = sk_strdup(SK_TAG_PY, name);
    c->args = sk_calloc(SK_TAG_PY, (c->n_args + 1) * sizeof *c->args);
    if (!c->args || !c->at.name) return PyErr_NoMemory() ? 0 : -1;
    for (uint32_t i = 0; i < c->n_args; i++) {
        long a = PyLong_AsLong(PyTuple_GET_ITEM(args, (Py_ssize_t)i));
        if (a >= (long)l->n_nodes || a < -(long)PyTuple_GET_SIZE(consts)) return bad("an argument");
        c->args[i] = (int32_t)a;
    }
    return PyErr_Occurred() || (part_of != NONE && part_of >= l->n_nodes) ||
                   c->n_kw > PyTuple_GET_SIZE(consts)
               ? bad("a call")
               : 0;
}

static int read_op(struct loop *l, uint32_t i, PyObject *row) {
    unsigned kind, node;
    if (!PyArg_ParseTuple(row, "II", &kind, &node)) return -1;
    if (node >= l->n_nodes) return bad("an operation");
    l->ops[i] = (struct sk_dag_op){.kind = kind, .node = node};
    return 0;
}

static int read_port(struct loop *l, uint32_t i, PyObject *row) {
    unsigned node, end;
    unsigned long long off;
    uint64_t size;
    PY_ERR(err);
    if (!PyArg_ParseTuple(row, "IKI", &node, &off, &end)) return -1;
    uint8_t *base = l->st->engine->channels->memory(l->st->engine, &size);
    if (node >= l->n_nodes || off >= size) return bad("a channel");
    l->port_of[node] = i;
    l->dag.ports[i].node = node;
    sk_rc rc = sk_chan_attach(&l->dag.ports[i].end, base + off, end, base, size,
                              end == SK_CHAN_WRITER ? &l->pool : NULL, &err);
    return rc == SK_OK ? 0 : (py_raise(l->st, rc, &err), -1);
}

static int each(struct loop *l, PyObject *list,
                int (*f)(struct loop *l, uint32_t i, PyObject *row)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (f(l, (uint32_t)i, PyList_GET_ITEM(list, i)) < 0) return -1;
    return 0;
}
static int each_call(struct loop *l, uint32_t i SK_UNUSED, PyObject *row) {
    return read_call(l, row);
}

static void loop_free(struct loop *l) {
    for (uint32_t i = 0; l->calls && i < l->n_nodes; i++) {
        struct call *c = &l->calls[i];
        Py_XDECREF(c->target);
        Py_XDECREF(c->consts);
        Py_XDECREF(c->kwnames);
        sk_free(c->args);
        sk_free((void *)(uintptr_t)c->at.name);
    }
    for (uint32_t i = 0; l->held && i < l->dag.n_ports; i++) py_held_free(&l->held[i]);
    Py_XDECREF(l->self);
    sk_free(l->slots);
    sk_free(l->calls);
    sk_free(l->read);
    sk_free(l->has_read);
    sk_free(l->held);
    sk_free(l->ops);
    sk_free(l->port_of);
    sk_free(l->dag.ports);
}

static int attach_states(struct loop *l, void *mem, uint8_t *base, uint64_t size) {
    PY_ERR(err);
    sk_rc rc = sk_chan_attach(&l->states.out, mem, SK_CHAN_WRITER, base, size, &l->pool, &err);
    if (rc == SK_OK) rc = sk_chan_attach(&l->states.in, mem, 0, base, size, NULL, &err);
    l->dag.states = &l->states;
    return rc == SK_OK ? 0 : (py_raise(l->st, rc, &err), -1);
}

/* Stores the actor's state at the beginning, if this is the first of its processes in the graph. */
static int put_first_state(struct py_state *st, PyObject *plan, PyObject *state, uint8_t *base,
                           uint64_t size) {
    struct loop l = {.st = st, .gen = st->gen};
    PY_ERR(err);
    unsigned long long graph = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(plan, 0)),
                       states = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(plan, 5));
    if (PyErr_Occurred() || states >= size) return bad("a state");
    l.graph = graph;
    l.pool = (struct sk_chan_pool){&l, pool_alloc, pool_free};
    if (attach_states(&l, base + states, base, size) < 0) return -1;
    sk_rc rc = l.states.out.next ? SK_OK : put_state(st, &l.states.out, state, &err);
    return rc == SK_OK ? 0 : (py_raise(st, rc, &err), -1);
}

/* begin(...): takes the seat of the plan, before the loop's thread is started. An actor whose calls
 * run one at a time, on the main thread, has a turn from now on. */
static PyObject *m_begin(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    const struct sk_task *t = py_current_task();
    uint64_t size;
    PyObject *plan, *state;
    int retries;
    if (!PyArg_ParseTuple(args, "OiO", &plan, &retries, &state)) return NULL;
    if (!t || !t->actor.v || !st->engine->channels)
        return PyErr_Format(PyExc_RuntimeError, "graph_begin works only in a call of an actor");
    if (!PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) < 6 ||
        (state != Py_None && !PyBytes_CheckExact(state)))
        return PyErr_Format(PyExc_TypeError, "graph_begin(plan, retries, state as bytes or None)");
    unsigned long long graph = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(plan, 0));
    unsigned long long seat =
        PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(plan, 1));
    uint8_t *base = st->engine->channels->memory(st->engine, &size);
    if (PyErr_Occurred()) return NULL;
    PY_ERR(err);
    sk_rc rc = st->engine->channels->attend(st->engine, &err);
    if (rc != SK_OK) return py_raise(st, rc, &err);
    if (seat >= size ||
        !sk_dag_seat_take((struct sk_dag_seat *)(void *)(base + seat), graph, retries))
        Py_RETURN_FALSE;
    if (state != Py_None && put_first_state(st, plan, state, base, size) < 0) {
        sk_dag_seat_leave((struct sk_dag_seat *)(void *)(base + seat), SK_EACTOR,
                          "its state could not be kept");
        return NULL;
    }
    if (!st->turn && st->worker && !t->is_async && syscall(SYS_gettid) == getpid() &&
        !(st->turn = PyThread_allocate_lock()))
        return PyErr_NoMemory();
    Py_RETURN_TRUE;
}

static int loop_read(struct loop *l, PyObject *plan) {
    unsigned long long seat, actor, graph, states;
    PyObject *ops, *ports, *calls;
    uint64_t size;
    uint8_t *base = l->st->engine->channels->memory(l->st->engine, &size);
    if (!PyArg_ParseTuple(plan, "KKKIIKO!O!O!", &graph, &seat, &actor, &l->n_nodes, &l->n_cells,
                          &states, &PyList_Type, &ops, &PyList_Type, &ports, &PyList_Type, &calls))
        return -1;
    if (seat >= size || states >= size) return bad("a seat");
    l->seat = (struct sk_dag_seat *)(void *)(base + seat);
    l->graph = graph;
    l->actor = actor;
    l->pool = (struct sk_chan_pool){l, pool_alloc, pool_free};
    uint32_t n_ports = (uint32_t)PyList_GET_SIZE(ports), n_ops = (uint32_t)PyList_GET_SIZE(ops);
    l->slots = sk_calloc(SK_TAG_PY, (l->n_nodes + 1) * sizeof *l->slots);
    l->calls = sk_calloc(SK_TAG_PY, (l->n_nodes + 1) * sizeof *l->calls);
    l->port_of = sk_calloc(SK_TAG_PY, (l->n_nodes + 1) * sizeof *l->port_of);
    l->read = sk_calloc(SK_TAG_PY, (n_ports + 1) * sizeof *l->read);
    l->has_read = sk_calloc(SK_TAG_PY, (n_ports + 1) * sizeof *l->has_read);
    l->held = sk_calloc(SK_TAG_PY, (n_ports + 1) * sizeof *l->held);
    l->ops = sk_calloc(SK_TAG_PY, (n_ops + 1) * sizeof *l->ops);
    l->dag.ports = sk_calloc(SK_TAG_PY, (n_ports + 1) * sizeof *l->dag.ports);
    if (!l->slots || !l->calls || !l->port_of || !l->read || !l->has_read || !l->held || !l->ops ||
        !l->dag.ports)
        return PyErr_NoMemory() ? 0 : -1;
    l->dag.n_ports = n_ports;
    l->dag.n_ops = n_ops;
    l->dag.ops = l->ops;
    l->dag.port_of = l->port_of;
    memset(l->port_of, 0xff, l->n_nodes * sizeof *l->port_of);
    if (l->saves && attach_states(l, base + states, base, size) < 0) return -1;
    return each(l, ops, read_op) < 0 || each(l, ports, read_port) < 0 ||
                   each(l, calls, each_call) < 0
               ? -1
               : 0;
}

/* graph_run(instance, plan, saves, restores): runs the loop on a thread of its own; returns when
 * the graph has ended. */
static PyObject *m_run(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *self, *plan, *saves, *restores;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "OO!OO", &self, &PyTuple_Type, &plan, &saves, &restores))
        return NULL;
    if (!py_open(st, st->gen) || !st->engine->channels)
        return PyErr_Format(PyExc_RuntimeError, "this process has no channels");
    struct loop l = {.st = st, .gen = st->gen, .self = Py_NewRef(self)};
    if (saves != Py_None) l.saves = saves, l.restores = restores; /* the caller keeps them alive */
    static const struct sk_dag_actions actions = {.take = take,
                                                  .compute = compute,
                                                  .give = give,
                                                  .turn = turn,
                                                  .save = save,
                                                  .restore = restore,
                                                  .wait_begin = wait_begin,
                                                  .wait_end = wait_end};
    struct sk_dag_actions a = actions;
    a.ctx = &l;
    sk_rc rc = loop_read(&l, plan) < 0 ? py_to_err(&err, "the loop of a compiled graph") : SK_OK;
    if (rc == SK_OK) rc = sk_dag_run(&l.dag, &a, &err);
    /* messages whose bytes no array shows go back to the graph (see sk_chan_shown) */
    for (uint32_t i = 0; l.has_read && i < l.dag.n_ports; i++)
        if (l.has_read[i]) sk_chan_pass(&l.dag.ports[i].end);
    /* closing the channels ends the loops of the other actors, in case the graph ends because this
     * loop failed */
    for (uint32_t i = 0; i < l.dag.n_ports; i++)
        if (l.dag.ports[i].end.shm) sk_chan_close(l.dag.ports[i].end.shm);
    if (l.slots && l.has_read) let_go(&l);
    loop_free(&l);
    if (l.seat) sk_dag_seat_leave(l.seat, rc, err.msg);
    Py_RETURN_NONE;
}

PyMethodDef py_loop_methods[] = {
    {"graph_begin", m_begin, METH_VARARGS,
     "graph_begin(plan, retries, state), in a call of an actor: takes its seat; state: what it "
     "begins with, bytes or None. False: the "
     "graph has ended, or somebody sits there."},
    {"graph_run", m_run, METH_VARARGS,
     "graph_run(instance, plan, saves, restores): an actor's part of a compiled graph, until it "
     "ends."},
    {NULL, NULL, 0, NULL},
};
