/* data_rig.c - see data_rig.h. */
#include "data_rig.h"
#include "engine/engine_int.h"

struct rig rig = {.refuse_at = UINT32_MAX};

/* ---- an engine ---- */

static sk_rc room(struct sk_engine *e SK_UNUSED, size_t len, struct sk_buf *b, struct sk_err *err) {
    void *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, len);
    *b = (struct sk_buf){p, len, 0};
    return p ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory in the store");
}
static void unmap(struct sk_engine *e SK_UNUSED, struct sk_view *v SK_UNUSED) { rig.views--; }

static sk_rc on_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) {
    CHECK(rig.n_out < RIG_VALUES);
    if (rig.n_out == rig.refuse_at) {
        if (p->buf) sk_free(p->buf->data);
        return SK_ERR(err, SK_ECANCEL, "nobody wants the rest");
    }
    struct rig_value *v = &rig.out[rig.n_out++];
    *v = (struct rig_value){.kind = p->kind};
    if (p->buf) v->bytes = p->buf->data, v->n = p->buf_len;
    t->n_yielded++;
    return SK_OK;
}
static uint32_t on_skip(const struct sk_task *t SK_UNUSED) { return 0; }
static void on_note(struct sk_task *t SK_UNUSED, struct sk_bytes note SK_UNUSED) { rig.n_notes++; }
static struct sk_view on_keep(struct sk_task *t, uint32_t i) {
    rig.views++;
    return t->args[i];
}
static const struct sk_engine_ops engine_ops = {.buf_alloc = room, .view_release = unmap};
static struct sk_engine engine = {.ops = &engine_ops};
static const struct sk_task_ops task_ops = {
    .yield = on_yield, .skip = on_skip, .note = on_note, .keep_arg = on_keep};

void rig_forget(void) {
    for (uint32_t i = 0; i < rig.n_out; i++) sk_free(rig.out[i].bytes);
    rig.n_out = rig.n_notes = 0;
}

struct sk_batch *rig_batch(uint32_t i) {
    struct sk_err err;
    struct sk_batch *b;
    CHECK(i < rig.n_out && rig.out[i].kind == SK_KIND_BLOCK);
    CHECK_OK_ERR(sk_batch_open(rig.out[i].bytes, rig.out[i].n, 0, UINT64_MAX,
                               (struct sk_block_owner){NULL, NULL}, &b, &err),
                 &err);
    return b;
}

/* ---- a task ---- */

static uint8_t wire_stage[1 << 16] __attribute__((aligned(8))),
    wire_task[1 << 12] __attribute__((aligned(8)));

static struct sk_view block_of(const struct sk_batch *b, uint8_t **mem) {
    struct sk_block_plan *plan;
    struct sk_err err;
    uint64_t size;
    CHECK_OK_ERR(sk_block_measure(&b->schema->s, &b->array, &plan, &size, &err), &err);
    uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size + SK_BLOCK_ALIGN);
    CHECK(p);
    sk_block_write(plan, p);
    sk_block_plan_free(plan);
    *mem = p;
    if (rig.unaligned) p = memmove(p + 3, p, size);
    return (struct sk_view){.kind = SK_KIND_BLOCK, .data = p, .len = size};
}

sk_rc rig_run(const struct rig_task *t, int times, struct sk_err *err) {
    enum { IN_MAX = 64 };
    struct sk_view args[IN_MAX + 1];
    uint8_t *mem[IN_MAX];
    struct sk_data_chain *c;
    CHECK(t->n_in <= IN_MAX);
    struct sk_wr w = sk_wr_init(wire_stage, sizeof wire_stage);
    sk_stage_write(&w, t->n_nodes);
    for (uint32_t i = 0; i < t->n_nodes; i++) sk_stage_node_write(&w, &t->nodes[i]);
    struct sk_bytes stage = {wire_stage, w.n};
    w = sk_wr_init(wire_task, sizeof wire_task);
    struct sk_stage_task d = t->task;
    d.n_blocks = t->n_in;
    sk_stage_task_write(&w, &d);
    for (uint32_t i = 0; i < t->n_in; i++)
        sk_stage_block_write(&w, &(struct sk_stage_block){0, UINT64_MAX, t->in[i].side});
    args[0] = (struct sk_view){.kind = SK_KIND_EXEC, .data = wire_task, .len = w.n};
    for (uint32_t i = 0; i < t->n_in; i++) args[i + 1] = block_of(t->in[i].batch, &mem[i]);
    sk_mem_fail_at(rig.fail_at);
    sk_rc rc = sk_data_chain_open(stage, rig.find, rig.ctx, &c, err);
    for (int i = 0; rc == SK_OK && i < times; i++) {
        struct sk_task_priv p = {.t = {.engine = &engine,
                                       .name = "a task",
                                       .n_args = t->n_in + 1,
                                       .args = args,
                                       .n_returns = SK_STREAMING},
                                 .ops = &task_ops};
        rc = sk_data_chain_run(c, &p.t, 0, rig.ctx, err);
        if (i + 1 == times || rc != SK_OK) sk_data_chain_close(c);
    }
    rig.failed = sk_mem_failed();
    sk_mem_fail_at(0);
    CHECK_EQ(rig.views, 0);
    for (uint32_t i = 0; i < t->n_in; i++) sk_free(mem[i]);
    return rc;
}

