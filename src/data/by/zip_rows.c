/* zip_rows.c - the rows of several inputs side by side. A name that is taken gets the suffix _1,
 * _2, ... A task gets the same rows of each input. */
#include <stdio.h>

#include "base/mem.h"
#include "data/gathered.h"
#include "plan/plan.h"

#define TAG SK_TAG_EXEC

enum { NAME_BYTES = 24 }; /* of a suffix */

struct state {
    struct sk_gathered side[SK_PLAN_SIDES_MAX];
    uint32_t n;
};

static sk_rc begin(struct sk_data_node *n, struct sk_err *err) {
    (void)err;
    ((struct state *)sk_data_state(n))->n = 0;
    return SK_OK;
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    uint32_t side = sk_data_task_of(n)->side;
    struct sk_batch *none;
    if (side >= SK_PLAN_SIDES_MAX) {
        sk_batch_destroy(b);
        return SK_ERR(err, SK_ECORRUPT, "a zip has no input %u", side);
    }
    s->n = SK_MAX(s->n, side + 1);
    return sk_gathered_add(&s->side[side], b, UINT64_MAX, &none, err);
}

static void release_zipped(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i]->release) a->children[i]->release(a->children[i]);
        sk_free(a->children[i]);
    }
    sk_free(a->children);
    sk_free(a->buffers);
    a->release = NULL;
}

static bool taken(const struct ArrowSchema *list, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return true;
    return false;
}

/* Writes the first of name, name_1, name_2, ... that no column has; it is freed by the caller. */
static char *free_name(const struct ArrowSchema *list, int64_t n, const char *name) {
    size_t cap = strlen(name) + NAME_BYTES;
    char *text = sk_alloc(TAG, cap);
    if (text) snprintf(text, cap, "%s", name);
    for (int64_t i = 1; text && taken(list, n, text); i++)
        snprintf(text, cap, "%s_%lld", name, (long long)i);
    return text;
}

/* The schema of all sides together. */
static sk_rc all_columns(struct sk_batch *const *sides, uint32_t n, int64_t columns,
                         struct sk_schema **out, struct sk_err *err) {
    struct ArrowSchema *list = sk_calloc(TAG, (size_t)(columns + 1) * sizeof *list),
                       **kids = sk_calloc(TAG, (size_t)(columns + 1) * sizeof *kids);
    int64_t at = 0;
    sk_rc rc = list && kids ? SK_OK : SK_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; rc == SK_OK && k < sides[i]->schema->s.n_children; k++) {
            struct ArrowSchema c = *sides[i]->schema->s.children[k];
            if (!(c.name = free_name(list, at, c.name))) rc = SK_ENOMEM;
            else kids[at] = &list[at], list[at++] = c;
        }
    struct ArrowSchema top = {.format = "+s", .children = kids, .n_children = at};
    if (rc == SK_OK) rc = sk_schema_copy(&top, out, err);
    else SK_ERR(err, SK_ENOMEM, "no memory for a schema");
    for (int64_t i = 0; i < at; i++) sk_free((void *)(uintptr_t)list[i].name);
    sk_free(list);
    sk_free(kids);
    return rc;
}

/* Moves the columns of all sides into one array. */
static sk_rc all_arrays(struct sk_batch *const *sides, uint32_t n, int64_t columns,
                        struct ArrowArray *out, struct sk_err *err) {
    *out = (struct ArrowArray){
        .length = sides[0]->array.length, .n_buffers = 1, .release = release_zipped};
    out->buffers = sk_calloc(TAG, sizeof *out->buffers);
    out->children = sk_calloc(TAG, (size_t)(columns + 1) * sizeof *out->children);
    sk_rc rc =
        out->buffers && out->children ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a batch");
    for (uint32_t i = 0; rc == SK_OK && i < n; i++) {
        struct ArrowArray a;
        rc = sk_batch_export(sides[i], &a, err);
        for (int64_t k = 0; rc == SK_OK && k < a.n_children; k++) {
            struct ArrowArray *c = sk_alloc(TAG, sizeof *c);
            if (!c) {
                rc = SK_ERR(err, SK_ENOMEM, "no memory for a batch");
                break;
            }
            *c = *a.children[k];
            a.children[k]->release = NULL;
            out->children[out->n_children++] = c;
        }
        if (a.release) a.release(&a);
    }
    if (rc != SK_OK) release_zipped(out);
    return rc;
}

static sk_rc end(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_batch *sides[SK_PLAN_SIDES_MAX] = {NULL}, *b;
    struct sk_schema *schema = NULL;
    struct ArrowArray a = {.release = NULL};
    int64_t columns = 0;
    sk_rc rc = SK_OK;
    bool whole = s->n > 0;
    for (uint32_t i = 0; rc == SK_OK && i < s->n; i++) {
        rc = sk_gathered_rest(&s->side[i], &sides[i], err);
        whole = whole && rc == SK_OK && sides[i];
        if (rc == SK_OK && sides[i]) columns += sides[i]->schema->s.n_children;
    }
    if (rc == SK_OK && whole) rc = all_columns(sides, s->n, columns, &schema, err);
    if (rc == SK_OK && whole) rc = all_arrays(sides, s->n, columns, &a, err);
    if (rc == SK_OK && whole) {
        rc = sk_batch_take(schema, &a, &b, err);
        schema = NULL;
        if (rc == SK_OK) rc = sk_data_send(n, b, err);
    }
    sk_schema_drop(schema);
    for (uint32_t i = 0; i < s->n; i++) sk_batch_destroy(sides[i]);
    return rc;
}

static void reset(struct sk_data_node *n) {
    struct state *s = sk_data_state(n);
    for (uint32_t i = 0; i < s->n; i++) sk_gathered_reset(&s->side[i]);
}

const struct sk_data_op sk_data_by_zip_rows = {.name = "zip_rows",
                                               .state_bytes = sizeof(struct state),
                                               .begin = begin,
                                               .push = push,
                                               .end = end,
                                               .reset = reset};
