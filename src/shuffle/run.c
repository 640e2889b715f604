/* run.c - the map of a sort: a batch becomes a run of pages in the order of the keys (or several runs, of neighbouring keys), each with a sample of where its
 * pages begin.
 *
 * A page is a block of about 32 KiB (of small runs less, so that a run can be cut in a few hundred places), which a reduce reads whole: what is read of a run
 * beyond a partition is less than two pages. */
#include "shuffle/work_int.h"

#define PAGE_MOST (32u << 10)
#define PAGE_LEAST (16u << 10)
#define PAGES_WANTED 256u

struct run {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_map_input in;
    uint32_t *index; /* the rows in order; `rows` of them are wanted */
    uint64_t rows, page_rows;
    uint32_t n_pages, next; /* next: page of the next run */
    uint64_t *numbers[3];   /* of each page of the run at hand: rows, offset, length */
    struct sk_value *value; /* that run, whose sample was given */
};

static sk_rc sort(struct run *w, struct sk_err *err) {
    struct sk_keys *keys;
    SK_TRY(sk_what_keys(w->what, w->in.schema, w->in.array, &keys, err));
    w->index = sk_alloc_large(SK_TAG_KERNEL, (size_t)w->in.array->length * sizeof *w->index);
    sk_rc rc =
        w->index ? sk_sort(keys, w->index, err) : SK_ERR(err, SK_ENOMEM, "no memory to sort %lld rows", (long long)w->in.array->length);
    sk_keys_destroy(keys);
    return rc;
}

static sk_rc choose_pages(struct run *w, struct sk_err *err) {
    uint64_t bytes, rows = (uint64_t)w->in.array->length;
    SK_TRY(sk_block_nbytes(w->in.schema, w->in.array, &bytes, err));
    w->rows = w->what->limit ? SK_MIN(w->what->limit, rows) : rows;
    if (rows) bytes = bytes / rows * w->rows + bytes % rows * w->rows / rows;
    uint64_t page = SK_MIN(SK_MAX(bytes / PAGES_WANTED, PAGE_LEAST), PAGE_MOST), n = SK_MAX(bytes / page, 1);
    w->page_rows = SK_MAX((w->rows + n - 1) / n, 1);
    w->n_pages = (uint32_t)SK_MAX((w->rows + w->page_rows - 1) / w->page_rows, 1); /* without a row: one page, which keeps the schema */
    for (int i = 0; i < 3; i++) {
        w->numbers[i] = sk_calloc(SK_TAG_KERNEL, w->n_pages * sizeof **w->numbers);
        if (!w->numbers[i]) return SK_ERR(err, SK_ENOMEM, "no memory for a run of %u pages", w->n_pages);
    }
    return SK_OK;
}

/* A run of pages [next, next + n). */
static sk_rc plan_run(struct run *w, uint32_t n, struct sk_value **out, struct sk_err *err) {
    struct sk_value *v = sk_value_create(SK_VALUE_RUN, n, 0);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for a run of %u pages", n);
    sk_rc rc = SK_OK;
    for (uint32_t i = 0; i < n && rc == SK_OK; i++) {
        struct sk_block_plan *plan;
        uint64_t from = (w->next + i) * w->page_rows, rows = SK_MIN(w->page_rows, w->rows - from), size, at = v->size;
        rc = sk_block_measure_rows(w->in.schema, w->in.array, w->index + from, rows, &plan, &size, err);
        if (rc) break;
        sk_value_add(v, plan);
        w->numbers[0][i] = rows;
        w->numbers[1][i] = at;
        w->numbers[2][i] = v->size - at;
    }
    if (rc) sk_value_destroy(v);
    else *out = v;
    return rc;
}

static sk_rc give_sample(const struct run *w, uint32_t n, struct sk_value **out, struct sk_err *err) {
    const struct ArrowArray *arrays[] = {w->in.array};
    struct sk_key *keys = sk_alloc(SK_TAG_KERNEL, w->what->n_keys * sizeof *keys);
    struct sk_place *places = sk_alloc(SK_TAG_KERNEL, n * sizeof *places);
    sk_rc rc;
    if (!keys || !places) SK_GO(SK_ERR(err, SK_ENOMEM, "no memory for a sample of %u pages", n));
    for (uint32_t i = 0; i < n; i++)
        places[i] = w->rows ? (struct sk_place){0, w->index[(w->next + i) * w->page_rows]} : (struct sk_place){SK_PLACE_NONE, 0};
    SK_GO(sk_what_columns(w->what, w->in.schema, keys, err));
    struct sk_frame frame = {.schema = w->in.schema,
                             .arrays = arrays,
                             .n_arrays = 1,
                             .keys = keys,
                             .n_keys = w->what->n_keys,
                             .n_numbers = 3,
                             .numbers = (const uint64_t *const *)w->numbers,
                             .places = places,
                             .rows = n};
    SK_GO(sk_frame_value(&frame, SK_VALUE_SAMPLE, out, err));
out:
    sk_free(keys);
    sk_free(places);
    return rc;
}

/* The run whose sample was given, or the next sample. */
static sk_rc run_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct run *w = (void *)head;
    if (w->value || w->next == w->n_pages) {
        *out = w->value;
        w->value = NULL;
        return SK_OK;
    }
    uint32_t values = SK_MAX(w->in.values, 1u), n = SK_MIN((w->n_pages + values - 1) / values, w->n_pages - w->next);
    SK_TRY(plan_run(w, n, &w->value, err));
    SK_TRY(give_sample(w, n, out, err));
    w->next += n;
    return SK_OK;
}

static void run_destroy(struct sk_work *head) {
    struct run *w = (void *)head;
    for (int i = 0; i < 3; i++) sk_free(w->numbers[i]);
    sk_value_destroy(w->value);
    sk_free(w->index);
    sk_free(w);
}

sk_rc sk_run_create(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out, struct sk_err *err) {
    struct run *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to sort");
    w->head = (struct sk_work){run_next, run_destroy};
    w->what = what;
    w->in = *in;
    sk_rc rc;
    SK_GO(sort(w, err));
    SK_GO(choose_pages(w, err));
out:
    if (rc) run_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
