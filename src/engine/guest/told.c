/* told.c - lists of state, counters and memory of an engine whose nodes tell of themselves
 * (sk_guest_ops.ask): what they tell, together with what this process knows.
 *
 * What is here is noted first, and what a node tells of the same thing stands in its place: so a
 * task that begins meanwhile is in a list once. Cost: the time of an answer, and a copy of the
 * rows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/books/history.h"
#include "engine/guest/guest_int.h"
#include "engine/usage.h"

static struct sk_ghost *of(struct sk_engine *e) { return sk_container_of(e, struct sk_ghost, e); }

/* ---- answers --------------------------------------------------------------------------------- */

struct answers {
    SK_VEC(struct sk_guest_told) of; /* with bytes of their own */
    uint32_t n_silent, silent;
};

static void told(void *host, const struct sk_guest_told *t) {
    struct answers *a = host;
    SK_DCHECK(t->bytes.p || t->silent);
    if (t->silent) {
        a->n_silent++;
        a->silent = t->node;
        return;
    }
    struct sk_guest_told copy = *t;
    copy.bytes.p = sk_memdup(TAG, t->bytes.p, t->bytes.n);
    if (copy.bytes.p && !sk_vec_push(&a->of, TAG, copy)) sk_free((void *)(uintptr_t)copy.bytes.p);
}

static void ask(struct sk_ghost *x, uint32_t what, struct answers *out) {
    *out = (struct answers){0};
    x->g.ops->ask(x->g.ctx, what, told, out);
}

static void forget(struct answers *a) {
    for (uint32_t i = 0; i < a->of.n; i++) sk_free((void *)(uintptr_t)a->of.p[i].bytes.p);
    sk_vec_free(&a->of);
}

/* ---- what is here, with the lock held -------------------------------------------------------- */

static void own_task(struct sk_ghost *x, const struct sk_gtask *t, struct sk_rows *r) {
    struct sk_bytes fn = sk_text(sk_map_get(&x->fns, t->fn.v)), name = sk_text(t->name);
    if (t->abroad) return; /* its node has it */
    if (name.n == fn.n && !memcmp(name.p, fn.p, fn.n)) name.n = 0;
    struct sk_task_row row = {.id = t->id,
                              .actor = t->actor,
                              .submit_ns = t->submit_ns,
                              .state = t->n_lacking ? SK_TS_ARGS : SK_TS_PLACE,
                              .kind = t->is_init ? SK_TK_INIT
                                      : t->actor ? SK_TK_METHOD
                                                 : SK_TK_TASK,
                              .n_returns = t->n_returns,
                              .name_n = (uint32_t)name.n,
                              .fn_n = (uint32_t)fn.n,
                              .res = t->need.res};
    sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){name, fn}, 2);
}

static void own_actor(struct sk_ghost *x, const struct sk_gactor *a, struct sk_rows *r) {
    struct sk_bytes none = {"", 0}, cls = sk_text(sk_map_get(&x->fns, a->fn.v)),
                    name = a->name ? a->name->name : none, space = a->name ? a->name->space : none,
                    why = a->why ? (struct sk_bytes){a->why->data, a->why->len} : none;
    const struct sk_gtask *init = sk_map_get(&x->tasks, a->id + 1);
    struct sk_actor_row row = {.id = a->id,
                               .init = a->id + 1,
                               .state = a->ended || a->why        ? SK_AS_DEAD
                                        : a->started              ? SK_AS_ALIVE
                                        : init && init->n_lacking ? SK_AS_ARGS
                                                                  : SK_AS_PENDING,
                               .n_calls = a->n_calls,
                               .detached = a->detached,
                               .error_kind = a->why ? a->why->kind : 0,
                               .class_n = (uint32_t)cls.n,
                               .name_n = (uint32_t)name.n,
                               .space_n = (uint32_t)space.n,
                               .why_n = (uint32_t)why.n,
                               .res = a->need.res};
    sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){cls, name, space, why}, 4);
}

