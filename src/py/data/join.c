/* join.c - _skate.join: the rows of two sides whose keys are equal, as an iterator of batches
 * (kernel.h: sk_join).
 *
 * The inputs are four lists of batches, each of one schema: the left and right rows, and the keys
 * of both. Each column of the result is picked from one list; for rows without a left row the
 * caller may name another list (the key of a full join). Also _skate.bloom_...: filters of a side's
 * keys; _skate.join_...: how a join is done (shuffle/join_sizing.h). */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "py/data/data.h"
#include "shuffle/join_sizing.h"

enum { SIDES = 4, LEFT = 0, RIGHT = 1, LEFT_KEYS = 2, RIGHT_KEYS = 3 };

struct join {
    PyObject_HEAD PyObject *keep; /* the capsules of the batches */
    const struct ArrowArray **arrays[SIDES];
    struct sk_keys **keys[2];
    struct sk_block_side side[SIDES];
    const struct ArrowSchema *schema; /* schema of the result */
    /* picks[0]: where columns are taken from for rows that have a left row; picks[1]: for the
     * others */
    struct sk_block_pick *picks[2];
    struct sk_join *join;
    /* [cap]: where the rows of the result are in the batches; rows in [at, n) were not given out
     * yet */
    struct sk_row_at *left, *right;
    uint64_t cap, at, n;
    bool busy, begun;
};

static struct join *join_of(PyObject *o) { return (struct join *)(void *)o; }

static void join_dealloc(PyObject *o) {
    struct join *j = join_of(o);
    PyTypeObject *type = Py_TYPE(o);
    sk_join_destroy(j->join);
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t i = 0; j->keys[s] && i < j->side[LEFT_KEYS + s].n; i++)
            sk_keys_destroy(j->keys[s][i]);
        sk_free(j->keys[s]);
        sk_free(j->picks[s]);
    }
    for (uint32_t s = 0; s < SIDES; s++) sk_free(j->arrays[s]);
    sk_free(j->left);
    sk_free(j->right);
    Py_XDECREF(j->keep);
    type->tp_free(o);
    Py_DECREF(type);
}

/* Gets the Arrow structs of a batch and adds its capsules to j->keep. */
static int kept(struct py_state *st, struct join *j, PyObject *batch,
                const struct ArrowSchema **schema, const struct ArrowArray **array) {
    struct ArrowSchema *s;
    struct ArrowArray *a;
    PyObject *two = py_batch_structs(st, batch, &s, &a);
    int r = two ? PyList_Append(j->keep, two) : -1;
    Py_XDECREF(two);
    if (r == 0) {
        *schema = s;
        *array = a;
    }
    return r;
}

/* Opens all columns of a batch as keys in ascending order; NULL with an exception. */
static struct sk_keys *keys_of(struct py_state *st, const struct ArrowSchema *schema,
                               const struct ArrowArray *array) {
    PY_ERR(err);
    struct sk_keys *keys = NULL;
    struct sk_key *key = sk_calloc(SK_TAG_PY, (size_t)(schema->n_children + 1) * sizeof *key);
    if (!key) {
        PyErr_NoMemory();
        return NULL;
    }
    for (int64_t k = 0; k < schema->n_children; k++) key[k].column = (uint32_t)k;
    sk_rc rc = sk_keys_create(schema, array, key, (uint32_t)schema->n_children, &keys, &err);
    sk_free(key);
    if (rc != SK_OK) py_raise(st, rc, &err);
    return rc == SK_OK ? keys : NULL;
}

