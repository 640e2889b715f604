/* py_task.c - Template (everything about a remote function that stays the same between calls) and ActorToken (a counted handle).
 *
 * Template.submit is what users call as f.remote: no Python frame lies between. It encodes the arguments into borrowed bytes, puts those over
 * SK_INLINE_MAX into the store first, and makes one engine call. A definition is pickled at the first submit and sent once an engine;
 * a Template made from another one (options) shares it. Cost: 0.3 us and 30 ns a scalar argument, besides the engine. */
#include "base/wire.h"
#include "py/py_int.h"

enum kind { TASK, ACTOR, METHOD };

struct sig {                                /* for checking calls where they are made */
    PyObject *func;                         /* NULL: no check */
    PyObject *names;                        /* tuple: co_varnames */
    uint32_t skip, n_posonly, n_pos, n_all; /* indices into names, self included */
    uint64_t required;
    bool varargs, varkw;
};

#define KEPT 8 /* definitions of a template for other surroundings, the one that was used longest ago goes */

struct made {         /* a definition for one kind of surroundings */
    PyObject *def;    /* bytes */
    PyObject *refs;   /* references in the closure: live as long as the definition; or NULL */
    sk_fid fid;       /* 0: this engine does not have it yet */
    uint32_t content; /* number of the surroundings */
};

struct tmpl {
    PyObject_HEAD enum kind kind;
    uint32_t gen;     /* fid and shape are known to this engine */
    uint32_t tick;    /* of st->around, when it was sent */
    uint32_t content; /* of the surroundings that `def` is for */
    uint32_t n_kept;
    struct made *kept; /* the definitions for others; NULL: there were none */
    sk_fid fid;
    sk_shape shape;
    uint32_t n_returns, stream_window;
    int32_t max_retries, max_restarts, max_task_retries;
    bool retry_exceptions, has_shape;
    bool named; /* METHOD: another name than that of the method */
    uint32_t group, max_calls, max_pending;
    /* ACTOR */
    uint32_t groups[SK_GROUPS_MAX], n_groups;
    bool is_async, detached;
    uint64_t pg;                                       /* placement group, 0: none */
    int32_t bundle;                                    /* of it, -1: any */
    enum { AS_IT_COMES, CAPTURES, STAYS_OUT } capture; /* what it submits goes to its group; it does not go to that of who submits it */
    uint32_t env_number;                               /* of `env`; 0: that of who submits it */
    PyObject *env;                                     /* bytes for the apply_env hook, or NULL */
    PyObject *unfit;                                   /* says why its options let it run nowhere (a str, or None), or NULL */
    PyObject *refused;                                 /* str: why it can never run in this engine; or NULL */
    PyObject *actor_name, *space, *meta;               /* str, str, bytes or NULL */
    struct sk_res res;
    PyObject *custom;              /* dict of custom resources or NULL */
    PyObject *target;              /* function, class, or the method's name */
    PyObject *token;               /* METHOD */
    PyObject *retry_on;            /* METHOD: a pickled tuple of exception classes, or NULL */
    PyObject *base;                /* Template that has the definition, or NULL */
    PyObject *def;                 /* bytes */
    PyObject *def_refs;            /* references in the closure: live as long as the definition */
    PyObject *name;                /* str */
    PyObject *kw_names, *kw_bytes; /* of the last call site with keywords */
    struct sig sig;
};

struct token {
    PyObject_HEAD uint64_t id;
    uint32_t gen;
    PyObject *ready; /* NULL: not counted, the actor may be gone */
};

/* ---- ActorToken ---------------------------------------------------------------------------------------------------------------------- */

static PyObject *token_new(struct py_state *st, uint64_t aid, PyObject *ready) /* takes a counted handle */
{
    struct token *t = PyObject_New(struct token, st->token_type);
    if (!t) {
        st->engine->ops->actor_release(st->engine, (sk_aid){aid});
        return NULL;
    }
    t->id = aid;
    t->gen = st->gen;
    t->ready = Py_NewRef(ready);
    return (PyObject *)t;
}

static PyObject *token_weak(struct py_state *st, uint64_t aid) {
    struct token *t = PyObject_New(struct token, st->token_type);
    if (!t) return NULL;
    t->id = aid;
    t->gen = st->gen;
    t->ready = NULL;
    return (PyObject *)t;
}

PyObject *py_restore_token(struct py_state *st, uint64_t aid, PyObject *ready) {
    st->engine->ops->actor_addref(st->engine, (sk_aid){aid});
    return token_new(st, aid, ready);
}

