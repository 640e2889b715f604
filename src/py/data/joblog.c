/* joblog.c - JobLog: the Python type of the log of a resumable job (base/log/joblog.h).
 * data/write/resume.py uses it.
 *
 * Cost: a record becomes a tuple of Python values. Appending and syncing drop the GIL. */
#include "base/fault.h"
#include "base/log/joblog.h"
#include "py/data/data.h"

struct py_joblog {
    PyObject_HEAD struct sk_joblog *log; /* NULL: it is closed */
    struct py_state *st;
};

static PyObject *joblog_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {"path", NULL};
    const char *path;
    PY_ERR(err);
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s:JobLog", names, &path)) return NULL;
    struct py_joblog *l = (struct py_joblog *)(void *)type->tp_alloc(type, 0);
    if (!l) return NULL;
    l->st = py_state_of(type);
    sk_rc rc;
    PY_DROP(l->st)
    rc = sk_joblog_open(path, &l->log, &err);
    PY_TAKE(l->st)
    if (rc == SK_OK) return (PyObject *)l;
    l->log = NULL;
    py_raise(l->st, rc, &err);
    Py_DECREF(l);
    return NULL;
}

static void joblog_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    sk_joblog_close(&((struct py_joblog *)(void *)o)->log);
    type->tp_free(o);
    Py_DECREF(type);
}

static struct py_joblog *open_log(PyObject *self) {
    struct py_joblog *l = (struct py_joblog *)(void *)self;
    if (l->log) return l;
    PyErr_SetString(PyExc_ValueError, "the log of the job is closed");
    return NULL;
}

/* ---- reading a log --------------------------------------------------------------------------- */

static PyObject *text(struct sk_bytes b) {
    return PyUnicode_DecodeUTF8(b.p, (Py_ssize_t)b.n, "surrogateescape");
}

static PyObject *record(struct sk_job_rec *r) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < r->n; i++) {
        PyObject *row;
        if (r->kind != SK_JOB_UNIT) {
            struct sk_job_part p;
            sk_job_part(r, &p);
            row = Py_BuildValue("(Ny#)", text(p.label), (const char *)p.digest.p,
                                (Py_ssize_t)p.digest.n);
        } else {
            struct sk_job_file f;
            sk_job_file(r, &f);
            row = Py_BuildValue("(NNKK)", text(f.staged), text(f.final), (unsigned long long)f.rows,
                                (unsigned long long)f.bytes);
        }
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (!list) return NULL;
    if (r->kind == SK_JOB_HEAD)
        return Py_BuildValue("(IKNNN)", r->kind, (unsigned long long)r->unit, text(r->mode),
                             text(r->prefix), list);
    return Py_BuildValue("(IKN)", r->kind, (unsigned long long)r->unit, list);
}