/* Opens the batches of list s; if that is a list of keys, opens the keys, too. */
static int open_side(struct py_state *st, struct join *j, uint32_t s, PyObject *batches) {
    uint32_t n = (uint32_t)PyList_GET_SIZE(batches);
    bool is_key = s >= LEFT_KEYS;
    j->arrays[s] = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *j->arrays[s]);
    if (is_key) j->keys[s - LEFT_KEYS] = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *j->keys[0]);
    if (!j->arrays[s] || (is_key && !j->keys[s - LEFT_KEYS])) {
        PyErr_NoMemory();
        return -1;
    }
    j->side[s] = (struct sk_block_side){.arrays = j->arrays[s], .n = n};
    for (uint32_t i = 0; i < n; i++) {
        const struct ArrowSchema *schema = NULL;
        if (kept(st, j, PyList_GET_ITEM(batches, i), &schema, &j->arrays[s][i]) < 0) return -1;
        if (!is_key) continue;
        if (!(j->keys[s - LEFT_KEYS][i] = keys_of(st, schema, j->arrays[s][i]))) return -1;
    }
    return 0;
}

/* Reads [(side, column)], one for each column of the result. */
static struct sk_block_pick *picks_of(const struct join *j, PyObject *given) {
    int64_t n = j->schema->n_children;
    struct sk_block_pick *p = sk_calloc(SK_TAG_PY, (size_t)(n + 1) * sizeof *p);
    if (!p) return (struct sk_block_pick *)PyErr_NoMemory();
    if (PyList_GET_SIZE(given) != n)
        PyErr_Format(PyExc_ValueError, "join: %zd picks for %lld columns", PyList_GET_SIZE(given),
                     (long long)n);
    for (int64_t i = 0; !PyErr_Occurred() && i < n; i++) {
        PyObject *row = PyList_GET_ITEM(given, i);
        if (!PyTuple_Check(row)) PyErr_SetString(PyExc_TypeError, "join: a pick is (side, column)");
        else if (PyArg_ParseTuple(row, "II:pick", &p[i].side, &p[i].column) && p[i].side >= SIDES)
            PyErr_SetString(PyExc_ValueError, "join: a pick is of one of four sides");
    }
    if (!PyErr_Occurred()) return p;
    sk_free(p);
    return NULL;
}

/* Names of enum sk_join_kind. */
static const char *const kinds[] = {"inner",     "left_outer", "right_outer", "full_outer",
                                    "left_semi", "left_anti",  "right_semi",  "right_anti"};

static bool kind_of(const char *name, enum sk_join_kind *out) {
    for (unsigned k = 0; k < SK_COUNT(kinds); k++)
        if (strcmp(kinds[k], name) == 0) {
            *out = (enum sk_join_kind)k;
            return true;
        }
    PyErr_Format(PyExc_ValueError, "join: there is no kind %s", name);
    return false;
}

/* Returns the bytes that a bitmap of the right rows needs. */
static uint64_t bits_of_right(const struct join *j) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < j->side[RIGHT_KEYS].n; i++) rows += sk_keys_rows(j->keys[1][i]);
    return (rows + 7) / 8;
}

