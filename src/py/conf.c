/* conf.c - the dict of init() as sk_engine_conf. Defaults are in skate/config.py and in the
 * engine, none here. */
#include <pthread.h>

#include "dag/graph.h"
#include "engine/channels.h"
#include "py/conf.h"
#include "py/guest/guest.h"

/* Lets Ctrl-C interrupt a caller that waits for room in the store. The caller's thread has dropped
 * the GIL, so it has a thread state. */
static bool interrupted(void *ctx) {
    (void)ctx;
    PyGILState_STATE g = PyGILState_Ensure();
    bool stop = PyErr_CheckSignals() < 0;
    PyGILState_Release(g);
    return stop;
}

static void bury(void *head, sk_aid a, const char *how, bool restarts) {
    sk_dag_bury(head, a.v, how, restarts);
}
static void condemn(void *head, sk_aid a, const char *how) { sk_dag_condemn(head, a.v, how); }
static const struct sk_graph_hooks graph_hooks = {
    .bury = bury, .condemn = condemn, .in_use = sk_dag_in_use};

/* Arguments of the hook that serves a service actor which a worker has created. The hook is called
 * on a new thread, because the caller of named() must not wait for the GIL. */
struct named {
    PyObject *hook;
    char *name; /* points into `space` */
    char space[];
};

static void *tell(void *arg) {
    struct named *n = arg;
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = PyObject_CallFunction(n->hook, "ss", n->space, n->name);
    if (!r) PyErr_WriteUnraisable(n->hook);
    Py_XDECREF(r);
    PyGILState_Release(g);
    sk_free(n);
    return NULL;
}

static void named(void *ctx, struct sk_bytes space, struct sk_bytes name) {
    struct py_state *st = ctx;
    struct named *n = sk_calloc(SK_TAG_PY, sizeof *n + space.n + name.n + 2);
    pthread_attr_t detached;
    pthread_t thread;
    if (!n) return;
    n->hook = st->hook_named; /* set once, when the package is imported */
    n->name = n->space + space.n + 1;
    memcpy(n->space, space.p, space.n);
    memcpy(n->name, name.p, name.n);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (!n->hook || pthread_create(&thread, &detached, tell, n) != 0) sk_free(n);
    pthread_attr_destroy(&detached);
}

/* ---- reading the dict ------------------------------------------------------------------------ */

struct given { /* the fields of the dict; borrowed */
    const char *engine, *program, *trace, *carrier;
    int64_t cpus, gpus, memory, workers, store, spin_ns, reap_ns, seed, lineage, spill, overflow,
        budget, permille, every_ns, oom, retries;
    PyObject *resources, *dirs, *argv, *env, *guest, *prints, *nodes;
    struct sk_bytes preload, secret;
    uint64_t job, id_base;
};

#define F(...) PY_FIELD(struct given, __VA_ARGS__)

static const struct py_field field[] = {
    F("engine", TEXT, engine),
    F("program", TEXT, program),
    F("trace", TEXT, trace),
    F("num_cpus", AUTO, cpus, .otherwise = SK_RES_UNIT, .unit = SK_RES_UNIT),
    F("num_gpus", AUTO, gpus, .unit = SK_RES_UNIT),
    F("memory", AUTO, memory, .unit = 1),
    F("resources", OBJECT, resources, .of = &PyDict_Type),
    F("max_workers", AUTO, workers, .unit = 1),
    F("object_store_memory", AUTO, store, .unit = 1),
    F("spin_us", AUTO, spin_ns, .otherwise = -1, .unit = 1e3),
    F("idle_reap_s", AUTO, reap_ns, .unit = 1e9),
    F("seed", AUTO, seed, .unit = 1),
    F("lineage_bytes", AUTO, lineage, .unit = 1),
    F("spill_dir", OBJECT, dirs, .of = &PyList_Type),
    F("spill_bytes", AUTO, spill, .otherwise = -1, .unit = 1),
    F("overflow_bytes", AUTO, overflow, .otherwise = -1, .unit = 1),
    F("memory_limit", AUTO, budget, .unit = 1),
    F("memory_usage_threshold", AUTO, permille, .unit = 1e3),
    F("memory_monitor_refresh_ms", AUTO, every_ns, .otherwise = -1, .unit = 1e6),
    F("task_oom_retries", AUTO, oom, .otherwise = -1, .unit = 1),
    F("max_retries", I64, retries),
    F("argv", OBJECT, argv, .of = &PyList_Type),
    F("env", OBJECT, env, .of = &PyList_Type),
    F("preload", BYTES, preload),
    F("guest", OBJECT, guest),
    F("prints", OBJECT, prints),
    F("addresses", OBJECT, nodes, .of = &PyList_Type),
    F("carrier", TEXT, carrier),
    F("job_number", U64, job),
    F("job_secret", BYTES, secret),
    F("id_base", U64, id_base),
};
static const struct py_fields fields = {"init", SK_COUNT(field), 0, field};

/* Converts a list of str (or NULL) to an array of C strings that ends with NULL. The array is the
 * caller's to free; its strings are borrowed from the list's items. */