static void own_objects(struct sk_ghost *x, struct sk_rows *r) {
    uint64_t id;
    void *v;
    for (uint32_t c = 0; sk_own_each(x->own, &c, &id, &v);) {
        const struct sk_gobj *o = v;
        const struct sk_gtask *t = o->task ? sk_map_get(&x->tasks, o->task) : NULL;
        const struct sk_gactor *a = sk_map_get(&x->actors, id + 1);
        struct sk_object_row row = {.id = id,
                                    .size_bytes = o->size,
                                    .n_refs = sk_own_borrowed(x->own, id, ME),
                                    .n_total = sk_own_count(x->own, id),
                                    .task = o->task,
                                    .where = !sk_gobj_there(o)                      ? SK_OW_PENDING
                                             : o->handle || o->size > SK_INLINE_MAX ? SK_OW_STORE
                                                                                    : SK_OW_INLINE,
                                    .task_state = sk_gobj_there(o)    ? SK_TS_FINISHED
                                                  : t && t->n_lacking ? SK_TS_ARGS
                                                                      : SK_TS_PLACE,
                                    .kind = o->val ? o->val->kind : 0,
                                    .node = sk_gobj_there(o) ? o->node : 0};
        row.pid = row.n_refs ? getpid() : 0;
        sk_rows_add(r, &row, sizeof row, NULL, 0);
        if (!a) continue;
        row = (struct sk_object_row){.id = a->id,
                                     .n_refs = a->n_handles,
                                     .n_total = a->n_handles,
                                     .where = SK_OW_ACTOR,
                                     .task_state = SK_TS_FINISHED,
                                     .pid = a->n_handles ? getpid() : 0};
        sk_rows_add(r, &row, sizeof row, NULL, 0);
    }
}

static void own(struct sk_ghost *x, enum sk_state_what what, struct sk_rows *r) {
    uint64_t key;
    void *v;
    switch (what) {
    case SK_STATE_TASKS:
        SK_LIST_EACH (it, &x->told) own_task(x, sk_container_of(it, struct sk_gtask, link), r);
        SK_LIST_EACH (it, &x->waiting) own_task(x, sk_container_of(it, struct sk_gtask, link), r);
        break;
    case SK_STATE_ACTORS:
        for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &v);) own_actor(x, v, r);
        break;
    case SK_STATE_OBJECTS: own_objects(x, r); break;
    case SK_STATE_WORKERS: break;
    }
}

/* The rows of this process, as an answer of node 0. handles: handle of a value -> its object. */
static void note_own(struct sk_ghost *x, enum sk_state_what what, struct answers *a,
                     struct sk_map *handles) {
    uint64_t id;
    void *v;
    pthread_mutex_lock(&x->mu);
    struct sk_rows r = sk_rows_begin(NULL, 0);
    own(x, what, &r);
    size_t n = r.w.n;
    uint8_t *p = sk_alloc(TAG, n);
    if (p) {
        r = sk_rows_begin(p, n);
        own(x, what, &r);
        n = sk_rows_end(&r, p, n);
    }
    for (uint32_t c = 0; what == SK_STATE_OBJECTS && sk_own_each(x->own, &c, &id, &v);) {
        const struct sk_gobj *o = v;
        if (o->handle) (void)!sk_map_put(handles, (uintptr_t)o->handle, (void *)(uintptr_t)id);
    }
    pthread_mutex_unlock(&x->mu);
    if (p && !sk_vec_push(&a->of, TAG, (struct sk_guest_told){.bytes = {p, n}})) sk_free(p);
}

/* ---- one list of all ------------------------------------------------------------------------- */

struct item {
    struct sk_row row;
    bool out; /* another row stands for it */
};
struct merged {
    SK_VEC(struct item) of;
    uint32_t n_own;   /* the last ones are those of this process */
    uint64_t total;   /* rows that nodes have not told */
    struct sk_map at; /* id -> place of its row, plus one */
    const struct sk_map *handles;
};

static uint32_t place_of(const struct merged *m, uint64_t id) {
    return id ? (uint32_t)(uintptr_t)sk_map_get(&m->at, id) : 0;
}
static void set_place(struct merged *m, uint64_t id, uint32_t i) {
    (void)!sk_map_put(&m->at, id, (void *)(uintptr_t)(i + 1)); /* NOLINT: a number in a map */
}

static void here(int64_t *ns, int64_t ahead_ns) {
    if (*ns) *ns -= ahead_ns;
}

