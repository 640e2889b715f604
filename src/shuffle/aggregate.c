/* aggregate.c - aggregates by group, over the kernel's aggregation (kernel.h: sk_groupby).
 *
 * Two kinds of batches go from maps to reduces: rows (the key columns, then the columns that are
 * aggregated), and states (a partial result: the key columns, then for each aggregate a column
 * whose name begins with "state:"). A map sends states of its rows where they are fewer
 * (sk_states). Both are sorted runs, cut by the keys as in a sort, so that the groups of a reduce
 * are its own and the results of all reduces are in the order of the keys. A reduce does not merge
 * its slices: it looks keys up in a table and sorts the groups.
 *
 * Memory of a reduce. A table has at most half of the bytes that a block should have
 * (target_bytes), its results about as much again. Where the groups may need more, they are made in
 * parts, one range of keys behind the other: slices are sorted, so the rows of a range are a piece
 * of each. A range ends with the least of the keys that are q rows ahead in a slice, so it has at
 * most q + 1 rows of each, of which one key is perhaps in all; it is made longer as long as the
 * groups that came leave room, so rows of few keys are one part, however many. A single group is as
 * large as it is (lists of values). */
#include "shuffle/work_int.h"

/* LOOK: number of rows whose keys are looked at at once (sk_states_judge); FEW: sk_states_few.
 * PAYS: number of rows of a group for which its state pays. A state is made, sorted, packed, moved,
 * unpacked and merged where a row is sorted, moved and added: of a sum of doubles by an int it
 * costs as much as four rows, of three aggregates as ten, of one by a text as two
 * (docs/design/kernels.md). */
enum { LOOK = 1 << 12, FEW = 1 << 16, PAYS = 4 };

/* ---- the batch that an aggregation gets: the keys, then one column for each aggregate -------- */

struct flat {
    struct ArrowSchema schema, *fields, **children;
    struct sk_agg *aggs;
    uint32_t *keys;
};

static void flat_free(struct flat *f) {
    sk_free(f->fields);
    sk_free(f->children);
    sk_free(f->aggs);
    sk_free(f->keys);
}

bool sk_is_states(const struct sk_what *what, const struct ArrowSchema *s) {
    const char *name = s->n_children == (int64_t)what->n_keys + what->n_aggs
                           ? s->children[what->n_keys]->name
                           : NULL;
    return name && !strncmp(name, SK_STATE, strlen(SK_STATE));
}

/* Returns the column of values from which column s of states was made. */
static struct ArrowSchema values_of(const struct sk_agg *a, const struct ArrowSchema *s) {
    const struct sk_agg_facts *is = sk_agg_facts(a->kind);
    if (is->result != SK_GIVES_KEPT)
        return (struct ArrowSchema){.format = s->name + strlen(SK_STATE), .name = ""};
    const struct ArrowSchema *of = is->state == SK_STATE_LIST ? s : s->children[0];
    if (!a->flatten) return *of->children[0];
    return (struct ArrowSchema){
        .format = "+l", .name = "", .n_children = 1, .children = of->children};
}

static sk_rc flat_make(struct flat *f, const struct sk_what *what, const struct ArrowSchema *s,
                       struct sk_err *err) {
    uint32_t n = what->n_keys + what->n_aggs;
    bool states = sk_is_states(what, s);
    f->fields = sk_calloc(SK_TAG_KERNEL, n * sizeof *f->fields);
    f->children = sk_calloc(SK_TAG_KERNEL, n * sizeof *f->children);
    f->keys = sk_calloc(SK_TAG_KERNEL, what->n_keys * sizeof *f->keys);
    f->aggs = sk_memdup(SK_TAG_KERNEL, what->aggs, what->n_aggs * sizeof *f->aggs);
    if (!f->fields || !f->children || !f->keys || !f->aggs)
        return SK_ERR(err, SK_ENOMEM, "no memory for %u aggregates", what->n_aggs);
    for (uint32_t i = 0; i < n; i++) f->children[i] = &f->fields[i];
    for (uint32_t i = 0; i < what->n_keys; i++) {
        if (i >= s->n_children)
            return SK_ERR(err, SK_EINVAL, "a batch of %lld columns has no key %u",
                          (long long)s->n_children, i);
        f->keys[i] = i;
        f->fields[i] = *s->children[i];
    }
    for (uint32_t i = 0; i < what->n_aggs; i++) {
        struct ArrowSchema *to = &f->fields[what->n_keys + i];
        struct sk_agg *a = &f->aggs[i];
        *to = (struct ArrowSchema){.format = "n", .name = ""};
        if (a->column == SK_AGG_ROWS) continue;
        if (!states && a->column >= s->n_children)
            return SK_ERR(err, SK_EINVAL, "%s: column %u of a batch of %lld", a->name, a->column,
                          (long long)s->n_children);
        *to = states ? values_of(a, s->children[what->n_keys + i]) : *s->children[a->column];
        a->column = what->n_keys + i;
    }
    f->schema =
        (struct ArrowSchema){.format = "+s", .name = "", .n_children = n, .children = f->children};
    return SK_OK;
}

