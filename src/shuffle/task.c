/* task.c - runs a task of an exchange from its arguments to its yields and its note.
 *
 * Cost: that of the work, and for each value a buffer of the store and a message. */
#include "base/clock.h"
#include "base/containers/vec.h"
#include "base/fault.h"
#include "engine/windows.h"
#include "exec/args.h"
#include "plan/plan.h"
#include "shuffle/inputs.h"
#include "shuffle/task.h"

#define TAG SK_TAG_KERNEL

/* ---- notes ---- */

size_t sk_value_note(const struct sk_value *v, union sk_yield_note *note) {
    static const uint32_t kinds[] = {
        [SK_VALUE_PARTS] = SK_PACK_PARTS,   [SK_VALUE_SAMPLE] = SK_PACK_SAMPLE,
        [SK_VALUE_RUN] = SK_PACK_RUN,       [SK_VALUE_CUTS] = SK_PACK_CUTS,
        [SK_VALUE_BOUNDS] = SK_PACK_BOUNDS, [SK_VALUE_MATCH_REPORT] = SK_PACK_MATCH_REPORT};
    bool cuts = v->kind == SK_VALUE_CUTS;
    if (v->kind == SK_VALUE_BLOCK) {
        note->block = (struct sk_block_note){SK_BLOCK_NOTE, 0, v->rows, v->bytes, v->schema};
        return sizeof note->block;
    }
    note->pack.head = (struct sk_pack_note){
        SK_PACK_NOTE, kinds[v->kind], v->rows, v->size, v->schema, v->first, v->run, v->n, 0};
    for (uint32_t i = 0; i < v->n; i++) {
        struct sk_value_part p = v->parts[i];
        uint32_t len = (uint32_t)(p.len / 64), rows = (uint32_t)p.rows;
        if (cuts)
            note->pack.cut[i] =
                (struct sk_pack_cut){(uint32_t)(p.off / 64), len, (uint32_t)p.row, rows};
        else note->pack.part[i] = (struct sk_pack_part){len, rows};
    }
    return sizeof note->pack.head +
           v->n * (cuts ? sizeof note->pack.cut[0] : sizeof note->pack.part[0]);
}

uint64_t sk_value_rows(const struct sk_value *v) {
    bool about = v->kind == SK_VALUE_SAMPLE || v->kind == SK_VALUE_CUTS ||
                 v->kind == SK_VALUE_BOUNDS || v->kind == SK_VALUE_MATCH_REPORT;
    return about ? 0 : v->rows;
}

enum sk_reduce_part sk_phase_part(uint32_t phase) {
    return phase == SK_PHASE_SPLIT_REDUCE ? SK_PART_SHARE
           : phase == SK_PHASE_UNMATCHED  ? SK_PART_UNMATCHED
                                          : SK_PART_ALL;
}

uint32_t sk_shared_side(uint32_t shared) { return shared == 2; }

/* ---- reading the description of a task ---- */

struct asked {
    struct sk_stage_node node;
    uint32_t n_nodes;
    struct sk_stage_task task;
    /* blocks, packs: the descriptions of the first block by the stage and by the exchange */
    struct sk_rd blocks, packs;
    struct sk_pack_task exchange;
};

enum { ARGS = 2 }; /* before the blocks */

/* false: it is no task of an exchange, or damaged. */
static bool read_args(const struct sk_task *t, struct asked *a) {
    struct sk_rd r = sk_rd_init(t->args[0].data, t->args[0].len);
    a->n_nodes = sk_stage_read(&r);
    a->node = sk_stage_node_read(&r);
    if (!sk_rd_ok(&r) || !a->n_nodes || !a->node.what.n) return false;
    a->blocks = sk_rd_init(t->args[1].data, t->args[1].len);
    a->task = sk_stage_task_read(&a->blocks);
    a->packs = a->blocks;
    for (uint32_t i = 0; i < a->task.n_blocks && sk_rd_ok(&a->packs); i++)
        (void)sk_stage_block_read(&a->packs);
    if (!sk_rd_ok(&a->packs) || sk_rd_end(&a->packs)) return false;
    a->exchange = sk_pack_task_read(&a->packs);
    return sk_rd_ok(&a->packs) && a->task.n_blocks == t->n_args - ARGS;
}

bool sk_native_may(const struct sk_task *t) {
    if (t->n_args < ARGS || t->args[0].kind != SK_KIND_STAGE || t->args[1].kind != SK_KIND_EXEC ||
        t->n_returns != SK_STREAMING)
        return false;
    for (uint32_t i = ARGS; i < t->n_args; i++)
        if (SK_KIND_IS_ERROR(t->args[i].kind)) return false; /* the task ends with that error */
    struct asked a;
    if (!read_args(t, &a)) return false;
    switch (a.exchange.phase) {
    case SK_PHASE_CUT: /* operators fused behind the exchange do not see the values of a cut task */
    case SK_PHASE_MERGE: return true;
    default: return sk_phase_reduces(a.exchange.phase) && a.n_nodes == 1;
    }
}

/* ---- input ---- */