static void add_rows(struct merged *m, enum sk_state_what what, const struct sk_guest_told *t) {
    struct sk_rd r = sk_rd_init(t->bytes.p, t->bytes.n);
    struct sk_state_head head;
    struct item x = {0};
    if (!sk_rows_head(&r, &head)) return;
    m->total += head.total - head.n;
    for (uint64_t i = 0; i < head.n && sk_rows_next(&r, what, &x.row); i++) {
        switch (what) {
        case SK_STATE_TASKS:
            here(&x.row.task.submit_ns, t->ahead_ns);
            here(&x.row.task.start_ns, t->ahead_ns);
            here(&x.row.task.end_ns, t->ahead_ns);
            x.row.task.node = t->node;
            break;
        case SK_STATE_ACTORS: x.row.actor.node = t->node; break;
        case SK_STATE_OBJECTS:
            if (t->node) x.row.object.node = t->node;
            break;
        case SK_STATE_WORKERS:
            here(&x.row.worker.since_ns, t->ahead_ns);
            here(&x.row.worker.end_ns, t->ahead_ns);
            x.row.worker.node = t->node;
            break;
        }
        if (!sk_vec_push(&m->of, TAG, x)) return;
        m->n_own += !t->node;
    }
}

/* Of a task under way that its node tells of, the row here says less. */
static void merge_tasks(struct merged *m) {
    SK_ASSERT(m->n_own <= m->of.n);
    uint32_t first_own = m->of.n - m->n_own, n_ended = 0;
    for (uint32_t i = 0; i < m->of.n; i++) {
        struct item *x = &m->of.p[i];
        if (i >= first_own) x->out = place_of(m, x->row.task.id) != 0;
        else set_place(m, x->row.task.id, i);
        n_ended += !x->out && x->row.task.state >= SK_TS_FINISHED;
    }
    /* sorted: the oldest ones are first */
    for (uint32_t i = 0; i < m->of.n && n_ended > SK_STATE_PAST; i++) {
        m->of.p[i].out = true;
        n_ended--;
    }
}

static void merge_actors(struct merged *m) {
    SK_ASSERT(m->n_own <= m->of.n);
    uint32_t first_own = m->of.n - m->n_own;
    for (uint32_t i = 0; i < m->of.n; i++) {
        struct item *x = &m->of.p[i];
        uint32_t at = place_of(m, x->row.actor.id);
        struct item *old = at ? &m->of.p[at - 1] : NULL;
        if (!old) set_place(m, x->row.actor.id, i);
        else if (i < first_own) { /* it has been on two nodes */
            bool keep = old->row.actor.state != SK_AS_DEAD;
            *(keep ? &x->out : &old->out) = true;
            if (!keep) set_place(m, x->row.actor.id, i);
        } else { /* this process knows its name, and whether it was killed */
            struct sk_actor_row *a = &old->row.actor, *mine = &x->row.actor;
            x->out = true;
            a->detached = mine->detached;
            a->n_calls = mine->n_calls;
            a->name_n = mine->name_n;
            a->space_n = mine->space_n;
            old->row.texts[1] = x->row.texts[1];
            old->row.texts[2] = x->row.texts[2];
            if (mine->state == SK_AS_DEAD) a->state = SK_AS_DEAD;
            if (mine->why_n && !a->why_n) {
                a->why_n = mine->why_n;
                a->error_kind = mine->error_kind;
                old->row.texts[3] = x->row.texts[3];
            }
        }
    }
}

/* Rows here are of objects; what nodes tell of the same ones says where they are, and which workers
 * have references to them. */
