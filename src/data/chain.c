/* chain.c - runs a stage's task through its operators, from its arguments to its yields and its
 * note.
 *
 * The time of an operator is the time inside its calls without that inside the calls of the next
 * one. Cost of a batch and operator: two readings of the clock. */
#include "base/clock.h"
#include "base/mem.h"
#include "data/cutter.h"
#include "data/data.h"
#include "engine/windows.h"
#include "exec/exec.h"
#include "shuffle/pack.h"
#include "shuffle/task.h"

#define TAG SK_TAG_EXEC

enum { NODES_MAX = 4096, NOTE_OPS_MAX = 16 };

struct sk_data_node {
    const struct sk_data_op *op;
    struct sk_data_chain *chain;
    struct sk_data_node *next; /* NULL: the cutter is next */
    struct sk_stage_node d;
    void *state;
    bool open;
    struct sk_task_note_op note;
};

struct sk_data_chain {
    const struct sk_data_op *(*find)(const char *name, size_t n);
    void *ctx;
    struct sk_data_node *nodes;
    uint32_t n;
    /* of the task that runs */
    struct sk_data_task task;
    struct sk_cutter *cutter;
    bool yielded;   /* an error that is on its way comes from the engine's yield */
    bool full;      /* the cutter needs no more rows */
    int64_t inside; /* ns in calls of operators further down, since the last reading */
};

/* ---- what operators call --------------------------------------------------------------------- */

void *sk_data_state(const struct sk_data_node *n) { return n->state; }
void *sk_data_ctx(const struct sk_data_node *n) { return n->chain->ctx; }
struct sk_bytes sk_data_params(const struct sk_data_node *n) { return n->d.params; }
struct sk_bytes sk_data_what(const struct sk_data_node *n) { return n->d.what; }
struct sk_bytes sk_data_label(const struct sk_data_node *n) { return n->d.label; }
const struct sk_data_task *sk_data_task_of(const struct sk_data_node *n) { return &n->chain->task; }

sk_rc sk_data_nbytes(const struct sk_batch *b, uint64_t *out, struct sk_err *err) {
    return sk_block_nbytes(&b->schema->s, &b->array, out, err);
}

/* Runs a call of an operator and adds its own time to the operator's note. */
#define TIMED(n, call)                                             \
    __extension__({                                                \
        struct sk_data_chain *timed_ = (n)->chain;                 \
        int64_t t0_ = sk_now_ns(), before_ = timed_->inside;       \
        timed_->inside = 0;                                        \
        sk_rc timed_rc_ = (call);                                  \
        int64_t ns_ = sk_now_ns() - t0_;                           \
        (n)->note.ns += (uint64_t)SK_MAX(ns_ - timed_->inside, 0); \
        timed_->inside = before_ + ns_;                            \
        timed_rc_;                                                 \
    })

/* Names the operator in the message of an error that it made. */
static sk_rc blame(const struct sk_data_node *n, sk_rc rc, struct sk_err *err) {
    if (rc == SK_OK || rc == SK_EDONE || n->chain->yielded || !err || err->line == -1) return rc;
    sk_err_prefix(err, "%.*s", (int)n->d.label.n, (const char *)n->d.label.p);
    err->line = -1; /* the message names its operator */
    return rc;
}

static sk_rc push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    return blame(n, TIMED(n, n->op->push(n, b, err)), err);
}

static sk_rc to_cutter(struct sk_data_chain *c, struct sk_batch *b, struct sk_err *err) {
    int64_t t0 = sk_now_ns();
    sk_rc rc = sk_cutter_push(c->cutter, b, err);
    c->inside += sk_now_ns() - t0;
    c->full = c->full || rc == SK_EDONE;
    return rc;
}

sk_rc sk_data_send(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    n->note.rows_out += (uint64_t)b->array.length;
    if (n->chain->full) {
        sk_batch_destroy(b);
        return SK_EDONE;
    }
    return n->next ? push(n->next, b, err) : to_cutter(n->chain, b, err);
}

/* Yields a value of `size` bytes that write(from, dst) makes. The bytes are not needed if an
 * earlier attempt has delivered the value, or if the note is all of it. */
