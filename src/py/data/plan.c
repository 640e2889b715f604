/* plan.c - Plan: the Python type of a sk_plan (plan.h). It parses the arguments of add(), nothing
 * else.
 *
 * The plan counts its own references to the blocks that it names; they are released when the
 * Plan dies, unless the engine was closed before. */
#include "plan/plan.h"
#include "py/data/data.h"
#include "shuffle/shuffle.h"

struct plan {
    PyObject_HEAD struct sk_plan *p;
    struct py_state *st;
    uint32_t gen;
    /* list of the plan's told strategies, which it keeps alive */
    PyObject *told;
};

struct rules {
    bool limit, fusion;
};
static const struct py_field rule[] = {
    PY_FIELD(struct rules, "limit", BOOL, limit, .otherwise = 1),
    PY_FIELD(struct rules, "fusion", BOOL, fusion, .otherwise = 1),
};
static const struct py_fields rules = {"Plan", SK_COUNT(rule), 0, rule};

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PY_ERR(err);
    struct rules with;
    if (py_fields_read(&rules, args, kw, &with) < 0) return NULL;
    struct py_state *st = py_state_of(type);
    if (py_ensure(st) < 0) return NULL;
    struct plan *p = (struct plan *)(void *)type->tp_alloc(type, 0);
    if (!p) return NULL;
    p->st = st;
    p->gen = st->gen;
    p->told = PyList_New(0);
    if (!p->told) {
        Py_DECREF(p);
        return NULL;
    }
    sk_rc rc = sk_plan_create(&p->p, &err);
    if (rc != SK_OK) {
        Py_DECREF(p);
        return py_raise(st, rc, &err);
    }
    sk_plan_leave_out(p->p, (with.limit ? 0 : SK_RULE_LIMIT) | (with.fusion ? 0 : SK_RULE_FUSE));
    return (PyObject *)p;
}

static void release_block(void *ctx, uint64_t oid) {
    struct plan *p = ctx;
    if (p->st->engine && p->gen == p->st->gen && !p->st->closing)
        p->st->engine->ops->release(p->st->engine, (sk_oid){oid});
}

static void plan_dealloc(PyObject *o) {
    struct plan *p = (struct plan *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (p->p) sk_plan_destroy(p->p, release_block, p);
    Py_XDECREF(p->told);
    type->tp_free(o);
    Py_DECREF(type);
}

/* Returns the sk_plan of a Plan; NULL with an exception if the engine of the Plan was closed. */
const struct sk_plan *py_plan_get(struct py_state *st, PyObject *o) {
    struct plan *p = (struct plan *)(void *)o;
    if (st->engine && p->gen == st->gen && !st->closing) return p->p;
    py_raise(st, SK_ECLOSED,
             &(struct sk_err){.msg = "this plan is of an engine that was shut down"});
    return NULL;
}

struct add { /* objects that add() borrows during the call */
    uint32_t *inputs, *parts;
    struct sk_unit *units;
    struct sk_bref *blocks;
};

/* Reads a sequence of numbers into new memory; *n: how many. */
static uint32_t *parse_numbers(PyObject *o, const char *otherwise, uint32_t *n) {
    PyObject *fast = PySequence_Fast(o, otherwise);
    if (!fast) return NULL;
    *n = (uint32_t)PySequence_Fast_GET_SIZE(fast);
    uint32_t *out = sk_alloc(SK_TAG_PY, ((size_t)*n + 1) * sizeof *out);
    for (uint32_t i = 0; out && i < *n; i++)
        out[i] = (uint32_t)PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    if (!out) PyErr_NoMemory();
    return out;
}

static int parse_inputs(PyObject *o, PyObject *parts, struct add *a, struct sk_node_desc *d) {
    uint32_t n_parts = 0;
    d->inputs = a->inputs = parse_numbers(o, "inputs must be a tuple of node ids", &d->n_inputs);
    if (!d->inputs) return -1;
    if (parts) {
        d->parts = a->parts = parse_numbers(parts, "parts must be a list of numbers", &n_parts);
        if (!d->parts) return -1;
        if (n_parts != d->n_inputs) PyErr_SetString(PyExc_ValueError, "a part for each input");
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int parse_units(PyObject *list, struct add *a, struct sk_node_desc *d) {
    if (!list) return 0;
    size_t n = (size_t)PyList_GET_SIZE(list);
    a->units = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *a->units);
    if (!a->units) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const char *p;
        Py_ssize_t len;
        long long rows, bytes;
        PyObject *row = PyList_GET_ITEM(list, (Py_ssize_t)i);
        if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "y#LL:unit", &p, &len, &rows, &bytes)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a unit is (params, rows, bytes)");
            return -1;
        }
        a->units[i] = (struct sk_unit){{p, (size_t)len}, rows, bytes}; /* borrowed from the list */
    }
    d->units = a->units;
    d->n_units = (uint32_t)n;
    return 0;
}

