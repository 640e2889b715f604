/* engine.c - the public C API: the engines that are open in this process.
 *
 * An engine is known by its number, which is never used twice: a handle (skate_engine *) is that
 * number, and so are the marks of values, buffers, runs and graphs. An open engine has one of
 * ENGINES places; the place is part of each id that the engine gives (conf.id_base), so that a
 * reference, an actor or a stream leads to its engine. Places are filled in turn, so that those of
 * closed engines stay empty for long. In a worker the one engine is that of its driver.
 *
 * Invariant: `mu` is held while a place changes; calls read it without the lock. */
#include <pthread.h>

#include "api/api_int.h"
#include "dag/graph.h"
#include "engine/channels.h"

enum { ENGINES = 16, ID_SHIFT = 58, MOST_GPUS = 16 };
_Static_assert(ENGINES <= 64, "a bit of sk_api_define for each place");

static struct place {
    struct sk_engine *e; /* NULL: empty */
    uint64_t number;     /* of the engine, or of the last one that was here */
} places[ENGINES];
static uint64_t last_number; /* of the engine that was opened last */
static uint64_t standard;    /* number of the engine of skate_init; 0: there was none */
static bool worker;          /* this process is a worker */
static bool forked;          /* this process was forked from one with an open engine */
static void (*before_close)(uint64_t number);
/* guards opening and closing */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint64_t used; /* number of this thread's engine; 0: the standard one */

static struct place *place_of(uint64_t number) { return &places[(number - 1) % ENGINES]; }

bool sk_api_forked(void) { return forked; }
bool sk_api_in_worker(void) { return worker; }
uint64_t sk_api_used(void) { return used; }
bool sk_api_is_standard(uint64_t number) {
    return number == __atomic_load_n(&standard, __ATOMIC_RELAXED);
}

bool sk_api_is_open(void) {
    for (unsigned i = 0; i < ENGINES; i++)
        if (__atomic_load_n(&places[i].e, __ATOMIC_ACQUIRE)) return true;
    return false;
}

sk_rc sk_api_closed(void) {
    return SK_ERR(sk_api_err(), SK_ECLOSED,
                  forked ? "this process was forked from one that uses skate, which only the "
                           "parent may call: execute a program in the child first"
                  : used ? "the engine that this thread uses was closed: skate_use another one "
                           "(NULL: that of skate_init)"
                         : "skate is not initialised (or shut down): call skate_init first");
}

struct sk_engine *sk_api_numbered(uint64_t number) {
    struct place *p = place_of(number);
    struct sk_engine *e = number ? __atomic_load_n(&p->e, __ATOMIC_ACQUIRE) : NULL;
    return e && __atomic_load_n(&p->number, __ATOMIC_RELAXED) == number ? e : NULL;
}

struct sk_engine *sk_api_engine(void) {
    uint64_t n = used ? used : __atomic_load_n(&standard, __ATOMIC_RELAXED);
    struct sk_engine *e = sk_api_numbered(n);
    if (SK_UNLIKELY(!e)) SK_IGNORE(sk_api_closed());
    return e;
}

struct sk_engine *sk_api_engine_of(uint64_t id) {
    if (!id || worker) return sk_api_engine();
    struct place *p = &places[id >> ID_SHIFT & (ENGINES - 1)];
    struct sk_engine *e = __atomic_load_n(&p->e, __ATOMIC_ACQUIRE);
    if (SK_LIKELY(e)) return e;
    uint64_t number = __atomic_load_n(&p->number, __ATOMIC_RELAXED);
    if (forked || (!used && sk_api_is_standard(number))) SK_IGNORE(sk_api_closed());
    else
        SK_ERR(sk_api_err(), SK_ECLOSED,
               "the engine of this reference, actor, stream or group was closed");
    return NULL;
}

sk_rc sk_api_join(struct sk_engine **e, uint64_t id) {
    struct sk_engine *of = id ? sk_api_engine_of(id) : *e;
    if (id && !of) return SK_ECLOSED;
    if (*e && *e != of)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "objects of two engines in one call: each engine knows its own only");
    *e = of;
    return SK_OK;
}

