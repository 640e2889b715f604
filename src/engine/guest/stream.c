/* stream.c - streams without a sink: the yields of a task of a guest, until somebody who knows the
 * task's id takes them (streams.h). A stream stays until it is dropped and its task is over, since
 * its end may be asked for.
 *
 * Invariant: each yield that was not taken has the one reference of the stream. */
#include "engine/guest/guest_int.h"

#include <stdlib.h>

sk_rc sk_gstream_new(struct sk_ghost *x, uint64_t task, bool window, struct sk_err *err) {
    struct sk_gstream *s = sk_calloc(TAG, sizeof *s);
    if (s) s->window = window;
    if (s && sk_map_put(&x->streams, task, s) == SK_OK) return SK_OK;
    sk_free(s);
    return SK_ERR(err, SK_ENOMEM, "stream");
}

void sk_gstream_free(struct sk_ghost *x, struct sk_gstream *s) {
    sk_gval_unref(x, s->why);
    sk_vec_free(&s->yields);
    sk_free(s);
}

void sk_gstream_yielded(struct sk_ghost *x, uint64_t task, struct sk_gstream *s, uint64_t oid) {
    SK_ASSERT(!s->over);
    if (s->dropped) sk_gobj_unref(x, oid);
    else if (s->reader) /* the order has the reference */
        sk_ghost_order(x,
                       (struct sk_gorder){
                           .kind = SK_GORDER_YIELD, .node = s->reader, .id = s->name, .of = oid});
    else if (!sk_vec_push(&s->yields, TAG, oid)) abort(); /* a value would be lost */
    sk_gwatch_tell(x, task);
    pthread_cond_broadcast(&x->moved);
}

/* Gives the object of `end` its value. */
static void set_end(struct sk_ghost *x, struct sk_gstream *s) {
    struct sk_gobj *o = s->end ? sk_own_get(x->own, s->end) : NULL;
    if (!o || sk_gobj_there(o)) return; /* it was not asked for, or is released */
    o->val = s->why ? sk_gval_ref(s->why) : sk_gval_new(s->end_kind, (struct sk_bytes){0});
    if (!o->val) o->val = sk_gval_error(SK_ENOMEM, "no memory for a value");
    sk_gtask_exists(x, s->end, o);
}

static void maybe_free(struct sk_ghost *x, uint64_t task, struct sk_gstream *s) {
    if (!s->dropped || !s->over) return;
    sk_map_del(&x->streams, task);
    sk_gstream_free(x, s);
}

void sk_gstream_over(struct sk_ghost *x, uint64_t task, struct sk_gval *why) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    SK_ASSERT(s && !s->over);
    s->over = true;
    s->why = why ? sk_gval_ref(why) : NULL;
    s->dropped = s->dropped || s->reader; /* the node has all that it yielded */
    set_end(x, s);
    sk_gwatch_tell(x, task);
    pthread_cond_broadcast(&x->moved);
    maybe_free(x, task, s);
}

static void tell_taken(struct sk_ghost *x, uint64_t task, const struct sk_gstream *s, uint32_t n) {
    const struct sk_gtask *t = sk_map_get(&x->tasks, task);
    if (!s->window || s->over || !t) return;
    if (t->abroad)
        sk_ghost_order(x, (struct sk_gorder){
                              .kind = SK_GORDER_TOOK, .of = t->actor, .id = t->first, .flags = n});
    else sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_TAKEN, .id = task, .flags = n});
}

sk_rc sk_gstream_take(struct sk_ghost *x, uint64_t task, sk_oid *out, struct sk_err *err) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    if (!s || s->dropped) return SK_EDONE;
    if (s->n_taken < s->yields.n) {
        if (!out) return SK_OK;
        out->v = s->yields.p[s->n_taken++];
        tell_taken(x, task, s, s->n_taken);
        return SK_OK;
    }
    if (!s->over) return SK_EAGAIN;
    if (!s->why || s->why_taken) return SK_EDONE;
    if (!out) return SK_OK;
    sk_rc rc = sk_gobj_new(x, x->next_id, 0, sk_gval_ref(s->why), NULL, 0, err);
    if (rc != SK_OK) {
        sk_gval_unref(x, s->why);
        return rc;
    }
    out->v = x->next_id++;
    s->why_taken = true;
    return SK_ERR(err, SK_ETASK, "the task of the stream has failed");
}

sk_rc sk_gstream_end(struct sk_ghost *x, uint64_t task, uint32_t kind, sk_oid *out,
                     struct sk_err *err) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    if (!s || s->dropped) return SK_ERR(err, SK_ENOENT, "this stream was dropped");
    if (s->end) return SK_ERR(err, SK_EEXIST, "the end of a stream was asked for before");
    SK_TRY(sk_gobj_new(x, x->next_id, s->over ? 0 : task, NULL, NULL, 0, err));
    out->v = s->end = x->next_id++;
    s->end_kind = kind;
    if (s->over) set_end(x, s);
    return SK_OK;
}

void sk_gstream_drop(struct sk_ghost *x, uint64_t task) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    if (!s || s->dropped) return;
    s->dropped = true; /* the task runs to its end, for its side effects */
    struct sk_gtask *t = sk_map_get(&x->tasks, task);
    if (t && !t->told) t->window = 0; /* the guest does not know it yet */
    tell_taken(x, task, s, UINT32_MAX);
    while (s->n_taken < s->yields.n) sk_gobj_unref(x, s->yields.p[s->n_taken++]);
    sk_gwatch_tell(x, task); /* somebody else may wait for the next yield */
    pthread_cond_broadcast(&x->moved);
    maybe_free(x, task, s);
}

sk_rc sk_gstream_lend(struct sk_ghost *x, uint64_t task, uint32_t node, uint64_t name, sk_oid *end,
                      struct sk_err *err) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    SK_ASSERT(node && (!s || !s->reader));
    SK_TRY(sk_gstream_end(x, task, 0, end, err));
    s->reader = node;
    s->name = name;
    if (s->over) { /* it has failed at once */
        s->dropped = true;
        maybe_free(x, task, s);
    }
    return SK_OK;
}

void sk_gstream_took(struct sk_ghost *x, uint64_t task, uint32_t n) {
    struct sk_gstream *s = sk_map_get(&x->streams, task);
    if (s && n == UINT32_MAX) sk_gstream_drop(x, task);
    else if (s) tell_taken(x, task, s, n);
}
