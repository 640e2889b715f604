/* exec_run_packs.h - how a worker of test_exec_run.c makes and reads packs. A row is a uint64_t;
 * its partition is row % PARTITIONS. The rows of a part lie one behind the other, and NO_ROW fills
 * the part up to a multiple of 64 bytes. */
#define PARTITIONS 10u
#define NO_ROW UINT64_MAX

#include "shuffle/exchange.h"
#include "shuffle/pack.h"

struct input { /* the parsed argument of a task; values: number of values to yield */
    uint32_t phase, n, first, end, all, values;
    struct piece {
        uint64_t row0, rows, length;
        uint32_t side, run, row;
        struct sk_bytes parts;
    } piece[300];
};

static void read_input(struct sk_rd *r, struct input *in) {
    CHECK_LE(in->n, SK_COUNT(in->piece));
    for (uint32_t i = 0; i < in->n; i++) {
        struct sk_stage_block b = sk_stage_block_read(r);
        in->piece[i] = (struct piece){.row0 = b.row0, .rows = b.n_rows, .side = b.side};
    }
    if (!sk_rd_end(r)) {
        struct sk_pack_task t = sk_pack_task_read(r);
        in->phase = t.phase;
        in->first = t.first;
        in->end = t.end;
        in->all = t.n;
        for (uint32_t i = 0; i < in->n; i++) {
            struct sk_pack_block b = sk_pack_block_read(r, t.phase);
            in->piece[i].length = b.length;
            in->piece[i].run = b.run;
            in->piece[i].row = b.row;
            in->piece[i].parts = b.parts;
        }
    }
    CHECK(sk_rd_ok(r));
}

static void take_rows(struct rows *to, const uint8_t *p, uint64_t bytes) {
    for (const uint64_t *row = (const uint64_t *)(const void *)p, *end = row + bytes / 8; row < end;
         row++)
        if (*row != NO_ROW) CHECK(sk_vec_push(to, SK_TAG_TEST, *row));
}

/* Yields the rows of partitions [first, end) as packs, cut into `values` values. */
static sk_rc yield_packs(struct sk_task *t, const struct rows *rows, uint32_t first, uint32_t end,
                         uint32_t values, struct sk_err *err) {
    uint32_t each = (end - first + values - 1) / values;
    for (uint32_t from = first; from < end; from += each) {
        struct rows data = {0};
        struct {
            struct sk_pack_note h;
            struct sk_pack_part part[PARTITIONS];
        } note = {.h = {.magic = SK_PACK_NOTE,
                        .kind = SK_PACK_PARTS,
                        .first = from,
                        .n = SK_MIN(each, end - from)}};
        for (uint32_t p = 0; p < note.h.n; p++) {
            uint32_t at = data.n;
            for (uint32_t i = 0; i < rows->n; i++)
                if (rows->p[i] % PARTITIONS == from + p)
                    CHECK(sk_vec_push(&data, SK_TAG_TEST, rows->p[i]));
            note.part[p].rows = data.n - at;
            while (data.n % 8) CHECK(sk_vec_push(&data, SK_TAG_TEST, NO_ROW));
            note.part[p].len64 = (data.n - at) / 8;
            note.h.rows += note.part[p].rows;
        }
        note.h.bytes = data.n * 8;
        sk_rc rc = sk_task_yield(
            t,
            &(struct sk_payload){.kind = KIND_BLOCK,
                                 .bytes = {data.n ? (void *)data.p : (void *)"", data.n * 8},
                                 .note = {&note, sizeof note.h + note.h.n * sizeof *note.part}},
            err);
        sk_vec_free(&data);
        if (rc != SK_OK) return rc;
    }
    return SK_OK;
}

/* Collects the rows of a reduce: partition by partition, and within a partition in the order of the
 * maps. */
static void reduce_rows(const struct input *in, const struct sk_view *blocks, struct rows *out) {
    struct rows mine = {0};
    uint32_t run = 0;
    for (uint32_t i = 0; i < in->n; i++) {
        const struct piece *p = &in->piece[i];
        CHECK(p->side == 0 && (!i || p->run > run) && p->row0 + p->length <= blocks[i].len);
        run = p->run;
        if (p->rows) take_rows(&mine, blocks[i].data + p->row0, p->length);
    }
    for (uint32_t q = in->first; q < in->end; q++)
        for (uint32_t i = 0; i < mine.n; i++)
            if (mine.p[i] % PARTITIONS == q) CHECK(sk_vec_push(out, SK_TAG_TEST, mine.p[i]));
    CHECK_EQ(in->all, PARTITIONS);
    sk_vec_free(&mine);
}

static sk_rc merge_packs(struct sk_task *t, const struct input *in, const struct sk_view *blocks,
                         struct sk_err *err) {
    struct rows rows = {0};
    CHECK(in->n > 1 && in->first < in->end);
    for (uint32_t i = 0; i < in->n; i++) {
        const struct piece *p = &in->piece[i];
        uint64_t sum = 0;
        CHECK(p->row0 == 0 && p->length == blocks[i].len &&
              p->parts.n == (in->end - in->first) * 4);
        for (uint32_t k = 0; k < in->end - in->first; k++) {
            uint32_t len64;
            memcpy(&len64, (const uint8_t *)p->parts.p + k * sizeof len64, sizeof len64);
            sum += len64 * UINT64_C(64);
        }
        CHECK_EQ(sum, p->length);
        take_rows(&rows, blocks[i].data, p->length);
    }
    sk_rc rc = yield_packs(t, &rows, in->first, in->end, in->values, err);
    sk_vec_free(&rows);
    return rc;
}