static int parse_blocks(struct py_state *st, PyObject *list, struct add *a,
                        struct sk_node_desc *d) {
    if (!list) return 0;
    size_t n = (size_t)PyList_GET_SIZE(list);
    a->blocks = sk_alloc(SK_TAG_PY, (n + 1) * sizeof *a->blocks);
    if (!a->blocks) {
        PyErr_NoMemory();
        return -1;
    }
    d->blocks = a->blocks;
    for (size_t i = 0; i < n; i++) {
        PyObject *row = PyList_GET_ITEM(list, (Py_ssize_t)i), *ref;
        unsigned long long row0, rows, bytes;
        if (!PyTuple_Check(row) ||
            !PyArg_ParseTuple(row, "O!KKK:block", st->ref_type, &ref, &row0, &rows, &bytes)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a block is (ref, first row, rows, bytes)");
            return -1;
        }
        if (!py_ref_alive(st, ref)) return -1;
        a->blocks[i] =
            (struct sk_bref){((struct py_ref *)(void *)ref)->id, row0, rows, bytes, 0, 0};
        st->engine->ops->retain(st->engine, (sk_oid){a->blocks[i].oid});
        d->n_blocks = (uint32_t)i + 1;
    }
    return 0;
}

/* Reads the strategy of an exchange: a name, or a Told object. */
static int parse_strategy(struct plan *p, PyObject *o, struct sk_node_desc *d) {
    if (!o) return 0;
    if (Py_IS_TYPE(o, p->st->told_type)) {
        d->exchange.strategy = py_told_ops(o);
        return PyList_Append(p->told, o);
    }
    const char *name = PyUnicode_AsUTF8(o);
    if (name && !(d->exchange.strategy = sk_shuffle_find(name)))
        PyErr_Format(PyExc_ValueError, "no shuffle strategy is called '%s'", name);
    return d->exchange.strategy ? 0 : -1;
}

struct given { /* the arguments of add(); borrowed */
    const char *op, *label;
    struct sk_bytes params, what;
    PyObject *inputs, *parts, *resources, *pool, *units, *blocks, *env, *where, *strategy;
    int64_t cpus, gpus, memory, limit, batch_rows;
    int32_t max_restarts, max_task_retries, max_retries; /* INT32_MIN: not set */
    uint32_t max_in_flight, max_tasks, max_calls, n_partitions, spread, tells;
    int32_t bundle;
    uint64_t group;
    bool source, one_to_one, no_more, by_row, first_rows, writes, alone, numbered, concatenates,
        joins, packs, exchange, merge, cut, tables, shortest;
};

#define F(...) PY_FIELD(struct given, __VA_ARGS__)

static const struct py_field field[] = {
    F("op", TEXT, op),
    F("label", TEXT, label),
    F("params", BYTES, params),
    F("inputs", OBJECT, inputs),
    F("what", BYTES, what),
    F("parts", OBJECT, parts, .of = &PyList_Type),
    F("shortest", BOOL, shortest),
    F("num_cpus", SCALED, cpus, .otherwise = SK_RES_UNIT, .unit = SK_RES_UNIT),
    F("num_gpus", SCALED, gpus, .unit = SK_RES_UNIT),
    F("resources", OBJECT, resources, .of = &PyDict_Type),
    F("memory", SCALED, memory, .unit = 1),
    F("pool", OBJECT, pool, .of = &PyTuple_Type),
    F("max_in_flight", U32, max_in_flight),
    F("max_tasks", U32, max_tasks),
    F("limit", I64, limit, .otherwise = -1),
    F("batch_rows", I64, batch_rows),
    F("units", OBJECT, units, .of = &PyList_Type),
    F("blocks", OBJECT, blocks, .of = &PyList_Type),
    F("max_restarts", I32, max_restarts, .otherwise = INT32_MIN),
    F("max_task_retries", I32, max_task_retries, .otherwise = INT32_MIN),
    F("max_retries", I32, max_retries, .otherwise = INT32_MIN),
    F("max_calls", U32, max_calls),
    F("group", U64, group),
    F("bundle", I32, bundle, .otherwise = -1),
    F("env", OBJECT, env, .of = &PyBytes_Type),
    F("where", OBJECT, where, .of = &PyBytes_Type),
    F("source", BOOL, source),
    F("one_to_one", BOOL, one_to_one),
    F("no_more", BOOL, no_more),
    F("by_row", BOOL, by_row),
    F("first_rows", BOOL, first_rows),
    F("writes", BOOL, writes),
    F("alone", BOOL, alone),
    F("numbered", BOOL, numbered),
    F("concatenates", BOOL, concatenates),
    F("joins", BOOL, joins),
    F("packs", BOOL, packs),
    F("exchange", BOOL, exchange),
    F("cut", BOOL, cut),
    F("n_partitions", U32, n_partitions),
    F("spread", U32, spread),
    F("tells", U32, tells),
    F("tables", BOOL, tables),
    F("strategy", OBJECT, strategy),
    F("merge", BOOL, merge),
};
static const struct py_fields fields = {"add", SK_COUNT(field), 4, field};

