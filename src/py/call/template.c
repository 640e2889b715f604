/* template.c - Template: everything about a remote function, an actor class or a method that
 * stays the same between calls. Its definition is made in define.c, a call in submit.c. */
#include "py/call/template.h"

struct given { /* the arguments of Template(); borrowed */
    struct opts o;
    const char *kind;
    PyObject *target, *name, *returns, *resources, *func, *groups, *actor_name, *space, *meta, *env,
        *unfit, *where;
    int64_t cpus, gpus, memory; /* -1: not set */
    int32_t capture;
};

#define F(...) PY_FIELD(struct given, __VA_ARGS__)

static const struct py_field field[] = {
    F("kind", TEXT, kind),
    F("target", OBJECT, target),
    F("name", OBJECT, name, .of = &PyUnicode_Type),
    F("num_returns", OBJECT, returns),
    F("num_cpus", SCALED, cpus, .otherwise = -1, .unit = SK_RES_UNIT),
    F("num_gpus", SCALED, gpus, .otherwise = -1, .unit = SK_RES_UNIT),
    F("memory", SCALED, memory, .otherwise = -1, .unit = 1),
    F("resources", OBJECT, resources, .of = &PyDict_Type),
    F("max_retries", I32, o.max_retries, .otherwise = SK_RETRIES_DEFAULT),
    F("retry_exceptions", BOOL, o.retry_exceptions),
    F("stream_window", U32, o.stream_window),
    F("max_restarts", I32, o.max_restarts),
    F("max_task_retries", I32, o.max_task_retries),
    F("func", OBJECT, func),
    F("groups", OBJECT, groups),
    F("is_async", BOOL, o.is_async),
    F("actor_name", OBJECT, actor_name, .of = &PyUnicode_Type),
    F("space", OBJECT, space, .of = &PyUnicode_Type),
    F("meta", OBJECT, meta, .of = &PyBytes_Type),
    F("detached", BOOL, o.detached),
    F("group", U32, o.group),
    F("max_calls", U32, o.max_calls),
    F("max_pending", U32, o.max_pending),
    F("env", OBJECT, env, .of = &PyBytes_Type),
    F("pg", U64, o.pg),
    F("bundle", I32, o.bundle, .otherwise = -1),
    F("capture", I32, capture, .otherwise = AS_IT_COMES),
    F("unfit", OBJECT, unfit),
    F("where", OBJECT, where, .of = &PyBytes_Type),
};
static const struct py_fields fields = {"Template", SK_COUNT(field), 3, field};

static int tmpl_resources(struct tmpl *t, const struct given *g) {
    t->res = (struct sk_res){.amount = {[SK_RES_CPU] = t->kind == TASK ? SK_RES_UNIT : 0}};
    if (g->cpus >= 0) t->res.amount[SK_RES_CPU] = g->cpus;
    if (g->gpus >= 0) t->res.amount[SK_RES_GPU] = g->gpus;
    if (g->memory >= 0) t->res.amount[SK_RES_MEMORY] = g->memory;
    if (g->resources && PyDict_GET_SIZE(g->resources) && !(t->custom = PyDict_Copy(g->resources)))
        return -1;
    /* a task that takes 0 of each resource needs a shape, too, since shape 0 stands for one CPU */
    t->has_shape = t->kind == ACTOR || g->cpus >= 0 || g->gpus >= 0 || g->memory >= 0 ||
                   t->custom || t->o.pg || t->env || t->where;
    return 0;
}

static int tmpl_returns(struct tmpl *t, PyObject *o) {
    t->n_returns = 1;
    if (!o) return 0;
    if (PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, "streaming") == 0) {
        t->n_returns = SK_STREAMING;
        return 0;
    }
    long n = PyLong_AsLong(o);
    if (n == -1 && PyErr_Occurred()) return -1;
    if (n < 0 || n > SK_MAX_RETURNS) {
        PyErr_Format(PyExc_ValueError, "num_returns must be 0 to %d or \"streaming\", not %R",
                     SK_MAX_RETURNS, o);
        return -1;
    }
    t->n_returns = (uint32_t)n;
    return 0;
}

/* Reads the concurrency groups of an actor: a sequence of ints, [0] for calls that name no
 * group. */
