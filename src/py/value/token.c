/* token.c - ActorToken: a counted handle of an actor in this process.
 *
 * The engine counts handles by process. A weak token (ready is NULL) is not counted, and its
 * actor may be gone. */
#include "py/value/value.h"

struct token {
    PyObject_HEAD uint64_t id;
    uint32_t gen;
    PyObject *ready; /* NULL: not counted, so the actor may be gone */
};

PyObject *py_token_new(struct py_state *st, uint64_t aid, PyObject *ready) {
    struct token *t = PyObject_New(struct token, st->token_type);
    if (!t) {
        sk_actor_release(st->engine, (sk_aid){aid});
        return NULL;
    }
    t->id = aid;
    t->gen = st->gen;
    t->ready = Py_NewRef(ready);
    return (PyObject *)t;
}

PyObject *py_token_weak(struct py_state *st, uint64_t aid) {
    struct token *t = PyObject_New(struct token, st->token_type);
    if (!t) return NULL;
    t->id = aid;
    t->gen = st->gen;
    t->ready = NULL;
    return (PyObject *)t;
}

PyObject *py_restore_token(struct py_state *st, uint64_t aid, PyObject *ready) {
    sk_actor_retain(st->engine, (sk_aid){aid});
    return py_token_new(st, aid, ready);
}

static void token_dealloc(PyObject *o) {
    struct token *t = (struct token *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (t->ready && st && st->engine && t->gen == st->gen && !st->closing)
        sk_actor_release(st->engine, (sk_aid){t->id});
    Py_XDECREF(t->ready);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *token_id(PyObject *o, void *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct token *)(void *)o)->id);
}

static PyObject *token_ready(PyObject *o, void *unused SK_UNUSED) {
    const struct token *t = (struct token *)(void *)o;
    return Py_NewRef(t->ready ? t->ready : Py_None);
}

static PyObject *token_is_alive(PyObject *o, void *unused SK_UNUSED) {
    const struct py_state *st = py_state_of(Py_TYPE(o));
    return PyBool_FromLong(st->engine && ((struct token *)(void *)o)->gen == st->gen);
}

static PyObject *token_reduce(PyObject *o, PyObject *unused SK_UNUSED) {
    const struct token *t = (struct token *)(void *)o;
    struct py_state *st = py_state_of(Py_TYPE(o));
    if (!t->ready) return Py_BuildValue("O(K)", st->weak_token, (unsigned long long)t->id);
    /* `ready` is an ObjectRef, so the pickle that contains it holds the actor */
    return Py_BuildValue("O(KO)", st->restore_token, (unsigned long long)t->id, t->ready);
}

static PyMethodDef token_methods[] = {
    {"__reduce__", token_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef token_getset[] = {
    {"id", token_id, NULL, NULL, NULL},
    {"ready", token_ready, NULL,
     "ObjectRef that is ready when the constructor has run; None in a weak one.", NULL},
    {"alive", token_is_alive, NULL, "It is of the engine that is open.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot token_slots[] = {
    {Py_tp_dealloc, token_dealloc},
    {Py_tp_methods, token_methods},
    {Py_tp_getset, token_getset},
    {Py_tp_doc, "A counted handle on an actor in this process."},
    {0, NULL},
};
static PyType_Spec token_spec = {"skate._skate.ActorToken", sizeof(struct token), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 token_slots};

bool py_token_alive(struct py_state *st, PyObject *o) {
    if (st->engine && ((struct token *)(void *)o)->gen == st->gen && !st->closing) return true;
    py_raise(st, SK_ECLOSED,
             &(struct sk_err){.msg = "this actor is of an engine that was shut down. It might be "
                                     "dead or it's from a different cluster"});
    return false;
}

sk_aid py_token_actor(PyObject *token) { return (sk_aid){((struct token *)(void *)token)->id}; }

int py_token_types(PyObject *module, struct py_state *st) {
    st->token_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &token_spec, NULL);
    return st->token_type ? PyModule_AddType(module, st->token_type) : -1;
}
