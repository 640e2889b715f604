/* join.c - the reduce of a join: the rows of two sides whose keys are equal, as blocks of about the
 * target's bytes.
 *
 * The kernel gives places (sk_join_next), from which blocks are gathered straight into their final
 * place. A column that stands for the keys of both sides is gathered from the key batches of both
 * (keys.c). */
#include "shuffle/join/join_int.h"
#include "shuffle/join_sizing.h"

enum { LEFT = SK_SIDE_LEFT, RIGHT = SK_SIDE_RIGHT, KEYS = 2, SIDES = 3, BLOCK_ROWS = 1 << 20 };

struct joining {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_reduce_input in;
    struct sk_join_side side[2];
    struct sk_join *join; /* its left side is the shared one */
    /* the result: its columns, its schema, and where each column comes from */
    struct sk_join_columns columns;
    struct ArrowSchema schema, *fields, **children;
    char *metadata;
    struct sk_block_pick *picks;
    const struct ArrowArray **both; /* the key batches of the left side, then of the right side */
    /* [cap]: places of the result's rows, on each side and in `both`; those in [at, n) were not
     * given yet */
    struct sk_row_at *place[SIDES];
    uint64_t cap, at, n;
    uint64_t rows, bytes; /* of the blocks that were given */
    bool given;
    uint8_t *met; /* the bits of a match report that was not given yet, or of all that came */
    const void *met_buffers[2];
    struct ArrowArray met_column;
};

static sk_rc no_memory(struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "no memory to reduce a join");
}

static void joining_destroy(struct sk_work *head) {
    struct joining *w = (void *)head;
    sk_join_destroy(w->join);
    sk_join_columns_free(&w->columns);
    for (int s = LEFT; s <= RIGHT; s++) sk_join_side_free(&w->side[s]);
    for (int s = 0; s < SIDES; s++) sk_free(w->place[s]);
    sk_free(w->fields);
    sk_free(w->children);
    sk_free(w->metadata);
    sk_free(w->picks);
    sk_free((void *)w->both);
    sk_free(w->met);
    sk_free(w);
}

/* ---- the columns of the result ---- */

/* The field that has the type of a column. */
static const struct ArrowSchema *source(const struct joining *w, const struct sk_join_column *c) {
    const struct sk_join_side *side = &w->side[c->side];
    return c->of_key < 0 ? side->schema->children[c->column] : side->key_schema.children[c->of_key];
}

static sk_rc make_schema(struct joining *w, struct sk_err *err) {
    size_t n = w->columns.n, metadata = 1;
    for (size_t i = 0; i < n; i++)
        metadata += sk_type_metadata(source(w, &w->columns.column[i])->metadata, NULL);
    w->fields = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->fields);
    w->children = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->children);
    w->picks = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->picks);
    char *to = w->metadata = sk_alloc(SK_TAG_KERNEL, metadata);
    if (!w->fields || !w->children || !w->picks || !to) return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct sk_join_column *c = &w->columns.column[i];
        struct ArrowSchema *f = &w->fields[i];
        *f = *source(w, c);
        size_t extension = sk_type_metadata(f->metadata, to);
        f->metadata = extension ? to : NULL;
        f->name = c->name;
        f->flags |= ARROW_FLAG_NULLABLE;
        to += extension;
        w->children[i] = f;
        w->picks[i] = c->of_key < 0 ? (struct sk_block_pick){c->side, c->column}
                                    : (struct sk_block_pick){KEYS, (uint32_t)c->of_key};
    }
    w->schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = (int64_t)n, .children = w->children};
    return SK_OK;
}

static sk_rc find_columns(struct joining *w, struct sk_err *err) {
    struct sk_names names[2] = {sk_schema_names(w->side[LEFT].schema),
                                sk_schema_names(w->side[RIGHT].schema)};
    sk_rc rc = names[LEFT].name && names[RIGHT].name
                   ? sk_join_columns(w->what, names, &w->columns, err)
                   : no_memory(err);
    for (int s = LEFT; s <= RIGHT; s++) sk_free((void *)(uintptr_t)names[s].name);
    if (rc == SK_OK && !w->columns.whole)
        rc = SK_ERR(err, SK_EINVAL, "a join lacks a column of its key, or has a name twice");
    return rc ? rc : make_schema(w, err);
}

/* ---- match reports ---- */

static uint64_t report_bytes(const struct joining *w) {
    return (w->side[!w->in.shared].rows + 7) / 8;
}

