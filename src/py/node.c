/* node.c - the nodes of a cluster: the engine of this process as one (engine/cluster/node.h;
 * skate/engine/node.py is the program), and nodes that join and leave the engine of this driver
 * (engine/cluster/nodes.h). */
#include "base/clock.h"
#include "engine/cluster/node.h"
#include "engine/cluster/nodes.h"
#include "py/core/core.h"
#include "py/node.h"

struct given_node { /* the fields of the dict; borrowed */
    const char *listen, *carrier, *name;
    struct sk_bytes secret, node_labels;
    uint64_t job, store, id_base;
    PyObject *labels;
};

#define F(...) PY_FIELD(struct given_node, __VA_ARGS__)
static const struct py_field field[] = {
    F("listen", TEXT, listen),
    F("name", TEXT, name),
    F("job_secret", BYTES, secret),
    F("job_number", U64, job),
    F("object_store_memory", U64, store),
    F("id_base", U64, id_base),
    F("print_labels", OBJECT, labels),
    F("node_labels", BYTES, node_labels),
    F("carrier", TEXT, carrier),
};
static const struct py_fields fields = {"node_open", SK_COUNT(field), 4, field};

static PyObject *m_node_open(PyObject *module, PyObject *dict) {
    struct py_state *st = PyModule_GetState(module);
    struct given_node g;
    uint16_t port;
    PY_ERR(err);
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "node_open takes a dict");
    if (!st->engine || !st->driver || st->node)
        return PyErr_Format(PyExc_RuntimeError, st->node
                                                    ? "this process is a node already"
                                                    : "a node needs an engine of this process");
    if (py_fields_pick(&fields, dict, &g) < 0) return NULL;
    struct sk_node_conf c = {.engine = st->engine,
                             .job = g.job,
                             .secret = g.secret,
                             .listen_on = g.listen,
                             .carrier = g.carrier && *g.carrier ? g.carrier : NULL,
                             .name = g.name,
                             .prints = st->prints,
                             .labels = !g.labels || PyObject_IsTrue(g.labels),
                             .store_bytes = g.store,
                             .node_labels = g.node_labels,
                             .id_base = g.id_base};
    sk_rc rc = sk_node_open(&c, &st->node, &port, &err);
    return rc == SK_OK ? PyLong_FromLong(port) : py_raise(st, rc, &err);
}

static PyObject *m_node_prints(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (st->node) sk_node_prints(st->node);
    Py_RETURN_NONE;
}

static PyObject *m_node_wait(PyObject *module, PyObject *seconds) {
    struct py_state *st = PyModule_GetState(module);
    PY_ERR(err);
    double s = PyFloat_AsDouble(seconds);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    if (!st->node) return PyErr_Format(PyExc_RuntimeError, "this process is no node");
    int64_t until = sk_deadline_ns((int64_t)(SK_MIN(SK_MAX(s, 0.0), 1e9) * SK_SEC));
    sk_rc rc;
    Py_BEGIN_ALLOW_THREADS rc = sk_node_wait(st->node, until, &err);
    Py_END_ALLOW_THREADS if (rc == SK_EAGAIN) Py_RETURN_NONE;
    return PyUnicode_FromString(rc == SK_OK ? "" : err.msg);
}

/* Threads of a launcher call these, maybe after the end of the engine: none is opened for them. */
static bool has_nodes(struct py_state *st) {
    if (st->engine && !st->closing) return py_has(st, st->engine->nodes, "nodes that come and go");
    py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "skate is shut down in this process"});
    return false;
}

static PyObject *m_node_join(PyObject *module, PyObject *address) {
    struct py_state *st = PyModule_GetState(module);
    const char *at = PyUnicode_Check(address) ? PyUnicode_AsUTF8(address) : NULL;
    uint32_t number = 0;
    PY_ERR(err);
    if (!at)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "node_join takes \"host:port\"");
    if (!has_nodes(st)) return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->nodes->join(st->engine, at, &number, &err);
    PY_TAKE(st)
    return rc == SK_OK ? PyLong_FromUnsignedLong(number) : py_raise(st, rc, &err);
}

static PyObject *m_node_drain(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned int number;
    double seconds;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "Id", &number, &seconds) || !has_nodes(st)) return NULL;
    int64_t until = sk_deadline_ns((int64_t)(SK_MIN(SK_MAX(seconds, 0.0), 1e9) * SK_SEC));
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->nodes->drain(st->engine, number, until, &err);
    PY_TAKE(st)
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_node_give_up(PyObject *module, PyObject *text) {
    struct py_state *st = PyModule_GetState(module);
    const char *why = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    PY_ERR(err);
    if (!why)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "node_give_up takes a text");
    if (!has_nodes(st)) return NULL;
    sk_rc rc = st->engine->nodes->give_up(st->engine, why, &err);
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

void py_node_close(struct py_state *st) {
    struct sk_cluster_node *n = st->node;
    st->node = NULL;
    if (!n) return;
    Py_BEGIN_ALLOW_THREADS sk_node_close(n);
    Py_END_ALLOW_THREADS
}

PyMethodDef py_node_methods[] = {
    {"node_open", m_node_open, METH_O,
     "Lets the engine of this process serve the driver of a job; the port where it listens."},
    {"node_prints", m_node_prints, METH_NOARGS,
     "Has what workers have printed sent to the driver; until then it is not shown here."},
    {"node_wait", m_node_wait, METH_O,
     "Waits until the driver has ended: '', or what happened to it; None: it has not yet."},
    {"node_join", m_node_join, METH_O,
     "node_join(address): one more node serves the engine of this driver; its number."},
    {"node_drain", m_node_drain, METH_VARARGS,
     "node_drain(number, seconds): the node gets no new task, and goes when it is empty."},
    {"node_give_up", m_node_give_up, METH_O,
     "node_give_up(why): from now on all calls of the engine fail for this reason."},
    {NULL, NULL, 0, NULL},
};