static PyObject *m_join(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *side[SIDES], *shape, *picks, *alone;
    const char *name;
    unsigned long long rows;
    const struct ArrowArray *unused;
    Py_buffer met = {0};
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "s(O!O!O!O!)OO!O!K|y*:join", &name, &PyList_Type, &side[LEFT],
                          &PyList_Type, &side[RIGHT], &PyList_Type, &side[LEFT_KEYS], &PyList_Type,
                          &side[RIGHT_KEYS], &shape, &PyList_Type, &picks, &PyList_Type, &alone,
                          &rows, &met))
        return NULL;
    enum sk_join_kind kind;
    struct join *j = NULL;
    if (!rows) PyErr_SetString(PyExc_ValueError, "join: batches of 0 rows");
    else if (kind_of(name, &kind) && py_ensure(st) == 0)
        j = join_of(st->join_type->tp_alloc(st->join_type, 0));
    if (!j) {
        PyBuffer_Release(&met);
        return NULL;
    }
    j->cap = rows;
    j->left = sk_alloc(SK_TAG_PY, rows * sizeof *j->left);
    j->right = sk_alloc(SK_TAG_PY, rows * sizeof *j->right);
    j->keep = j->left && j->right ? PyList_New(0) : PyErr_NoMemory();
    bool fine = j->keep && kept(st, j, shape, &j->schema, &unused) == 0;
    for (uint32_t s = 0; s < SIDES; s++) fine = fine && open_side(st, j, s, side[s]) == 0;
    fine = fine && (j->picks[0] = picks_of(j, picks)) && (j->picks[1] = picks_of(j, alone));
    if (fine && met.obj && bits_of_right(j) != (uint64_t)met.len) {
        PyErr_Format(PyExc_ValueError,
                     "join: %zd bytes say which right rows were met, and not %llu", met.len,
                     (unsigned long long)bits_of_right(j));
        fine = false;
    }
    if (fine) {
        sk_rc rc;
        const struct sk_keys *const *left = (const struct sk_keys *const *)j->keys[0],
                                    *const *right = (const struct sk_keys *const *)j->keys[1];
        PY_DROP(st)
        if (met.obj) rc = sk_join_rest(right, j->side[RIGHT_KEYS].n, kind, met.buf, &j->join, &err);
        else
            rc = sk_join_create(left, j->side[LEFT_KEYS].n, right, j->side[RIGHT_KEYS].n, kind,
                                &j->join, &err);
        PY_TAKE(st)
        if (rc != SK_OK) py_raise(st, rc, &err);
        fine = rc == SK_OK;
    }
    PyBuffer_Release(&met);
    if (!fine) Py_CLEAR(j);
    return (PyObject *)j;
}

static PyObject *join_share(PyObject *o, PyObject *unused SK_UNUSED) {
    struct join *j = join_of(o);
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    if (j->busy || j->begun)
        return PyErr_Format(PyExc_ValueError, "this join has begun to give rows");
    PyObject *bits = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bits_of_right(j));
    if (!bits) return NULL;
    j->busy = true;
    PY_DROP(st)
    sk_join_share(j->join, (uint8_t *)PyBytes_AS_STRING(bits));
    PY_TAKE(st)
    j->busy = false;
    return bits;
}

/* Plans the next rows of the result that all have a left row or all have none. NULL without an
 * error: there are no more rows. */
static sk_rc plan_next(struct join *j, struct sk_block_plan **plan, uint64_t *size,
                       struct sk_err *err) {
    if (j->at == j->n) {
        j->n = sk_join_next(j->join, j->left, j->right, j->cap);
        j->at = 0;
    }
    *plan = NULL;
    if (j->at == j->n) return SK_OK;
    bool alone = j->left[j->at].run == SK_ROW_NONE;
    uint64_t to = j->at;
    while (to < j->n && (j->left[to].run == SK_ROW_NONE) == alone) to++;
    for (uint32_t s = 0; s < SIDES; s++)
        j->side[s].places = (s == LEFT || s == LEFT_KEYS ? j->left : j->right) + j->at;
    sk_rc rc = sk_block_measure_places(j->schema, j->side, SIDES, j->picks[alone], to - j->at, plan,
                                       size, err);
    j->at = to;
    return rc;
}

static PyObject *join_next(PyObject *o) {
    struct join *j = join_of(o);
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    struct sk_block_plan *plan;
    uint64_t size;
    sk_rc rc;
    PY_ERR(err);
    if (j->busy) return PyErr_Format(PyExc_ValueError, "another thread is in this join");
    j->busy = j->begun = true;
    PY_DROP(st)
    rc = plan_next(j, &plan, &size, &err);
    PY_TAKE(st)
    j->busy = false;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    if (!plan) return NULL;
    PyObject *batch = py_batch_of_plan(st, plan, size);
    sk_block_plan_free(plan);
    return batch;
}

/* ---- Bloom filters of the keys of a side ----------------------------------------------------- */