/* Makes w->met the bits that any of the reports has. */
static sk_rc take_reports(struct joining *w, struct sk_err *err) {
    uint64_t rows = w->side[!w->in.shared].rows;
    for (uint32_t i = 0; i < w->in.n_reports; i++) {
        const struct ArrowArray *a = w->in.reports[i];
        const struct ArrowSchema *s = w->in.report_schemas[i];
        if (s->n_children != 1 || strcmp(s->children[0]->format, "b") != 0 || a->offset ||
            a->children[0]->offset || (uint64_t)a->length != rows)
            return SK_ERR(err, SK_EINVAL,
                          "join: a share has reported matches of %lld rows, and there are %llu (a "
                          "bug in skate, please report it)",
                          (long long)a->length, (unsigned long long)rows);
        const uint8_t *bits = a->children[0]->buffers[1];
        for (uint64_t b = 0; b < report_bytes(w); b++) w->met[b] |= bits[b];
    }
    return SK_OK;
}

static sk_rc give_report(struct joining *w, struct sk_value **out, struct sk_err *err) {
    static struct ArrowSchema field = {.format = "b", .name = "met", .flags = ARROW_FLAG_NULLABLE},
                              *fields[1] = {&field};
    static const struct ArrowSchema schema = {
        .format = "+s", .name = "", .n_children = 1, .children = fields};
    static const void *no_buffers[1] = {NULL};
    int64_t rows = (int64_t)w->side[!w->in.shared].rows;
    struct ArrowArray *columns[1] = {&w->met_column};
    struct ArrowArray batch = {.length = rows,
                               .n_buffers = 1,
                               .buffers = no_buffers,
                               .n_children = 1,
                               .children = columns};
    struct sk_block_plan *plan;
    uint64_t size;
    w->met_buffers[1] = w->met;
    w->met_column = (struct ArrowArray){.length = rows, .n_buffers = 2, .buffers = w->met_buffers};
    struct sk_value *v = sk_value_create(SK_VALUE_MATCH_REPORT, 1, 0);
    if (!v) return no_memory(err);
    sk_rc rc = sk_block_measure(&schema, &batch, &plan, &size, err);
    if (rc == SK_OK) sk_value_add(v, plan);
    v->mem[0] = w->met; /* the value owns the bits, and no second report is given */
    w->met = NULL;
    if (rc == SK_OK) *out = v;
    else sk_value_destroy(v);
    return rc;
}

/* ---- blocks ---- */

/* Fills the places up to `rows`, if there are that many. */
static void fetch(struct joining *w, uint64_t rows) {
    uint32_t s = w->in.shared, n_left = w->side[LEFT].n;
    uint64_t n = w->n - w->at;
    SK_DCHECK(w->place[LEFT] && w->place[RIGHT]);
    for (int i = 0; i < SIDES && w->at; i++)
        if (w->place[i]) memmove(w->place[i], w->place[i] + w->at, n * sizeof *w->place[i]);
    w->at = 0;
    w->n = n;
    if (n < rows) w->n += sk_join_next(w->join, w->place[s] + n, w->place[!s] + n, rows - n);
    for (uint64_t i = n; w->place[KEYS] && i < w->n; i++) {
        struct sk_row_at of = w->place[s][i];
        uint32_t first = s == LEFT ? 0 : n_left;
        if (of.run == SK_ROW_NONE) of = w->place[!s][i], first = n_left - first;
        w->place[KEYS][i] = (struct sk_row_at){of.run + first, of.row};
    }
}

static sk_rc plan_rows(struct joining *w, uint64_t n, struct sk_block_plan **plan,
                       struct sk_err *err) {
    struct sk_block_side sides[SIDES] = {
        {w->side[LEFT].batches, w->side[LEFT].n, w->place[LEFT] + w->at},
        {w->side[RIGHT].batches, w->side[RIGHT].n, w->place[RIGHT] + w->at},
        {w->both, w->side[LEFT].n + w->side[RIGHT].n, w->place[KEYS]}};
    uint64_t size;
    if (w->place[KEYS]) sides[KEYS].places += w->at;
    return sk_block_measure_places(&w->schema, sides, w->place[KEYS] ? SIDES : KEYS, w->picks, n,
                                   plan, &size, err);
}

/* Returns the rows of the next block, by the bytes of a row of the blocks that were given. */
static uint64_t rows_of_block(const struct joining *w) {
    if (!w->rows || !w->in.target_bytes) return w->cap;
    unsigned __int128 rows = (unsigned __int128)w->in.target_bytes * w->rows / SK_MAX(w->bytes, 1);
    return rows >= w->cap ? w->cap : SK_MAX((uint64_t)rows, 1);
}

