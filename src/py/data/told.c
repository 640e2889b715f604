/* told.c - Told: a told strategy of exchanges, which is written in Python and answers a run's
 * questions from outside of the run (shuffle/told.h).
 *
 * A run wakes the strategy's thread while it holds the locks of the run and of the engine. So
 * waking takes a mutex that is held for nothing else, and never the GIL. The answering thread drops
 * the GIL before it enters the run. So no thread holds the GIL while it waits for the lock of a run
 * whose holder waits for the GIL. */
#include "exec/exec.h"
#include "py/data/data.h"
#include "shuffle/told.h"

struct told {
    PyObject_HEAD struct sk_told t;
    struct py_state *st;
    PyObject *name; /* bytes object with the name to which t points */
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool asked, closed;
};

static struct told *told_of(PyObject *o) { return (struct told *)(void *)o; }

static void wake(void *arg) {
    struct told *p = arg;
    pthread_mutex_lock(&p->mu);
    p->asked = true;
    pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->mu);
}

const struct sk_shuffle_ops *py_told_ops(PyObject *o) { return &told_of(o)->t.ops; }

static PyObject *told_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {"name", NULL};
    const char *name;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "s:Told", names, &name)) return NULL;
    PyObject *text = PyBytes_FromString(name);
    struct told *p = text ? (struct told *)(void *)type->tp_alloc(type, 0) : NULL;
    if (!p) {
        Py_XDECREF(text);
        return NULL;
    }
    p->st = py_state_of(type);
    p->name = text;
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->cond, NULL);
    sk_told_init(&p->t, PyBytes_AS_STRING(text), wake, p);
    return (PyObject *)p;
}

static void told_dealloc(PyObject *o) {
    struct told *p = told_of(o);
    PyTypeObject *type = Py_TYPE(o);
    sk_told_deinit(&p->t);
    pthread_mutex_destroy(&p->mu);
    pthread_cond_destroy(&p->cond);
    Py_XDECREF(p->name);
    type->tp_free(o);
    Py_DECREF(type);
}

/* ---- questions of the run -------------------------------------------------------------------- */

struct asked {
    struct sk_told *t;
    struct sk_told_question q;
};

static sk_rc next(void *arg, struct sk_err *err) {
    struct asked *a = arg;
    (void)err;
    sk_told_next(a->t, &a->q);
    return SK_OK;
}

static PyObject *sizes(const struct sk_shuffle_sizes *z) {
    return Py_BuildValue("(KNNNIIKKK)", (unsigned long long)z->memory_bytes,
                         PyBool_FromLong(z->spills), PyBool_FromLong(z->runs),
                         PyBool_FromLong(z->merges), z->slots, z->nodes,
                         (unsigned long long)z->bytes, (unsigned long long)z->map_bytes,
                         (unsigned long long)z->reduce_bytes);
}

static PyObject *question(const struct sk_told_question *q) {
    static const char *const kinds[] = {
        [SK_TOLD_SIZES] = "values", [SK_TOLD_PACK] = "came", [SK_TOLD_ENDED] = "ended"};
    return Py_BuildValue("(sIN(IIIK))", kinds[q->kind], q->side, sizes(&q->sizes), q->pack.first,
                         q->pack.end, q->pack.node, (unsigned long long)q->pack.bytes);
}

/* Waits for a question of the run. False: there will be no more questions. */
static bool await(struct told *p) {
    bool closed;
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&p->mu);
    while (!p->asked && !p->closed) pthread_cond_wait(&p->cond, &p->mu);
    p->asked = false;
    closed = p->closed;
    pthread_mutex_unlock(&p->mu);
    Py_END_ALLOW_THREADS;
    return !closed;
}

static PyObject *told_close(PyObject *self, PyObject *unused SK_UNUSED) {
    struct told *p = told_of(self);
    pthread_mutex_lock(&p->mu);
    p->closed = true;
    pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->mu);
    Py_RETURN_NONE;
}

static PyObject *told_next(PyObject *self, PyObject *exec) {
    struct told *p = told_of(self);
    struct asked a = {.t = &p->t};
    PY_ERR(err);
    for (;;) {
        sk_rc rc = py_exec_call(p->st, exec, next, &a, &err);
        if (rc == SK_EDONE || rc == SK_ECLOSED) Py_RETURN_NONE;
        if (rc != SK_OK) return PyErr_Occurred() ? NULL : py_raise(p->st, rc, &err);
        if (a.q.kind) return question(&a.q);
        if (!await(p)) Py_RETURN_NONE;
    }
}

/* ---- answers to the run ---------------------------------------------------------------------- */

enum verb { VALUES, PASS, HOLD, MERGE, MERGE_AGAIN, PASS_GROUP, GROUPS, OVER, FAIL };
static const char *const verbs[] = {
    [VALUES] = "values",         [PASS] = "pass",     [HOLD] = "hold",
    [MERGE] = "merge",           [GROUPS] = "groups", [MERGE_AGAIN] = "merge_again",
    [PASS_GROUP] = "pass_group", [OVER] = "over",     [FAIL] = "fail"};