/* Returns the hashes of a batch's rows for a filter, with all columns as the key; to be freed by
 * sk_free. NULL with an exception. */
static uint64_t *hashes_of(struct py_state *st, PyObject *batch, const Py_buffer *filter,
                           uint64_t *rows) {
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    *rows = 0;
    if (!filter->len) {
        PyErr_SetString(PyExc_ValueError, "a filter without a byte");
        return NULL;
    }
    PyObject *two = py_batch_structs(st, batch, &schema, &array);
    struct sk_keys *keys = two ? keys_of(st, schema, array) : NULL;
    uint64_t *hash = NULL;
    if (keys) {
        *rows = sk_keys_rows(keys);
        hash = sk_alloc_large(SK_TAG_PY, (size_t)*rows * sizeof *hash);
        if (!hash) PyErr_NoMemory();
    }
    PY_DROP(st)
    if (hash) sk_keys_hash(keys, hash);
    PY_TAKE(st)
    sk_keys_destroy(keys);
    Py_XDECREF(two);
    return hash;
}

static PyObject *m_bloom_bytes(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned long long keys;
    if (!PyArg_ParseTuple(args, "K:bloom_bytes", &keys)) return NULL;
    return PyLong_FromSize_t(sk_bloom_bytes(keys, SK_SIDE_FILTER_BITS));
}

static PyObject *m_bloom_add(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    Py_buffer filter;
    PyObject *batch;
    uint64_t rows;
    if (!PyArg_ParseTuple(args, "w*O:bloom_add", &filter, &batch)) return NULL;
    uint64_t *hash = hashes_of(st, batch, &filter, &rows);
    if (hash) {
        PY_DROP(st)
        sk_bloom_add(filter.buf, (size_t)filter.len, hash, rows);
        PY_TAKE(st)
        sk_free(hash);
    }
    PyBuffer_Release(&filter);
    return hash ? Py_NewRef(Py_None) : NULL;
}

static PyObject *m_bloom_select(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    Py_buffer filter;
    PyObject *batch, *index = NULL;
    uint64_t rows, n = 0;
    if (!PyArg_ParseTuple(args, "y*O:bloom_select", &filter, &batch)) return NULL;
    uint64_t *hash = hashes_of(st, batch, &filter, &rows);
    if (hash) index = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((rows + 1) * sizeof(uint32_t)));
    if (index) {
        uint32_t *out = (uint32_t *)(void *)PyBytes_AS_STRING(index);
        PY_DROP(st)
        n = sk_bloom_select(filter.buf, (size_t)filter.len, hash, rows, out);
        PY_TAKE(st)
    }
    sk_free(hash);
    PyBuffer_Release(&filter);
    if (index) (void)_PyBytes_Resize(&index, (Py_ssize_t)(n * sizeof(uint32_t)));
    return index;
}

/* ---- choosing how a join is done ------------------------------------------------------------- */

static PyObject *m_join_rules(PyObject *module SK_UNUSED, PyObject *args) {
    const char *name;
    enum sk_join_kind kind;
    if (!PyArg_ParseTuple(args, "s:join_rules", &name) || !kind_of(name, &kind)) return NULL;
    return Py_BuildValue("(NN)(NN)I", PyBool_FromLong(sk_side_by_block(kind, LEFT)),
                         PyBool_FromLong(sk_side_by_block(kind, RIGHT)),
                         PyBool_FromLong(sk_side_may_lack(kind, LEFT)),
                         PyBool_FromLong(sk_side_may_lack(kind, RIGHT)), sk_side_tells(kind));
}

/* Reads (kind, whether the user gave a number of partitions, limit, ((bytes or -1, alone) of the
 * left side, the same of the right side)). */
