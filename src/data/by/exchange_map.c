/* exchange_map.c - the first half of an exchange: makes packs of partitions, or sorted runs, of the
 * batches that it gets (shuffle/work.h). The last operator of its stage. */
#include "data/gathered.h"
#include "data/mapping.h"

struct state {
    struct sk_what *what;
    struct sk_gathered g;
    uint64_t row0; /* rows of the task that were mapped already */
};

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    return sk_what_read(sk_data_what(n), &s->what, err);
}

static sk_rc begin(struct sk_data_node *n, struct sk_err *err) {
    (void)err;
    ((struct state *)sk_data_state(n))->row0 = 0;
    return SK_OK;
}

static sk_rc check_keys(const struct sk_what *w, const struct ArrowSchema *schema,
                        struct sk_err *err) {
    for (uint32_t i = 0; i < w->n_keys; i++)
        if (sk_schema_find(schema, w->keys[i].name) < 0)
            return sk_schema_no_column(schema, w->keys[i].name, err);
    return SK_OK;
}

/* Maps one batch and yields what comes of it. Takes b over. */
static sk_rc map(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    sk_rc rc = b->schema->s.n_children ? check_keys(s->what, &b->schema->s, err) : SK_OK;
    if (rc == SK_OK && b->schema->s.n_children) return sk_data_map(n, s->what, b, &s->row0, err);
    sk_batch_destroy(b);
    return rc;
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_batch *whole;
    uint64_t most = SK_WHAT_MAP_BLOCKS * sk_data_task_of(n)->d.target_bytes;
    SK_TRY(sk_gathered_add(&s->g, b, most, &whole, err));
    return whole ? map(n, whole, err) : SK_OK;
}

static sk_rc end(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_batch *whole;
    SK_TRY(sk_gathered_rest(&s->g, &whole, err));
    return whole ? map(n, whole, err) : SK_OK;
}

static void reset(struct sk_data_node *n) {
    sk_gathered_reset(&((struct state *)sk_data_state(n))->g);
}

static void close(struct sk_data_node *n) {
    sk_what_destroy(((struct state *)sk_data_state(n))->what);
}

const struct sk_data_op sk_data_by_exchange_map = {.name = "exchange_map",
                                                   .yields = true,
                                                   .state_bytes = sizeof(struct state),
                                                   .open = open,
                                                   .begin = begin,
                                                   .push = push,
                                                   .end = end,
                                                   .reset = reset,
                                                   .close = close};