static sk_rc flat_groupby(const struct flat *f, const struct sk_what *what, struct sk_groupby **out,
                          struct sk_err *err) {
    return sk_groupby_create(&f->schema, f->keys, what->n_keys, f->aggs, what->n_aggs, out, err);
}

/* Makes an array of rows [from, to) of a batch. */
static sk_rc take_rows(struct sk_groupby *g, const struct flat *f, const struct sk_what *what,
                       const struct ArrowArray *batch, uint64_t from, uint64_t to,
                       struct sk_err *err) {
    static const void *none[1] = {NULL};
    struct ArrowArray nulls = {.length = batch->offset + batch->length,
                               .null_count = batch->offset + batch->length};
    struct ArrowArray **children =
        sk_calloc(SK_TAG_KERNEL, ((size_t)what->n_keys + what->n_aggs) * sizeof *children);
    if (!children) return SK_ERR(err, SK_ENOMEM, "no memory for %u aggregates", what->n_aggs);
    for (uint32_t i = 0; i < what->n_keys; i++) children[i] = batch->children[i];
    for (uint32_t i = 0; i < what->n_aggs; i++) {
        uint32_t c = what->aggs[i].column;
        children[what->n_keys + i] = c == SK_AGG_ROWS ? &nulls : batch->children[c];
    }
    struct ArrowArray view = {.length = (int64_t)(to - from),
                              .offset = batch->offset + (int64_t)from,
                              .n_buffers = 1,
                              .buffers = none,
                              .n_children = f->schema.n_children,
                              .children = children};
    sk_rc rc = sk_groupby_update(g, &f->schema, &view, err);
    sk_free(children);
    return rc;
}

static sk_rc take_states(struct sk_groupby *g, const struct ArrowSchema *schema,
                         const struct ArrowArray *batch, uint64_t from, uint64_t to,
                         struct sk_err *err) {
    struct ArrowArray view = *batch;
    view.offset += (int64_t)from;
    view.length = (int64_t)(to - from);
    return sk_groupby_merge(g, schema, &view, err);
}

/* ---- states that a map makes ---- */

struct looked { /* at keys of rows that were not added yet */
    uint64_t rows, hash[LOOK];
    struct sk_distinct keys;
};

struct sk_states {
    const struct sk_what *what;
    struct flat flat;
    struct sk_groupby *groups;
    struct looked *looked; /* NULL: at none */
};

sk_rc sk_states_create(const struct sk_what *what, const struct ArrowSchema *schema,
                       struct sk_states **out, struct sk_err *err) {
    struct sk_states *s = sk_calloc(SK_TAG_KERNEL, sizeof *s);
    if (!s) return SK_ERR(err, SK_ENOMEM, "no memory to aggregate");
    sk_rc rc;
    s->what = what;
    SK_GO(flat_make(&s->flat, what, schema, err));
    SK_GO(flat_groupby(&s->flat, what, &s->groups, err));
out:
    if (rc) sk_states_destroy(s);
    else *out = s;
    return rc;
}