static void merge_objects(struct merged *m) {
    SK_ASSERT(m->n_own <= m->of.n);
    uint32_t first_own = m->of.n - m->n_own;
    for (uint32_t i = first_own; i < m->of.n; i++) set_place(m, m->of.p[i].row.object.id, i);
    for (uint32_t i = 0; i < first_own; i++) {
        struct item *x = &m->of.p[i];
        struct sk_object_row *o = &x->row.object;
        if (o->of == SK_OF_VALUE && o->id) o->id = (uintptr_t)sk_map_get(m->handles, o->id);
        uint32_t at = o->of == SK_OF_OBJECT ? 0 : place_of(m, o->id);
        struct sk_object_row *mine = at ? &m->of.p[at - 1].row.object : NULL;
        bool of_worker = o->pid && o->worker;
        x->out = o->of == SK_OF_NOTHING || (o->of != SK_OF_OBJECT && (!mine || !of_worker));
        o->of = SK_OF_OBJECT;
        if (!mine) continue;
        if (o->where != SK_OW_PENDING && mine->where != SK_OW_ACTOR) {
            bool first = mine->where == SK_OW_PENDING || !mine->node || mine->node == o->node;
            if (first) mine->where = o->where;
            if (first) mine->node = o->node;
            if (!mine->size_bytes) mine->size_bytes = o->size_bytes;
        }
        if (mine->task_state == SK_TS_PLACE) mine->task_state = o->task_state;
        if (!mine->task) mine->task = o->task;
        mine->attempt = SK_MAX(mine->attempt, o->attempt);
    }
}

static int by_end(const void *a, const void *b) {
    const struct sk_task_row *x = &((const struct item *)a)->row.task,
                             *y = &((const struct item *)b)->row.task;
    bool x_over = x->state >= SK_TS_FINISHED, y_over = y->state >= SK_TS_FINISHED;
    if (x_over != y_over) return x_over ? -1 : 1;
    int64_t d = x_over ? x->end_ns - y->end_ns : x->submit_ns - y->submit_ns;
    return d < 0 ? -1 : d > 0;
}

static bool is_over(enum sk_state_what what, const struct item *x) {
    return what == SK_STATE_ACTORS    ? x->row.actor.state == SK_AS_DEAD
           : what == SK_STATE_WORKERS ? x->row.worker.end != SK_WE_LIVES
                                      : true;
}

static size_t g_rows(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_ghost *x = of(e);
    struct answers mine = {0}, a;
    SK_ASSERT(what <= SK_STATE_WORKERS && x->g.ops->ask);
    struct sk_map handles;
    struct merged m = {.handles = &handles};
    sk_map_init(&handles, TAG);
    sk_map_init(&m.at, TAG);
    note_own(x, what, &mine, &handles);
    ask(x, what, &a);
    for (uint32_t i = 0; i < a.of.n; i++) add_rows(&m, what, &a.of.p[i]);
    if (what == SK_STATE_TASKS && m.of.n) qsort(m.of.p, m.of.n, sizeof *m.of.p, by_end);
    for (uint32_t i = 0; i < mine.of.n; i++) add_rows(&m, what, &mine.of.p[i]);
    switch (what) {
    case SK_STATE_TASKS: merge_tasks(&m); break;
    case SK_STATE_ACTORS: merge_actors(&m); break;
    case SK_STATE_OBJECTS: merge_objects(&m); break;
    case SK_STATE_WORKERS: break;
    }
    struct sk_rows r = sk_rows_begin(buf, cap);
    for (int over = 1; over >= 0; over--)
        for (uint32_t i = 0; i < m.of.n; i++)
            if (!m.of.p[i].out && is_over(what, &m.of.p[i]) == over)
                sk_rows_copy(&r, what, &m.of.p[i].row);
    r.head.total += m.total;
    r.head.n_silent = a.n_silent;
    r.head.silent = a.silent;
    size_t n = sk_rows_end(&r, buf, cap);
    sk_map_deinit(&handles);
    sk_map_deinit(&m.at);
    sk_vec_free(&m.of);
    forget(&mine);
    forget(&a);
    return n;
}

static size_t g_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct answers a;
    struct merged m = {0};
    size_t n = 0;
    ask(of(e), SK_STATE_WORKERS, &a);
    for (uint32_t i = 0; i < a.of.n; i++) add_rows(&m, SK_STATE_WORKERS, &a.of.p[i]);
    for (uint32_t i = 0; i < m.of.n; i++) {
        const struct sk_worker_row *w = &m.of.p[i].row.worker;
        if (w->end != SK_WE_LIVES) continue;
        if (n < cap) out[n] = (struct sk_worker_info){w->pid, w->worker, w->state, w->n_done};
        n++;
    }
    sk_vec_free(&m.of);
    forget(&a);
    return n;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* So large at most is a number of a node: the sum of those of all nodes does not overflow. */
#define NUMBER_MAX (LLONG_MAX / 4096)

