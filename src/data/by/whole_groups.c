/* whole_groups.c - makes batches that end at the end of a group, of about the size of a block, from
 * rows in the order of their keys. params: the keys (groups.h). A group is one batch, however large
 * it is. */
#include "data/gathered.h"
#include "data/groups.h"

struct state {
    struct sk_groups *groups;
    struct sk_gathered held; /* whole groups, and the beginning of the last one */
    struct sk_batch *last;   /* the batch that was held last; owned by `held` */
};

static struct state *state_of(struct sk_data_node *n) { return sk_data_state(n); }

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    return sk_groups_read(sk_data_params(n), &state_of(n)->groups, err);
}

static sk_rc send_held(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = state_of(n);
    struct sk_batch *whole;
    s->last = NULL;
    SK_TRY(sk_gathered_rest(&s->held, &whole, err));
    return whole ? sk_data_send(n, whole, err) : SK_OK;
}

static sk_rc hold(struct state *s, struct sk_batch *b, struct sk_err *err) {
    struct sk_batch *none;
    SK_TRY(sk_gathered_add(&s->held, b, UINT64_MAX, &none, err));
    s->last = s->held.held.n ? s->held.held.p[s->held.held.n - 1] : NULL;
    return SK_OK;
}

/* Splits b before its last group: what is before it is held and sent if it is enough. */
static sk_rc split(struct sk_data_node *n, struct sk_batch *b, uint32_t begins, bool goes_on,
                   struct sk_err *err) {
    struct state *s = state_of(n);
    uint64_t bytes = 0;
    struct sk_batch *head, *tail;
    SK_TRY(sk_data_nbytes(b, &bytes, err));
    bool enough =
        (begins || !goes_on) && s->held.bytes + bytes >= sk_data_task_of(n)->d.target_bytes;
    if (!enough || (!begins && !s->held.held.n)) {
        SK_TRY(sk_batch_slice(b, 0, b->array.length, &head, err));
        return hold(s, head, err);
    }
    if (begins) {
        SK_TRY(sk_batch_slice(b, 0, begins, &head, err));
        SK_TRY(hold(s, head, err));
    }
    SK_TRY(send_held(n, err));
    SK_TRY(sk_batch_slice(b, begins, b->array.length - begins, &tail, err));
    return hold(s, tail, err);
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = state_of(n);
    const uint32_t *start;
    uint32_t groups;
    bool goes_on = false;
    if (!b->array.length) return hold(s, b, err);
    sk_rc rc = sk_groups_find(s->groups, b, &start, &groups, err);
    if (rc == SK_OK && s->last && groups == 1)
        rc = sk_groups_go_on(s->groups, s->last, b, &goes_on, err);
    if (rc == SK_OK) rc = split(n, b, start[groups - 1], goes_on, err);
    sk_batch_destroy(b);
    return rc;
}

static sk_rc end(struct sk_data_node *n, struct sk_err *err) { return send_held(n, err); }

static void reset(struct sk_data_node *n) {
    sk_gathered_reset(&state_of(n)->held);
    state_of(n)->last = NULL;
}

static void close(struct sk_data_node *n) { sk_groups_destroy(state_of(n)->groups); }

const struct sk_data_op sk_data_by_whole_groups = {.name = "whole_groups",
                                                   .makes_blocks = true,
                                                   .state_bytes = sizeof(struct state),
                                                   .open = open,
                                                   .push = push,
                                                   .end = end,
                                                   .reset = reset,
                                                   .close = close};