sk_rc sk_states_judge(struct sk_states *s, const struct ArrowSchema *schema,
                      const struct ArrowArray *batch, bool *worth, struct sk_err *err) {
    uint64_t rows = (uint64_t)batch->length;
    *worth = !s->what->n_keys;
    if (!*worth && !s->looked) s->looked = sk_calloc(SK_TAG_KERNEL, sizeof *s->looked);
    struct looked *l = s->looked;
    if (*worth) return SK_OK;
    if (!l) return SK_ERR(err, SK_ENOMEM, "no memory to look at keys");
    for (uint64_t at = 0; at < rows && !*worth; at += LOOK) {
        struct sk_keys *keys;
        struct ArrowArray view = *batch;
        view.offset += (int64_t)at;
        view.length = (int64_t)SK_MIN(rows - at, (uint64_t)LOOK);
        SK_TRY(sk_what_first_keys(s->what, s->what->n_keys, schema, &view, &keys, err));
        sk_keys_hash(keys, l->hash);
        sk_keys_destroy(keys);
        sk_distinct_add(&l->keys, l->hash, (uint64_t)view.length);
        l->rows += (uint64_t)view.length;
        *worth = PAYS * sk_distinct_estimate(&l->keys) <= l->rows;
    }
    return SK_OK;
}

bool sk_states_few(const struct sk_states *s) { return !s->looked || s->looked->rows <= FEW; }

sk_rc sk_states_add(struct sk_states *s, const struct ArrowSchema *schema,
                    const struct ArrowArray *batch, struct sk_err *err) {
    uint64_t rows = (uint64_t)batch->length;
    if (sk_is_states(s->what, schema)) return take_states(s->groups, schema, batch, 0, rows, err);
    return take_rows(s->groups, &s->flat, s->what, batch, 0, rows, err);
}

sk_rc sk_states_measure(struct sk_states *s, enum sk_result which, struct sk_block_plan **plan,
                        uint64_t *size, struct sk_err *err) {
    SK_TRY(sk_groupby_build(s->groups, which, err));
    return sk_groupby_measure_range(s->groups, 0, sk_groupby_groups(s->groups), plan, size, err);
}

uint64_t sk_states_rows(const struct sk_states *s) { return sk_groupby_rows(s->groups); }
uint64_t sk_states_bytes(const struct sk_states *s) { return sk_groupby_bytes(s->groups, NULL); }

void sk_states_destroy(struct sk_states *s) {
    if (!s) return;
    sk_free(s->looked);
    sk_groupby_destroy(s->groups);
    flat_free(&s->flat);
    sk_free(s);
}

/* ---- the reduce ---- */

struct aggregating {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_reduce_input in;
    struct flat flat;
    struct sk_groupby *groups; /* of the part at hand */
    enum sk_result which;      /* SORTED: results; PARTIAL: states, a block for each part */
    uint64_t limit;            /* bytes that a block should have; 0: no limit */
    /* rows: number of input rows that no block has had; row_bytes: estimated bytes of an input
     * row */
    uint64_t rows, row_bytes;
    struct sk_range *ranges; /* for each batch: the rows that no block has had */
    struct sk_keys **keys;   /* for each batch: its keys; NULL until the first block has ended */
    /* For each slice: the number of its first batches of which all rows are used. */
    uint32_t *at;
    uint32_t n; /* batches */
    /* The plan of the whole result, if one block is large enough for it. */
    struct sk_block_plan *whole;
    uint64_t block_rows, done;
    bool given;
};

/* Returns the first batch of rows, or else of states: results have its types. */
static const struct ArrowSchema *model(const struct sk_what *what,
                                       const struct sk_reduce_input *in) {
    for (uint32_t s = 0; s < in->n_slices; s++)
        for (uint32_t b = 0; b < in->slices[s].n; b++)
            if (!sk_is_states(what, in->slices[s].schemas[b])) return in->slices[s].schemas[b];
    return in->schema;
}

static sk_rc keys_of(const struct sk_what *what, const struct ArrowSchema *schema,
                     const struct ArrowArray *array, struct sk_keys **out, struct sk_err *err) {
    return sk_what_first_keys(what, what->n_keys, schema, array, out, err);
}

