/* run.c - sorted runs. A map turns a batch into a run of pages in the order of the keys (or into
 * several runs, each of neighbouring keys), each run with a sample that says where its pages begin.
 * A merge makes the same of several runs.
 *
 * A page is a block of about 32 KiB (less in small runs, so that a run can be cut in a few hundred
 * places). A reduce reads whole pages, so it reads less than two pages of a run beyond its
 * partition. A sample ends with the run's last row, so that a partition gets no page of a run that
 * ends before it. */
#include "shuffle/work_int.h"

#define PAGE_MOST (32u << 10)
#define PAGE_LEAST (16u << 10)
#define PAGES_WANTED 256u

struct run {
    struct sk_work head;
    const struct sk_what *what;
    const struct ArrowSchema *schema;
    /* the map's one batch, or all pages of the runs that are merged */
    const struct ArrowArray **arrays;
    uint32_t n_arrays, values;
    /* map: the numbers of its rows in sorted order; the first `rows` of them are wanted */
    uint32_t *index;
    struct sk_keys **keys;  /* merge: the keys of each page */
    struct sk_merge *merge; /* merge of these keys; NULL for a map */
    uint64_t rows, page_rows;
    uint32_t n_pages, next; /* next: first page of the next run */
    /* For each page of the current run: rows, offset, length; behind the last page: 0, the run's
     * length, 0. */
    uint64_t *numbers[3];
    /* the first row of each page; behind the last page: the run's last row */
    struct sk_row_at *firsts;
    /* the planned run whose sample was returned last; NULL: a sample is next */
    struct sk_value *value;
};

/* Chooses the number of rows per page. bytes, rows: of all input. */
static sk_rc choose_pages(struct run *w, uint64_t bytes, uint64_t rows, struct sk_err *err) {
    w->rows = w->what->limit ? SK_MIN(w->what->limit, rows) : rows;
    if (rows) bytes = bytes / rows * w->rows + bytes % rows * w->rows / rows;
    uint64_t page = SK_MIN(SK_MAX(bytes / PAGES_WANTED, PAGE_LEAST), PAGE_MOST),
             n = SK_MAX(bytes / page, 1);
    w->page_rows = SK_MAX((w->rows + n - 1) / n, 1);
    /* a run without rows has one empty page, for the schema */
    w->n_pages = (uint32_t)SK_MAX((w->rows + w->page_rows - 1) / w->page_rows, 1);
    size_t n_samples = (size_t)w->n_pages + 1;
    w->firsts = sk_calloc(SK_TAG_KERNEL, n_samples * sizeof *w->firsts);
    for (int i = 0; i < 3; i++)
        w->numbers[i] = sk_calloc(SK_TAG_KERNEL, n_samples * sizeof **w->numbers);
    return w->firsts && w->numbers[0] && w->numbers[1] && w->numbers[2]
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "no memory for a run of %u pages", w->n_pages);
}

/* ---- values ---- */

/* Plans the page of `rows` rows from `from` on. places: memory for as many rows, if runs are
 * merged. ends: gets the page's first and last row. */
static sk_rc plan_page(struct run *w, uint64_t from, uint64_t rows, struct sk_row_at *places,
                       struct sk_row_at ends[2], struct sk_block_plan **out, struct sk_err *err) {
    uint64_t size;
    ends[0] = ends[1] = (struct sk_row_at){SK_ROW_NONE, 0};
    if (!w->merge) {
        if (rows)
            ends[0] = (struct sk_row_at){0, w->index[from]},
            ends[1] = (struct sk_row_at){0, w->index[from + rows - 1]};
        return sk_block_measure_rows(w->schema, w->arrays[0], w->index + from, rows, out, &size,
                                     err);
    }
    if (sk_merge_next(w->merge, places, rows) != rows)
        return SK_ERR(err, SK_EINVAL, "a merge ended before its rows");
    if (rows) ends[0] = places[0], ends[1] = places[rows - 1];
    return sk_block_measure_places(w->schema,
                                   &(struct sk_block_side){w->arrays, w->n_arrays, places}, 1, NULL,
                                   rows, out, &size, err);
}