static void token_dealloc(PyObject *o) {
    struct token *t = (struct token *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (t->ready && st && st->engine && t->gen == st->gen && !st->closing) st->engine->ops->actor_release(st->engine, (sk_aid){t->id});
    Py_XDECREF(t->ready);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *token_id(PyObject *o, void *unused SK_UNUSED) { return PyLong_FromUnsignedLongLong(((struct token *)(void *)o)->id); }

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
    return Py_BuildValue("O(KO)", st->restore_token, (unsigned long long)t->id, t->ready); /* `ready` is collected, and holds the actor */
}

static PyMethodDef token_methods[] = {
    {"__reduce__", token_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef token_getset[] = {
    {"id", token_id, NULL, NULL, NULL},
    {"ready", token_ready, NULL, "ObjectRef that is ready when the constructor has run; None in a weak one.", NULL},
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
static PyType_Spec token_spec = {"skate._skate.ActorToken", sizeof(struct token), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 token_slots};

static bool token_alive(struct py_state *st, PyObject *o) {
    if (st->engine && ((struct token *)(void *)o)->gen == st->gen && !st->closing) return true;
    py_raise(st, SK_ECLOSED,
             &(struct sk_err){.msg = "this actor is of an engine that was shut down. It might be dead or it's from a different cluster"});
    return false;
}

/* ---- Template: definition and shape ------------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const uint8_t *p, size_t n, uint64_t seed) /* never 0 */
{
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        __uint128_t m = (__uint128_t)(h ^ w) * 0xD6E8FEB86659FD93u;
        h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ w;
    }
    uint64_t w = 0;
    memcpy(&w, p, n);
    __uint128_t m = (__uint128_t)(h ^ w ^ 0xA0761D6478BD642Fu) * 0xE7037ED1A0B428DBu;
    h = (uint64_t)m ^ (uint64_t)(m >> 64);
    return h ? h : 1;
}

static int make_def(struct py_state *st, struct tmpl *t) {
    if (t->def) return 0;
    if (t->kind == METHOD) {
        t->def = PyUnicode_AsUTF8String(t->target);
        if (t->def && t->retry_on) { /* name, NUL, the classes */
            PyBytes_ConcatAndDel(&t->def, PyBytes_FromStringAndSize("", 1));
            PyBytes_Concat(&t->def, t->retry_on);
        }
    } else if (!st->hook_dump_function) {
        PyErr_SetString(PyExc_RuntimeError, "the dump_function hook is not set");
    } else {
        struct py_collector c = {0};
        py_collector_push(&c);
        t->def = PyObject_CallOneArg(st->hook_dump_function, t->target);
        py_collector_pop(&c);
        if (!t->def) py_front_strip(st);
        if (t->def && !PyBytes_CheckExact(t->def)) {
            Py_CLEAR(t->def);
            PyErr_SetString(PyExc_TypeError, "dump_function must return bytes");
        }
        if (t->def && c.refs.n && py_ref_strict()) {
            Py_CLEAR(t->def);
            py_raise_class(
                st, "OufOfBandObjectRefSerializationException",
                "a function refers to an ObjectRef in its closure or globals, which RAY_allow_out_of_band_object_ref_serialization=0 "
                "forbids: pass the ref as an argument");
        }
        if (t->def && c.refs.n) { /* the definition is used as long as they live */
            t->def_refs = PyTuple_New((Py_ssize_t)c.refs.n);
            for (uint32_t i = 0; t->def_refs && i < c.refs.n; i++) PyTuple_SET_ITEM(t->def_refs, (Py_ssize_t)i, Py_NewRef(c.refs.p[i]));
            if (!t->def_refs) Py_CLEAR(t->def);
        }
        py_collector_free(&c);
    }
    if (!t->def) return -1;
    return 0;
}

static int by_index(const void *a, const void *b) {
    uint64_t x = ((const struct sk_amount *)a)->index, y = ((const struct sk_amount *)b)->index;
    return x < y ? -1 : x > y;
}

/* Custom resources by name; those that have no place in *r as one number. `more` NULL: such are refused. -1: exception; else *rc says whether the
 * engine knows them. */
int py_add_custom(struct py_state *st, PyObject *custom, struct sk_res *r, uint32_t *more, struct sk_err *err, sk_rc *rc) {
    const struct sk_engine_ops *ops = st->engine->ops;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    struct sk_amount *v = NULL;
    uint32_t n = 0;
    int done = 0;
    *rc = SK_OK;
    while (*rc == SK_OK && custom && PyDict_Next(custom, &pos, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        double amount = PyFloat_AsDouble(value);
        uint32_t i;
        if (!name || (amount == -1.0 && PyErr_Occurred())) {
            done = -1;
            break;
        }
        if (amount == 0) continue;
        *rc = ops->res_index(st->engine, name, &i, err);
        if (*rc != SK_OK) break;
        int64_t a = (int64_t)(amount * SK_RES_UNIT + 0.5);
        if (i < SK_RES_MAX) {
            r->amount[i] = a;
        } else if (!more || !ops->more) {
            *rc = SK_ERR(err, SK_EINFEASIBLE, "resource '%s': bundles of placement groups hold only the first %d of init(resources={...})",
                         name, SK_RES_MAX - SK_RES_CUSTOM);
        } else {
            if (!v && !(v = sk_calloc(SK_TAG_PY, (size_t)PyDict_GET_SIZE(custom) * sizeof *v))) {
                PyErr_NoMemory();
                done = -1;
                break;
            }
            v[n++] = (struct sk_amount){i, a};
        }
    }
    if (done == 0 && *rc == SK_OK && n) {
        qsort(v, n, sizeof *v, by_index);
        *rc = ops->more(st->engine, v, n, more, err);
    }
    sk_free(v);
    return done;
}

/* -1: exception. Else *rc. */
static int find_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what, sk_shape *out, sk_rc *rc,
                      struct sk_err *err) {
    struct sk_need n = *base;
    if (py_gone(st, st->gen) || py_add_custom(st, custom, &n.res, &n.more, err, rc) < 0) return -1;
    if (*rc == SK_OK && (n.group || n.env) && !st->engine->ops->need) *rc = SK_ERR(err, SK_ENOSYS, "this engine has no placement groups");
    if (*rc == SK_OK)
        *rc = n.group || n.env || n.more ? st->engine->ops->need(st->engine, &n, out, err)
                                         : st->engine->ops->shape(st->engine, &n.res, out, err);
    if (*rc != SK_OK) sk_err_prefix(err, "%s can never run here", what);
    return 0;
}

int py_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what, sk_shape *out) {
    PY_ERR(err);
    sk_rc rc;
    if (find_shape(st, base, custom, what, out, &rc, &err) < 0) return -1;
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

int py_define(struct py_state *st, PyObject *def, PyObject *name, bool method, sk_fid *out) {
    PY_ERR(err);
    const char *s = PyUnicode_AsUTF8(name);
    if (!s || py_gone(st, st->gen)) return -1; /* by code in the definition */
    struct sk_bytes b = {PyBytes_AS_STRING(def), (size_t)PyBytes_GET_SIZE(def)};
    out->v = hash_bytes(b.p, b.n,
                        method ? hash_bytes((const uint8_t *)s, strlen(s), 1) : 0); /* methods of one name are not those of one class */
    sk_rc rc = st->engine->ops->fn_define(st->engine, *out, s, b, &err);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

/* Engines leave out what they cannot do. */
static bool has_op(struct py_state *st, void (*op)(void)) {
    if (op) return true;
    PyErr_Format(PyExc_NotImplementedError, "the engine \"%s\" cannot do this", st->engine->ops->name);
    return false;
}

/* Its environment, inside that of this process. */
int py_env(struct py_state *st, PyObject *env, uint32_t *out) {
    PY_ERR(err);
    if (!has_op(st, (void (*)(void))st->engine->ops->env_define)) return -1;
    PyObject *m = st->worker ? PyImport_ImportModule("skate.runtime_env") : NULL;
    PyObject *whole = m ? PyObject_CallMethod(m, "inside", "O", env) : st->worker ? NULL : Py_NewRef(env);
    Py_XDECREF(m);
    char *p;
    Py_ssize_t n;
    if (!whole || py_gone(st, st->gen) || PyBytes_AsStringAndSize(whole, &p, &n) < 0) {
        Py_XDECREF(whole);
        return -1;
    }
    sk_rc rc = st->engine->ops->env_define(st->engine, (struct sk_bytes){p, (size_t)n}, out, &err);
    Py_DECREF(whole);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

static int keep_text(PyObject **to, PyObject *o, PyTypeObject *type, const char *what) {
    if (!o || o == Py_None) return 0;
    if (!PyObject_TypeCheck(o, type)) {
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %s", what, type->tp_name, Py_TYPE(o)->tp_name);
        return -1;
    }
    *to = Py_NewRef(o);
    return 0;
}

/* What the program has around itself (skate/surroundings.py) is another since a function was sent, as far as sizes tell, or it has another list for sys.path:
 * what was sent with the same before is used, else it is sent again, with that. 10 ns. */
static bool is_prepared(struct py_state *st, const struct tmpl *t) {
    if (st->around.path) {
        PyObject *path = PyDict_GetItemWithError(st->around.sys, st->around.s_path);
        bool other = path != st->around.path && path && PyList_Check(path);
        if (SK_UNLIKELY(other)) Py_SETREF(st->around.path, Py_NewRef(path));
        if (SK_UNLIKELY(other || PyList_GET_SIZE(st->around.path) != st->around.path_n ||
                        PyDict_GET_SIZE(st->around.environ) != st->around.environ_n)) {
            st->around.path_n = PyList_GET_SIZE(st->around.path);
            st->around.environ_n = PyDict_GET_SIZE(st->around.environ);
            st->around.tick++;
        }
    }
    return t->gen == st->gen && t->tick == st->around.tick;
}

static PyObject *m_around(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *path, *env;
    if (!PyArg_ParseTuple(args, "O!O!:around", &PyList_Type, &path, &PyDict_Type, &env)) return NULL;
    Py_XSETREF(st->around.path, Py_NewRef(path));
    Py_XSETREF(st->around.environ, Py_NewRef(env));
    st->around.path_n = PyList_GET_SIZE(path);
    st->around.environ_n = PyDict_GET_SIZE(env);
    if (!st->around.sys) {
        PyObject *sys = PyImport_ImportModule("sys");
        st->around.s_path = PyUnicode_InternFromString("path");
        st->around.sys = sys ? Py_NewRef(PyModule_GetDict(sys)) : NULL;
        Py_XDECREF(sys);
    }
    if (!st->around.sys || !st->around.s_path) {
        Py_CLEAR(st->around.path);
        return NULL;
    }
    st->around.content = 0;
    st->around.tick++;
    Py_RETURN_NONE;
}

static PyObject *m_surrounded(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned content;
    int arrives;
    if (!PyArg_ParseTuple(args, "Ip:surrounded", &content, &arrives)) return NULL;
    st->around.content = content;
    if (arrives) st->around.arrived = content;
    Py_RETURN_NONE;
}

static void forget_kept(struct tmpl *t) {
    struct made *kept = t->kept;
    uint32_t n = t->n_kept;
    t->kept = NULL; /* destructors below are user code */
    t->n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        Py_XDECREF(kept[i].def);
        Py_XDECREF(kept[i].refs);
    }
    sk_free(kept);
}

/* The definition of `d` becomes the one for what the program has around itself now: one that was made for the same before, or none (make_def() makes it). */
static int turn_def(struct py_state *st, struct tmpl *d) {
    PyObject *m = PyImport_ImportModule("skate.surroundings"), *r = m ? PyObject_CallMethod(m, "changed", NULL) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(r);
    if (!r || py_gone(st, st->gen)) return -1;
    if (!d->def || d->content == st->around.content) return 0;
    if (!d->kept && !(d->kept = sk_calloc(SK_TAG_PY, KEPT * sizeof *d->kept))) {
        PyErr_NoMemory();
        return -1;
    }
    struct made was = {d->def, d->def_refs, d->fid, d->content}, now = {.content = st->around.content}, gone = {0};
    uint32_t i = 0;
    while (i < d->n_kept && d->kept[i].content != now.content) i++;
    if (i < d->n_kept) now = d->kept[i];
    else if (d->n_kept < KEPT) d->n_kept++;
    else gone = d->kept[--i];
    memmove(d->kept + 1, d->kept, i * sizeof *d->kept); /* in the order of their last use */
    d->kept[0] = was;
    d->def = now.def;
    d->def_refs = now.refs;
    d->fid = now.fid;
    d->content = now.content;
    Py_XDECREF(gone.def);
    Py_XDECREF(gone.refs);
    return 0;
}

static int prepare(struct py_state *st, struct tmpl *t) {
    struct tmpl *d = t->base ? (struct tmpl *)(void *)t->base : t;
    if (d->kind != METHOD) {
        if (d->gen != st->gen) { /* another engine began with other surroundings */
            forget_kept(d);
            d->fid.v = 0;
            if (d->content) {
                Py_CLEAR(d->def);
                Py_CLEAR(d->def_refs);
            }
        }
        if (d->tick != st->around.tick && d->def && turn_def(st, d) < 0) return -1;
    }
    bool made = !d->def;
    if (make_def(st, d) < 0) return -1;
    if (made) d->content = st->around.content; /* dump_function looked at them */
    if ((d->gen != st->gen || d->fid.v == 0) && py_define(st, d->def, d->named ? d->target : d->name, d->kind == METHOD, &d->fid) < 0)
        return -1; /* a name of one call is not the definition's */
    t->fid = d->fid;
    t->shape = 0;
    Py_CLEAR(t->refused);
    if (t->unfit) {
        PyObject *why = PyObject_CallNoArgs(t->unfit);
        if (!why || keep_text(&t->refused, why, &PyUnicode_Type, "unfit()") < 0) {
            Py_XDECREF(why);
            return -1;
        }
        Py_DECREF(why);
    }
    if (t->has_shape && !t->refused) {
        const char *name = PyUnicode_AsUTF8(t->name);
        struct sk_need need = {.res = t->res, .group = t->pg, .bundle = t->bundle, .capture = t->capture == CAPTURES};
        if (t->env && py_env(st, t->env, &need.env) < 0) return -1;
        t->env_number = need.env;
        PY_ERR(err);
        sk_rc rc;
        if (!name || find_shape(st, &need, t->custom, name, &t->shape, &rc, &err) < 0) return -1;
        if (rc == SK_EINFEASIBLE && !t->pg) { /* as in Ray: who gets its value hears of it, not who calls it */
            t->refused = PyUnicode_FromString(err.msg);
            if (!t->refused) return -1;
        } else if (rc != SK_OK) {
            py_raise(st, rc, &err);
            return -1;
        }
    }
    t->gen = st->gen;
    d->tick = t->tick = st->around.tick;
    return 0;
}

/* ---- Template: checking a call ------------------------------------------------------------------------------------------------------- */

static int sig_init(struct sig *s, PyObject *func, uint32_t skip) {
    if (!func || !PyFunction_Check(func)) return 0;
    PyCodeObject *co = (PyCodeObject *)(void *)PyFunction_GetCode(func);
    PyObject *defaults = PyFunction_GetDefaults(func), *kwdefaults = PyFunction_GetKwDefaults(func);
    *s = (struct sig){.skip = skip,
                      .n_posonly = (uint32_t)co->co_posonlyargcount,
                      .n_pos = (uint32_t)co->co_argcount,
                      .n_all = (uint32_t)(co->co_argcount + co->co_kwonlyargcount),
                      .varargs = co->co_flags & CO_VARARGS,
                      .varkw = co->co_flags & CO_VARKEYWORDS};
    if (s->n_all > 64 || s->n_pos < skip) return 0;
    uint32_t n_def = defaults && PyTuple_Check(defaults) ? (uint32_t)PyTuple_GET_SIZE(defaults) : 0;
    s->names = PyCode_GetVarnames(co);
    if (!s->names) return -1;
    for (uint32_t i = skip; i < s->n_all; i++) {
        bool has_default = i < s->n_pos ? i + n_def >= s->n_pos
                                        : kwdefaults && PyDict_Contains(kwdefaults, PyTuple_GET_ITEM(s->names, (Py_ssize_t)i)) == 1;
        s->required |= has_default ? 0 : UINT64_C(1) << i;
    }
    s->func = Py_NewRef(func);
    return 0;
}

static bool sig_fits(const struct sig *s, size_t n_args, PyObject *kwnames) {
    size_t room = s->n_pos - s->skip, last = s->skip + SK_MIN(n_args, room);
    if (n_args > room && !s->varargs) return false;
    uint64_t bound = last >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << last) - 1;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        uint32_t i = SK_MAX(s->n_posonly, s->skip);
        while (i < s->n_all && PyTuple_GET_ITEM(s->names, (Py_ssize_t)i) != name &&
               PyUnicode_Compare(PyTuple_GET_ITEM(s->names, (Py_ssize_t)i), name) != 0)
            i++;
        if (i < s->n_all ? bound >> i & 1 : !s->varkw) return false;
        if (i < s->n_all) bound |= UINT64_C(1) << i;
    }
    return !(s->required & ~bound);
}

/* The hook raises the TypeError that Python itself would raise. */
static int sig_complain(struct py_state *st, const struct sig *s, PyObject *const *args, size_t n, PyObject *kwnames) {
    PyObject *a = PyTuple_New((Py_ssize_t)n), *kw = PyDict_New(), *skip = PyLong_FromUnsignedLong(s->skip), *r = NULL;
    bool ok = a && kw && skip && st->hook_check_call;
    for (size_t i = 0; ok && i < n; i++) PyTuple_SET_ITEM(a, (Py_ssize_t)i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        ok = PyDict_SetItem(kw, PyTuple_GET_ITEM(kwnames, i), args[n + (size_t)i]) == 0;
    if (ok && !(r = PyObject_CallFunctionObjArgs(st->hook_check_call, s->func, skip, a, kw, NULL))) py_front_strip(st);
    Py_XDECREF(a);
    Py_XDECREF(kw);
    Py_XDECREF(skip);
    Py_XDECREF(r);
    return r || (ok == false && !PyErr_Occurred()) ? 0 : -1;
}

/* ---- Template: submit --------------------------------------------------------------------------------------------------------------------- */

#define FEW 8

struct call {
    size_t n; /* arguments for the engine */
    size_t n_enc;
    struct sk_arg *arg;
    struct py_enc *enc;
    struct py_collector c; /* references inside inline arguments */
    PyObject *kw_bytes;    /* names of the arguments: code in an argument may call from another place, which changes the template's */
    uint32_t gen;
    SK_VEC(sk_oid) temp; /* large arguments that were put */
    struct sk_arg few_arg[FEW + 1];
    struct py_enc few_enc[FEW];
};

static void call_done(struct py_state *st, struct call *k) {
    for (size_t i = 0; i < k->n_enc; i++)
        if (k->enc[i].x || k->enc[i].has_buf) py_enc_done(st, &k->enc[i]);
    for (uint32_t i = 0; i < k->temp.n && py_open(st, k->gen); i++) st->engine->ops->release(st->engine, k->temp.p[i]);
    Py_XDECREF(k->kw_bytes);
    if (SK_UNLIKELY(k->temp.cap)) sk_vec_free(&k->temp);
    if (SK_UNLIKELY(k->c.refs.cap)) py_collector_free(&k->c);
    if (SK_UNLIKELY(k->arg != k->few_arg)) {
        sk_free(k->arg);
        sk_free(k->enc);
    }
}

static int add_temp(struct py_state *st, struct call *k, sk_oid id) { /* takes the reference */
    if (sk_vec_push(&k->temp, SK_TAG_PY, id)) return 0;
    st->engine->ops->release(st->engine, id);
    PyErr_NoMemory();
    return -1;
}

static int put_large(struct py_state *st, struct call *k, struct py_enc *e, uint32_t mark, struct sk_arg *a) {
    PY_ERR(err);
    sk_oid id = {0};
    struct sk_payload p;
    if (!sk_vec_reserve(&k->temp, SK_TAG_PY, k->temp.n + 1)) {
        PyErr_NoMemory();
        return -1;
    }
    if (py_enc_payload(st, e, &k->c, mark, &p) < 0) return -1;
    py_enc_taken(e);
    sk_rc rc = st->engine->ops->put(st->engine, &p, &id, &err);
    py_collector_cut(&k->c, mark);
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        return -1;
    }
    k->temp.p[k->temp.n++] = id;
    a->ref = id;
    return 0;
}

static int add_kwnames(struct tmpl *t, PyObject *kwnames, struct sk_arg *a) {
    if (t->kw_names != kwnames) { /* a tuple of constants: the same object at every call from one place */
        Py_ssize_t n = PyTuple_GET_SIZE(kwnames), len;
        PyObject *b = NULL;
        for (int pass = 0; pass < 2; pass++) {
            struct sk_wr w = b ? sk_wr_init(PyBytes_AS_STRING(b), (size_t)PyBytes_GET_SIZE(b)) : sk_wr_init(NULL, 0);
            sk_wr_u32(&w, (uint32_t)n);
            for (Py_ssize_t i = 0; i < n; i++) {
                const char *s = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(kwnames, i), &len);
                if (!s) {
                    Py_XDECREF(b);
                    return -1;
                }
                sk_wr_bytes(&w, s, (size_t)len);
            }
            if (!b && !(b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)w.n))) return -1;
        }
        Py_XSETREF(t->kw_names, Py_NewRef(kwnames));
        Py_XSETREF(t->kw_bytes, b);
    }
    *a = (struct sk_arg){.kind = PY_KWNAMES, .bytes = {PyBytes_AS_STRING(t->kw_bytes), (size_t)PyBytes_GET_SIZE(t->kw_bytes)}};
    return 0;
}

