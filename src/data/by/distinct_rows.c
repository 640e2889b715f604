/* distinct_rows.c - keeps the first row of each group, of rows in the order of their keys. params:
 * the keys (groups.h). */
#include "base/mem.h"
#include "data/groups.h"

struct state {
    struct sk_groups *groups;
    struct sk_batch *last; /* the last row of the batches before */
};

static struct state *state_of(struct sk_data_node *n) { return sk_data_state(n); }

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    return sk_groups_read(sk_data_params(n), &state_of(n)->groups, err);
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = state_of(n);
    const uint32_t *start;
    uint32_t groups = 0;
    struct sk_batch *out, *last = NULL;
    bool goes_on = false;
    if (!b->array.length) return sk_data_send(n, b, err);
    sk_rc rc = sk_groups_find(s->groups, b, &start, &groups, err);
    if (rc == SK_OK && s->last) rc = sk_groups_go_on(s->groups, s->last, b, &goes_on, err);
    if (rc == SK_OK) rc = sk_batch_slice(b, b->array.length - 1, 1, &last, err);
    if (rc == SK_OK) {
        sk_batch_destroy(s->last);
        s->last = last;
        rc = sk_batch_rows(b, start + goes_on, groups - goes_on, &out, err);
    }
    sk_batch_destroy(b);
    return rc == SK_OK ? sk_data_send(n, out, err) : rc;
}

static void reset(struct sk_data_node *n) {
    sk_batch_destroy(state_of(n)->last);
    state_of(n)->last = NULL;
}

static void close(struct sk_data_node *n) { sk_groups_destroy(state_of(n)->groups); }

const struct sk_data_op sk_data_by_distinct_rows = {.name = "distinct_rows",
                                                    .state_bytes = sizeof(struct state),
                                                    .open = open,
                                                    .push = push,
                                                    .reset = reset,
                                                    .close = close};