void rig_run_without_memory(const struct rig_task *t) {
    int64_t before = sk_mem_blocks(SK_TAG_N);
    struct sk_err err;
    for (rig.fail_at = 1;; rig.fail_at++) {
        sk_rc rc = rig_run(t, 1, &err);
        rig_forget();
        CHECK_MSG(rc == (rig.failed ? SK_ENOMEM : SK_OK), "allocation %lld: %s, %s",
                  (long long)rig.fail_at, sk_rc_name(rc), rc ? err.msg : "");
        CHECK_MSG(sk_mem_blocks(SK_TAG_N) == before, "allocation %lld: %lld blocks leak",
                  (long long)rig.fail_at, (long long)(sk_mem_blocks(SK_TAG_N) - before));
        if (!rig.failed) break;
    }
    CHECK(rig.fail_at > 3);
    rig.fail_at = 0;
}

/* ---- batches --------------------------------------------------------------------------------- */

struct made_numbers { /* in one piece of memory */
    struct ArrowArray child[8], *children[8];
    const void *top[1], *buffers[8][2];
    int64_t values[];
};
static void release_numbers(struct ArrowArray *a) {
    sk_free(a->private_data);
    a->release = NULL;
}
static void release_child(struct ArrowArray *a) { a->release = NULL; }

struct sk_batch *rig_numbers(const char *names, const int64_t *values, int64_t rows) {
    char text[64], *rest = text;
    struct ArrowSchema child[8], *children[8], top = {.format = "+s", .children = children};
    struct sk_schema *schema;
    struct sk_batch *b;
    struct sk_err err;
    snprintf(text, sizeof text, "%s", names);
    for (char *name; (name = strsep(&rest, ","));) {
        child[top.n_children] = (struct ArrowSchema){.format = "l", .name = name};
        children[top.n_children] = &child[top.n_children];
        top.n_children++;
    }
    size_t n = (size_t)top.n_children;
    CHECK_OK_ERR(sk_schema_copy(&top, &schema, &err), &err);
    struct made_numbers *m =
        sk_alloc(SK_TAG_TEST, sizeof *m + n * (size_t)SK_MAX(rows, 1) * sizeof *m->values);
    m->top[0] = NULL;
    for (size_t c = 0; c < n; c++) {
        int64_t *to = m->values + c * (size_t)rows;
        for (int64_t i = 0; i < rows; i++)
            to[i] = values ? values[(size_t)i * n + c] : i * (int64_t)n + (int64_t)c;
        m->buffers[c][0] = NULL;
        m->buffers[c][1] = to;
        m->child[c] = (struct ArrowArray){
            .length = rows, .n_buffers = 2, .buffers = m->buffers[c], .release = release_child};
        m->children[c] = &m->child[c];
    }
    struct ArrowArray a = {.length = rows,
                           .n_buffers = 1,
                           .n_children = top.n_children,
                           .buffers = m->top,
                           .children = m->children,
                           .release = release_numbers,
                           .private_data = m};
    CHECK_OK_ERR(sk_batch_take(schema, &a, &b, &err), &err);
    return b;
}

int64_t rig_at(const struct sk_batch *b, int64_t column, int64_t row) {
    const struct ArrowArray *c = b->array.children[column];
    CHECK(row < b->array.length);
    return ((const int64_t *)c->buffers[1])[c->offset + row];
}