static int call_encode(struct py_state *st, struct tmpl *t, struct call *k, PyObject *const *args, size_t n_all, PyObject *kwnames) {
    k->n = k->n_enc = 0;
    k->arg = k->few_arg;
    k->enc = k->few_enc;
    k->c = (struct py_collector){0};
    k->kw_bytes = NULL;
    k->gen = st->gen;
    k->temp.p = NULL;
    k->temp.n = k->temp.cap = 0;
    if (n_all > FEW) {
        k->arg = sk_alloc(SK_TAG_PY, (n_all + 1) * sizeof *k->arg);
        k->enc = sk_alloc(SK_TAG_PY, n_all * sizeof *k->enc);
        if (!k->arg || !k->enc) {
            PyErr_NoMemory();
            return -1;
        }
    }
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        if (add_kwnames(t, kwnames, &k->arg[0]) < 0) return -1;
        k->kw_bytes = Py_NewRef(t->kw_bytes);
        k->n = 1;
    }
    for (size_t i = 0; i < n_all; i++) {
        struct sk_arg *a = &k->arg[k->n];
        PyObject *v = args[i];
        a->ref.v = 0;
        if (py_ref_check(st, v)) {
            if (!py_ref_alive(st, v)) return -1;
            a->ref.v = ((struct py_ref *)(void *)v)->id;
        } else {
            int room = py_room_put(st, v, &a->ref);
            if (SK_UNLIKELY(room)) {
                if (room < 0 || add_temp(st, k, a->ref) < 0) return -1;
                k->n++;
                continue;
            }
            struct py_enc *e = &k->enc[k->n_enc];
            uint32_t mark = k->c.refs.n;
            if (py_encode(st, v, e, &k->c) < 0) return -1;
            k->n_enc++;
            if (SK_UNLIKELY(py_gone(st, k->gen))) return -1;
            if (SK_UNLIKELY(e->has_buf)) {
                if (put_large(st, k, e, mark, a) < 0) return -1;
            } else {
                a->kind = e->kind;
                a->bytes = (struct sk_bytes){e->p, e->n};
            }
        }
        k->n++;
    }
    return 0;
}

