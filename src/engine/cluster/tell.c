/* tell.c - what a node tells of itself (contract: tell.h). */
#include "engine/cluster/tell.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/containers/map.h"
#include "engine/books/history.h"
#include "engine/foreign.h"
#include "engine/usage.h"

#define TAG SK_TAG_ENGINE
#define KEPT (2 * SK_STATE_PAST) /* tasks and actors whose numbers are known */

struct known {
    uint64_t here, host;
    uint32_t attempt;
};
struct object {
    uint64_t as;
    enum sk_object_of of;
};

struct sk_atell {
    struct sk_engine *e;
    uint64_t id_base;
    SK_VEC(struct known) known; /* a ring: entry `next` is the oldest one when there are KEPT */
    uint32_t next;
    struct sk_map of; /* here -> its place in `known`, plus one */
    SK_VEC(struct object) objects;
    struct sk_map object_of; /* here -> its place in `objects`, plus one */
    uint8_t *buf;
    size_t cap;
};

static uint32_t place_of(const struct sk_map *m, uint64_t key) {
    return key ? (uint32_t)(uintptr_t)sk_map_get(m, key) : 0;
}
static sk_rc set_place(struct sk_map *m, uint64_t key, uint32_t place) {
    return sk_map_put(m, key, (void *)(uintptr_t)(place + 1)); /* NOLINT: a number in a map */
}

/* Without memory the rows have the number of this engine in place of the driver's. */
void sk_atell_known(struct sk_atell *t, uint64_t here, uint64_t host, uint32_t attempt) {
    SK_DCHECK(here && host);
    if (place_of(&t->of, here)) return;
    struct known k = {here, host, attempt};
    uint32_t at = t->known.n;
    SK_ASSERT(at <= KEPT && t->next < KEPT);
    if (at < KEPT) {
        if (!sk_vec_push(&t->known, TAG, k)) return;
    } else {
        at = t->next;
        t->next = (at + 1) % KEPT;
        sk_map_del(&t->of, t->known.p[at].here);
        t->known.p[at] = k;
    }
    (void)!set_place(&t->of, here, at);
}