/* Computes which rows of each batch belong to this reduce. */
static sk_rc choose_rows(struct aggregating *w, struct sk_err *err) {
    const struct sk_reduce_input *in = &w->in;
    struct sk_keys **keys = sk_calloc(SK_TAG_KERNEL, w->n * sizeof *keys);
    uint64_t bytes = 0, all = 0, one;
    sk_rc rc = keys ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for %u batches", w->n);
    for (uint32_t s = 0, at = 0; s < in->n_slices && rc == SK_OK; s++)
        for (uint32_t b = 0; b < in->slices[s].n && rc == SK_OK; b++, at++) {
            struct ArrowArray a = *in->slices[s].batches[b];
            if (in->slices[s].columns_only) a.length = 0;
            w->ranges[at].to = (uint64_t)a.length;
            /* only these batches may have rows of other partitions */
            bool ends = !b || b + 1 == in->slices[s].n;
            rc = sk_block_nbytes(in->slices[s].schemas[b], &a, &one, err);
            bytes += rc == SK_OK ? one : 0;
            all += (uint64_t)a.length;
            if (rc == SK_OK && in->bounds && ends)
                rc = keys_of(w->what, in->slices[s].schemas[b], &a, &keys[at], err);
        }
    if (rc == SK_OK && in->bounds) rc = sk_reduce_trim(w->what, in, keys, w->ranges, err);
    for (uint32_t i = 0; keys && i < w->n; i++) sk_keys_destroy(keys[i]);
    sk_free(keys);
    for (uint32_t i = 0; i < w->n; i++)
        w->rows += w->ranges[i].to - SK_MIN(w->ranges[i].from, w->ranges[i].to);
    w->row_bytes = all ? bytes / all : 0;
    return rc;
}

/* ---- parts ---- */

struct last { /* the last key of a range, given by a row of a batch */
    const struct sk_keys *keys;
    uint64_t row;
};

static sk_rc open_keys(struct aggregating *w, struct sk_err *err) {
    if (w->keys) return SK_OK;
    w->keys = sk_calloc(SK_TAG_KERNEL, w->n * sizeof *w->keys);
    if (!w->keys) return SK_ERR(err, SK_ENOMEM, "no memory for %u batches", w->n);
    for (uint32_t s = 0, at = 0; s < w->in.n_slices; s++)
        for (uint32_t b = 0; b < w->in.slices[s].n; b++, at++) {
            if (w->ranges[at].from >= w->ranges[at].to) continue;
            SK_TRY(keys_of(w->what, w->in.slices[s].schemas[b], w->in.slices[s].batches[b],
                           &w->keys[at], err));
        }
    return SK_OK;
}

/* Returns the first row of a batch that lies behind the given key. */
static uint64_t end_of(const struct aggregating *w, uint32_t at, const struct last *last) {
    struct sk_range r = w->ranges[at];
    if (!last || sk_keys_compare(w->keys[at], r.to - 1, last->keys, last->row) <= 0) return r.to;
    while (r.from < r.to) {
        uint64_t mid = r.from + (r.to - r.from) / 2;
        if (sk_keys_compare(w->keys[at], mid, last->keys, last->row) <= 0) r.from = mid + 1;
        else r.to = mid;
    }
    return r.from;
}

/* Adds the rows of each slice, in order, up to a key; NULL: all rows. */
static sk_rc take(struct aggregating *w, const struct last *last, struct sk_err *err) {
    for (uint32_t s = 0, first = 0; s < w->in.n_slices; first += w->in.slices[s++].n)
        for (; w->at[s] < w->in.slices[s].n; w->at[s]++) {
            uint32_t b = w->at[s], at = first + b;
            const struct ArrowSchema *schema = w->in.slices[s].schemas[b];
            const struct ArrowArray *array = w->in.slices[s].batches[b];
            struct sk_range *r = &w->ranges[at];
            if (r->from >= r->to) continue;
            uint64_t from = r->from, to = end_of(w, at, last);
            r->from = to;
            w->rows -= to - from;
            if (from < to && sk_is_states(w->what, schema))
                SK_TRY(take_states(w->groups, schema, array, from, to, err));
            else if (from < to)
                SK_TRY(take_rows(w->groups, &w->flat, w->what, array, from, to, err));
            if (to < r->to) break;
        }
    return SK_OK;
}