static PyObject *joblog_records(PyObject *self, PyObject *unused SK_UNUSED) {
    struct py_joblog *l = open_log(self);
    PyObject *list = l ? PyList_New(0) : NULL;
    if (!list) return NULL;
    struct sk_bytes b = sk_joblog_bytes(l->log);
    struct sk_job_rec r;
    size_t at = 0;
    uint32_t crc = 0;
    while (list && sk_job_next(b.p, b.n, &at, &crc, &r)) {
        PyObject *row = record(&r);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *joblog_cut(PyObject *self, PyObject *unused SK_UNUSED) {
    struct py_joblog *l = open_log(self);
    return l ? PyLong_FromUnsignedLongLong(sk_joblog_cut(l->log)) : NULL;
}

/* ---- writing a log --------------------------------------------------------------------------- */

static PyObject *append(struct py_joblog *l, const struct sk_job_rec *r,
                        const struct sk_job_part *parts, const struct sk_job_file *files) {
    PY_ERR(err);
    sk_rc rc;
    PY_DROP(l->st)
    rc = sk_joblog_append(l->log, r, parts, files, &err);
    PY_TAKE(l->st)
    return rc == SK_OK ? Py_NewRef(Py_None) : py_raise(l->st, rc, &err);
}

static PyObject *joblog_head(PyObject *self, PyObject *args) {
    struct py_joblog *l = open_log(self);
    const char *mode, *prefix;
    unsigned long long units;
    PyObject *list, *r = NULL;
    if (!l || !PyArg_ParseTuple(args, "KssO!:head", &units, &mode, &prefix, &PyList_Type, &list))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    struct sk_job_part *parts = sk_calloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *parts);
    if (!parts) return PyErr_NoMemory();
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        const char *label, *digest;
        Py_ssize_t n_label, n_digest;
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "s#y#", &label, &n_label, &digest,
                              &n_digest) != 0;
        if (ok)
            parts[i] = (struct sk_job_part){{label, (size_t)n_label}, {digest, (size_t)n_digest}};
    }
    struct sk_job_rec rec = {.kind = SK_JOB_HEAD,
                             .n = (uint32_t)n,
                             .unit = units,
                             .mode = {mode, strlen(mode)},
                             .prefix = {prefix, strlen(prefix)}};
    if (ok) r = append(l, &rec, parts, NULL);
    sk_free(parts);
    return r;
}

static PyObject *joblog_unit(PyObject *self, PyObject *args) {
    struct py_joblog *l = open_log(self);
    unsigned long long unit;
    PyObject *list, *r = NULL;
    if (!l || !PyArg_ParseTuple(args, "KO!:unit", &unit, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    struct sk_job_file *files = sk_calloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *files);
    if (!files) return PyErr_NoMemory();
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        const char *staged, *final;
        Py_ssize_t n_staged, n_final;
        unsigned long long rows, bytes;
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "y#y#KK", &staged, &n_staged, &final,
                              &n_final, &rows, &bytes) != 0;
        if (ok)
            files[i] = (struct sk_job_file){
                {staged, (size_t)n_staged}, {final, (size_t)n_final}, rows, bytes};
    }
    struct sk_job_rec rec = {.kind = SK_JOB_UNIT, .n = (uint32_t)n, .unit = unit};
    if (ok) r = append(l, &rec, NULL, files);
    sk_free(files);
    return r;
}

static PyObject *mark(PyObject *self, uint32_t kind) {
    struct py_joblog *l = open_log(self);
    return l ? append(l, &(struct sk_job_rec){.kind = kind}, NULL, NULL) : NULL;
}
static PyObject *joblog_commit(PyObject *self, PyObject *unused SK_UNUSED) {
    return mark(self, SK_JOB_COMMIT);
}
static PyObject *joblog_done(PyObject *self, PyObject *unused SK_UNUSED) {
    return mark(self, SK_JOB_DONE);
}

static PyObject *call(PyObject *self, sk_rc (*fn)(struct sk_joblog *, struct sk_err *)) {
    struct py_joblog *l = open_log(self);
    PY_ERR(err);
    sk_rc rc;
    if (!l) return NULL;
    PY_DROP(l->st)
    rc = fn(l->log, &err);
    PY_TAKE(l->st)
    return rc == SK_OK ? Py_NewRef(Py_None) : py_raise(l->st, rc, &err);
}
static PyObject *joblog_sync(PyObject *self, PyObject *unused SK_UNUSED) {
    return call(self, sk_joblog_sync);
}
static PyObject *joblog_clear(PyObject *self, PyObject *unused SK_UNUSED) {
    return call(self, sk_joblog_clear);
}

static PyObject *joblog_close(PyObject *self, PyObject *unused SK_UNUSED) {
    sk_joblog_close(&((struct py_joblog *)(void *)self)->log);
    Py_RETURN_NONE;
}