struct run {
    struct sk_task *t;
    struct asked asked;
    struct sk_inputs *in;
    struct sk_work *work;
    /* copies of arguments that came inside a message, since blocks need their alignment */
    SK_VEC(void *) copies;
};

static sk_rc damaged(const struct sk_task *t, uint32_t i, struct sk_err *err) {
    return SK_ERR(err, SK_ECORRUPT,
                  "task %s: block %u of its input, or what it was told of it, is damaged", t->name,
                  i);
}

/* Returns the bytes of argument i that belong to the task. */
static sk_rc piece(struct run *r, uint32_t i, const struct sk_stage_block *b,
                   const struct sk_pack_block *p, struct sk_bytes *out, struct sk_err *err) {
    const struct sk_view *v = &r->t->args[ARGS + i];
    const uint8_t *data = v->data;
    if ((v->kind != SK_KIND_PACK && v->kind != SK_KIND_BLOCK) || b->row0 > v->len ||
        p->length > v->len - b->row0)
        return damaged(r->t, i, err);
    if ((uintptr_t)data & (SK_BLOCK_ALIGN - 1)) {
        void *copy = sk_alloc_aligned(TAG, SK_BLOCK_ALIGN, SK_MAX(v->len, 1));
        if (!copy || !sk_vec_push(&r->copies, TAG, copy)) {
            sk_free(copy);
            return SK_ERR(err, SK_ENOMEM, "no memory for %zu bytes of input", v->len);
        }
        memcpy(copy, data, v->len);
        data = copy;
    }
    *out = (struct sk_bytes){data + b->row0, (size_t)p->length};
    return SK_OK;
}

static sk_rc open_part(struct run *r, uint32_t i, const struct sk_stage_block *b,
                       const struct sk_pack_block *p, struct sk_err *err) {
    const struct sk_pack_task *x = &r->asked.exchange;
    struct sk_input_slice slice = {.run = p->run,
                                   .partition = p->row,
                                   .side = b->side,
                                   .columns_only = !b->n_rows,
                                   .parts = p->parts.p};
    struct sk_bytes bytes;
    if (b->side >= SK_JOIN_KEYS && sk_inputs_what(r->in)->kind == SK_WHAT_JOIN)
        return damaged(r->t, i, err);
    if (x->phase == SK_PHASE_MERGE &&
        (p->parts.n != (uint64_t)(x->end - x->first) * sizeof *slice.parts ||
         (uintptr_t)p->parts.p % sizeof *slice.parts))
        return damaged(r->t, i, err);
    SK_TRY(piece(r, i, b, p, &bytes, err));
    SK_TRY(sk_inputs_slice(r->in, &slice, err));
    return sk_inputs_blocks(r->in, bytes, err);
}

/* Opens the parts, or (beside) the bounds and match reports. */
static sk_rc open_blocks(struct run *r, bool beside, struct sk_err *err) {
    const struct sk_pack_task *x = &r->asked.exchange;
    struct sk_rd blocks = r->asked.blocks, packs = r->asked.packs;
    for (uint32_t i = 0; i < r->asked.task.n_blocks; i++) {
        struct sk_stage_block b = sk_stage_block_read(&blocks);
        struct sk_pack_block p = sk_pack_block_read(&packs, x->phase);
        struct sk_bytes bytes;
        if (!sk_rd_ok(&packs)) return damaged(r->t, i, err);
        if ((b.side == SK_SIDE_BOUNDS || b.side == SK_SIDE_REPORTS) != beside) continue;
        if (!beside) {
            SK_TRY(open_part(r, i, &b, &p, err));
            continue;
        }
        SK_TRY(piece(r, i, &b, &p, &bytes, err));
        SK_TRY(sk_inputs_blocks(r->in, bytes, err));
    }
    return SK_OK;
}

static sk_rc open_input(struct run *r, struct sk_err *err) {
    const struct sk_pack_task *x = &r->asked.exchange;
    if (x->first > x->end || x->end > SK_PARTITIONS_MAX || x->n > SK_PARTITIONS_MAX ||
        (sk_phase_reduces(x->phase) && (x->first == x->end || x->end > x->n)) ||
        r->asked.task.hint > SK_PARTITIONS_MAX)
        return damaged(r->t, 0, err);
    SK_TRY(open_blocks(r, false, err));
    sk_inputs_beside(r->in);
    return open_blocks(r, true, err);
}

/* Makes the work from the inputs. *fits false: the batches need a cast first, so the operator has
 * to run the task. */
static sk_rc make_work(struct run *r, bool *fits, struct sk_err *err) {
    const struct sk_pack_task *x = &r->asked.exchange;
    SK_TRY(sk_inputs_create(r->asked.node.what, &r->in, err));
    bool reduces = sk_phase_reduces(x->phase);
    const struct sk_what *what = sk_inputs_what(r->in);
    *fits = !reduces ||
            (!what->own_reduce && (x->phase == SK_PHASE_REDUCE || what->kind == SK_WHAT_JOIN));
    if (!*fits) return SK_OK;
    SK_TRY(open_input(r, err));
    if (reduces)
        return sk_inputs_reduce(
            r->in,
            &(struct sk_reduce_input){.first = x->first,
                                      .end = x->end,
                                      .n = x->n,
                                      .target_bytes = r->asked.task.target_bytes,
                                      .part = sk_phase_part(x->phase),
                                      .shared = sk_shared_side(x->shared)},
            fits, &r->work, err);
    if (x->phase == SK_PHASE_CUT) return sk_inputs_cut(r->in, x->n, fits, &r->work, err);
    return sk_inputs_merge(r->in, x->first, x->end - x->first, r->asked.task.hint,
                           r->asked.task.target_bytes, fits, &r->work, err);
}