unsigned sk_api_place(const struct sk_engine *e) {
    unsigned i = 0;
    while (i < ENGINES - 1 && __atomic_load_n(&places[i].e, __ATOMIC_RELAXED) != e) i++;
    return i;
}
uint64_t sk_api_number(const struct sk_engine *e) {
    return __atomic_load_n(&places[sk_api_place(e)].number, __ATOMIC_RELAXED);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* In a child of fork: locks and threads of the engines are the parent's. */
static void in_child(void) {
    for (unsigned i = 0; i < ENGINES; i++) {
        forked |= places[i].e != NULL;
        places[i].e = NULL;
    }
}

static void watch_forks(void) {
    static bool done;
    if (!done) done = pthread_atfork(NULL, NULL, in_child) == 0;
}

static void fill(uint64_t number, struct sk_engine *e) {
    last_number = number;
    watch_forks();
    sk_api_undefine((unsigned)((number - 1) % ENGINES));
    __atomic_store_n(&place_of(number)->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&place_of(number)->e, e, __ATOMIC_RELEASE);
}

void sk_api_serve(struct sk_engine *client) {
    worker = true;
    fill(1, client);
    standard = 1;
}

static void bury(void *head, sk_aid a, const char *how, bool restarts) {
    sk_dag_bury(head, a.v, how, restarts);
}
static void condemn(void *head, sk_aid a, const char *how) { sk_dag_condemn(head, a.v, how); }
/* Tell the memory of compiled graphs that an actor has died. */
static const struct sk_graph_hooks graph_hooks = {
    .bury = bury, .condemn = condemn, .in_use = sk_dag_in_use};

/* Names and amounts of the program's own resources. */
static sk_rc resources_of(const char *call, const struct skate_opts *o, const char **names,
                          struct sk_res *total) {
    enum { MOST = SK_RES_MAX - SK_RES_CUSTOM };
    struct sk_err *err = sk_api_err();
    if (o->n_resources > MOST || (o->n_resources && !o->resources))
        return SK_ERR(err, SK_EINVAL, "%s: %zu resources (at most %d) at %p", call, o->n_resources,
                      MOST, (const void *)o->resources);
    for (size_t i = 0; i < o->n_resources; i++) {
        const struct skate_resource *r = &o->resources[i];
        if (!r->name || !*r->name || !(r->amount >= 0 && r->amount <= 1e12))
            return SK_ERR(err, SK_EINVAL,
                          "%s: resource %zu ('%s', amount %g): it needs a name and an amount of 0 "
                          "to 1e12",
                          call, i, r->name ? r->name : "NULL", r->amount);
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[j], r->name) == 0)
                return SK_ERR(err, SK_EINVAL, "%s: two resources are named '%s'", call, r->name);
        names[i] = r->name;
        total->amount[SK_RES_CUSTOM + i] = (int64_t)(r->amount * SK_RES_UNIT + 0.5);
    }
    return SK_OK;
}

/* Opens an engine in an empty place; with mu held. */
static sk_rc open_in_place(const char *call, struct sk_engine_conf *c, uint64_t *number) {
    struct sk_engine *e = NULL;
    uint64_t n = last_number + 1, end = n + ENGINES;
    if (!c->spawn_argv)
        return SK_ERR(sk_api_err(), SK_EINVAL, "%s: call skate_worker_main first thing in main",
                      call);
    while (n < end && place_of(n)->e) n++;
    if (n == end)
        return SK_ERR(sk_api_err(), SK_EFULL, "%s: %d engines are open, the most in a process",
                      call, ENGINES);
    c->id_base = (n - 1) % ENGINES << ID_SHIFT;
    SK_TRY(sk_engine_find("local")->open(c, &e, sk_api_err()));
    fill(n, e);
    *number = n;
    return SK_OK;
}

