/* promise.c - promised objects, whose value a process gives later. Runs with the lock held.
 *
 * A promise is a pending object that no task makes, and an entry here with the number of the
 * process that will give the value. The entry is removed when the process gives the value, or dies.
 * Cost: a walk over the open promises, of which there are as many as executions under way. */
#include "engine/local/driver/values/promise.h"

#include <stdio.h>

#include "base/mem.h"
#include "engine/local/driver/local_int.h"

struct promise {
    struct sk_list link; /* link in l->promises */
    uint64_t id;
    uint32_t proc;
};
static struct promise *promise_of(struct sk_list *it) {
    return sk_container_of(it, struct promise, link);
}

static struct promise *find(const struct sk_local *l, uint64_t id) {
    SK_LIST_EACH (it, &l->promises)
        if (promise_of(it)->id == id) return promise_of(it);
    return NULL;
}

sk_rc sk_promise_new(struct sk_local *l, uint32_t proc, uint64_t id, struct sk_err *err) {
    struct sk_obj *o = NULL;
    struct promise *p = sk_alloc(SK_TAG_ENGINE, sizeof *p);
    sk_rc rc = p ? sk_obj_new(l, id, proc, &o, err)
                 : SK_ERR(err, SK_ENOMEM, "no memory to promise an object");
    if (rc != SK_OK) {
        sk_free(p);
        return rc;
    }
    SK_ASSERT(o->state == SK_O_PENDING && !o->maker);
    *p = (struct promise){.id = id, .proc = proc};
    sk_list_push_back(&l->promises, &p->link);
    return SK_OK;
}

bool sk_promise_keep(struct sk_local *l, uint32_t proc, uint64_t id, const struct sk_val *v,
                     const void *bytes, struct sk_ids in) {
    struct promise *p = find(l, id);
    if (!p || p->proc != proc) return false;
    sk_list_del(&p->link);
    sk_free(p);
    sk_obj_set(l, id, proc, v, bytes, in);
    return true;
}

void sk_promises_proc_dead(struct sk_local *l, uint32_t proc, const char *how) {
    char why[1900];
    (void)snprintf(why, sizeof why, "the process that would have given this value died: %s", how);
    SK_LIST_EACH_SAFE (it, tmp, &l->promises) {
        struct promise *p = promise_of(it);
        if (p->proc != proc) continue;
        struct sk_obj *o = sk_obj_get(l, p->id);
        /* without memory the error has no text */
        struct sk_inl *e = o ? sk_engine_error(SK_EDEAD, why) : NULL;
        sk_list_del(&p->link);
        sk_free(p);
        if (o && o->state == SK_O_PENDING) sk_obj_set_inline(l, o, SK_KIND_ENGINE_ERROR, e);
        sk_inl_drop(e);
    }
}

void sk_promises_init(struct sk_local *l) { sk_list_init(&l->promises); }

void sk_promises_free(struct sk_local *l) {
    while (!sk_list_empty(&l->promises)) {
        struct promise *p = promise_of(l->promises.next);
        sk_list_del(&p->link);
        sk_free(p);
    }
}

bool sk_promised(const struct sk_local *l, uint64_t id) { return find(l, id) != NULL; }