static sk_rc joining_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct joining *w = (void *)head;
    uint64_t most = w->in.target_bytes + w->in.target_bytes / 4;
    struct sk_block_plan *plan;
    if (w->met) return give_report(w, out, err);
    uint64_t rows = rows_of_block(w);
    fetch(w, rows);
    uint64_t n = SK_MIN(w->n - w->at, rows);
    if (!n && w->given) return SK_OK;
    SK_TRY(plan_rows(w, n, &plan, err));
    for (uint64_t bytes; n > 1 && w->in.target_bytes;) {
        bytes = sk_block_plan_sizes(plan).data_bytes;
        if (bytes <= most) break;
        sk_block_plan_free(plan);
        n = SK_MAX((uint64_t)((unsigned __int128)n * w->in.target_bytes / bytes), 1);
        SK_TRY(plan_rows(w, n, &plan, err));
    }
    struct sk_value *v = sk_value_create(SK_VALUE_BLOCK, 1, 0);
    if (!v) {
        sk_block_plan_free(plan);
        return no_memory(err);
    }
    sk_value_add(v, plan);
    w->at += n;
    w->rows += n;
    w->bytes += v->bytes;
    w->given = true;
    *out = v;
    return SK_OK;
}

/* ---- beginning ---- */

/* Sets w->cap, the most rows of a block, to twice those that fill it by the mean sizes of rows, and
 * makes room for the places of so many. */
static sk_rc make_room(struct joining *w, bool both, struct sk_err *err) {
    uint64_t row = 1, target = w->in.target_bytes, most = 1;
    for (int s = LEFT; s <= RIGHT; s++) {
        row += w->side[s].bytes / SK_MAX(w->side[s].rows, 1);
        /* a row has at most each row of the other side as a partner, or none */
        if (__builtin_mul_overflow(most, w->side[s].rows + 1, &most)) most = UINT64_MAX;
    }
    w->cap =
        target ? SK_MAX(SK_MIN(2 * (target / row), (uint64_t)BLOCK_ROWS), 1) : (uint64_t)BLOCK_ROWS;
    w->cap = SK_MIN(w->cap, most);
    for (int s = 0; s < (both ? SIDES : KEYS); s++)
        if (!(w->place[s] = sk_alloc(SK_TAG_KERNEL, (size_t)w->cap * sizeof *w->place[s])))
            return no_memory(err);
    if (!both) return SK_OK;
    uint32_t n[2] = {w->side[LEFT].n, w->side[RIGHT].n};
    w->both = sk_alloc(SK_TAG_KERNEL, ((size_t)n[LEFT] + n[RIGHT]) * sizeof *w->both);
    if (!w->both) return no_memory(err);
    memcpy(w->both, w->side[LEFT].key_batches, n[LEFT] * sizeof *w->both);
    memcpy(w->both + n[LEFT], w->side[RIGHT].key_batches, n[RIGHT] * sizeof *w->both);
    return SK_OK;
}

static sk_rc begin_join(struct joining *w, struct sk_err *err) {
    const struct sk_join_side *left = &w->side[w->in.shared], *right = &w->side[!w->in.shared];
    const struct sk_keys *const *right_keys = (const struct sk_keys *const *)right->keys;
    enum sk_join_kind kind = w->what->join.kind;
    if (w->in.shared == RIGHT) kind = sk_join_kind_swapped(kind);
    if (w->in.part != SK_PART_ALL) {
        w->met = sk_calloc(SK_TAG_KERNEL, (size_t)report_bytes(w) + 1);
        if (!w->met) return no_memory(err);
    }
    if (w->in.part != SK_PART_UNMATCHED) {
        SK_TRY(sk_join_create((const struct sk_keys *const *)left->keys, left->n, right_keys,
                              right->n, kind, &w->join, err));
        if (w->in.part == SK_PART_SHARE) sk_join_share(w->join, w->met);
        return SK_OK;
    }
    SK_TRY(take_reports(w, err));
    SK_TRY(sk_join_rest(right_keys, right->n, kind, w->met, &w->join, err));
    sk_free(w->met);
    w->met = NULL;
    return SK_OK;
}

sk_rc sk_joining_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) {
    sk_rc rc;
    struct joining *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return no_memory(err);
    w->head = (struct sk_work){joining_next, joining_destroy};
    w->what = what;
    w->in = *in;
    SK_GO(sk_join_sides_open(what, in, w->side, err));
    SK_GO(find_columns(w, err));
    SK_GO(make_room(w, what->join.kind == SK_JOIN_FULL, err));
    SK_GO(begin_join(w, err));
out:
    if (rc) joining_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