/* ---- output ---- */

/* Yields one value. *yielded true: an error comes from the engine's yield, not from the work. */
static sk_rc yield(struct sk_task *t, const struct sk_value *v, bool *yielded, struct sk_err *err) {
    union sk_yield_note note;
    struct sk_buf buf;
    struct sk_engine *e = t->engine;
    struct sk_payload p = {.kind = v->kind == SK_VALUE_BLOCK ? SK_KIND_BLOCK : SK_KIND_PACK,
                           .bytes = {"", 0},
                           .note = {&note, sk_value_note(v, &note)}};
    /* The bytes are not needed if an earlier attempt has delivered the value, or if the note is all
     * of it. */
    if (t->n_yielded >= sk_task_skip(t) && v->size) {
        SK_TRY(e->ops->buf_alloc(e, v->size, &buf, err));
        if (e->windows) e->windows->warm(e, buf.data, v->size);
        sk_value_write(v, buf.data);
        p.buf = &buf;
        p.buf_len = v->size;
    }
    *yielded = true;
    SK_FAULT_HERE("native.yield");
    return sk_task_yield(t, &p, err);
}

/* Yields the values of the work; a reduce stops when it has the rows that its limit asks for. */
static sk_rc yield_all(struct run *r, struct sk_task_note_op *op, bool *yielded,
                       struct sk_err *err) {
    int64_t cap = sk_phase_reduces(r->asked.exchange.phase) ? r->asked.task.cap_rows : -1;
    do {
        struct sk_value *v;
        int64_t t0 = sk_now_ns();
        *yielded = false;
        SK_TRY(sk_work_next(r->work, &v, err));
        op->ns += (uint64_t)(sk_now_ns() - t0);
        if (!v) return SK_OK;
        op->rows_out += sk_value_rows(v);
        sk_rc rc = yield(r->t, v, yielded, err);
        sk_value_destroy(v);
        if (rc) return rc;
    } while (cap < 0 || op->rows_out < (uint64_t)cap);
    return SK_OK;
}

/* Puts the operator's name in front of the message about a sum that overflows, as the operator
 * itself would. */
static void say_who(const struct run *r, sk_rc rc, struct sk_err *err) {
    struct sk_bytes label = r->asked.node.label;
    if (rc == SK_ERANGE) sk_err_prefix(err, "%.*s", (int)label.n, (const char *)label.p);
}

static void tell(struct sk_task *t, const struct sk_task_note_op *op) {
    struct {
        struct sk_task_note head;
        struct sk_task_note_op op;
    } note = {{SK_TASK_NOTE, 1}, *op};
    sk_task_note(t, (struct sk_bytes){&note, sizeof note});
}

static void close_run(struct run *r) {
    sk_work_destroy(r->work);
    sk_inputs_destroy(r->in);
    for (uint32_t i = 0; i < r->copies.n; i++) sk_free(r->copies.p[i]);
    sk_vec_free(&r->copies);
}

sk_rc sk_native_run(struct sk_task *t, enum sk_native *how, struct sk_err *err) {
    struct run r = {.t = t};
    struct sk_task_note_op op = {.native = 1};
    bool fits = true, yielded = false;
    int64_t t0 = sk_now_ns();
    *how = SK_NATIVE_NOT;
    if (!read_args(t, &r.asked)) return SK_OK;
    sk_rc rc = make_work(&r, &fits, err);
    op.ns = (uint64_t)(sk_now_ns() - t0);
    if (rc == SK_OK && fits && r.work) rc = yield_all(&r, &op, &yielded, err);
    if (rc == SK_OK && fits) tell(t, &op);
    if (fits) *how = rc == SK_OK || yielded ? SK_NATIVE_RAN : SK_NATIVE_FAILED;
    if (*how == SK_NATIVE_FAILED) say_who(&r, rc, err);
    close_run(&r);
    return rc;
}

sk_rc sk_native_reduce(struct sk_task *t,
                       sk_rc (*sink)(void *ctx, const struct sk_value *v, struct sk_err *err),
                       void *ctx, bool *fits, struct sk_err *err) {
    struct run r = {.t = t};
    struct sk_value *v = NULL;
    *fits = true;
    if (!read_args(t, &r.asked)) return damaged(t, 0, err);
    sk_rc rc = make_work(&r, fits, err);
    while (rc == SK_OK && r.work && (rc = sk_work_next(r.work, &v, err)) == SK_OK && v) {
        rc = sink(ctx, v, err);
        sk_value_destroy(v);
    }
    close_run(&r);
    return rc;
}