void sk_atell_object(struct sk_atell *t, uint64_t here, enum sk_object_of of, uint64_t as) {
    SK_DCHECK(here && of != SK_OF_OBJECT);
    if (sk_vec_push(&t->objects, TAG, (struct object){as, of}))
        (void)!set_place(&t->object_of, here, t->objects.n - 1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct known *known_of(const struct sk_atell *t, uint64_t here) {
    uint32_t at = place_of(&t->of, here);
    SK_DCHECK(at <= t->known.n);
    return at ? &t->known.p[at - 1] : NULL;
}

static uint64_t host_of(const struct sk_atell *t, uint64_t here) {
    const struct known *k = known_of(t, here);
    return k ? k->host : here;
}

static void object(const struct sk_atell *t, struct sk_object_row *o) {
    uint32_t at = place_of(&t->object_of, o->id);
    bool own = sk_id_place(o->id) == sk_id_place(t->id_base);
    o->task = host_of(t, o->task);
    if (at) {
        o->of = t->objects.p[at - 1].of;
        o->id = t->objects.p[at - 1].as;
    } else if (o->where == SK_OW_ACTOR && host_of(t, o->id) != o->id) {
        o->id = host_of(t, o->id);
        o->of = SK_OF_DRIVER;
    } else if (o->pid && !o->worker)
        o->of = SK_OF_DRIVER;                        /* this process holds it for the driver */
    else if (!o->pid && !own) o->of = SK_OF_NOTHING; /* the row of its owner counts it */
}

static void translate(const struct sk_atell *t, enum sk_state_what what, struct sk_row *r) {
    const struct known *k;
    switch (what) {
    case SK_STATE_TASKS:
        k = known_of(t, r->task.kind == SK_TK_INIT ? r->task.actor : r->task.id);
        /* the driver numbers a constructor right after its actor */
        if (k) r->task.id = k->host + (r->task.kind == SK_TK_INIT);
        if (k) r->task.attempt += k->attempt;
        r->task.parent = host_of(t, r->task.parent);
        r->task.actor = host_of(t, r->task.actor);
        r->task.more = 0; /* a number of this engine */
        break;
    case SK_STATE_ACTORS:
        if ((k = known_of(t, r->actor.id))) r->actor.init = k->host + 1;
        if (k) r->actor.n_restarts += k->attempt;
        r->actor.id = host_of(t, r->actor.id);
        r->actor.more = 0;
        break;
    case SK_STATE_OBJECTS: object(t, &r->object); break;
    case SK_STATE_WORKERS:
        r->worker.actor = host_of(t, r->worker.actor);
        r->worker.task = host_of(t, r->worker.task);
        break;
    }
}

static bool room(struct sk_atell *t, size_t n) {
    if (n <= t->cap) return true;
    uint8_t *p = sk_realloc(TAG, t->buf, n);
    if (!p) return false;
    t->buf = p;
    t->cap = n;
    return true;
}

static struct sk_bytes rows(struct sk_atell *t, enum sk_state_what what) {
    size_t n = 0;
    do { /* once more if the list grew meanwhile */
        if (!room(t, n + n / 8 + 4096)) return (struct sk_bytes){"", 0};
        n = t->e->state->rows(t->e, what, t->buf, t->cap);
    } while (n > t->cap);
    struct sk_rd r = sk_rd_init(t->buf, n);
    struct sk_state_head head;
    struct sk_row row;
    if (!sk_rows_head(&r, &head)) return (struct sk_bytes){"", 0};
    for (uint64_t i = 0; i < head.n && sk_rows_next(&r, what, &row); i++) {
        translate(t, what, &row);
        sk_rows_change(t->buf, what, &row);
    }
    SK_ASSERT(!r.bad);
    return (struct sk_bytes){t->buf, n};
}

/* ---- numbers --------------------------------------------------------------------------------- */

static struct sk_bytes status(struct sk_atell *t) {
    if (!room(t, 8192)) return (struct sk_bytes){"", 0};
    char *p = (char *)t->buf;
    size_t n = SK_MIN(t->e->state->status(t->e, p, t->cap - 64), t->cap - 64);
    n -= n && !p[n - 1]; /* its NUL */
    n += (size_t)snprintf(p + n, 64, "held_for_driver %u\n", t->objects.n);
    return (struct sk_bytes){t->buf, n};
}

static struct sk_bytes memory(struct sk_atell *t) {
    const size_t head = sizeof(struct sk_memory_info), each = sizeof(struct sk_memory_worker);
    struct sk_memory_info info = {0};
    size_t n = 0, cap;
    do {
        cap = n + 16;
        if (!room(t, head + cap * each)) return (struct sk_bytes){"", 0};
        memset(t->buf, 0, head + cap * each);
        if (t->e->usage->memory(t->e, &info, (struct sk_memory_worker *)(void *)(t->buf + head),
                                cap, &n, NULL) != SK_OK)
            return (struct sk_bytes){"", 0};
    } while (n > cap);
    memcpy(t->buf, &info, head);
    return (struct sk_bytes){t->buf, head + n * each};
}

struct sk_bytes sk_atell_answer(struct sk_atell *t, uint32_t what) {
    struct sk_bytes out = {"", 0};
    if (what <= SK_STATE_WORKERS && t->e->state) out = rows(t, (enum sk_state_what)what);
    else if (what == SK_ASK_STATUS && t->e->state) out = status(t);
    else if (what == SK_ASK_MEMORY && t->e->usage) out = memory(t);
    t->objects.n = 0;
    sk_map_clear(&t->object_of);
    return out;
}

sk_rc sk_atell_create(struct sk_atell **out, struct sk_engine *e, uint64_t id_base,
                      struct sk_err *err) {
    struct sk_atell *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "agent");
    t->e = e;
    t->id_base = id_base;
    sk_map_init(&t->of, TAG);
    sk_map_init(&t->object_of, TAG);
    *out = t;
    return SK_OK;
}

void sk_atell_free(struct sk_atell *t) {
    if (!t) return;
    sk_vec_free(&t->known);
    sk_vec_free(&t->objects);
    sk_map_deinit(&t->of);
    sk_map_deinit(&t->object_of);
    sk_free(t->buf);
    sk_free(t);
}
