/* moves.c - tells sinks when values that their tasks yielded are spilled and restored. Runs with
 * the lock held.
 *
 * A value has the number of its follower (a sink), which is looked up when the follower is told: a
 * sink that was removed is not found, and its removal need not visit any value. Events are
 * collected, and delivered in one batch a turn of the loop. Invariant: events of one value
 * alternate, beginning with SPILLED. Cost: nothing without a follower; with one, a walk over the
 * followers for each yield that lies in the store, and 32 bytes an event. */
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"

#define BATCH 64u

struct follower {
    struct sk_list link;
    struct sk_sink *sink;
    uint32_t number;
};

static struct follower *follower_of(struct sk_list *it) {
    return sk_container_of(it, struct follower, link);
}

void sk_moves_init(struct sk_local *l) { sk_list_init(&l->moves.followers); }

void sk_moves_close(struct sk_local *l) {
    SK_LIST_EACH_SAFE (it, tmp, &l->moves.followers) sk_free(follower_of(it));
    sk_list_init(&l->moves.followers);
    sk_vec_free(&l->moves.moved);
}

uint32_t sk_moves_number(const struct sk_local *l, const struct sk_sink *s) {
    SK_LIST_EACH (it, &l->moves.followers)
        if (follower_of(it)->sink == s) return follower_of(it)->number;
    return 0;
}

sk_rc sk_moves_follow(struct sk_local *l, struct sk_sink *s, struct sk_err *err) {
    SK_DCHECK(!sk_moves_number(l, s));
    struct follower *f = sk_alloc(SK_TAG_ENGINE, sizeof *f);
    if (!f) return SK_ERR(err, SK_ENOMEM, "no memory to follow what goes to disk");
    /* numbers are not used again, since an old number would lead to another sink */
    SK_ASSERT(l->moves.last_number < UINT32_MAX);
    *f = (struct follower){.sink = s, .number = ++l->moves.last_number};
    sk_list_push_front(&l->moves.followers, &f->link);
    return SK_OK;
}

void sk_moves_unfollow(struct sk_local *l, struct sk_sink *s) {
    SK_LIST_EACH_SAFE (it, tmp, &l->moves.followers) {
        if (follower_of(it)->sink != s) continue;
        sk_list_del(it);
        sk_free(follower_of(it));
    }
}

void sk_moves_note(struct sk_local *l, const struct sk_stored *st, bool disk) {
    SK_DCHECK(st->follower && st->follower <= l->moves.last_number);
    struct sk_move m = {
        .oid = st->o->id, .bytes = st->o->len, .follower = st->follower, .disk = disk};
    if (disk) m.ns = (int64_t)((double)m.bytes * sk_spill_write_ns(l->space.spill));
    /* without memory the event is lost, and the sink's account is wrong by this one */
    SK_IGNORE(sk_vec_push(&l->moves.moved, SK_TAG_ENGINE, m));
}

static struct sk_sink *sink_of(const struct sk_local *l, uint32_t number) {
    SK_LIST_EACH (it, &l->moves.followers)
        if (follower_of(it)->number == number) return follower_of(it)->sink;
    return NULL;
}

void sk_moves_tell(struct sk_local *l) {
    struct sk_move_vec now = l->moves.moved;
    if (SK_LIKELY(!now.n)) return;
    /* a sink may cause more events, which wait for the next turn */
    memset(&l->moves.moved, 0, sizeof l->moves.moved);
    for (uint32_t i = 0; i < now.n;) {
        struct sk_event ev[BATCH]; /* the first n are set */
        uint32_t n = 0, to = now.p[i].follower;
        for (; i < now.n && n < BATCH && now.p[i].follower == to; i++)
            ev[n++] = (struct sk_event){.kind = now.p[i].disk ? SK_EV_SPILLED : SK_EV_RESTORED,
                                        .oid = {now.p[i].oid},
                                        .size_bytes = now.p[i].bytes,
                                        .run_ns = now.p[i].ns,
                                        .node = SK_LOCAL_NODE};
        struct sk_sink *s = sink_of(l, to); /* a sink that was called before may have removed it */
        if (s) s->on_events(s, ev, n);
    }
    sk_vec_free(&now);
}
