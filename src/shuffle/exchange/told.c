/* told.c - told strategies: the questions of a run, and the answers from outside of it (contract:
 * told.h). Pure. */
#include "shuffle/told.h"

#include <string.h>

#include "base/mem.h"

#define TAG SK_TAG_EXEC

struct state {       /* state of one input */
    uint32_t values; /* the last answer about the number of values; 0: none yet */
    /* true: sizes have changed since that answer, so the question SIZES is open */
    bool asks;
    struct sk_shuffle_sizes z; /* the sizes at the time of that answer */
};

static struct sk_told *told_of(const struct sk_shuffle *s) { return sk_shuffle_arg(s); }

static void wake(const struct sk_shuffle *s) { told_of(s)->wake(told_of(s)->arg); }

/* ---- called by the run ----------------------------------------------------------------------- */

static bool begin(struct sk_shuffle *s) {
    struct sk_told *t = told_of(s);
    if (!sk_vec_push(&t->in, TAG, s)) return false;
    wake(s);
    return true;
}

static bool is_open(const struct sk_shuffle *s) {
    return ((const struct state *)sk_shuffle_state(s))->values > 0;
}

static bool same(const struct sk_shuffle_sizes *a, const struct sk_shuffle_sizes *b) {
    return a->bytes == b->bytes && a->map_bytes == b->map_bytes &&
           a->reduce_bytes == b->reduce_bytes; /* the other sizes do not change during a run */
}

static uint32_t values(struct sk_shuffle *s) {
    struct state *mine = sk_shuffle_state(s);
    if (!mine->asks && !same(&mine->z, sk_shuffle_sizes(s))) {
        mine->asks = true;
        wake(s);
    }
    return SK_MAX(mine->values, 1u);
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    (void)p;
    sk_shuffle_later(s);
    wake(s);
}

static void ended(struct sk_shuffle *s) {
    sk_shuffle_later(s);
    wake(s);
}

void sk_told_init(struct sk_told *t, const char *name, void (*to_wake)(void *arg), void *arg) {
    *t = (struct sk_told){.ops = {.name = name,
                                  .merges = true,
                                  .state_bytes = sizeof(struct state),
                                  .arg = t,
                                  .begin = begin,
                                  .open = is_open,
                                  .values = values,
                                  .came = came,
                                  .ended = ended},
                          .wake = to_wake,
                          .arg = arg};
}

void sk_told_deinit(struct sk_told *t) { sk_vec_free(&t->in); }

/* ---- called from outside of the run ---------------------------------------------------------- */

void sk_told_next(struct sk_told *t, struct sk_told_question *out) {
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < t->in.n && !out->kind; i++) {
        struct sk_shuffle *s = t->in.p[i];
        const struct state *mine = sk_shuffle_state(s);
        bool pack = sk_shuffle_enter(s, &out->pack, NULL);
        if (!mine->values || mine->asks) out->kind = SK_TOLD_SIZES;
        else if (pack) out->kind = SK_TOLD_PACK;
        else if (sk_shuffle_ending(s)) out->kind = SK_TOLD_ENDED;
        out->side = i;
        out->sizes = *sk_shuffle_sizes(s);
        SK_IGNORE(sk_shuffle_leave(s));
    }
}

void sk_told_values(struct sk_told *t, uint32_t side, uint32_t n) {
    struct sk_shuffle *s = t->in.p[side];
    struct sk_shuffle_pack pack;
    sk_shuffle_enter(s, &pack, NULL);
    *(struct state *)sk_shuffle_state(s) =
        (struct state){.values = SK_MAX(n, 1u), .z = *sk_shuffle_sizes(s)};
    SK_IGNORE(sk_shuffle_leave(s));
}

static sk_rc leave(struct sk_shuffle *s, struct sk_told_state *now) {
    now->held = sk_shuffle_held(s);
    return sk_shuffle_leave(s);
}

sk_rc sk_told_pass(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) {
    struct sk_shuffle_pack pack;
    *now = (struct sk_told_state){.gone = !sk_shuffle_enter(t->in.p[side], &pack, err)};
    if (!now->gone) sk_shuffle_pass(t->in.p[side]);
    return leave(t->in.p[side], now);
}

sk_rc sk_told_hold(struct sk_told *t, uint32_t side, uint32_t n, uint32_t node,
                   struct sk_told_state *now, struct sk_err *err) {
    struct sk_shuffle_pack pack;
    *now = (struct sk_told_state){.gone = !sk_shuffle_enter(t->in.p[side], &pack, err)};
    const struct sk_shuffle_group *g =
        now->gone ? NULL : sk_shuffle_hold(t->in.p[side], SK_MAX(n, 1u), node);
    if (g) now->group = *g;
    return leave(t->in.p[side], now);
}

static const struct sk_shuffle_group *find(const struct sk_shuffle *s, uint32_t first) {
    const struct sk_shuffle_group *g;
    for (uint32_t i = 0; (g = sk_shuffle_group(s, i)) && g->first != first;) i++;
    return g;
}

sk_rc sk_told_end_group(struct sk_told *t, uint32_t side, uint32_t first, enum sk_told_end how,
                        uint64_t most, struct sk_told_state *now, struct sk_err *err) {
    struct sk_shuffle *s = t->in.p[side];
    struct sk_shuffle_pack pack;
    sk_shuffle_enter(s, &pack, err);
    const struct sk_shuffle_group *g = find(s, first);
    *now = (struct sk_told_state){.gone = sk_shuffle_spent(s), .no_group = !g};
    if (g && how == SK_TOLD_MERGE) sk_shuffle_merge(s, g);
    else if (g && how == SK_TOLD_MERGE_AGAIN) sk_shuffle_merge_again(s, g, most);
    else if (g) sk_shuffle_pass_group(s, g);
    return leave(s, now);
}

bool sk_told_group(const struct sk_told *t, uint32_t side, uint32_t i, struct sk_shuffle_group *g) {
    const struct sk_shuffle_group *at = sk_shuffle_group(t->in.p[side], i);
    if (at) *g = *at;
    return at != NULL;
}

sk_rc sk_told_over(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) {
    struct sk_shuffle *s = t->in.p[side];
    struct sk_shuffle_pack pack;
    sk_shuffle_enter(s, &pack, err);
    *now = (struct sk_told_state){.gone = !sk_shuffle_ending(s)};
    for (const struct sk_shuffle_group *g; !now->gone && (g = sk_shuffle_group(s, 0));)
        sk_shuffle_pass_group(s, g);
    if (!now->gone) sk_shuffle_over(s);
    return leave(s, now);
}
