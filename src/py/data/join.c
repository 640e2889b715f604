/* join.c - keys of batches: groups of equal ones (_skate.groups), and joins before their rows are
 * moved: Bloom filters of a side's keys (_skate.bloom_...), how a join is done and which columns it
 * has (_skate.join_...; shuffle/join_sizing.h, work.h). The rows are joined by
 * _skate.exchange_reduce. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "py/data/data.h"
#include "shuffle/join_sizing.h"

enum { LEFT = SK_SIDE_LEFT, RIGHT = SK_SIDE_RIGHT };

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

static bool kind_of(const char *name, enum sk_join_kind *out) {
    if (sk_join_kind_find(name, out)) return true;
    PyErr_Format(PyExc_ValueError, "join: there is no kind %s", name);
    return false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static PyObject *m_groups(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *batch, *first = NULL, *of_rows = NULL;
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    int sorted;
    uint64_t n = 0;
    sk_rc rc = SK_OK;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "Op:groups", &batch, &sorted)) return NULL;
    PyObject *two = py_batch_structs(st, batch, &schema, &array);
    struct sk_keys *keys = two ? keys_of(st, schema, array) : NULL;
    Py_ssize_t bytes = keys ? (Py_ssize_t)(sk_keys_rows(keys) * sizeof(uint32_t)) : 0;
    if (keys) first = PyBytes_FromStringAndSize(NULL, bytes);
    if (first) of_rows = sorted ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(NULL, bytes);
    if (of_rows) {
        uint32_t *index = (uint32_t *)(void *)PyBytes_AS_STRING(first),
                 *ids = sorted ? NULL : (uint32_t *)(void *)PyBytes_AS_STRING(of_rows);
        PY_DROP(st)
        if (sorted) n = sk_group_starts(keys, index);
        else rc = sk_first_rows(keys, index, ids, &n, &err);
        PY_TAKE(st)
        if (rc != SK_OK) py_raise(st, rc, &err);
    }
    sk_keys_destroy(keys);
    Py_XDECREF(two);
    if (of_rows && rc == SK_OK && _PyBytes_Resize(&first, (Py_ssize_t)(n * sizeof(uint32_t))) == 0)
        return Py_BuildValue("NN", first, of_rows);
    Py_XDECREF(first);
    Py_XDECREF(of_rows);
    return NULL;
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

/* Returns the names in a list, to be freed by sk_free; .name NULL: exception. */
static struct sk_names names_of(PyObject *list) {
    Py_ssize_t n = PyList_GET_SIZE(list);
    const char **name = sk_alloc(SK_TAG_PY, (size_t)(n + 1) * sizeof *name);
    if (!name) PyErr_NoMemory();
    for (Py_ssize_t i = 0; name && i < n; i++)
        if (!(name[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)))) {
            sk_free(name);
            name = NULL;
        }
    return (struct sk_names){name, (uint32_t)n};
}

static PyObject *m_join_columns(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *lists[2], *r = NULL;
    const char *p;
    Py_ssize_t n;
    struct sk_what *what;
    struct sk_join_columns columns = {0};
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#O!O!:join_columns", &p, &n, &PyList_Type, &lists[0],
                          &PyList_Type, &lists[1]))
        return NULL;
    struct sk_names names[2] = {names_of(lists[0]), {NULL, 0}};
    if (names[0].name) names[1] = names_of(lists[1]);
    if (names[1].name) {
        sk_rc rc = sk_what_read((struct sk_bytes){p, (size_t)n}, &what, &err);
        if (rc == SK_OK) {
            if (what->kind != SK_WHAT_JOIN)
                rc = SK_ERR(&err, SK_EINVAL, "join_columns: this is no join");
            if (rc == SK_OK) rc = sk_join_columns(what, names, &columns, &err);
            sk_what_destroy(what);
        }
        r = rc == SK_OK ? PyList_New(0) : py_raise(st, rc, &err);
    }
    for (uint32_t i = 0; r && i < columns.n; i++) {
        const struct sk_join_column *c = &columns.column[i];
        PyObject *row = Py_BuildValue("IIsi", c->side, c->column, c->name, (int)c->of_key);
        if (!row || PyList_Append(r, row) < 0) Py_CLEAR(r);
        Py_XDECREF(row);
    }
    sk_join_columns_free(&columns);
    for (int s = 0; s < 2; s++) sk_free((void *)(uintptr_t)names[s].name);
    return r;
}

PyMethodDef py_join_methods[] = {
    {"groups", m_groups, METH_VARARGS,
     "groups(batch, sorted): (the first row of each key, in the order of the rows; for each row "
     "the "
     "place of its key among them), as bytes of uint32. The key is all columns. sorted: the rows "
     "are in the order of the keys; then the second is None."},
    {"join_columns", m_join_columns, METH_VARARGS,
     "join_columns(what, left names, right names): the columns of the result of a join, as (side, "
     "column of that side, name, index in the key or -1)."},
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
