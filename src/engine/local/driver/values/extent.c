/* extent.c - store memory of compiled graphs. Runs with the lock held.
 *
 * An extent of a graph is a lease of the driver's process in the store's book: so it is not
 * spilled, survives the death of the worker that fills it, and counts as memory in use. This file
 * lists the extents of each graph, so that the end of a graph gives all of them back, whatever the
 * state of its channels. A closed graph whose memory a process may still read is kept here until no
 * process uses the memory. Cost: a walk over the graph's extents for each extent that is given
 * back; a graph has a few extents for each channel. */
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

static struct sk_lgraph *graph_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_lgraph, link);
}

static struct sk_lgraph *find(struct sk_local *l, uint64_t id) {
    SK_LIST_EACH (it, &l->graphs.all)
        if (graph_of(it)->id == id) return graph_of(it);
    return NULL;
}

static void *head_of(const struct sk_local *l, const struct sk_lgraph *g) {
    return g->has_head ? l->data_seg.base + g->head : NULL;
}

static void give_back(struct sk_local *l, struct sk_extent x) {
    /* this cannot fail, because a whole lease is given back */
    sk_rc rc = sk_store_unlease(l->store, SK_PROC_DRIVER, x.off, x.len, NULL);
    SK_ASSERT(rc == SK_OK);
    sk_space_released(l);
    sk_progressed(l);
}

static void end(struct sk_local *l, struct sk_lgraph *g) {
    SK_ASSERT(g->over); /* the owner has closed the graph, or has died */
    for (uint32_t i = 0; i < g->extents.n; i++) give_back(l, g->extents.p[i]);
    sk_vec_free(&g->extents);
    sk_list_del(&g->link);
    sk_free(g);
}

static void reap(struct sk_local *l) {
    SK_LIST_EACH_SAFE (it, tmp, &l->graphs.all) {
        struct sk_lgraph *g = graph_of(it);
        if (g->over &&
            !(g->has_head && l->graphs.hooks.in_use && l->graphs.hooks.in_use(head_of(l, g))))
            end(l, g);
    }
}

static void bury(struct sk_local *l, struct sk_lgraph *g, uint64_t aid, const char *how,
                 bool restarts) {
    if (g->has_head && l->graphs.hooks.bury)
        l->graphs.hooks.bury(head_of(l, g), (sk_aid){aid}, how, restarts);
}

sk_rc sk_lgraph_open(struct sk_local *l, uint32_t proc, uint64_t *id, struct sk_err *err) {
    reap(l);
    struct sk_lgraph *n = sk_calloc(SK_TAG_ENGINE, sizeof *n);
    if (!n) return SK_ERR(err, SK_ENOMEM, "no memory for a compiled graph");
    SK_DCHECK(proc == SK_PROC_DRIVER || proc);
    n->owner = proc;
    *id = n->id = sk_new_ids(l, 1);
    sk_list_push_back(&l->graphs.all, &n->link);
    return SK_OK;
}

void sk_lgraph_close(struct sk_local *l, uint32_t proc, uint64_t id) {
    struct sk_lgraph *g = find(l, id);
    if (g && g->owner == proc) g->over = true;
    reap(l);
}

sk_rc sk_lgraph_own(struct sk_local *l, uint64_t id, uint64_t off, uint64_t len,
                    struct sk_err *err) {
    SK_DCHECK(len && off % SK_STORE_ALIGN == 0);
    struct sk_lgraph *g = find(l, id);
    if (g && sk_vec_push(&g->extents, SK_TAG_ENGINE, ((struct sk_extent){off, len}))) {
        if (!g->has_head) {
            /* the memory is no valid graph until the owner has written to it */
            memset(l->data_seg.base + off, 0, SK_MIN(len, 4096));
            g->head = off;
            g->has_head = true;
        }
        return SK_OK;
    }
    give_back(l, (struct sk_extent){off, len});
    return g ? SK_ERR(err, SK_ENOMEM, "no memory for a buffer of a compiled graph")
             : SK_ERR(err, SK_ECLOSED, "the compiled graph was torn down");
}

void sk_lgraph_free(struct sk_local *l, uint64_t id, uint64_t off) {
    struct sk_lgraph *g = find(l, id);
    for (uint32_t i = 0; g && i < g->extents.n; i++) {
        struct sk_extent x = g->extents.p[i];
        if (x.off != off || off == g->head) continue;
        g->extents.p[i] = g->extents.p[--g->extents.n];
        give_back(l, x);
        return;
    }
}

void sk_lgraphs_actor_died(struct sk_local *l, uint64_t aid, const char *how, bool restarts) {
    SK_LIST_EACH (it, &l->graphs.all) bury(l, graph_of(it), aid, how, restarts);
    reap(l);
}

void sk_lgraphs_actor_killed(struct sk_local *l, uint64_t aid, const char *how) {
    SK_LIST_EACH (it, &l->graphs.all) {
        struct sk_lgraph *g = graph_of(it);
        if (g->has_head && l->graphs.hooks.condemn)
            l->graphs.hooks.condemn(head_of(l, g), (sk_aid){aid}, how);
    }
}

void sk_lgraphs_proc_dead(struct sk_local *l, uint32_t proc, const char *how) {
    SK_LIST_EACH (it, &l->graphs.all) {
        if (graph_of(it)->owner != proc) continue;
        bury(l, graph_of(it), 0, how, false);
        graph_of(it)->over = true;
    }
    reap(l);
}

bool sk_lgraphs_end(struct sk_local *l, const char *why) {
    bool used = false;
    SK_LIST_EACH (it, &l->graphs.all) {
        bury(l, graph_of(it), UINT64_MAX, why, false);
        used |= graph_of(it)->has_head && l->graphs.hooks.in_use &&
                l->graphs.hooks.in_use(head_of(l, graph_of(it)));
    }
    return used;
}

void sk_lgraphs_init(struct sk_local *l, const struct sk_graph_hooks *hooks) {
    sk_list_init(&l->graphs.all);
    if (hooks) l->graphs.hooks = *hooks;
}

void sk_lgraphs_free(struct sk_local *l) {
    while (!sk_list_empty(&l->graphs.all)) {
        struct sk_lgraph *g = graph_of(l->graphs.all.next);
        sk_vec_free(&g->extents);
        sk_list_del(&g->link);
        sk_free(g);
    }
}

uint32_t sk_lgraphs_living(struct sk_local *l) {
    uint32_t n = 0;
    reap(l);
    SK_LIST_EACH (it, &l->graphs.all) n++;
    return n;
}

bool sk_lgraphs_check(struct sk_local *l) {
    SK_LIST_EACH (it, &l->graphs.all) {
        const struct sk_lgraph *g = graph_of(it);
        bool has_head = false;
        for (uint32_t i = 0; i < g->extents.n; i++) {
            struct sk_extent x = g->extents.p[i];
            has_head |= x.off == g->head;
            if (!x.len || x.off + x.len > l->data_seg.size + l->data_seg.tail) return false;
            for (uint32_t k = 0; k < i; k++)
                if (x.off < g->extents.p[k].off + g->extents.p[k].len &&
                    g->extents.p[k].off < x.off + x.len)
                    return false;
        }
        if (g->has_head != (g->extents.n != 0) || has_head != g->has_head) return false;
    }
    return true;
}