static uint32_t slices_left(const struct aggregating *w) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < w->in.n_slices; s++) n += w->at[s] < w->in.slices[s].n;
    return n;
}

/* Returns the least of the keys that lie q rows ahead in their slices. At least one slice has that
 * many rows. */
static struct last ahead(const struct aggregating *w, uint64_t q) {
    struct last least = {.keys = NULL};
    for (uint32_t s = 0, first = 0; s < w->in.n_slices; first += w->in.slices[s++].n) {
        uint64_t left = q;
        for (uint32_t at = first + w->at[s]; at < first + w->in.slices[s].n; at++) {
            const struct sk_range *r = &w->ranges[at];
            uint64_t rows = r->to - SK_MIN(r->from, r->to);
            if (left >= rows) {
                left -= rows;
                continue;
            }
            bool less = !least.keys ||
                        sk_keys_compare(w->keys[at], r->from + left, least.keys, least.row) < 0;
            if (less) least = (struct last){w->keys[at], r->from + left};
            break;
        }
    }
    SK_ASSERT(least.keys);
    return least;
}

/* Computes the groups of the next block. */
static sk_rc next_part(struct aggregating *w, struct sk_err *err) {
    uint64_t fixed = sk_groupby_group_bytes(w->groups);
    sk_groupby_clear(w->groups);
    w->done = 0;
    for (bool begun = false;; begun = true) {
        uint64_t kept, rows = sk_groupby_rows(w->groups), used = sk_groupby_bytes(w->groups, &kept);
        uint64_t room =
            (w->limit - SK_MIN(used, w->limit)) / (fixed + (rows ? kept / rows : w->row_bytes));
        if (!w->limit || w->rows <= room) return take(w, NULL, err);
        if (begun && used > w->limit / 8 * 7) return SK_OK;
        SK_TRY(open_keys(w, err));
        struct last last = ahead(w, SK_MIN(room, w->rows - 1) / SK_MAX(slices_left(w), 1));
        SK_TRY(take(w, &last, err));
    }
}

/* Returns the number of rows for a block of about the target's bytes. */
static sk_rc size_up(struct aggregating *w, struct sk_err *err) {
    uint64_t size, groups = sk_groupby_groups(w->groups);
    SK_TRY(sk_groupby_build(w->groups, w->which, err));
    SK_TRY(sk_groupby_measure_range(w->groups, 0, groups, &w->whole, &size, err));
    uint64_t target = w->which == SK_RESULT_SORTED ? w->in.target_bytes : 0,
             blocks = target ? SK_MAX((size + target - 1) / target, 1) : 1;
    w->block_rows = SK_MAX((groups + blocks - 1) / blocks, 1);
    if (blocks == 1) return SK_OK;
    sk_block_plan_free(w->whole);
    w->whole = NULL;
    return SK_OK;
}

static sk_rc aggregating_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct aggregating *w = (void *)head;
    if (w->rows && w->done == sk_groupby_groups(w->groups)) {
        SK_TRY(next_part(w, err));
        SK_TRY(size_up(w, err));
    }
    struct sk_block_plan *plan = w->whole;
    uint64_t n = SK_MIN(sk_groupby_groups(w->groups) - w->done, w->block_rows), size;
    if (!n && w->given) return SK_OK;
    struct sk_value *v = sk_value_create(SK_VALUE_BLOCK, 1, 0);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for %llu groups", (unsigned long long)n);
    sk_rc rc = plan ? SK_OK : sk_groupby_measure_range(w->groups, w->done, n, &plan, &size, err);
    if (rc) {
        sk_value_destroy(v);
        return rc;
    }
    w->whole = NULL;
    sk_value_add(v, plan);
    w->done += n;
    w->given = true;
    *out = v;
    return SK_OK;
}