/* Plans the run of pages [next, next + n). */
static sk_rc plan_run(struct run *w, uint32_t n, struct sk_value **out, struct sk_err *err) {
    uint64_t at = w->next * w->page_rows, end = SK_MIN(at + n * w->page_rows, w->rows);
    struct sk_value *v = sk_value_create(SK_VALUE_RUN, n, 0);
    struct sk_row_at *places =
        w->merge ? sk_alloc_large(SK_TAG_KERNEL, (size_t)(end - at) * sizeof *places) : NULL;
    sk_rc rc = SK_OK;
    if (!v || (w->merge && !places)) {
        sk_free(places);
        sk_value_destroy(v);
        return SK_ERR(err, SK_ENOMEM, "no memory for a run of %u pages", n);
    }
    v->mem[0] = places;
    for (uint32_t i = 0; i < n && rc == SK_OK; i++) {
        struct sk_block_plan *plan;
        uint64_t rows = SK_MIN(w->page_rows, w->rows - at), size = v->size;
        /* the entry behind a page's first row gets its last row; only that of the last page
         * stays */
        rc = plan_page(w, at, rows, places, &w->firsts[i], &plan, err);
        if (rc) break;
        sk_value_add(v, plan);
        w->numbers[0][i] = rows;
        w->numbers[1][i] = size;
        w->numbers[2][i] = v->size - size;
        at += rows;
        if (places) places += rows;
    }
    w->numbers[0][n] = w->numbers[2][n] = 0;
    w->numbers[1][n] = v->size;
    if (rc) sk_value_destroy(v);
    else *out = v;
    return rc;
}

static sk_rc give_sample(const struct run *w, uint32_t n, struct sk_value **out,
                         struct sk_err *err) {
    struct sk_key *keys = sk_alloc(SK_TAG_KERNEL, w->what->n_keys * sizeof *keys);
    if (!keys) return SK_ERR(err, SK_ENOMEM, "no memory for a sample of %u pages", n);
    sk_rc rc = sk_what_columns(w->what, w->schema, keys, err);
    struct sk_frame frame = {.schema = w->schema,
                             .arrays = w->arrays,
                             .n_arrays = w->n_arrays,
                             .keys = keys,
                             .n_keys = w->what->n_keys,
                             .n_numbers = 3,
                             .numbers = (const uint64_t *const *)w->numbers,
                             .places = w->firsts,
                             .rows = n + UINT64_C(1)};
    if (rc == SK_OK) rc = sk_frame_value(&frame, SK_VALUE_SAMPLE, out, err);
    sk_free(keys);
    return rc;
}

/* Returns the run whose sample was returned last, or else the next sample. */
static sk_rc run_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct run *w = (void *)head;
    if (w->value || w->next == w->n_pages) {
        *out = w->value;
        w->value = NULL;
        return SK_OK;
    }
    uint32_t values = SK_MAX(w->values, 1u),
             n = SK_MIN((w->n_pages + values - 1) / values, w->n_pages - w->next);
    SK_TRY(plan_run(w, n, &w->value, err));
    SK_TRY(give_sample(w, n, out, err));
    w->next += n;
    return SK_OK;
}

static void run_destroy(struct sk_work *head) {
    struct run *w = (void *)head;
    for (int i = 0; i < 3; i++) sk_free(w->numbers[i]);
    sk_value_destroy(w->value);
    sk_merge_destroy(w->merge);
    for (uint32_t b = 0; w->keys && b < w->n_arrays; b++) sk_keys_destroy(w->keys[b]);
    sk_free(w->keys);
    sk_free(w->firsts);
    sk_free(w->arrays);
    sk_free(w->index);
    sk_free(w);
}