static sk_rc yield(struct sk_data_chain *c, uint32_t kind, struct sk_bytes note, uint64_t size,
                   void (*write)(const void *from, uint8_t *dst), const void *from,
                   struct sk_err *err) {
    struct sk_task *t = c->task.t;
    struct sk_engine *e = t->engine;
    struct sk_buf buf;
    struct sk_payload p = {.kind = kind, .bytes = {"", 0}, .note = note};
    if (t->n_yielded >= sk_task_skip(t) && size) {
        SK_TRY(e->ops->buf_alloc(e, size, &buf, err));
        if (e->windows) e->windows->warm(e, buf.data, size);
        write(from, buf.data);
        p.buf = &buf;
        p.buf_len = size;
    }
    c->yielded = true;
    sk_rc rc = sk_task_yield(t, &p, err);
    if (rc == SK_OK) c->yielded = false;
    return rc;
}

static void write_value(const void *v, uint8_t *dst) { sk_value_write(v, dst); }
static void write_block(const void *plan, uint8_t *dst) { sk_block_write(plan, dst); }

sk_rc sk_data_yield(struct sk_data_node *n, const struct sk_value *v, struct sk_err *err) {
    union sk_yield_note note;
    size_t len = sk_value_note(v, &note);
    n->note.rows_out += sk_value_rows(v);
    return yield(n->chain, v->kind == SK_VALUE_BLOCK ? SK_KIND_BLOCK : SK_KIND_PACK,
                 (struct sk_bytes){&note, len}, v->size, write_value, v, err);
}

static sk_rc yield_block(struct sk_data_chain *c, const struct sk_block_plan *plan, uint32_t dead,
                         struct sk_err *err) {
    struct sk_block_sizes z = sk_block_plan_sizes(plan);
    struct sk_block_note note = {SK_BLOCK_NOTE, dead, z.n_rows, z.data_bytes, z.schema_crc};
    if (dead) note.rows = note.bytes = 0;
    return yield(c, SK_KIND_BLOCK, (struct sk_bytes){&note, sizeof note}, z.total_bytes,
                 write_block, plan, err);
}

static sk_rc from_cutter(void *ctx, struct sk_block_plan *plan, struct sk_err *err) {
    return yield_block(ctx, plan, 0, err);
}

sk_rc sk_data_dead(struct sk_data_node *n, struct sk_batch *b, uint32_t rows, struct sk_err *err) {
    struct sk_block_plan *plan;
    uint64_t size;
    sk_rc rc = sk_block_measure(&b->schema->s, &b->array, &plan, &size, err);
    if (rc == SK_OK) {
        rc = yield_block(n->chain, plan, rows, err);
        sk_block_plan_free(plan);
    }
    sk_batch_destroy(b);
    return rc;
}

/* ---- making a chain -------------------------------------------------------------------------- */

static sk_rc open_node(struct sk_data_node *n, struct sk_err *err) {
    const char *name = n->d.op.p;
    n->op = n->chain->find ? n->chain->find(name, n->d.op.n) : NULL;
    if (!n->op) n->op = sk_data_op_find(name, n->d.op.n);
    if (!n->op)
        return SK_ERR(err, SK_ENOENT, "%.*s: this program has no operator '%.*s'",
                      (int)n->d.label.n, (const char *)n->d.label.p, (int)n->d.op.n, name);
    if (n->op->yields && n->next)
        return SK_ERR(err, SK_EINVAL, "%.*s: an operator that makes packs is not the last one",
                      (int)n->d.label.n, (const char *)n->d.label.p);
    if (!(n->state = sk_calloc(TAG, SK_MAX(n->op->state_bytes, 1))))
        return SK_ERR(err, SK_ENOMEM, "no memory for the state of an operator");
    n->open = true;
    return n->op->open ? blame(n, n->op->open(n, err), err) : SK_OK;
}

