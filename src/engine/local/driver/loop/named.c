/* named.c - names of actors that the server of the engine knows: see named.h. Runs with the lock
 * held.
 *
 * Invariant: each question that was asked is in l->foreign.asks until its answer, and its worker
 * waits for it, or has died. */
#include "engine/local/driver/loop/named.h"

#include "base/mem.h"
#include "engine/local/driver/local_int.h"

enum { MAKE = SK_NAME_GOT + 1 };
struct ask {
    uint64_t req, base;  /* base: of a claim: as in the message ACTOR */
    uint32_t proc, what; /* enum sk_name_what, or MAKE */
    size_t n;            /* of a claim: the rest of the message */
    uint8_t how[];
};

void sk_named_init(struct sk_local *l) { sk_map_init(&l->foreign.asks, SK_TAG_ENGINE); }

void sk_named_free(struct sk_local *l) {
    uint64_t key;
    void *a;
    for (uint32_t i = 0; sk_map_next(&l->foreign.asks, &i, &key, &a);) sk_free(a);
    sk_map_deinit(&l->foreign.asks);
}

/* Notes a question; returns its number. 0: there was no memory, which the worker is told. */
static uint64_t note(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t base,
                     uint32_t what, struct sk_bytes how) {
    struct ask *a = sk_alloc(SK_TAG_ENGINE, sizeof *a + how.n);
    uint64_t number = ++l->foreign.next_ask;
    SK_DCHECK(what && l->foreign.server);
    if (!a || sk_map_put(&l->foreign.asks, number, a) != SK_OK) {
        sk_free(a);
        sk_driver_link_error(l, w, req, SK_ENOMEM, "no memory to ask for an actor");
        return 0;
    }
    *a = (struct ask){.req = req, .base = base, .proc = w->proc, .what = what, .n = how.n};
    if (how.n) memcpy(a->how, how.p, how.n);
    return number;
}

static void ask(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t base,
                const struct sk_foreign_name *name, struct sk_bytes how) {
    uint64_t number = note(l, w, req, base, name->what, how);
    if (number) l->foreign.server->asked(l->foreign.server, number, name);
}

void sk_named_find(struct sk_local *l, struct sk_lworker *w, uint64_t req, struct sk_bytes space,
                   struct sk_bytes name) {
    const struct sk_foreign_name n = {.what = SK_NAME_FIND, .space = space, .name = name};
    if (!l->foreign.server || sk_names_find(&l->actors.names, space, name))
        sk_actor_find_for(l, w, req, space, name);
    else ask(l, w, req, 0, &n, (struct sk_bytes){0});
}

void sk_named_list(struct sk_local *l, struct sk_lworker *w, uint64_t req) {
    if (!l->foreign.server) sk_actor_names_for(l, w, req);
    else ask(l, w, req, 0, &(struct sk_foreign_name){.what = SK_NAME_LIST}, (struct sk_bytes){0});
}

bool sk_named_claim(struct sk_local *l, struct sk_lworker *w, uint64_t base, uint64_t req,
                    const struct sk_aspec *as, struct sk_bytes how) {
    if (!l->foreign.server || !as->name.n || !req) return false;
    const struct sk_foreign_name n = {.what = SK_NAME_CLAIM,
                                      .actor = {base + 2},
                                      .space = as->space,
                                      .name = as->name,
                                      .meta = as->meta};
    ask(l, w, req, base, &n, how);
    return true;
}

bool sk_named_make(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                   const struct sk_aspec *as, struct sk_bytes spec) {
    struct sk_err err;
    if (!req || !sk_abroad_for_others(l, spec)) return false;
    uint64_t number = note(l, w, req, 0, MAKE, (struct sk_bytes){0});
    if (!number) return true;
    sk_rc rc = sk_abroad_make(l, w->proc, number, spec, as, &err);
    if (rc == SK_OK) return true;
    sk_free(sk_map_del(&l->foreign.asks, number));
    sk_driver_link_error(l, w, req, rc, err.msg);
    return true;
}

/* The worker that waits; NULL: it has died. */
static struct sk_lworker *worker_of(const struct sk_local *l, uint32_t proc) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w && w->proc == proc && !w->dying) return w;
    }
    return NULL;
}

static sk_rc make(struct sk_local *l, const struct ask *a, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(a->how, a->n);
    struct sk_aspec as;
    if (!sk_aspec_read(&r, &as)) return SK_ERR(err, SK_ECORRUPT, "the options of an actor");
    struct sk_bytes spec = sk_rd_bytes(&r);
    SK_DCHECK(!r.bad && as.name.n);
    return sk_actor_create(l, a->proc, a->base, spec.p, spec.n, &as, err);
}

static sk_rc take(struct sk_local *l, uint32_t proc, uint64_t actor, struct sk_err *err) {
    const uint64_t ids[] = {actor, actor - 1};
    sk_obj_meet(l, ids, SK_COUNT(ids));
    SK_TRY(sk_own_ref(l->own, ids[0], proc, 1, err));
    sk_rc rc = sk_own_ref(l->own, ids[1], proc, 1, err);
    if (rc != SK_OK) SK_IGNORE(sk_own_unref(l->own, ids[0], proc, 1, NULL));
    return rc;
}

void sk_named_answer(struct sk_local *l, uint64_t number, sk_rc rc, sk_aid actor,
                     struct sk_bytes bytes) {
    struct ask *a = sk_map_del(&l->foreign.asks, number);
    struct sk_lworker *w = a ? worker_of(l, a->proc) : NULL;
    struct sk_err err = {0};
    if (!a) return;
    if (rc != SK_OK) (void)!SK_ERR(&err, rc, "%.*s", (int)bytes.n, (const char *)bytes.p);
    if (w && rc == SK_OK && a->what == SK_NAME_CLAIM) rc = make(l, a, &err);
    else if (w && rc == SK_OK && a->what != SK_NAME_LIST) rc = take(l, a->proc, actor.v, &err);
    if (a->what == SK_NAME_CLAIM && (rc != SK_OK || !w)) /* the name is free again */
        l->foreign.server->asked(
            l->foreign.server, 0,
            &(struct sk_foreign_name){.what = SK_NAME_FREE, .actor = {a->base + 2}});
    if (w && (rc != SK_OK || a->what == SK_NAME_CLAIM || a->what == MAKE))
        sk_driver_link_answer(l, w, a->req, rc, a->what == MAKE ? actor.v : a->base + 2, &err);
    else if (w) sk_actor_found(l, w, a->req, actor.v, bytes);
    sk_free(a);
}