/* Opens the engine of skate_init, or (number not NULL) one of its own. */
static sk_rc open_engine(const char *call, const struct skate_opts *o, uint64_t *number) {
    static const struct skate_opts none = SKATE_OPTS(struct skate_opts);
    const char *names[SK_RES_MAX];
    struct sk_res machine;
    if (forked) return sk_api_closed();
    if (worker && number)
        return SK_ERR(sk_api_err(), SK_EINVAL, "%s: a task uses the engine that runs it", call);
    SK_TRY(sk_api_sized(call, o, sizeof *o, sk_api_err()));
    if (!o) o = &none;
    struct sk_engine_conf c = {.store_bytes = o->store_bytes,
                               .max_workers = o->max_workers,
                               .spin_ns = -1,
                               .custom_names = names,
                               .n_custom = (uint32_t)o->n_resources,
                               .spill_dirs = &o->spill_dir,
                               .n_spill_dirs = o->spill_dir != NULL,
                               .spawn_argv = sk_api_command(),
                               .graphs = &graph_hooks};
    if (!(o->cpus >= 0 && o->cpus <= 100000 && o->gpus >= 0 && o->gpus <= (int)MOST_GPUS))
        return SK_ERR(sk_api_err(), SK_EINVAL, "%s: %g cpus and %g gpus: out of range", call,
                      o->cpus, o->gpus);
    SK_TRY(resources_of(call, o, names, &c.total));
    SK_TRY(sk_engine_machine(&machine, sk_api_err()));
    c.total.amount[SK_RES_CPU] =
        o->cpus > 0 ? (int64_t)(o->cpus * SK_RES_UNIT + 0.5) : machine.amount[SK_RES_CPU];
    c.total.amount[SK_RES_GPU] = (int64_t)(o->gpus * SK_RES_UNIT + 0.5);
    if (!c.store_bytes) c.store_bytes = (uint64_t)machine.amount[SK_RES_MEMORY] / 3;
    uint64_t n = 0;
    pthread_mutex_lock(&mu);
    sk_rc rc = !number && sk_api_numbered(standard)
                   ? SK_ERR(sk_api_err(), SK_EINVAL, "%s: already initialised", call)
                   : open_in_place(call, &c, &n);
    if (rc == SK_OK && number) *number = n;
    else if (rc == SK_OK) __atomic_store_n(&standard, n, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&mu);
    return rc;
}

/* ---- closing --------------------------------------------------------------------------------- */

void sk_api_before_close(void (*fn)(uint64_t number)) {
    __atomic_store_n(&before_close, fn, __ATOMIC_RELEASE);
}

static void close_engine(uint64_t number) {
    if (!number || worker || forked) return; /* the engine is another process's */
    void (*before)(uint64_t n) = __atomic_load_n(&before_close, __ATOMIC_ACQUIRE);
    struct sk_list left;
    sk_list_init(&left);
    if (before) before(number);
    pthread_mutex_lock(&mu);
    struct sk_engine *e = sk_api_numbered(number);
    if (e) {
        unsigned place = sk_api_place(e);
        __atomic_store_n(&places[place].e, NULL, __ATOMIC_RELEASE);
        sk_engine_close(&e);
        /* callbacks of skate_init's engine wait for the next skate_process */
        if (!sk_api_is_standard(number)) sk_api_events_end(place, &left);
    }
    pthread_mutex_unlock(&mu);
    (void)sk_api_events_call(&left);
}

int skate_init(const struct skate_opts *o) { return open_engine("skate_init", o, NULL); }
void skate_shutdown(void) { close_engine(__atomic_load_n(&standard, __ATOMIC_ACQUIRE)); }

/* struct skate_engine is not defined anywhere: a handle is the number of an engine. */
skate_engine *skate_engine_open(const struct skate_opts *o) {
    uint64_t number = 0;
    if (open_engine("skate_engine_open", o, &number) != SK_OK) return NULL;
    return (skate_engine *)(uintptr_t)number;
}

void skate_engine_close(skate_engine *e) { close_engine((uintptr_t)e); }

skate_engine *skate_use(skate_engine *e) {
    uint64_t before = used;
    used = (uintptr_t)e;
    return (skate_engine *)(uintptr_t)before;
}