sk_rc sk_data_chain_open(struct sk_bytes stage,
                         const struct sk_data_op *(*find)(const char *name, size_t n), void *ctx,
                         struct sk_data_chain **out, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(stage.p, stage.n);
    uint32_t n = sk_stage_read(&r);
    if (!sk_rd_ok(&r) || !n || n > NODES_MAX)
        return SK_ERR(err, SK_ECORRUPT, "the description of a stage is damaged");
    struct sk_data_chain *c = sk_calloc(TAG, sizeof *c);
    if (c) c->nodes = sk_calloc(TAG, n * sizeof *c->nodes);
    if (!c || !c->nodes) {
        sk_free(c);
        return SK_ERR(err, SK_ENOMEM, "no memory for the operators of a stage");
    }
    c->find = find;
    c->ctx = ctx;
    c->n = n;
    for (uint32_t i = 0; i < n; i++) c->nodes[i].d = sk_stage_node_read(&r);
    sk_rc rc =
        sk_rd_ok(&r) ? SK_OK : SK_ERR(err, SK_ECORRUPT, "the description of a stage is damaged");
    for (uint32_t i = 0; rc == SK_OK && i < n; i++) {
        c->nodes[i].chain = c;
        c->nodes[i].next = i + 1 < n ? &c->nodes[i + 1] : NULL;
        rc = open_node(&c->nodes[i], err);
    }
    if (rc == SK_OK) *out = c;
    else sk_data_chain_close(c);
    return rc;
}

void sk_data_chain_close(struct sk_data_chain *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n; i++) {
        struct sk_data_node *n = &c->nodes[i];
        if (n->open && n->op->close) n->op->close(n);
        sk_free(n->state);
    }
    sk_free(c->nodes);
    sk_free(c);
}

/* ---- running a task -------------------------------------------------------------------------- */

static sk_rc damaged(const struct sk_data_chain *c, struct sk_err *err) {
    return SK_ERR(err, SK_ECORRUPT, "task %s: its arguments are damaged", c->task.t->name);
}

struct kept { /* a view that arrays point into */
    struct sk_engine *e;
    struct sk_view v;
};

static void release_kept(void *p) {
    struct kept *k = p;
    k->e->ops->view_release(k->e, &k->v);
    sk_free(k);
}
static void free_copy(void *p) { sk_free(p); }

/* Opens rows of block i without copying them; the block stays mapped as long as the batch or an
 * array of it exists. */
static sk_rc open_block(struct sk_data_chain *c, uint32_t i, const struct sk_stage_block *d,
                        struct sk_batch **out, struct sk_err *err) {
    struct sk_task *t = c->task.t;
    const struct sk_view *v = &t->args[i];
    const uint8_t *data = v->data;
    size_t len = v->len;
    if (v->kind != SK_KIND_BLOCK) return damaged(c, err);
    struct sk_block_owner owner;
    if ((uintptr_t)data & (SK_BLOCK_ALIGN - 1)) {
        void *copy = sk_alloc_aligned(TAG, SK_BLOCK_ALIGN, SK_MAX(len, 1));
        if (!copy) return SK_ERR(err, SK_ENOMEM, "no memory for %zu bytes of input", len);
        data = memcpy(copy, data, len);
        owner = (struct sk_block_owner){free_copy, copy};
    } else {
        struct kept *k = sk_alloc(TAG, sizeof *k);
        if (!k) return SK_ERR(err, SK_ENOMEM, "no memory for an input block");
        *k = (struct kept){t->engine, sk_task_keep_arg(t, i)};
        owner = (struct sk_block_owner){release_kept, k};
    }
    return sk_batch_open(data, len, d->row0, d->n_rows, owner, out, err);
}

static sk_rc feed_blocks(struct sk_data_chain *c, uint32_t first, struct sk_rd *r,
                         struct sk_err *err) {
    for (uint32_t i = 0; i < c->task.d.n_blocks; i++) {
        struct sk_stage_block d = sk_stage_block_read(r);
        struct sk_batch *b;
        if (!sk_rd_ok(r)) return damaged(c, err);
        SK_TRY(open_block(c, first + i, &d, &b, err));
        c->task.side = d.side;
        SK_TRY(push(&c->nodes[0], b, err));
    }
    return SK_OK;
}

static void free_value(void *p) { sk_free(p); }

/* Sends a value of a reduce to the operators behind it. A match report is no rows: it is yielded.
 */