static struct run *begin(const struct sk_what *what, const struct ArrowSchema *schema,
                         uint32_t n_arrays, uint32_t values, struct sk_err *err) {
    struct run *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    const struct ArrowArray **arrays = sk_calloc(SK_TAG_KERNEL, n_arrays * sizeof *arrays);
    if (!w || !arrays) {
        sk_free(w);
        sk_free(arrays);
        (void)!SK_ERR(err, SK_ENOMEM, "no memory to sort");
        return NULL;
    }
    *w = (struct run){.head = {run_next, run_destroy},
                      .what = what,
                      .schema = schema,
                      .arrays = arrays,
                      .n_arrays = n_arrays,
                      .values = values};
    return w;
}

/* ---- of a map ---- */

/* *rows: how many of the rows are wanted, of a description without a limit. */
static sk_rc sort(struct run *w, uint64_t *rows, struct sk_err *err) {
    struct sk_keys *keys;
    *rows = (uint64_t)w->arrays[0]->length;
    SK_TRY(sk_what_keys(w->what, w->schema, w->arrays[0], &keys, err));
    w->index = sk_alloc_large(SK_TAG_KERNEL, (size_t)*rows * sizeof *w->index);
    sk_rc rc =
        !w->index ? SK_ERR(err, SK_ENOMEM, "no memory to sort %llu rows", (unsigned long long)*rows)
        : w->what->firsts ? sk_sort_firsts(keys, w->index, rows, err)
                          : sk_sort(keys, w->index, err);
    sk_keys_destroy(keys);
    return rc;
}

sk_rc sk_run_create(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out,
                    struct sk_err *err) {
    struct run *w = begin(what, in->schema, 1, in->values, err);
    uint64_t bytes, rows, all = (uint64_t)in->array->length;
    sk_rc rc;
    if (!w) return SK_ENOMEM;
    w->arrays[0] = in->array;
    SK_GO(sort(w, &rows, err));
    SK_GO(sk_block_nbytes(in->schema, in->array, &bytes, err));
    if (all) bytes = (uint64_t)((unsigned __int128)bytes * rows / all);
    SK_GO(choose_pages(w, bytes, rows, err));
out:
    if (rc) run_destroy(&w->head);
    else *out = &w->head;
    return rc;
}

/* ---- of runs that are merged ---- */

sk_rc sk_run_merge_create(const struct sk_what *what, const struct sk_merge_input *in,
                          struct sk_work **out, struct sk_err *err) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < in->n_slices; s++) n += in->slices[s].n;
    struct run *w = begin(what, in->schema, n, in->values, err);
    uint32_t *pages = sk_alloc(SK_TAG_KERNEL, in->n_slices * sizeof *pages);
    uint64_t bytes = 0, rows = 0, one;
    sk_rc rc;
    if (!w) {
        sk_free(pages);
        return SK_ENOMEM;
    }
    w->keys = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->keys);
    if (!pages || !w->keys)
        SK_GO(SK_ERR(err, SK_ENOMEM, "no memory to merge %u runs", in->n_slices));
    n = 0;
    for (uint32_t s = 0; s < in->n_slices; s++) {
        pages[s] = in->slices[s].n;
        for (uint32_t b = 0; b < pages[s]; b++, n++) {
            w->arrays[n] = in->slices[s].batches[b];
            SK_GO(sk_what_keys(what, in->schema, w->arrays[n], &w->keys[n], err));
            SK_GO(sk_block_nbytes(in->schema, w->arrays[n], &one, err));
            bytes += one;
            rows += (uint64_t)w->arrays[n]->length;
        }
    }
    SK_GO(sk_merge_create((const struct sk_keys *const *)w->keys, NULL, pages, in->n_slices,
                          &w->merge, err));
    SK_GO(choose_pages(w, bytes, rows, err));
out:
    sk_free(pages);
    if (rc) run_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
