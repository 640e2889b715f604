/* select.c - keeps some columns, in a given order, maybe under new names. params: columns.h. */
#include "data/columns.h"

static struct sk_columns **columns(struct sk_data_node *n) { return sk_data_state(n); }

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    return sk_columns_read(sk_data_params(n), columns(n), err);
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct sk_batch *out;
    SK_TRY(sk_columns_pick(*columns(n), b, &out, err));
    return sk_data_send(n, out, err);
}

static void close(struct sk_data_node *n) { sk_columns_destroy(*columns(n)); }

const struct sk_data_op sk_data_by_select = {.name = "select",
                                             .state_bytes = sizeof(struct sk_columns *),
                                             .open = open,
                                             .push = push,
                                             .close = close};