static sk_rc from_reduce(void *ctx, const struct sk_value *v, struct sk_err *err) {
    struct sk_data_node *n = &((struct sk_data_chain *)ctx)->nodes[0];
    struct sk_batch *b;
    if (v->kind != SK_VALUE_BLOCK) return sk_data_yield(n, v, err);
    uint8_t *p = sk_alloc_aligned(TAG, SK_BLOCK_ALIGN, SK_MAX(v->size, SK_BLOCK_ALIGN));
    if (!p)
        return SK_ERR(err, SK_ENOMEM, "no memory for a block of %llu bytes",
                      (unsigned long long)v->size);
    sk_value_write(v, p);
    SK_TRY(
        sk_batch_open(p, v->size, 0, UINT64_MAX, (struct sk_block_owner){free_value, p}, &b, err));
    return sk_data_send(n, b, err);
}

static sk_rc feed_reduce(struct sk_data_chain *c, struct sk_err *err) {
    bool fits;
    struct sk_data_node *n = &c->nodes[0];
    sk_rc rc = TIMED(n, sk_native_reduce(c->task.t, from_reduce, c, &fits, err));
    if (rc == SK_OK && !fits) rc = SK_EINVAL;
    return blame(n, rc, err);
}

/* Ends the operators from number i on, each after it has got all that those before it send. */
static sk_rc end_from(struct sk_data_chain *c, uint32_t i, struct sk_err *err) {
    for (; i < c->n; i++) {
        struct sk_data_node *n = &c->nodes[i];
        sk_rc rc = n->op->end ? blame(n, TIMED(n, n->op->end(n, err)), err) : SK_OK;
        if (rc != SK_OK && rc != SK_EDONE) return rc;
    }
    return sk_cutter_end(c->cutter, err);
}

static sk_rc begin_task(struct sk_data_chain *c, struct sk_err *err) {
    c->yielded = c->full = false;
    c->inside = 0;
    SK_TRY(sk_cutter_create(c->task.d.target_bytes, c->task.d.cap_rows, from_cutter, c, &c->cutter,
                            err));
    for (uint32_t i = c->n; i--;) {
        struct sk_data_node *n = &c->nodes[i];
        n->note = (struct sk_task_note_op){.native = i == 0};
        if (i && n->op->begin) SK_TRY(blame(n, n->op->begin(n, err), err));
    }
    struct sk_data_node *n = &c->nodes[0];
    return n->op->begin ? blame(n, TIMED(n, n->op->begin(n, err)), err) : SK_OK;
}

static void end_task(struct sk_data_chain *c) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->nodes[i].op->reset) c->nodes[i].op->reset(&c->nodes[i]);
    sk_cutter_destroy(c->cutter);
    c->cutter = NULL;
}

static void set_note(struct sk_data_chain *c) {
    struct {
        struct sk_task_note head;
        struct sk_task_note_op op[NOTE_OPS_MAX];
    } note = {.head = {SK_TASK_NOTE, SK_MIN(c->n, (uint32_t)NOTE_OPS_MAX)}};
    for (uint32_t i = 0; i < note.head.n; i++) note.op[i] = c->nodes[i].note;
    sk_task_note(c->task.t,
                 (struct sk_bytes){&note, sizeof note.head + note.head.n * sizeof note.op[0]});
}

sk_rc sk_data_chain_run(struct sk_data_chain *c, struct sk_task *t, uint32_t first, void *ctx,
                        struct sk_err *err) {
    if (first >= t->n_args) return SK_ERR(err, SK_ECORRUPT, "task %s: no arguments", t->name);
    struct sk_rd r = sk_rd_init(t->args[first].data, t->args[first].len);
    c->ctx = ctx;
    c->task = (struct sk_data_task){.t = t, .d = sk_stage_task_read(&r)};
    if (!sk_rd_ok(&r) || c->task.d.n_blocks != t->n_args - first - 1) return damaged(c, err);
    sk_rc rc = begin_task(c, err);
    if (rc == SK_OK && c->nodes[0].op->exchange) rc = feed_reduce(c, err);
    else if (rc == SK_OK && c->nodes[0].op->push) rc = feed_blocks(c, first + 1, &r, err);
    if (rc == SK_OK || rc == SK_EDONE) rc = end_from(c, 0, err);
    end_task(c);
    if (rc == SK_OK) set_note(c);
    return rc;
}