static int strings(PyObject *list, const char *what, const char ***out) {
    Py_ssize_t n = list ? PyList_GET_SIZE(list) : 0;
    const char **v = *out = sk_calloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *v);
    if (!v) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (!PyUnicode_Check(o))
            PyErr_Format(PyExc_TypeError, "init: '%s' must be a list of str, not of %s", what,
                         Py_TYPE(o)->tp_name);
        else v[i] = PyUnicode_AsUTF8(o);
        if (!v[i]) return -1;
    }
    return 0;
}

static int resources(struct py_conf *k, const struct given *g) {
    int64_t *a = k->c.total.amount;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    size_t n = g->resources ? (size_t)PyDict_GET_SIZE(g->resources) : 0;
    a[SK_RES_CPU] = g->cpus;
    a[SK_RES_GPU] = g->gpus;
    a[SK_RES_MEMORY] = g->memory;
    k->names = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *k->names);
    k->more = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *k->more);
    if (!k->names || !k->more) {
        PyErr_NoMemory();
        return -1;
    }
    while (k->c.n_custom < n && PyDict_Next(g->resources, &pos, &key, &value)) {
        double d = PyFloat_AsDouble(value);
        uint32_t i = SK_RES_CUSTOM + k->c.n_custom;
        if ((d == -1.0 && PyErr_Occurred()) || !(k->names[k->c.n_custom] = PyUnicode_AsUTF8(key)))
            return -1;
        *(i < SK_RES_MAX ? &a[i] : &k->more[i - SK_RES_MAX]) = (int64_t)(d * SK_RES_UNIT + 0.5);
        k->c.n_custom++;
    }
    SK_ASSERT(k->c.n_custom == n);
    k->c.custom_names = k->names;
    k->c.more = k->more;
    return 0;
}

static void numbers(struct sk_engine_conf *c, const struct given *g) {
    c->max_workers = (uint32_t)SK_MIN(g->workers, UINT32_MAX);
    c->store_bytes = (uint64_t)g->store;
    c->spin_ns = g->spin_ns;
    c->idle_reap_ns = g->reap_ns;
    c->seed = (uint64_t)g->seed;
    c->lineage_bytes = (uint64_t)g->lineage;
    c->spill_bytes = g->spill < 0 ? UINT64_MAX : (uint64_t)g->spill;
    c->overflow_bytes = g->overflow < 0 ? 0 : g->overflow == 0 ? UINT64_MAX : (uint64_t)g->overflow;
    c->memory_bytes = (uint64_t)g->budget;
    c->memory_permille = (uint32_t)SK_MIN(g->permille, 1000);
    /* 0 means "never" in Ray, and "the engine chooses" here */
    c->memory_every_ns = g->every_ns < 0 ? 0 : g->every_ns == 0 ? -1 : g->every_ns;
    /* in Ray 0 means "never"; here it means "the engine chooses" */
    c->oom_retries = g->oom < 0 ? 0 : g->oom == 0 ? -1 : (int32_t)SK_MIN(g->oom, 1000);
    c->task_retries = g->retries < 0 ? -1 : (int32_t)SK_MIN(g->retries, INT32_MAX);
}

int py_conf_read(struct py_conf *k, struct py_state *st, PyObject *dict) {
    struct given g;
    *k = (struct py_conf){.c = {.runner = &st->runner,
                                .interrupted = interrupted,
                                .named = named,
                                .named_ctx = st,
                                .graphs = &graph_hooks}};
    if (py_fields_pick(&fields, dict, &g) < 0) return -1;
    k->cls = sk_engine_find(g.guest ? "guest" : g.engine ? g.engine : "local");
    if (!k->cls) {
        PyErr_Format(PyExc_ValueError, "there is no engine \"%s\"", g.engine);
        return -1;
    }
    numbers(&k->c, &g);
    k->c.id_base = g.id_base;
    if (resources(k, &g) < 0 || strings(g.dirs, "spill_dir", &k->dirs) < 0 ||
        strings(g.argv, "argv", &k->argv) < 0 || strings(g.env, "env", &k->env) < 0 ||
        strings(g.nodes, "addresses", &k->addresses) < 0) {
        py_conf_free(k);
        return -1;
    }
    if (g.nodes) {
        k->cluster = (struct sk_cluster_conf){.addresses = k->addresses,
                                              .n_addresses = (uint32_t)PyList_GET_SIZE(g.nodes),
                                              .carrier = g.carrier,
                                              .job = g.job,
                                              .secret = g.secret};
        k->c.cluster = &k->cluster;
    }
    k->c.spill_dirs = k->dirs;
    k->c.n_spill_dirs = g.dirs ? (uint32_t)PyList_GET_SIZE(g.dirs) : 0;
    k->c.spawn_argv = g.argv ? (char **)(uintptr_t)k->argv : NULL;
    k->c.spawn_env = g.env ? (char **)(uintptr_t)k->env : NULL;
    k->c.preload = g.preload;
    k->c.program = g.program;
    k->c.record = g.trace && *g.trace ? g.trace : NULL;
    if (g.guest && py_guest_make(st, g.guest, &k->guest) < 0) {
        py_conf_free(k);
        return -1;
    }
    if (g.guest) k->c.guest = &k->guest;
    return 0;
}

void py_conf_free(struct py_conf *k) {
    sk_free(k->addresses);
    sk_free(k->argv);
    sk_free(k->env);
    sk_free(k->names);
    sk_free(k->more);
    sk_free(k->dirs);
}
