/* partial_aggregates.c - _skate.group_states: the partial aggregates that a map makes of its
 * rows (shuffle/work.h: sk_states). */
#include "py/data/data.h"

struct partial_aggregates {
    PyObject_HEAD struct sk_what *what;
    struct sk_states *states;
    PyObject *first; /* the capsules of the batch that gave the schema */
    bool busy;
};

static struct partial_aggregates *partials_of(PyObject *o) {
    return (struct partial_aggregates *)(void *)o;
}

static void partials_dealloc(PyObject *o) {
    struct partial_aggregates *s = partials_of(o);
    PyTypeObject *type = Py_TYPE(o);
    sk_states_destroy(s->states);
    sk_what_destroy(s->what);
    Py_XDECREF(s->first);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *m_group_states(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    const char *p;
    Py_ssize_t n;
    PyObject *batch;
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#O:group_states", &p, &n, &batch) || py_ensure(st) < 0)
        return NULL;
    PyObject *o = st->partial_aggregates_type->tp_alloc(st->partial_aggregates_type, 0);
    if (!o) return NULL;
    struct partial_aggregates *s = partials_of(o);
    sk_rc rc = sk_what_read((struct sk_bytes){p, (size_t)n}, &s->what, &err);
    if (rc == SK_OK && !(s->first = py_batch_structs(st, batch, &schema, &array))) {
        Py_DECREF(o);
        return NULL;
    }
    if (rc == SK_OK) rc = sk_states_create(s->what, schema, &s->states, &err);
    if (rc == SK_OK) return o;
    Py_DECREF(o);
    return py_raise(st, rc, &err);
}

/* Has `does` read a batch, without the GIL. -1 with an exception: it failed. */
static int read_batch(PyObject *o, PyObject *batch,
                      sk_rc (*does)(struct sk_states *s, const struct ArrowSchema *schema,
                                    const struct ArrowArray *array, bool *worth,
                                    struct sk_err *err),
                      bool *worth) {
    struct partial_aggregates *s = partials_of(o);
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    sk_rc rc;
    PY_ERR(err);
    if (s->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread is in these states");
        return -1;
    }
    PyObject *two = py_batch_structs(st, batch, &schema, &array);
    if (!two) return -1;
    s->busy = true;
    PY_DROP(st)
    rc = does(s->states, schema, array, worth, &err);
    PY_TAKE(st)
    s->busy = false;
    Py_DECREF(two);
    if (rc == SK_OK) return 0;
    (void)py_raise(st, rc, &err);
    return -1;
}

/* judge(batch): looks at the keys of a batch of rows; true: adding them is worth it. */
static PyObject *partials_judge(PyObject *o, PyObject *batch) {
    bool worth = false;
    return read_batch(o, batch, sk_states_judge, &worth) < 0 ? NULL : PyBool_FromLong(worth);
}

static sk_rc add(struct sk_states *s, const struct ArrowSchema *schema,
                 const struct ArrowArray *array, bool *worth SK_UNUSED, struct sk_err *err) {
    return sk_states_add(s, schema, array, err);
}

/* add(batch): adds a batch of rows or states. */
static PyObject *partials_add(PyObject *o, PyObject *batch) {
    if (read_batch(o, batch, add, NULL) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *measured(PyObject *o, enum sk_result which) {
    struct partial_aggregates *s = partials_of(o);
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    struct sk_block_plan *plan = NULL;
    uint64_t size;
    sk_rc rc;
    PY_ERR(err);
    if (s->busy) return PyErr_Format(PyExc_ValueError, "another thread is in these states");
    s->busy = true;
    PY_DROP(st)
    rc = sk_states_measure(s->states, which, &plan, &size, &err);
    PY_TAKE(st)
    PyObject *batch = rc == SK_OK ? py_batch_of_plan(st, plan, size) : py_raise(st, rc, &err);
    sk_block_plan_free(plan);
    s->busy = false;
    return batch;
}

/* batch(): the partial aggregates of all groups, as a batch. */
static PyObject *partials_batch(PyObject *o, PyObject *none SK_UNUSED) {
    return measured(o, SK_RESULT_PARTIAL);
}

/* results(as_seen=False): the final aggregates of all groups as a batch, sorted by key or in the
 * order in which groups were first seen. */
static PyObject *partials_results(PyObject *o, PyObject *args) {
    int as_seen = 0;
    if (!PyArg_ParseTuple(args, "|p:results", &as_seen)) return NULL;
    return measured(o, as_seen ? SK_RESULT_AS_SEEN : SK_RESULT_SORTED);
}

static PyObject *partials_rows(PyObject *o, void *none SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(sk_states_rows(partials_of(o)->states));
}

static PyObject *partials_few(PyObject *o, void *none SK_UNUSED) {
    return PyBool_FromLong(sk_states_few(partials_of(o)->states));
}

static PyObject *partials_nbytes(PyObject *o, void *none SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(sk_states_bytes(partials_of(o)->states));
}

/* ---- types by their Arrow format ---- */

static void release_schema(struct ArrowSchema *s) {
    PyMem_RawFree((void *)(uintptr_t)s->format);
    s->release = NULL;
}

static void free_capsule(PyObject *capsule) {
    struct ArrowSchema *s = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (s && s->release) s->release(s);
    PyMem_RawFree(s);
}

static PyObject *m_arrow_schema(PyObject *module SK_UNUSED, PyObject *format) {
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(format, &n);
    if (!text) return NULL;
    struct ArrowSchema *s = PyMem_RawCalloc(1, sizeof *s);
    char *copy = PyMem_RawMalloc((size_t)n + 1);
    if (s && copy) {
        memcpy(copy, text, (size_t)n + 1);
        *s = (struct ArrowSchema){
            .format = copy, .name = "", .flags = ARROW_FLAG_NULLABLE, .release = release_schema};
        PyObject *capsule = PyCapsule_New(s, "arrow_schema", free_capsule);
        if (capsule) return capsule;
    } else PyErr_NoMemory();
    PyMem_RawFree(copy);
    PyMem_RawFree(s);
    return NULL;
}

/* ---- the table of the built-in aggregates ---- */

static PyObject *m_aggregates(PyObject *module SK_UNUSED, PyObject *none SK_UNUSED) {
    static const char *const kept[] = {[SK_STATE_LIST] = "list", [SK_STATE_PAIRS] = "pairs"};
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < SK_AGG_KINDS; i++) {
        const struct sk_agg_facts *f = sk_agg_facts((enum sk_agg_kind)i);
        bool keeps = f->result == SK_GIVES_KEPT,
             typed = f->state == SK_STATE_SUM || f->state == SK_STATE_VALUE;
        PyObject *row = Py_BuildValue("sI",
                                      keeps   ? kept[f->state]
                                      : typed ? "typed"
                                              : "plain",
                                      f->takes);
        if (!row || PyDict_SetItemString(d, f->name, row) < 0) Py_CLEAR(d);
        Py_XDECREF(row);
    }
    return d;
}

PyMethodDef py_partial_aggregates_methods[] = {
    {"aggregates", m_aggregates, METH_NOARGS,
     "aggregates(): the built-in aggregates (src/kernel/aggregates.h): {name: (what their states "
     "are: \"plain\", \"typed\" by the column, a \"list\" of values, or \"pairs\" of a value and "
     "a count; the types that they take, TAKES_* or-ed)}."},
    {"group_states", m_group_states, METH_VARARGS,
     "group_states(what, batch): a States, for rows or states of batches of this schema."},
    {"arrow_schema", m_arrow_schema, METH_O,
     "arrow_schema(format): a capsule of the type with this format of the C Data Interface, which "
     "has no children."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods[] = {
    {"judge", partials_judge, METH_O,
     "judge(batch): looks at the keys of rows; true: these rows, and all that follow, are worth "
     "adding."},
    {"add", partials_add, METH_O, "add(batch): adds rows or states."},
    {"batch", partials_batch, METH_NOARGS, "batch(): all states, a row a group."},
    {"results", partials_results, METH_VARARGS,
     "results(as_seen=False): what they come to, a row a group, in the order of the keys or that "
     "of the states."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef members[] = {
    {"rows", partials_rows, NULL, "Rows that were added.", NULL},
    {"few", partials_few, NULL,
     "Whether the rows that were looked at are so few that they should be added in any case.",
     NULL},
    {"nbytes", partials_nbytes, NULL, "Bytes of memory that they need.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, partials_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_tp_doc, "States of aggregates by group."},
    {0, NULL},
};
static PyType_Spec spec = {"skate._skate.States", sizeof(struct partial_aggregates), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int py_partial_aggregates_types(PyObject *module, struct py_state *st) {
    st->partial_aggregates_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (PyModule_AddIntConstant(module, "TAKES_DECIMALS", SK_TAKES_DECIMALS) < 0 ||
        PyModule_AddIntConstant(module, "TAKES_DECIMALS_256", SK_TAKES_DECIMALS_256) < 0 ||
        PyModule_AddIntConstant(module, "TAKES_ORDERED", SK_TAKES_ORDERED) < 0)
        return -1;
    return st->partial_aggregates_type ? PyModule_AddType(module, st->partial_aggregates_type) : -1;
}