static PyObject *results(struct py_state *st, uint32_t n, sk_oid first, sk_tid tid, bool method) {
    if (n == SK_STREAMING) return py_gen_new(st, tid);
    if (method) tid.v |= PY_OF_METHOD;
    if (SK_LIKELY(n == 1)) return py_ref_new(st, first, tid);
    if (n == 0) Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint32_t i = 0; i < n; i++) { /* every reference gets an owner, also when one fails */
        PyObject *r = py_ref_new(st, (sk_oid){first.v + i}, tid);
        if (list && r) PyList_SET_ITEM(list, (Py_ssize_t)i, r);
        else {
            Py_XDECREF(r);
            Py_CLEAR(list);
        }
    }
    return list;
}

/* What is submitted by a task, or a call of an actor: it inherits the environment, and the placement group when that says so. */
static int shape_inside(struct py_state *st, const struct sk_need *here, const struct tmpl *t, sk_shape *shape) {
    bool captured = here->capture && !t->pg && t->capture != STAYS_OUT;
    if (!captured && (t->env_number || !here->env)) return 0;
    struct sk_need need = {.res = t->res,
                           .group = captured ? here->group : t->pg,
                           .bundle = captured ? -1 : t->bundle,
                           .env = t->env_number ? t->env_number : here->env,
                           .capture = captured || t->capture == CAPTURES};
    return py_shape(st, &need, t->custom, PyUnicode_AsUTF8(t->name), shape);
}

