/* hold.c - the resources that tasks and actors hold, and the bundles that placement groups have,
 * kept by engine/place as in the local engine. A group gets its bundles when running tasks and
 * living actors leave these amounts free, and tasks in a group wait for room in the group. All
 * other tasks are counted, but wait for no resources. */
#include <stdlib.h>

#include "engine/inline/inline_int.h"

struct sk_igroup *sk_inline_group(struct sk_inline *x, uint64_t id) {
    SK_LIST_EACH (it, &x->groups) {
        struct sk_igroup *g = sk_container_of(it, struct sk_igroup, link);
        if (g->id == id) return g;
    }
    return NULL;
}

void sk_inline_hold(struct sk_inline *x, struct sk_place_worker *w, sk_shape s) {
    sk_place_worker_init(w);
    sk_place_worker_starting(&x->place, w);
    sk_place_worker_up(&x->place, w);
    sk_place_worker_actor(&x->place, w, s);
}

void sk_inline_groups_ready(struct sk_inline *x) {
    if (!x->place.n_groups_waiting) return;
    for (struct sk_place_pick pick;;) {
        sk_place_pick(&x->place, 0, &pick);
        if (pick.what != SK_PLACE_GROUP) return;
        struct sk_igroup *g = sk_inline_group(x, pick.group->id);
        struct sk_iobj *o = sk_own_get(x->own, g->ready_oid);
        /* without memory for these 8 bytes a waiter would wait for ever */
        if (sk_blob_bytes(x, SK_KIND_GROUP_READY, (struct sk_bytes){&g->id, 8}, &o->val, NULL) !=
            SK_OK)
            abort();
        pthread_cond_broadcast(&x->cv);
    }
}

void sk_inline_give_back(struct sk_inline *x, struct sk_place_worker *w) {
    if (w->state == SK_W_NONE) return;
    sk_place_worker_gone(&x->place, w);
    sk_inline_groups_ready(x);
}