static PyMethodDef joblog_methods[] = {
    {"records", joblog_records, METH_NOARGS,
     "As it was when opened: (1, units, mode, prefix, [(label, digest)]), (2, unit, [(staged, "
     "final, rows, bytes)]), (3, 0, []) commit, "
     "(4, 0, []) done."},
    {"cut", joblog_cut, METH_NOARGS,
     "Bytes of a torn or damaged end that were cut off when it was opened."},
    {"head", joblog_head, METH_VARARGS, "head(units, mode, prefix, [(label, digest)])"},
    {"unit", joblog_unit, METH_VARARGS,
     "unit(number, [(staged, final, rows, bytes)]): names as bytes"},
    {"commit", joblog_commit, METH_NOARGS, "All units are written."},
    {"done", joblog_done, METH_NOARGS, "All files are in their places."},
    {"sync", joblog_sync, METH_NOARGS, "What was appended is durable."},
    {"clear", joblog_clear, METH_NOARGS, "Forgets everything."},
    {"close", joblog_close, METH_NOARGS, "Idempotent."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot joblog_slots[] = {
    {Py_tp_new, joblog_new},
    {Py_tp_dealloc, joblog_dealloc},
    {Py_tp_methods, joblog_methods},
    {Py_tp_doc, "JobLog(path): the log of a resumable job, taken for this process."},
    {0, NULL},
};
static PyType_Spec joblog_spec = {"skate._skate.JobLog", sizeof(struct py_joblog), 0,
                                  Py_TPFLAGS_DEFAULT, joblog_slots};

int py_joblog_types(PyObject *module, struct py_state *st) {
    (void)st;
    PyObject *type = PyType_FromModuleAndSpec(module, &joblog_spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)(void *)type) : -1;
    Py_XDECREF(type);
    return r;
}

static PyObject *m_job_move(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *from = NULL, *to = NULL, *out = NULL;
    int replace = 1;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "O&O&|p:job_move", PyUnicode_FSConverter, &from,
                          PyUnicode_FSConverter, &to, &replace))
        return NULL;
    sk_rc rc;
    Py_BEGIN_ALLOW_THREADS rc =
        sk_job_move(PyBytes_AS_STRING(from), PyBytes_AS_STRING(to), replace, &err);
    Py_END_ALLOW_THREADS int why = errno;
    if (rc == SK_OK || rc == SK_ENOENT) out = PyBool_FromLong(rc == SK_OK);
    else if (rc == SK_ENOMEM) py_raise(st, rc, &err);
    else {
        errno = rc == SK_EEXIST ? EEXIST : why;
        /* Python makes FileExistsError, PermissionError, ... of this OSError by errno */
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(to));
    }
    Py_DECREF(from);
    Py_DECREF(to);
    return out;
}

static PyObject *m_job_sync_dir(PyObject *module, PyObject *arg) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *path = NULL;
    PY_ERR(err);
    if (!PyUnicode_FSConverter(arg, &path)) return NULL;
    sk_rc rc;
    Py_BEGIN_ALLOW_THREADS rc = sk_job_sync_dir(PyBytes_AS_STRING(path), &err);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    return rc == SK_OK ? Py_NewRef(Py_None) : py_raise(st, rc, &err);
}

static PyObject *m_fault(PyObject *module, PyObject *args) {
    const char *spec;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "s:fault", &spec)) return NULL;
    sk_rc rc = sk_fault_parse(spec, &err);
    return rc == SK_OK ? Py_NewRef(Py_None) : py_raise(PyModule_GetState(module), rc, &err);
}

PyMethodDef py_joblog_methods[] = {
    {"fault", m_fault, METH_VARARGS,
     "Sets fault points of this process (base/fault.h), for tests; those of workers come from "
     "SKATE_FAULT."},
    {"job_move", m_job_move, METH_VARARGS,
     "job_move(from, to, replace=True): a rename; False when there is no `from`. FileExistsError: "
     "something is there, and replace is "
     "False."},
    {"job_sync_dir", m_job_sync_dir, METH_O, "The names in a folder become durable."},
    {NULL, NULL, 0, NULL},
};