static void aggregating_destroy(struct sk_work *head) {
    struct aggregating *w = (void *)head;
    sk_block_plan_free(w->whole);
    sk_groupby_destroy(w->groups);
    for (uint32_t i = 0; w->keys && i < w->n; i++) sk_keys_destroy(w->keys[i]);
    sk_free(w->keys);
    sk_free(w->ranges);
    sk_free(w->at);
    flat_free(&w->flat);
    sk_free(w);
}

static sk_rc create(const struct sk_what *what, const struct sk_reduce_input *in,
                    enum sk_result which, struct sk_work **out, struct sk_err *err) {
    struct aggregating *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    sk_rc rc;
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to aggregate");
    w->head = (struct sk_work){aggregating_next, aggregating_destroy};
    w->what = what;
    w->which = which;
    w->in = *in;
    if (in->target_bytes && what->n_keys) w->limit = SK_MAX(in->target_bytes / 2, 1);
    for (uint32_t s = 0; s < in->n_slices; s++) w->n += in->slices[s].n;
    w->ranges = sk_calloc(SK_TAG_KERNEL, w->n * sizeof *w->ranges);
    w->at = sk_calloc(SK_TAG_KERNEL, in->n_slices * sizeof *w->at);
    if (!w->ranges || !w->at) SK_GO(SK_ERR(err, SK_ENOMEM, "no memory for %u batches", w->n));
    SK_GO(flat_make(&w->flat, what, model(what, in), err));
    SK_GO(flat_groupby(&w->flat, what, &w->groups, err));
    SK_GO(choose_rows(w, err));
    SK_GO(next_part(w, err));
    SK_GO(size_up(w, err));
out:
    if (rc) aggregating_destroy(&w->head);
    else *out = &w->head;
    return rc;
}

sk_rc sk_aggregating_create(const struct sk_what *what, const struct sk_reduce_input *in,
                            struct sk_work **out, struct sk_err *err) {
    return create(what, in, SK_RESULT_SORTED, out, err);
}

sk_rc sk_restating_create(const struct sk_what *what, const struct sk_reduce_input *in,
                          struct sk_work **out, struct sk_err *err) {
    return create(what, in, SK_RESULT_PARTIAL, out, err);
}

/* ---- schemas ---- */

static bool same_columns(const struct ArrowSchema *a, const struct ArrowSchema *b, uint32_t n) {
    struct ArrowSchema x = *a, y = *b;
    x.n_children = y.n_children = n;
    return sk_block_same_schema(&x, &y);
}

/* True if states of schema s can be merged into results of rows of schema r without a cast. */
static bool go_together(const struct sk_what *what, const struct ArrowSchema *r,
                        const struct ArrowSchema *s) {
    for (uint32_t i = 0; i < what->n_aggs; i++) {
        const struct sk_agg *a = &what->aggs[i];
        if (a->column == SK_AGG_ROWS) continue;
        struct ArrowSchema values = values_of(a, s->children[what->n_keys + i]);
        const char *f = r->children[a->column]->format;
        const struct sk_agg_facts *is = sk_agg_facts(a->kind);
        bool any = !strcmp(values.format, "n") &&
                   (is->state == SK_STATE_COUNT || is->state == SK_STATE_MOMENTS ||
                    is->state == SK_STATE_SHARE);
        bool numbers = a->kind == SK_AGG_APPROX_QUANTILES;
        if (!any && !numbers && (f[0] == '+' || strcmp(f, values.format) != 0)) return false;
    }
    return true;
}

bool sk_work_aggregates(const struct sk_what *what, const struct ArrowSchema *const *schemas,
                        uint32_t n) {
    const struct ArrowSchema *first[2] = {NULL, NULL}; /* of rows, of states */
    for (uint32_t i = 0; i < n; i++) {
        bool states = sk_is_states(what, schemas[i]);
        if (first[states] && !sk_block_same_schema(first[states], schemas[i])) return false;
        if (!first[states]) first[states] = schemas[i];
    }
    if (!first[0] || !first[1]) return true;
    return same_columns(first[0], first[1], what->n_keys) && go_together(what, first[0], first[1]);
}