struct number {
    char key[48];
    long long value;
};
struct numbers {
    SK_VEC(struct number) of;
};

static void add_number(struct numbers *all, const char *key, long long value) {
    struct number k = {.value = value};
    (void)snprintf(k.key, sizeof k.key, "%s", key);
    for (uint32_t i = 0; i < all->of.n; i++)
        if (!strcmp(all->of.p[i].key, k.key)) {
            all->of.p[i].value += value;
            return;
        }
    (void)!sk_vec_push(&all->of, TAG, k);
}

/* Adds lines "key value\n", which may be anything. own: of this process, which keeps lineage for
 * all; nodes keep some for themselves, which does not count. */
static void add_lines(struct numbers *all, struct sk_bytes b, bool own) {
    const char *p = b.p, *end = p + b.n;
    for (const char *stop; p < end && (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1) {
        char line[128];
        size_t n = (size_t)(stop - p);
        if (n >= sizeof line || !memchr(p, ' ', n)) continue;
        memcpy(line, p, n);
        line[n] = 0;
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value++ = 0;
        if (!own && !strncmp(line, "lineage_", 8)) continue;
        long long number = strtoll(value, NULL, 10);
        add_number(all, line, SK_MIN(SK_MAX(number, -NUMBER_MAX), NUMBER_MAX));
    }
}

static long long take_number(struct numbers *all, const char *key) {
    for (uint32_t i = 0; i < all->of.n; i++) {
        long long value = all->of.p[i].value;
        if (strcmp(all->of.p[i].key, key) != 0) continue;
        all->of.p[i] = all->of.p[--all->of.n];
        return value;
    }
    return 0;
}

static size_t g_status(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_ghost *x = of(e);
    struct numbers all = {0};
    struct answers a;
    uint32_t n_nodes = 0;
    size_t n = 0;
    ask(x, SK_ASK_STATUS, &a);
    for (uint32_t i = 0; i < a.of.n; i++) {
        add_lines(&all, a.of.p[i].bytes, !a.of.p[i].node);
        n_nodes += a.of.p[i].node != 0;
    }
    pthread_mutex_lock(&x->mu);
    long long mine = (long long)sk_own_n(x->own), waiting = 0;
    SK_LIST_EACH (it, &x->waiting) waiting++;
    pthread_mutex_unlock(&x->mu);
    /* what nodes hold for this process is counted here */
    long long theirs = take_number(&all, "objects") - take_number(&all, "held_for_driver");
    SK_DCHECK(mine >= 0 && n_nodes <= x->nodes.n + 1);
    add_number(&all, "objects", mine + SK_MAX(theirs, 0));
    add_number(&all, "tasks_known", waiting);
    add_number(&all, "nodes", n_nodes);
    add_number(&all, "nodes_silent", a.n_silent);
    for (uint32_t i = 0; i < all.of.n; i++) {
        int k = snprintf(n < cap ? buf + n : NULL, n < cap ? cap - n : 0, "%s %lld\n",
                         all.of.p[i].key, all.of.p[i].value);
        n += (size_t)k;
    }
    sk_vec_free(&all.of);
    forget(&a);
    return n + 1;
}

static void add_memory(struct sk_memory_info *to, const struct sk_memory_info *from) {
    if (!to->where[0]) memcpy(to->where, from->where, sizeof to->where);
    to->limit_bytes += from->limit_bytes;
    to->used_bytes += from->used_bytes;
    to->store_limit_bytes += from->store_limit_bytes;
    to->store_may_bytes += from->store_may_bytes;
    to->store_used_bytes += from->store_used_bytes;
    to->store_present_bytes += from->store_present_bytes;
    to->spilled_bytes += from->spilled_bytes;
    to->heap_bytes += from->heap_bytes;
    to->driver_heap_bytes += from->driver_heap_bytes;
    to->n_stopped += from->n_stopped;
    to->n_kernel_killed += from->n_kernel_killed;
    to->n_alone += from->n_alone;
}

static sk_rc g_memory(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w,
                      size_t cap, size_t *n, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    struct answers a;
    SK_ASSERT(out && n && (w || !cap));
    pthread_mutex_lock(&x->mu);
    bool closing = x->closing;
    pthread_mutex_unlock(&x->mu);
    if (closing) return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    ask(x, SK_ASK_MEMORY, &a);
    *out = (struct sk_memory_info){0};
    *n = 0;
    for (uint32_t i = 0; i < a.of.n; i++) {
        struct sk_rd r = sk_rd_init(a.of.p[i].bytes.p, a.of.p[i].bytes.n);
        struct sk_memory_info info;
        const void *p = sk_rd_raw(&r, sizeof info);
        if (!p) continue; /* it could not measure itself */
        memcpy(&info, p, sizeof info);
        add_memory(out, &info);
        for (; (p = sk_rd_end(&r) ? NULL : sk_rd_raw(&r, sizeof *w)); ++*n)
            if (*n < cap) memcpy(&w[*n], p, sizeof *w);
    }
    forget(&a);
    return SK_OK;
}

static size_t g_references(struct sk_engine *e, struct sk_reference *out, size_t cap) {
    struct sk_ghost *x = of(e);
    size_t n = 0;
    uint64_t id;
    void *v;
    pthread_mutex_lock(&x->mu);
    for (uint32_t c = 0; !x->closing && sk_own_each(x->own, &c, &id, &v);) {
        if (sk_map_get(&x->actors, id + 1)) continue; /* `ready` of an actor */
        if (n < cap)
            out[n] = (struct sk_reference){
                {id}, sk_own_borrowed(x->own, id, ME), sk_own_count(x->own, id)};
        n++;
    }
    pthread_mutex_unlock(&x->mu);
    return n;
}

/* ---- what a caller waits for ----------------------------------------------------------------- */

/* Where a task is, as its node tells. */
static void place_of_task(struct sk_ghost *x, uint64_t id, char *buf, size_t cap) {
    struct answers a;
    struct merged m = {0};
    ask(x, SK_STATE_TASKS, &a);
    for (uint32_t i = 0; i < a.of.n; i++) add_rows(&m, SK_STATE_TASKS, &a.of.p[i]);
    (void)snprintf(buf, cap, "waits for a node with what it asks for");
    for (uint32_t i = 0; i < m.of.n; i++) {
        const struct sk_task_row *r = &m.of.p[i].row.task;
        if (r->id != id || r->state >= SK_TS_FINISHED) continue;
        if (!r->pid) (void)snprintf(buf, cap, "waits for a worker of node %u", r->node);
        else
            (void)snprintf(buf, cap, "%s worker %d of node %u",
                           r->state == SK_TS_RUNNING ? "runs in" : "is queued on", (int)r->pid,
                           r->node);
    }
    sk_vec_free(&m.of);
    forget(&a);
}

static void g_about(struct sk_engine *e, sk_oid o, sk_tid tid, char *buf, size_t cap) {
    struct sk_ghost *x = of(e);
    char name[200], where[100] = "waits for its actor";
    int64_t submit_ns = 0;
    bool abroad = false;
    SK_ASSERT(cap > 0 && (o.v || tid.v));
    buf[0] = 0;
    pthread_mutex_lock(&x->mu);
    const struct sk_gobj *obj = o.v ? sk_own_get(x->own, o.v) : NULL;
    uint64_t id = obj ? obj->task : tid.v;
    const struct sk_gtask *t = id ? sk_map_get(&x->tasks, id) : NULL;
    if (obj && sk_gobj_there(obj)) {
        (void)snprintf(buf, cap, "is there by now");
        t = NULL;
    }
    if (t) {
        (void)snprintf(name, sizeof name, "%s", t->name);
        submit_ns = t->submit_ns;
        abroad = t->told;
        if (!abroad && t->n_lacking)
            (void)snprintf(where, sizeof where, "waits for %u of its arguments", t->n_lacking);
    }
    pthread_mutex_unlock(&x->mu);
    if (!submit_ns) return;
    if (abroad) place_of_task(x, id, where, sizeof where);
    (void)snprintf(buf, cap, "of task %s, which %s, submitted %.1f s ago", name, where,
                   (double)(sk_now_ns() - submit_ns) / 1e9);
}

const struct sk_state_ops sk_gtold_state = {
    .rows = g_rows, .workers = g_workers, .status = g_status, .about = g_about};
const struct sk_usage_ops sk_gtold_usage = {.memory = g_memory, .references = g_references};