static uint32_t props_of(const struct given *g) {
    return (g->source ? SK_OP_SOURCE : 0) | (g->one_to_one ? SK_OP_ONE_TO_ONE : 0) |
           (g->no_more ? SK_OP_NO_MORE : 0) | (g->by_row ? SK_OP_BY_ROW : 0) |
           (g->first_rows ? SK_OP_LIMIT : 0) | (g->writes ? SK_OP_WRITES : 0) |
           (g->alone ? SK_OP_NO_FUSE : 0) | (g->numbered ? SK_OP_NUMBERED : 0) |
           (g->concatenates ? SK_OP_UNION : 0) | (g->joins ? SK_OP_ZIP : 0) |
           (g->packs ? SK_OP_PACKS : 0) | (g->exchange ? SK_OP_EXCHANGE : 0) |
           (g->merge ? SK_OP_MERGE : 0);
}

/* Sets the shape of a node, if it is not the default of one CPU. */
static int add_shape(struct py_state *st, const struct given *g, struct sk_node_desc *d) {
    struct sk_need need = {
        .res.amount = {[SK_RES_CPU] = g->cpus, [SK_RES_GPU] = g->gpus, [SK_RES_MEMORY] = g->memory},
        .group = g->group,
        .bundle = g->bundle};
    if (g->env && py_env(st, g->env, &need.env) < 0) return -1;
    if (g->where && py_where(st, g->where, &need.where) < 0) return -1;
    bool plain = g->cpus == SK_RES_UNIT && !g->gpus && !g->memory && !d->pool_max && !g->group &&
                 !g->env && !g->resources && !need.where;
    if (plain) return 0;
    if (py_shape(st, &need, g->resources, d->label, &d->shape) < 0) return -1;
    if (!d->pool_max) return 0;
    /* an actor holds these resources all its life; CPUs are not among them, see exec.h */
    need.res.amount[SK_RES_CPU] = 0;
    return py_shape(st, &need, g->resources, d->label, &d->shape);
}

static PyObject *plan_add(PyObject *self, PyObject *args, PyObject *kw) {
    struct plan *p = (struct plan *)(void *)self;
    struct py_state *st = p->st;
    struct add a = {0};
    struct given g;
    PyObject *r = NULL;
    uint32_t id;
    int least = 0, most = 0;
    PY_ERR(err);
    if (py_fields_read(&fields, args, kw, &g) < 0 || !py_plan_get(st, self)) return NULL;
    struct sk_op op = {g.op, props_of(&g)};
    struct sk_node_desc d = {.op = &op,
                             .label = g.label,
                             .params = g.params,
                             .what = g.what,
                             .cpu_e4 = g.cpus,
                             .gpu_e4 = g.gpus,
                             .limit = g.limit,
                             .shortest = g.shortest,
                             .batch_rows = g.batch_rows,
                             .max_in_flight = g.max_in_flight,
                             .max_tasks = g.max_tasks,
                             .max_calls = g.max_calls,
                             .exchange = {.cut = g.cut,
                                          .n_partitions = g.n_partitions,
                                          .spread = g.spread,
                                          .tells = g.tells,
                                          .tables = g.tables}};
    if (g.pool && !PyArg_ParseTuple(g.pool, "ii;add: 'pool' must be (least, most)", &least, &most))
        return NULL;
    if (least < 0 || most < 0)
        return PyErr_Format(PyExc_ValueError, "add: 'pool' must be (least, most), not %R", g.pool);
    d.pool_min = (uint32_t)least;
    d.pool_max = (uint32_t)most;
    int32_t retries = d.pool_max ? g.max_task_retries : g.max_retries;
    d.restarts = (struct sk_times){g.max_restarts != INT32_MIN, g.max_restarts};
    d.retries = (struct sk_times){retries != INT32_MIN, retries};
    if (add_shape(st, &g, &d) < 0) return NULL;
    sk_rc rc = SK_EINVAL;
    if (parse_inputs(g.inputs, g.parts, &a, &d) == 0 && parse_units(g.units, &a, &d) == 0 &&
        parse_blocks(st, g.blocks, &a, &d) == 0 && parse_strategy(p, g.strategy, &d) == 0) {
        rc = sk_plan_add(p->p, &d, &id, &err);
        r = rc == SK_OK ? PyLong_FromUnsignedLong(id) : py_raise(st, rc, &err);
    }
    SK_ASSERT(a.blocks || !d.n_blocks);
    for (uint32_t i = 0; rc != SK_OK && i < d.n_blocks; i++)
        st->engine->ops->release(st->engine, (sk_oid){a.blocks[i].oid});
    sk_free(a.inputs);
    sk_free(a.parts);
    sk_free(a.units);
    sk_free(a.blocks);
    return r;
}