static PyObject *tmpl_submit(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    struct call k;
    PyObject *r = NULL;
    PY_ERR(err);
    size_t n_all = (size_t)n + (kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0);
    if (SK_UNLIKELY(py_ensure(st) < 0) || (t->kind == METHOD && !token_alive(st, t->token)) ||
        (SK_UNLIKELY(!is_prepared(st, t)) && prepare(st, t) < 0))
        return NULL;
    if (t->sig.func && SK_UNLIKELY(!sig_fits(&t->sig, (size_t)n, kwnames)) && sig_complain(st, &t->sig, args, (size_t)n, kwnames) < 0)
        return NULL;
    sk_shape shape = t->shape;
    uint32_t gen = t->gen;
    const struct sk_task *here = py_current_task();
    const struct sk_need *need = here ? here->need : py_home.env ? &py_home : NULL;
    if (SK_UNLIKELY(need != NULL) && t->kind != METHOD && !t->refused && shape_inside(st, need, t, &shape) < 0) return NULL;
    if (call_encode(st, t, &k, args, n_all, kwnames) < 0 || SK_UNLIKELY(py_gone(st, gen))) goto out;
    const sk_oid *in = NULL;
    if (SK_UNLIKELY(k.c.refs.n) && !(in = py_collector_ids(&k.c, 0))) goto out;
    struct sk_actor_spec spec = {.init = {.fn = t->fid,
                                          .args = k.arg,
                                          .n_args = (uint32_t)k.n,
                                          .contains = in,
                                          .n_contains = k.c.refs.n,
                                          .n_returns = t->n_returns,
                                          .shape = shape,
                                          .max_retries = t->max_retries,
                                          .retry_exceptions = t->retry_exceptions,
                                          .stream_window = t->stream_window,
                                          .no_wait = t->kind == METHOD,
                                          .group = t->group,
                                          .max_pending = t->max_pending,
                                          .max_calls = t->max_calls}};
    if (here && st->worker) spec.init.parent = here->id;
    if (t->base || t->named) /* the same definition under another name */
        spec.init.name = PyUnicode_AsUTF8(t->name);
    if (SK_UNLIKELY(t->refused != NULL) && !(spec.init.refused = PyUnicode_AsUTF8(t->refused))) goto out;
    sk_oid first = {0};
    sk_rc rc;
    if (t->kind == ACTOR) {
        sk_aid aid = {0};
        spec.max_restarts = t->max_restarts;
        spec.max_task_retries = t->max_task_retries;
        spec.groups = t->groups;
        spec.n_groups = t->n_groups;
        spec.is_async = t->is_async;
        spec.detached = t->detached;
        spec.name = t->actor_name ? PyUnicode_AsUTF8(t->actor_name) : NULL;
        spec.space = t->space ? PyUnicode_AsUTF8(t->space) : NULL;
        if (t->meta) spec.meta = (struct sk_bytes){PyBytes_AS_STRING(t->meta), (size_t)PyBytes_GET_SIZE(t->meta)};
        rc = st->engine->ops->actor_create(st->engine, &spec, &aid, &first, &err);
        if (rc == SK_OK) {
            PyObject *ready = py_ref_new(st, first, (sk_tid){0});
            if (ready) r = token_new(st, aid.v, ready);
            else st->engine->ops->actor_release(st->engine, aid);
            Py_XDECREF(ready);
        }
    } else {
        sk_tid tid = {0};
        if (t->kind == METHOD) spec.init.actor.v = ((struct token *)(void *)t->token)->id;
        rc = st->engine->ops->submit(st->engine, &spec.init, &first, &tid, &err);
        if (SK_LIKELY(rc == SK_OK)) r = results(st, t->n_returns, first, tid, t->kind == METHOD);
    }
    if (rc != SK_OK) py_raise(st, rc, &err);
out:
    call_done(st, &k);
    return r;
}

/* ---- Template: the type -------------------------------------------------------------------------------------------------------------------- */

static int amount(PyObject *o, double unit, int64_t *out, bool *given) {
    if (!o || o == Py_None) return 0;
    double d = PyFloat_AsDouble(o);
    if (d == -1.0 && PyErr_Occurred()) return -1;
    if (!(d >= 0)) {
        PyErr_Format(PyExc_ValueError, "an amount of resources must be >= 0, not %R", o);
        return -1;
    }
    *out = (int64_t)(d * unit + 0.5);
    *given = true;
    return 0;
}