static int tmpl_groups(struct tmpl *t, PyObject *o) {
    if (!o) return 0;
    PyObject *seq = PySequence_Fast(o, "groups must be a sequence of int");
    if (!seq) return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
    int r = 0;
    if (n > SK_GROUPS_MAX) {
        PyErr_Format(PyExc_ValueError, "an actor has at most %d concurrency groups, not %zd",
                     SK_GROUPS_MAX - 1, n - 1);
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

/* Sets what calls of the template run: a function, the Template whose options() made this one, or a
 * method of a handle. */
static int tmpl_target(struct py_state *st, struct tmpl *t, PyObject *target) {
    if (t->kind == METHOD) {
        PyObject *token, *method, *retry_on = NULL;
        if (!PyTuple_Check(target) ||
            !PyArg_ParseTuple(target, "O!U|S", st->token_type, &token, &method, &retry_on)) {
            PyErr_SetString(PyExc_TypeError,
                            "Template: 'target' of a method must be (ActorToken, name[, classes])");
            return -1;
        }
        t->token = Py_NewRef(token);
        t->target = Py_NewRef(method);
        t->retry_on = Py_XNewRef(retry_on);
        t->named =
            PyUnicode_Tailmatch(t->name, t->target, 0, PyUnicode_GET_LENGTH(t->name), 1) != 1;
        return 0;
    }
    /* the target is a Template whose options() made this one: both share the definition */
    if (Py_TYPE(target) == st->template_type) {
        struct tmpl *o = (struct tmpl *)(void *)target;
        t->base = Py_NewRef(o->base ? o->base : target);
        target = ((struct tmpl *)(void *)t->base)->target;
    }
    t->target = Py_NewRef(target);
    return 0;
}

static int tmpl_kind(const char *s, enum kind *out) {
    static const char *const kind[] = {[TASK] = "task", [ACTOR] = "actor", [METHOD] = "method"};
    for (uint32_t i = 0; i < SK_COUNT(kind); i++) {
        if (strcmp(kind[i], s) != 0) continue;
        *out = (enum kind)i;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "Template: 'kind' must be task, actor or method, not '%s'", s);
    return -1;
}

static int tmpl_init(PyObject *self, PyObject *args, PyObject *kw) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    struct given g;
    if (t->target) {
        PyErr_SetString(PyExc_RuntimeError, "a Template is made once");
        return -1;
    }
    if (py_fields_read(&fields, args, kw, &g) < 0 || tmpl_kind(g.kind, &t->kind) < 0) return -1;
    t->o = g.o;
    if (t->kind != TASK && t->o.max_retries == SK_RETRIES_DEFAULT) t->o.max_retries = 0;
    t->capture = g.capture == CAPTURES || g.capture == STAYS_OUT ? (typeof(t->capture))g.capture
                                                                 : AS_IT_COMES;
    t->name = Py_NewRef(g.name);
    t->actor_name = Py_XNewRef(g.actor_name);
    t->space = Py_XNewRef(g.space);
    t->meta = Py_XNewRef(g.meta);
    t->env = Py_XNewRef(g.env);
    t->unfit = Py_XNewRef(g.unfit);
    t->where = Py_XNewRef(g.where);
    if (tmpl_groups(t, g.groups) < 0 || tmpl_returns(t, g.returns) < 0 ||
        tmpl_resources(t, &g) < 0 || tmpl_target(st, t, g.target) < 0)
        return -1;
    return py_sig_init(&t->sig,
                       g.func            ? g.func
                       : t->kind == TASK ? t->target
                                         : NULL,
                       t->kind == TASK ? 0 : 1);
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
    py_template_forget(t);
    Py_CLEAR(t->name);
    Py_CLEAR(t->kw_names);
    Py_CLEAR(t->kw_bytes);
    Py_CLEAR(t->actor_name);
    Py_CLEAR(t->space);
    Py_CLEAR(t->meta);
    Py_CLEAR(t->env);
    Py_CLEAR(t->unfit);
    Py_CLEAR(t->where);
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

/* Returns the function's id, after defining it in the open engine if needed. */
static PyObject *tmpl_fid(PyObject *self, void *unused SK_UNUSED) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    if (py_ensure(st) < 0 || (!py_template_is_prepared(st, t) && py_template_prepare(st, t) < 0))
        return NULL;
    return PyLong_FromUnsignedLongLong(t->fid.v);
}

static PyMethodDef tmpl_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))py_template_submit, METH_FASTCALL | METH_KEYWORDS,
     "Calls it: ObjectRef, list of them, None or ObjectRefGenerator; for an actor its ActorToken."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef tmpl_getset[] = {
    {"fid", tmpl_fid, NULL, "Number of its definition in the engine.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot tmpl_slots[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_init, tmpl_init},
    {Py_tp_dealloc, tmpl_dealloc},  {Py_tp_traverse, tmpl_traverse},
    {Py_tp_clear, tmpl_clear},      {Py_tp_methods, tmpl_methods},
    {Py_tp_getset, tmpl_getset},    {0, NULL},
};
static PyType_Spec tmpl_spec = {"skate._skate.Template", sizeof(struct tmpl), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, tmpl_slots};

int py_template_types(PyObject *module, struct py_state *st) {
    st->template_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tmpl_spec, NULL);
    return st->template_type ? PyModule_AddType(module, st->template_type) : -1;
}