static PyObject *plan_explain(PyObject *self, PyObject *root) {
    const struct sk_plan *p = ((struct plan *)(void *)self)->p;
    unsigned long id = PyLong_AsUnsignedLong(root);
    if (id == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    if (id >= sk_plan_n_nodes(p)) return PyErr_Format(PyExc_ValueError, "there is no node %lu", id);
    char small[2048], *buf = small;
    size_t n = sk_plan_explain(p, (uint32_t)id, small, sizeof small);
    if (n >= sizeof small) {
        if (!(buf = sk_alloc(SK_TAG_PY, n + 1))) return PyErr_NoMemory();
        n = SK_MIN(sk_plan_explain(p, (uint32_t)id, buf, n + 1), n);
    }
    PyObject *r = PyUnicode_DecodeUTF8(buf, (Py_ssize_t)n, "replace");
    if (buf != small) sk_free(buf);
    return r;
}

static PyObject *stage_nodes(const struct sk_stage *s) {
    PyObject *r = PyTuple_New(s->n_nodes);
    for (uint32_t i = 0; r && i < s->n_nodes; i++) {
        PyObject *id = PyLong_FromUnsignedLong(s->nodes[i]);
        if (id) PyTuple_SET_ITEM(r, i, id);
        else Py_CLEAR(r);
    }
    return r;
}

static PyObject *plan_stages(PyObject *self, PyObject *root) {
    struct plan *p = (struct plan *)(void *)self;
    PY_ERR(err);
    struct sk_stages s = {0};
    unsigned long id = PyLong_AsUnsignedLong(root);
    if (id == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    if (id >= sk_plan_n_nodes(p->p))
        return PyErr_Format(PyExc_ValueError, "there is no node %lu", id);
    sk_rc rc = sk_plan_stages(p->p, (uint32_t)id, &s, &err);
    if (rc != SK_OK) return py_raise(p->st, rc, &err);
    PyObject *r = PyList_New(s.n);
    for (uint32_t i = 0; r && i < s.n; i++) {
        PyObject *nodes = stage_nodes(&s.s[i]);
        if (nodes) PyList_SET_ITEM(r, i, nodes);
        else Py_CLEAR(r);
    }
    sk_stages_free(&s);
    return r;
}

static PyMethodDef plan_methods[] = {
    {"add", (PyCFunction)(void (*)(void))plan_add, METH_VARARGS | METH_KEYWORDS,
     "Adds a node; returns its id."},
    {"stages", plan_stages, METH_O, "The nodes of each stage that a node needs, the output last."},
    {"explain", plan_explain, METH_O, "The plan of a node and its stages, for people."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_new, plan_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_methods, plan_methods},
    {Py_tp_doc, "A growing DAG of operators."},
    {0, NULL},
};
static PyType_Spec plan_spec = {"skate._skate.Plan", sizeof(struct plan), 0, Py_TPFLAGS_DEFAULT,
                                plan_slots};

int py_plan_types(PyObject *module, struct py_state *st) {
    st->plan_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &plan_spec, NULL);
    return st->plan_type ? PyModule_AddType(module, st->plan_type) : -1;
}
