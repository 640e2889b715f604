/* aggregate_map.c - the first half of an exchange that computes aggregates by group: makes states
 * of the rows (shuffle/work.h), and sends rows unchanged where states would not be a quarter as
 * many. The last operator of its stage. params: the columns that the aggregates read (columns.h):
 * the keys, then a column for each aggregate that has one.
 *
 * Rows are held until it is known that states are worth it, since keys that repeat late are as good
 * as those that repeat early; at most as many as the map of a sort holds. */
#include "data/columns.h"
#include "data/gathered.h"
#include "data/mapping.h"

enum { STEP = 4 << 20 }; /* bytes that are aggregated at once */

struct state {
    struct sk_what *what;
    struct sk_columns *columns;
    struct sk_gathered in, held; /* held: rows of which it is not known yet */
    struct sk_states *states;
    struct sk_schema *schema; /* of the rows in `states` and held */
    bool worth;               /* rows go into `states` */
    bool some;                /* there were rows */
    uint64_t row0;
};

static struct state *state_of(struct sk_data_node *n) { return sk_data_state(n); }

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = state_of(n);
    SK_TRY(sk_columns_read(sk_data_params(n), &s->columns, err));
    return sk_what_read(sk_data_what(n), &s->what, err);
}

static sk_rc begin(struct sk_data_node *n, struct sk_err *err) {
    (void)err;
    state_of(n)->row0 = 0;
    state_of(n)->some = false;
    return SK_OK;
}

/* Maps a batch of states or rows and yields what comes of it. Takes b over. */
static sk_rc map(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    return sk_data_map(n, state_of(n)->what, b, &state_of(n)->row0, err);
}

static void drop_states(struct state *s) {
    sk_states_destroy(s->states);
    sk_schema_drop(s->schema);
    s->states = NULL;
    s->schema = NULL;
    s->worth = false;
}

static sk_rc add_held(struct state *s, struct sk_err *err) {
    sk_rc rc = SK_OK;
    for (uint32_t i = 0; rc == SK_OK && i < s->held.held.n; i++)
        rc = sk_states_add(s->states, &s->schema->s, &s->held.held.p[i]->array, err);
    sk_gathered_reset(&s->held);
    return rc;
}

static sk_rc send_held(struct sk_data_node *n, struct sk_err *err) {
    struct sk_batch *b;
    if (!state_of(n)->held.held.n) return SK_OK;
    SK_TRY(sk_gathered_rest(&state_of(n)->held, &b, err));
    return map(n, b, err);
}

static sk_rc send_states(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = state_of(n);
    struct sk_block_plan *plan;
    struct sk_batch *b;
    uint64_t size;
    sk_rc rc = SK_OK;
    if (s->states && sk_states_rows(s->states)) {
        rc = sk_states_measure(s->states, SK_RESULT_PARTIAL, &plan, &size, err);
        if (rc == SK_OK) rc = sk_batch_of_plan(plan, size, &b, err);
        drop_states(s);
        if (rc == SK_OK) rc = map(n, b, err);
    }
    drop_states(s);
    return rc;
}

/* Sends the states, or the rows that are held. */
static sk_rc flush(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = state_of(n);
    if (s->states && sk_states_few(s->states)) SK_TRY(add_held(s, err));
    SK_TRY(send_states(n, err));
    return send_held(n, err);
}

static uint64_t table_bytes(struct sk_data_node *n) {
    return SK_MAX(sk_data_task_of(n)->d.table_bytes, 1);
}

/* Holds rows, and adds all that are held if states are worth it now. Takes b over. */
static sk_rc hold(struct state *s, struct sk_batch *b, struct sk_err *err) {
    struct sk_batch *none;
    sk_rc rc = sk_states_judge(s->states, &b->schema->s, &b->array, &s->worth, err);
    if (rc != SK_OK) sk_batch_destroy(b);
    else rc = sk_gathered_add(&s->held, b, UINT64_MAX, &none, err);
    return rc == SK_OK && s->worth ? add_held(s, err) : rc;
}

/* Makes room for `bytes` of rows of this schema: sends what is full or of another schema. What was
 * seen of keys stays while rows are sent, as keys may repeat later. */
static sk_rc make_room(struct sk_data_node *n, struct sk_schema *schema, uint64_t bytes,
                       struct sk_err *err) {
    struct state *s = state_of(n);
    uint64_t most = SK_WHAT_MAP_BLOCKS * sk_data_task_of(n)->d.target_bytes;
    bool same =
             s->states && (s->schema == schema || sk_block_same_schema(&s->schema->s, &schema->s)),
         full = s->states && s->worth && sk_states_bytes(s->states) > table_bytes(n);
    if (!same || full) {
        SK_TRY(flush(n, err));
        s->schema = sk_schema_keep(schema);
        SK_TRY(sk_states_create(s->what, &s->schema->s, &s->states, err));
    }
    return s->held.bytes + bytes > most ? send_held(n, err) : SK_OK;
}

/* Aggregates or holds some rows. Takes b over. */
static sk_rc add(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = state_of(n);
    uint64_t bytes = 0;
    sk_rc rc = sk_data_nbytes(b, &bytes, err);
    s->some = true;
    if (rc == SK_OK) rc = make_room(n, b->schema, bytes, err);
    if (rc == SK_OK && !s->worth) return hold(s, b, err);
    if (rc == SK_OK) rc = sk_states_add(s->states, &b->schema->s, &b->array, err);
    sk_batch_destroy(b);
    return rc;
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = state_of(n);
    struct sk_batch *rows = b, *whole;
    /* Where only rows are counted, without keys, no column is read, and all serve as well as none.
     */
    if (sk_columns_n(s->columns)) SK_TRY(sk_columns_pick(s->columns, b, &rows, err));
    SK_TRY(sk_gathered_add(&s->in, rows, SK_MIN((uint64_t)STEP, table_bytes(n) / 8), &whole, err));
    return whole ? add(n, whole, err) : SK_OK;
}

static sk_rc end(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = state_of(n);
    struct sk_batch *whole;
    SK_TRY(sk_gathered_rest(&s->in, &whole, err));
    if (whole && !s->some && !whole->array.length) return map(n, whole, err);
    if (whole) SK_TRY(add(n, whole, err));
    return flush(n, err);
}

static void reset(struct sk_data_node *n) {
    struct state *s = state_of(n);
    drop_states(s);
    sk_gathered_reset(&s->in);
    sk_gathered_reset(&s->held);
}

static void close(struct sk_data_node *n) {
    sk_what_destroy(state_of(n)->what);
    sk_columns_destroy(state_of(n)->columns);
}

const struct sk_data_op sk_data_by_aggregate_map = {.name = "aggregate_map",
                                                    .yields = true,
                                                    .state_bytes = sizeof(struct state),
                                                    .open = open,
                                                    .begin = begin,
                                                    .push = push,
                                                    .end = end,
                                                    .reset = reset,
                                                    .close = close};