struct answer {
    struct sk_told *t;
    enum verb verb;
    uint32_t side, a, b;
    uint64_t most; /* MERGE_AGAIN */
    struct sk_told_state now;
    SK_VEC(struct sk_shuffle_group) groups;
};

static sk_rc list_groups(struct answer *a, struct sk_err *err) {
    struct sk_shuffle_group g;
    for (uint32_t i = 0; sk_told_group(a->t, a->side, i, &g); i++)
        if (!sk_vec_push(&a->groups, SK_TAG_PY, g))
            return SK_ERR(err, SK_ENOMEM, "no memory for the groups of a shuffle strategy");
    return SK_OK;
}

static sk_rc say(void *arg, struct sk_err *err) {
    struct answer *a = arg;
    a->now.gone = a->side >= a->t->in.n;
    if (a->verb == FAIL) return SK_ERR(err, SK_ETASK, "the shuffle strategy raised an error");
    if (a->now.gone) return SK_OK;
    switch (a->verb) {
    case VALUES: sk_told_values(a->t, a->side, a->a); return SK_OK;
    case PASS: return sk_told_pass(a->t, a->side, &a->now, err);
    case HOLD: return sk_told_hold(a->t, a->side, a->a, a->b, &a->now, err);
    case MERGE:
    case MERGE_AGAIN:
    case PASS_GROUP:
        return sk_told_end_group(a->t, a->side, a->a,
                                 a->verb == MERGE         ? SK_TOLD_MERGE
                                 : a->verb == MERGE_AGAIN ? SK_TOLD_MERGE_AGAIN
                                                          : SK_TOLD_PASS,
                                 a->most, &a->now, err);
    case OVER: return sk_told_over(a->t, a->side, &a->now, err);
    case GROUPS: return list_groups(a, err);
    case FAIL: break;
    }
    return SK_OK;
}

static PyObject *group(const struct sk_shuffle_group *g) {
    return Py_BuildValue("(IIIKK)", g->first, g->end, g->n, (unsigned long long)g->bytes,
                         (unsigned long long)g->back);
}

static PyObject *groups(const struct answer *a) {
    PyObject *list = PyList_New(a->groups.n);
    for (uint32_t i = 0; list && i < a->groups.n; i++) {
        PyObject *g = group(&a->groups.p[i]);
        if (g) PyList_SET_ITEM(list, i, g);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *state_after(const struct answer *a) {
    if (a->now.gone) Py_RETURN_NONE;
    if (a->verb == GROUPS) return groups(a);
    if (a->now.no_group) Py_RETURN_FALSE;
    return Py_BuildValue("(KN)", (unsigned long long)a->now.held, group(&a->now.group));
}

static PyObject *told_say(PyObject *self, PyObject *args) {
    struct told *p = told_of(self);
    struct answer a = {.t = &p->t};
    const char *verb;
    PyObject *exec;
    unsigned n = 0;
    unsigned long long most = 0;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "OsI|IIK:say", &exec, &verb, &a.side, &a.a, &a.b, &most))
        return NULL;
    a.most = most;
    while (n < SK_COUNT(verbs) && strcmp(verbs[n], verb) != 0) n++;
    if (n == SK_COUNT(verbs)) return PyErr_Format(PyExc_ValueError, "no answer is '%s'", verb);
    a.verb = (enum verb)n;
    sk_rc rc = py_exec_call(p->st, exec, say, &a, &err);
    bool over = rc == SK_EDONE || rc == SK_ECLOSED || (a.verb == FAIL && rc != SK_OK);
    PyObject *r = NULL;
    if (rc == SK_OK) r = state_after(&a);
    else if (!PyErr_Occurred()) r = over ? Py_NewRef(Py_None) : py_raise(p->st, rc, &err);
    sk_vec_free(&a.groups);
    return r;
}

static PyMethodDef told_methods[] = {
    {"next", told_next, METH_O,
     "next(exec): (what, input, sizes, pack): what its run asks, the earliest first; waits. None: "
     "nothing will be asked any more."},
    {"say", told_say, METH_VARARGS,
     "say(exec, what, input, ...): an answer; (bytes held, group). None: it is not wanted any "
     "more; False: there is no such group."},
    {"close", told_close, METH_NOARGS, "Its run is over: nothing is asked any more."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot told_slots[] = {
    {Py_tp_new, told_new},
    {Py_tp_dealloc, told_dealloc},
    {Py_tp_methods, told_methods},
    {Py_tp_doc, "Told(name): the strategy of one exchange of one run, which a thread answers for."},
    {0, NULL},
};
static PyType_Spec told_spec = {"skate._skate.Told", sizeof(struct told), 0, Py_TPFLAGS_DEFAULT,
                                told_slots};

int py_told_types(PyObject *module, struct py_state *st) {
    st->told_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &told_spec, NULL);
    return st->told_type ? PyModule_AddType(module, st->told_type) : -1;
}