static bool sides_of(PyObject *facts, struct sk_sides *out) {
    const char *name;
    long long limit, bytes[2];
    int parted, alone[2];
    if (!PyArg_ParseTuple(facts, "spL((Lp)(Lp)):sides of a join", &name, &parted, &limit,
                          &bytes[LEFT], &alone[LEFT], &bytes[RIGHT], &alone[RIGHT]))
        return false;
    *out = (struct sk_sides){.parted = parted, .limit_bytes = (uint64_t)SK_MAX(limit, 0)};
    for (int s = 0; s < 2; s++) {
        out->side[s].bytes = SK_MAX(bytes[s], -1);
        out->side[s].alone = alone[s];
    }
    return kind_of(name, &out->kind);
}

static PyObject *m_join_first(PyObject *module SK_UNUSED, PyObject *facts) {
    struct sk_sides z;
    return sides_of(facts, &z) ? PyLong_FromLong(sk_sides_first(&z)) : NULL;
}

static PyObject *m_join_use(PyObject *module SK_UNUSED, PyObject *args) {
    static const char *const uses[] = {[SK_SIDE_MOVED] = "moved",
                                       [SK_SIDE_BROADCAST] = "broadcast",
                                       [SK_SIDE_FILTERS] = "filters"};
    PyObject *facts;
    unsigned long long rows, bytes;
    int side, columns;
    struct sk_sides z;
    if (!PyArg_ParseTuple(args, "O!i(KKp):join_use", &PyTuple_Type, &facts, &side, &rows, &bytes,
                          &columns) ||
        !sides_of(facts, &z))
        return NULL;
    if (side != LEFT && side != RIGHT)
        return PyErr_Format(PyExc_ValueError, "join_use: side %d", side);
    return PyUnicode_FromString(uses[sk_side_use(
        &z, side, &(struct sk_side_size){.rows = rows, .bytes = bytes, .columns = columns})]);
}

PyMethodDef py_join_methods[] = {
    {"join", m_join, METH_VARARGS,
     "join(kind, (left, right, left keys, right keys), shape, picks, picks without a left row, "
     "rows[, met]): batches of at most so many "
     "rows. met: what shares of the left side said (Joined.share), or-ed: the rows that these "
     "leave."},
    {"bloom_bytes", m_bloom_bytes, METH_VARARGS,
     "bloom_bytes(keys): how large a filter of so many keys is."},
    {"join_rules", m_join_rules, METH_VARARGS,
     "join_rules(kind): (whether blocks of a side may be joined one by one with the whole other "
     "one, of both; whether its rows that meet "
     "nothing may be left out, of both; 1: tasks that share its left side have to tell what they "
     "met, 2: its right side)."},
    {"join_first", m_join_first, METH_VARARGS,
     "join_first(kind, parted, limit, sides): the side that is to be measured first; -1: none."},
    {"join_use", m_join_use, METH_VARARGS,
     "join_use(facts, side, (rows, bytes, has columns)): what becomes of the side that was "
     "measured: moved, broadcast, filters. facts: "
     "what join_first takes."},
    {"bloom_add", m_bloom_add, METH_VARARGS,
     "bloom_add(filter, batch): the keys of a batch, which are all of its columns, into a "
     "bytearray."},
    {"bloom_select", m_bloom_select, METH_VARARGS,
     "bloom_select(filter, batch): the numbers of the rows that may be in it, 4 bytes each."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef join_methods[] = {
    {"share", join_share, METH_NOARGS,
     "share(): it is the join of a share of the left rows, and leaves right rows alone; a bit for "
     "each right row: whether it met one."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot join_slots[] = {
    {Py_tp_methods, join_methods},
    {Py_tp_dealloc, join_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, join_next},
    {Py_tp_doc, "The rows of a join, as batches."},
    {0, NULL},
};
static PyType_Spec join_spec = {"skate._skate.Joined", sizeof(struct join), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, join_slots};

int py_join_types(PyObject *module, struct py_state *st) {
    st->join_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &join_spec, NULL);
    return st->join_type ? PyModule_AddType(module, st->join_type) : -1;
}
