/* lost.c - the book of a cluster: values that no node has any more, and the tasks that make them
 * again, by own/lineage.h (contract: book.h). Only what is still needed is made again. */
#include "engine/cluster/book_int.h"

#include <stdio.h>
#include <stdlib.h>

/* Memory of a constructor that is kept for the calls of its actor. */
static int64_t cost_of_init(const struct sk_bactor *a) {
    uint64_t bytes = sizeof *a + sizeof *a->init;
    for (uint32_t i = 0; i < a->init->n_args; i++)
        bytes += sizeof *a->init->args + (a->init->args[i].blob ? a->init->args[i].blob->len : 0);
    return (int64_t)bytes;
}

void sk_blost_keep(struct sk_book *b, struct sk_btask *t, const uint64_t *returns, uint32_t n) {
    struct sk_bactor *a = t->actor;
    if (!t->retries || t->is_init || (a && !a->init->retries)) return;
    SK_ASSERT(n > 0 && t->state == SK_B_SENT);
    if (t->kept) {
        for (uint32_t i = 0; i < n; i++)
            if (sk_lineage_return(b->lineage, t->seq, returns[i], sizeof(struct sk_bval), NULL) !=
                SK_OK)
                sk_bval_of(b, returns[i])->why = SK_LOST_EVICTED;
        sk_blost_drain(b);
        return;
    }
    uint64_t few[16], *args = few;
    uint32_t n_args = 0;
    uint64_t bytes = sizeof *t;
    if (t->n_args > SK_COUNT(few) && !(args = sk_alloc(TAG, t->n_args * sizeof *args))) abort();
    for (uint32_t i = 0; i < t->n_args; i++) {
        bytes += sizeof *t->args + (t->args[i].blob ? t->args[i].blob->len : 0);
        if (t->args[i].id) args[n_args++] = t->args[i].id;
    }
    struct sk_lineage_task l = {.id = t->seq,
                                .args = args,
                                .n_args = n_args,
                                .returns = returns,
                                .n_returns = n,
                                .bytes = bytes,
                                .retries = t->retries,
                                .open = true,
                                .data = t};
    t->kept = sk_lineage_add(b->lineage, &l, NULL) == SK_OK;
    if (t->kept && a && !a->n_kept++) sk_lineage_charge(b->lineage, cost_of_init(a));
    if (args != few) sk_free(args);
    for (uint32_t i = 0; i < n; i++) sk_bval_of(b, returns[i])->why = SK_LOST_EVICTED;
    sk_blost_drain(b);
}

void sk_blost_drain(struct sk_book *b) {
    uint64_t id;
    void *data;
    while (sk_lineage_next_free(b->lineage, &id, &data)) {
        struct sk_btask *t = data;
        SK_ASSERT(t->seq == id && t->kept);
        struct sk_bactor *a = t->actor;
        t->kept = false;
        if (t->over && !t->ending) {
            if (t->state == SK_B_KEPT) sk_btask_free(b, t);
            else sk_btask_unneeded(b, t); /* it was to make values that nobody needs any more */
        }
        if (!a) continue;
        SK_ASSERT(a->n_kept > 0);
        if (!--a->n_kept) sk_lineage_charge(b->lineage, -cost_of_init(a));
        sk_bactor_settle(b, a);
    }
}

static const char *reason(enum sk_lost_why why) {
    switch (why) {
    case SK_LOST_PUT: return "it was put by the program";
    case SK_LOST_ACTOR:
        return "a call of an actor without retries or restarts made it, which is not repeated";
    case SK_LOST_RETRIES: return "the task that made it has no retries left";
    case SK_LOST_EVICTED: return "the task that made it is no longer kept";
    case SK_LOST_NEEDS: return "an argument of the task that made it is gone, too";
    }
    return "";
}

/* Runs a kept task again. */
static void again(struct sk_book *b, struct sk_btask *t, int32_t retries) {
    SK_ASSERT(t->state == SK_B_KEPT && t->over);
    t->ending = false;
    t->retries = retries;
    t->attempt++;
    b->n_remade++;
    for (uint32_t i = 0; i < t->n_args; i++)
        if (t->args[i].id) sk_bval_of(b, t->args[i].id)->refs++;
    sk_btask_queue(b, t, true);
}

/* A value that is needed will be made: if a stream under way has passed it, that runs once more. */
static void passed(struct sk_book *b, uint64_t id) {
    struct sk_btask *maker = sk_lineage_maker(b->lineage, id);
    if (maker && maker->state == SK_B_SENT && (id & (SK_CLUSTER_VALUES - 1)) < maker->n_seen)
        maker->lacks = true;
}

void sk_blost_value(struct sk_book *b, struct sk_bval *v) {
    SK_ASSERT(!sk_bval_there(v) && v->refs > 0);
    enum sk_lost_why why = v->why;
    uint64_t culprit = 0, oid, id = v->id;
    void *data;
    int32_t retries;
    bool made = sk_lineage_lost(b->lineage, id, &why, &culprit);
    SK_VEC(uint64_t) back = {0}; /* values that are in scope again */
    while (sk_lineage_next_object(b->lineage, &oid)) {
        SK_ASSERT(!sk_bval_of(b, oid));
        sk_bval_new(b, oid)->why = SK_LOST_EVICTED;
        passed(b, oid);
        if (!sk_vec_push(&back, TAG, oid)) abort();
    }
    SK_VEC(struct sk_btask *) run = {0};
    SK_VEC(int32_t) left = {0};
    while (sk_lineage_next_task(b->lineage, &oid, &data, &retries))
        if (!sk_vec_push(&run, TAG, (struct sk_btask *)data) || !sk_vec_push(&left, TAG, retries))
            abort();
    for (uint32_t i = 0; i < run.n; i++) { /* nobody frees it, or its actor, meanwhile */
        run.p[i]->ending = true;
        if (run.p[i]->actor) run.p[i]->actor->n_calls++;
    }
    for (uint32_t i = 0; i < run.n; i++) again(b, run.p[i], left.p[i]);
    for (uint32_t i = 0; i < back.n; i++) { /* its taker has failed at once */
        struct sk_bval *x = sk_bval_of(b, back.p[i]);
        if (x && !x->refs++) sk_bval_unref(b, x);
        else if (x) x->refs--;
    }
    sk_vec_free(&back);
    sk_vec_free(&run);
    sk_vec_free(&left);
    sk_blost_drain(b);
    if (made) passed(b, id);
    if (made || !(v = sk_bval_of(b, id))) return;
    char text[250];
    snprintf(text, sizeof text, "a value is lost with its node and cannot be made again: %s",
             id >> 63 ? "a task on that node has put it, or an actor there has returned it"
                      : reason(culprit && culprit != id ? SK_LOST_NEEDS : why));
    sk_bval_fail(b, v, SK_ELOST, text);
}
