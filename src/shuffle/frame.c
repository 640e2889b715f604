/* frame.c - small batches by which tasks exchange keys: rows of the key columns (named "0", "1",
 * ...), with columns of numbers beside them. */
#include <stdio.h>

#include "shuffle/work_int.h"

#define NUMBERS_MAX 3u

struct frame { /* all memory to which the value's plan points, in one allocation */
    struct ArrowSchema schema, *fields, **field;
    struct ArrowArray side, *columns, **column; /* the columns of numbers, as a batch */
    const struct ArrowArray **arrays, *one;
    const void *none, *buffers[NUMBERS_MAX][2];
    struct sk_block_side sides[2];
    struct sk_block_pick *picks;
    struct sk_row_at *places, *rows;
    uint64_t *numbers;
    char (*names)[12];
};

/* Places the arrays behind the struct, in one allocation, whose size is returned. base NULL: only
 * computes the size. */
static size_t lay_out(struct frame *f, uint8_t *base, const struct sk_frame *of) {
    uint32_t n_columns = of->n_keys + of->n_numbers;
    uint64_t rows = of->rows;
    size_t at = (size_t)SK_ALIGN(sizeof *f, 64);
#define ROOM(member, count)                                      \
    do {                                                         \
        if (base) f->member = (void *)(base + at);               \
        at += SK_ALIGN((size_t)(count) * sizeof *f->member, 64); \
    } while (0)
    ROOM(fields, n_columns);
    ROOM(field, n_columns);
    ROOM(columns, NUMBERS_MAX);
    ROOM(column, NUMBERS_MAX);
    ROOM(arrays, of->n_arrays);
    ROOM(picks, n_columns);
    ROOM(names, n_columns);
    ROOM(places, rows);
    ROOM(rows, rows);
    ROOM(numbers, rows * NUMBERS_MAX);
#undef ROOM
    return at;
}

static void set_schema(struct frame *f, const struct sk_frame *of, uint32_t n_columns) {
    static const char *const names[] = {"rows", "offset", "length"};
    for (uint32_t i = 0; i < n_columns; i++) {
        uint32_t number = i - of->n_keys;
        bool key = i < of->n_keys;
        snprintf(f->names[i], sizeof f->names[i], "%u", i);
        f->fields[i] = key ? *of->schema->children[of->keys[i].column]
                           : (struct ArrowSchema){.format = "L", .flags = 0};
        f->fields[i].name = key ? f->names[i] : of->n_numbers == 1 ? "run" : names[number];
        f->field[i] = &f->fields[i];
        f->picks[i] =
            key ? (struct sk_block_pick){0, of->keys[i].column} : (struct sk_block_pick){1, number};
    }
    f->schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = n_columns, .children = f->field};
}

static void set_numbers(struct frame *f, const struct sk_frame *of) {
    for (uint32_t i = 0; i < of->n_numbers; i++) {
        uint64_t *to = f->numbers + i * of->rows;
        memcpy(to, of->numbers[i], of->rows * sizeof *to);
        f->buffers[i][0] = NULL;
        f->buffers[i][1] = to;
        f->columns[i] = (struct ArrowArray){
            .length = (int64_t)of->rows, .n_buffers = 2, .buffers = f->buffers[i]};
        f->column[i] = &f->columns[i];
    }
    f->side = (struct ArrowArray){.length = (int64_t)of->rows,
                                  .n_buffers = 1,
                                  .buffers = &f->none,
                                  .n_children = of->n_numbers,
                                  .children = f->column};
    f->one = &f->side;
    for (uint64_t i = 0; i < of->rows; i++) f->rows[i] = (struct sk_row_at){0, (uint32_t)i};
    memcpy(f->places, of->places, of->rows * sizeof *f->places);
}

sk_rc sk_frame_value(const struct sk_frame *of, enum sk_value_kind kind, struct sk_value **out,
                     struct sk_err *err) {
    uint32_t n_columns = of->n_keys + of->n_numbers;
    size_t size = lay_out(NULL, NULL, of);
    struct sk_value *v = sk_value_create(kind, 1, 0);
    struct frame *f = sk_calloc(SK_TAG_KERNEL, size);
    struct sk_block_plan *plan;
    uint64_t total;
    SK_ASSERT(of->n_numbers <= NUMBERS_MAX);
    if (!v || !f) {
        sk_free(f);
        sk_value_destroy(v);
        return SK_ERR(err, SK_ENOMEM, "no memory for the keys of %llu rows",
                      (unsigned long long)of->rows);
    }
    v->mem[0] = f;
    lay_out(f, (uint8_t *)f, of);
    set_schema(f, of, n_columns);
    set_numbers(f, of);
    memcpy(f->arrays, of->arrays, of->n_arrays * sizeof *f->arrays);
    f->sides[0] = (struct sk_block_side){f->arrays, of->n_arrays, f->places};
    f->sides[1] = (struct sk_block_side){&f->one, 1, f->rows};
    sk_rc rc =
        sk_block_measure_places(&f->schema, f->sides, 2, f->picks, of->rows, &plan, &total, err);
    if (rc) {
        sk_value_destroy(v);
        return rc;
    }
    sk_value_add(v, plan);
    *out = v;
    return SK_OK;
}