static int tmpl_resources(struct tmpl *t, PyObject *cpus, PyObject *gpus, PyObject *memory, PyObject *custom) {
    t->res = (struct sk_res){.amount = {[SK_RES_CPU] = t->kind == TASK ? SK_RES_UNIT : 0}};
    t->has_shape = t->kind == ACTOR; /* an actor that asks for nothing takes nothing; shape 0 would be one CPU */
    if (amount(cpus, SK_RES_UNIT, &t->res.amount[SK_RES_CPU], &t->has_shape) < 0 ||
        amount(gpus, SK_RES_UNIT, &t->res.amount[SK_RES_GPU], &t->has_shape) < 0 ||
        amount(memory, 1, &t->res.amount[SK_RES_MEMORY], &t->has_shape) < 0)
        return -1;
    if (custom && custom != Py_None) {
        if (!PyDict_Check(custom)) {
            PyErr_SetString(PyExc_TypeError, "resources must be a dict");
            return -1;
        }
        if (PyDict_GET_SIZE(custom)) {
            t->custom = PyDict_Copy(custom);
            t->has_shape = true;
            if (!t->custom) return -1;
        }
    }
    return 0;
}

static int tmpl_returns(struct tmpl *t, PyObject *o) {
    t->n_returns = 1;
    if (!o || o == Py_None) return 0;
    if (PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, "streaming") == 0) {
        t->n_returns = SK_STREAMING;
        return 0;
    }
    long n = PyLong_AsLong(o);
    if (n == -1 && PyErr_Occurred()) return -1;
    if (n < 0 || n > SK_MAX_RETURNS) {
        PyErr_Format(PyExc_ValueError, "num_returns must be 0 to %d or \"streaming\", not %R", SK_MAX_RETURNS, o);
        return -1;
    }
    t->n_returns = (uint32_t)n;
    return 0;
}

/* Concurrency groups of an actor: a sequence of ints, [0] for calls that name none. */
static int tmpl_groups(struct tmpl *t, PyObject *o) {
    if (!o || o == Py_None) return 0;
    PyObject *seq = PySequence_Fast(o, "groups must be a sequence of int");
    if (!seq) return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
    int r = 0;
    if (n > SK_GROUPS_MAX) {
        PyErr_Format(PyExc_ValueError, "an actor has at most %d concurrency groups, not %zd", SK_GROUPS_MAX - 1, n - 1);
        r = -1;
    }
    for (Py_ssize_t i = 0; r == 0 && i < n; i++) {
        long v = PyLong_AsLong(PySequence_Fast_GET_ITEM(seq, i));
        if (v == -1 && PyErr_Occurred()) r = -1;
        else if (v < 1 || v > 100000) {
            PyErr_Format(PyExc_ValueError, "max_concurrency must be 1 to 100000, not %ld", v);
            r = -1;
        } else {
            t->groups[i] = (uint32_t)v;
        }
    }
    Py_DECREF(seq);
    if (r == 0) t->n_groups = (uint32_t)n;
    return r;
}

static int tmpl_init(PyObject *self, PyObject *args, PyObject *kw) {
    static char *names[] = {"kind",
                            "target",
                            "name",
                            "num_returns",
                            "num_cpus",
                            "num_gpus",
                            "memory",
                            "resources",
                            "max_retries",
                            "retry_exceptions",
                            "stream_window",
                            "max_restarts",
                            "max_task_retries",
                            "func",
                            "groups",
                            "is_async",
                            "actor_name",
                            "space",
                            "meta",
                            "detached",
                            "group",
                            "max_calls",
                            "max_pending",
                            "env",
                            "pg",
                            "bundle",
                            "capture",
                            "unfit",
                            NULL};
    PyObject *unfit = NULL, *groups = NULL, *actor_name = NULL, *space = NULL, *meta = NULL, *env = NULL;
    unsigned long long pg = 0;
    int is_async = 0, detached = 0, capture = 0;
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    const char *kind;
    PyObject *target, *name, *returns = NULL, *cpus = NULL, *gpus = NULL, *memory = NULL, *custom = NULL, *func = NULL;
    int retry_exceptions = 0;
    if (t->target) {
        PyErr_SetString(PyExc_RuntimeError, "a Template is made once");
        return -1;
    }
    t->max_retries = SK_RETRIES_DEFAULT;
    t->bundle = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "sOU|$OOOOOipIiiOOpOOOpIIIOKiiO:Template", names, &kind, &target, &name, &returns, &cpus,
                                     &gpus, &memory, &custom, &t->max_retries, &retry_exceptions, &t->stream_window, &t->max_restarts,
                                     &t->max_task_retries, &func, &groups, &is_async, &actor_name, &space, &meta, &detached, &t->group,
                                     &t->max_calls, &t->max_pending, &env, &pg, &t->bundle, &capture, &unfit))
        return -1;
    t->capture = capture == CAPTURES || capture == STAYS_OUT ? (typeof(t->capture))capture : AS_IT_COMES;
    t->retry_exceptions = retry_exceptions;
    t->is_async = is_async;
    t->detached = detached;
    if (tmpl_groups(t, groups) < 0 || keep_text(&t->actor_name, actor_name, &PyUnicode_Type, "actor_name") < 0 ||
        keep_text(&t->space, space, &PyUnicode_Type, "space") < 0 || keep_text(&t->meta, meta, &PyBytes_Type, "meta") < 0 ||
        keep_text(&t->env, env, &PyBytes_Type, "env") < 0)
        return -1;
    t->unfit = Py_XNewRef(unfit);
    t->pg = pg;
    if (strcmp(kind, "task") != 0 && strcmp(kind, "actor") != 0 && strcmp(kind, "method") != 0) {
        PyErr_Format(PyExc_ValueError, "kind %s", kind);
        return -1;
    }
    t->kind = kind[0] == 't' ? TASK : kind[0] == 'a' ? ACTOR : METHOD;
    if (t->kind != TASK && t->max_retries == SK_RETRIES_DEFAULT) t->max_retries = 0;
    t->name = Py_NewRef(name);
    if (tmpl_returns(t, returns) < 0 || tmpl_resources(t, cpus, gpus, memory, custom) < 0) return -1;
    t->has_shape |= t->pg || t->env;
    if (t->kind == METHOD) {
        PyObject *token, *method, *retry_on = NULL;
        if (!PyTuple_Check(target) || !PyArg_ParseTuple(target, "O!U|S", st->token_type, &token, &method, &retry_on))
            return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "target of a method: (ActorToken, name[, classes])"), -1);
        t->token = Py_NewRef(token);
        t->target = Py_NewRef(method);
        t->retry_on = Py_XNewRef(retry_on);
        Py_ssize_t n_name = PyUnicode_GET_LENGTH(name);
        t->named = PyUnicode_Tailmatch(name, t->target, 0, n_name, 1) != 1;
    } else {
        if (Py_TYPE(target) == st->template_type) { /* options(): shares the definition */
            struct tmpl *o = (struct tmpl *)(void *)target;
            t->base = Py_NewRef(o->base ? o->base : target);
            target = ((struct tmpl *)(void *)t->base)->target;
        }
        t->target = Py_NewRef(target);
    }
    if (!func && t->kind == TASK) func = t->target;
    return sig_init(&t->sig, func, t->kind == TASK ? 0 : 1);
}

static int tmpl_traverse(PyObject *self, visitproc visit, void *arg) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(t->custom);
    Py_VISIT(t->unfit);
    Py_VISIT(t->target);
    Py_VISIT(t->token);
    Py_VISIT(t->base);
    Py_VISIT(t->def_refs);
    for (uint32_t i = 0; i < t->n_kept; i++) Py_VISIT(t->kept[i].refs);
    Py_VISIT(t->sig.func);
    return 0;
}

static int tmpl_clear(PyObject *self) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    Py_CLEAR(t->custom);
    Py_CLEAR(t->target);
    Py_CLEAR(t->token);
    Py_CLEAR(t->retry_on);
    Py_CLEAR(t->base);
    Py_CLEAR(t->def);
    Py_CLEAR(t->def_refs);
    forget_kept(t);
    Py_CLEAR(t->name);
    Py_CLEAR(t->kw_names);
    Py_CLEAR(t->kw_bytes);
    Py_CLEAR(t->actor_name);
    Py_CLEAR(t->space);
    Py_CLEAR(t->meta);
    Py_CLEAR(t->env);
    Py_CLEAR(t->unfit);
    Py_CLEAR(t->refused);
    Py_CLEAR(t->sig.func);
    Py_CLEAR(t->sig.names);
    return 0;
}

static void tmpl_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tmpl_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *tmpl_fid(PyObject *self, void *unused SK_UNUSED) /* defines it in the open engine */
{
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    if (py_ensure(st) < 0 || (!is_prepared(st, t) && prepare(st, t) < 0)) return NULL;
    return PyLong_FromUnsignedLongLong(t->fid.v);
}

static PyMethodDef tmpl_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))tmpl_submit, METH_FASTCALL | METH_KEYWORDS,
     "Calls it: ObjectRef, list of them, None or ObjectRefGenerator; for an actor its ActorToken."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef tmpl_getset[] = {
    {"fid", tmpl_fid, NULL, "Number of its definition in the engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot tmpl_slots[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_init, tmpl_init},       {Py_tp_dealloc, tmpl_dealloc}, {Py_tp_traverse, tmpl_traverse},
    {Py_tp_clear, tmpl_clear},      {Py_tp_methods, tmpl_methods}, {Py_tp_getset, tmpl_getset},   {0, NULL},
};
static PyType_Spec tmpl_spec = {"skate._skate.Template", sizeof(struct tmpl), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, tmpl_slots};

int py_task_types(PyObject *module, struct py_state *st) {
    st->template_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tmpl_spec, NULL);
    st->token_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &token_spec, NULL);
    if (!st->template_type || !st->token_type || PyModule_AddType(module, st->template_type) < 0 ||
        PyModule_AddType(module, st->token_type) < 0)
        return -1;
    return 0;
}

/* ---- module functions --------------------------------------------------------------------------------------------------------------------- */

static PyObject *m_actor_kill(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *token;
    int no_restart;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "O!p", st->token_type, &token, &no_restart) || !token_alive(st, token)) return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->actor_kill(st->engine, (sk_aid){((struct token *)(void *)token)->id}, no_restart, &err);
    PY_TAKE(st)
    if (rc != SK_OK && rc != SK_ENOENT) /* dead already: what was asked for */
        return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_actor_find(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    const char *name, *space;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "sz", &name, &space) || py_ensure(st) < 0) return NULL;
    if (!has_op(st, (void (*)(void))st->engine->ops->actor_find)) return NULL;
    sk_aid aid = {0};
    sk_oid ready = {0};
    struct sk_bytes meta = {0};
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->actor_find(st->engine, space, name, &aid, &ready, &meta, &err);
    PY_TAKE(st)
    if (rc == SK_ENOENT) Py_RETURN_NONE;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    PyObject *ref = py_ref_new(st, ready, (sk_tid){0}), *token = NULL, *r = NULL;
    if (ref) token = token_new(st, aid.v, ref);
    else st->engine->ops->actor_release(st->engine, aid);
    if (token) r = Py_BuildValue("(Oy#)", token, (const char *)meta.p, (Py_ssize_t)meta.n);
    sk_free((void *)(uintptr_t)meta.p);
    Py_XDECREF(ref);
    Py_XDECREF(token);
    return r;
}

/* pg_create([{resource: amount}], strategy, name or None, space or None): (number, ObjectRef that is ready when it has its bundles) */
static PyObject *m_pg_create(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    static const char *const strategy[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    static const char *const fixed[] = {"CPU", "GPU", "memory"};
    PyObject *list, *r = NULL;
    const char *how;
    struct sk_group_spec s = {0};
    struct sk_res *b = NULL;
    PY_ERR(err);
    sk_rc rc = SK_OK;
    if (!PyArg_ParseTuple(args, "O!szz", &PyList_Type, &list, &how, &s.name, &s.space) || py_ensure(st) < 0) return NULL;
    if (!has_op(st, (void (*)(void))st->engine->ops->group_create)) return NULL;
    while (s.strategy < SK_COUNT(strategy) && strcmp(strategy[s.strategy], how) != 0) s.strategy++;
    if (s.strategy == SK_COUNT(strategy)) return PyErr_Format(PyExc_ValueError, "Invalid placement strategy: %s", how);
    s.n = (uint32_t)PyList_GET_SIZE(list);
    s.bundles = b = sk_calloc(SK_TAG_PY, (s.n + 1) * sizeof *b);
    if (!b) return PyErr_NoMemory();
    for (uint32_t i = 0; rc == SK_OK && i < s.n; i++) {
        PyObject *d = PyList_GET_ITEM(list, (Py_ssize_t)i), *rest = PyDict_Check(d) ? PyDict_Copy(d) : NULL;
        if (!rest) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a bundle is a dict of resources");
            goto out;
        }
        bool bad = false;
        for (uint32_t k = 0; k < SK_COUNT(fixed); k++) {
            PyObject *v = PyDict_GetItemString(rest, fixed[k]);
            double amount = v ? PyFloat_AsDouble(v) : 0;
            if (amount == -1.0 && PyErr_Occurred()) bad = true;
            b[i].amount[k] = (int64_t)(amount * (k == SK_RES_MEMORY ? 1 : SK_RES_UNIT) + 0.5);
            if (v && PyDict_DelItemString(rest, fixed[k]) < 0) bad = true;
        }
        bad = bad || py_add_custom(st, rest, &b[i], NULL, &err, &rc) < 0;
        Py_DECREF(rest);
        if (bad) goto out;
    }
    uint64_t id = 0;
    sk_oid ready = {0};
    if (rc == SK_OK) {
        PY_DROP(st)
        rc = st->engine->ops->group_create(st->engine, &s, &id, &ready, &err);
        PY_TAKE(st)
    }
    if (rc != SK_OK) {
        py_raise(st, rc == SK_EEXIST ? SK_EINVAL : rc, &err); /* it is no actor that exists */
        goto out;
    }
    PyObject *ref = py_ref_new(st, ready, (sk_tid){0});
    if (ref) r = Py_BuildValue("(KN)", (unsigned long long)id, ref);
out:
    sk_free(b);
    return r;
}

static PyObject *m_pg_remove(PyObject *module, PyObject *id) {
    struct py_state *st = PyModule_GetState(module);
    uint64_t g = PyLong_AsUnsignedLongLong(id);
    PY_ERR(err);
    if ((g == UINT64_MAX && PyErr_Occurred()) || py_ensure(st) < 0) return NULL;
    if (!has_op(st, (void (*)(void))st->engine->ops->group_remove)) return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->group_remove(st->engine, g, &err);
    PY_TAKE(st)
    if (rc == SK_ENOENT) Py_RETURN_FALSE;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_TRUE;
}

static PyObject *m_pg_table(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    static const char *const strategy[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    if (!PyList_Check(names)) return PyErr_Format(PyExc_TypeError, "pg_table(list of the names of custom resources)");
    if (py_ensure(st) < 0) return NULL;
    if (!has_op(st, (void (*)(void))st->engine->ops->groups)) return NULL;
    uint8_t *buf = NULL;
    size_t n = 0, cap;
    do {
        cap = n;
        sk_free(buf);
        buf = sk_alloc(SK_TAG_PY, cap + 1);
        if (!buf) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->ops->groups(st->engine, buf, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at + sizeof(struct sk_group_row) <= n;) {
        struct sk_group_row g;
        memcpy(&g, buf + at, sizeof g);
        const char *name = (const char *)buf + at + sizeof g, *space = name + strlen(name) + 1;
        PyObject *bundles = PyList_New(0);
        at += sizeof g + g.text_n;
        for (uint32_t i = 0; bundles && i < g.n; i++, at += sizeof(struct sk_res)) {
            struct sk_res res;
            memcpy(&res, buf + at, sizeof res);
            PyObject *d = py_amounts(&res, names);
            if (!d || PyList_Append(bundles, d) < 0) Py_CLEAR(bundles);
            Py_XDECREF(d);
        }
        PyObject *row = bundles ? Py_BuildValue("(KsssONd)", (unsigned long long)g.id, name, space, strategy[g.strategy & 3],
                                                g.state ? Py_True : Py_False, bundles, (double)g.reserved_ns / 1e9)
                                : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    sk_free(buf);
    return list;
}

static PyObject *m_actor_names(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (py_ensure(st) < 0) return NULL;
    if (!has_op(st, (void (*)(void))st->engine->ops->actor_names)) return NULL;
    char *buf = NULL;
    size_t n = 0, cap;
    do { /* others may name more meanwhile */
        cap = n;
        sk_free(buf);
        buf = sk_alloc(SK_TAG_PY, cap + 1);
        if (!buf) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->ops->actor_names(st->engine, buf, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *list = PyList_New(0);
    for (const char *p = buf, *end = buf + n; list && p < end;) {
        const char *name = p + strlen(p) + 1;
        PyObject *row = Py_BuildValue("(ss)", p, name);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
        p = name + strlen(name) + 1;
    }
    sk_free(buf);
    return list;
}

static PyObject *m_cancel(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *o;
    int force, recursive;
    uint64_t tid = 0;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "Opp", &o, &force, &recursive) || py_ensure(st) < 0) return NULL;
    if (py_ref_check(st, o)) {
        if (!py_ref_alive(st, o)) return NULL;
        tid = ((struct py_ref *)(void *)o)->task;
        if (!tid) tid = ((struct py_ref *)(void *)o)->id; /* it came from another process; of what no task makes: nothing happens */
    } else if (Py_TYPE(o) == st->gen_type) {
        PyObject *n = PyObject_CallMethod(o, "task_id", NULL);
        tid = n ? PyLong_AsUnsignedLongLong(n) : 0;
        Py_XDECREF(n);
        if (PyErr_Occurred()) return NULL;
        if (!tid) Py_RETURN_NONE; /* read to its end, or closed */
    } else {
        return PyErr_Format(PyExc_TypeError, "cancel: takes an ObjectRef of a task, not %R; an actor is ended by kill(handle)", Py_TYPE(o));
    }
    if ((tid & PY_OF_METHOD) && force)
        return PyErr_Format(PyExc_ValueError, "force=True is not supported for actor tasks: it would end the actor; use kill() for that");
    tid &= ~PY_OF_METHOD;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->cancel(st->engine, (sk_tid){tid}, (force ? SK_CANCEL_FORCE : 0u) | (recursive ? SK_CANCEL_CHILDREN : 0u), &err);
    PY_TAKE(st)
    if (rc != SK_OK && rc != SK_ENOENT) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_weak_token(PyObject *module, PyObject *id) {
    struct py_state *st = PyModule_GetState(module);
    unsigned long long aid = PyLong_AsUnsignedLongLong(id);
    if (PyErr_Occurred() || py_ensure(st) < 0) return NULL;
    return token_weak(st, aid);
}

PyMethodDef py_task_methods[] = {
    {"around", m_around, METH_VARARGS,
     "around(sys.path, dict of the environment): functions are sent again when their sizes change, or sys.path is another list."},
    {"surrounded", m_surrounded, METH_VARARGS,
     "surrounded(number of the surroundings that this process has now, whether a definition came with them)"},
    {"weak_token", m_weak_token, METH_O, "weak_token(actor's number): a handle that is not counted."},
    {"actor_kill", m_actor_kill, METH_VARARGS, "actor_kill(token, no_restart)"},
    {"actor_find", m_actor_find, METH_VARARGS,
     "actor_find(name, space or None): (token, meta), or None when no living actor has that name."},
    {"actor_names", m_actor_names, METH_NOARGS, "[(space, name)] of all living actors that have one."},
    {"pg_create", m_pg_create, METH_VARARGS,
     "pg_create([{resource: amount}], strategy, name, space): (number, ObjectRef that is ready with it)."},
    {"pg_remove", m_pg_remove, METH_O, "pg_remove(number): False when it is gone already."},
    {"pg_table", m_pg_table, METH_O,
     "pg_table(custom names): [(number, name, space, strategy, ready, [{resource: amount}], seconds until it was)]."},
    {"cancel", m_cancel, METH_VARARGS, "cancel(ref, force, recursive)"},
    {NULL, NULL, 0, NULL},
};
