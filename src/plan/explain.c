/* explain.c - shows a plan as two indented trees for people: as it was written, and as it will run.
 * Each node comes above its inputs. */
#include <stdarg.h>
#include <stdio.h>

#include "plan/plan_int.h"

struct text {
    char *p;
    size_t cap, n; /* n: length of the whole text, which may exceed cap */
};

static void SK_PRINTF(2, 3) put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n =
        vsnprintf(t->n < t->cap ? t->p + t->n : NULL, t->n < t->cap ? t->cap - t->n : 0, fmt, ap);
    va_end(ap);
    if (n > 0) t->n += (size_t)n;
}

/* The indentation stops growing, so a chain of thousands stays readable and its text short. */
static int indent(uint32_t depth) { return (int)(2 * SK_MIN(depth, 24u)); }

static void put_bytes(struct text *t, double b) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    uint32_t u = 0;
    while (b >= 1024 && u + 1 < SK_COUNT(unit)) b /= 1024, u++;
    put(t, u ? "%.1f %s" : "%.0f %s", b, unit[u]);
}

static void put_resources(struct text *t, const struct sk_node_desc *d) {
    if (d->pool_max && d->pool_min != d->pool_max)
        put(t, "  %u-%u actors", d->pool_min, d->pool_max);
    else if (d->pool_max) put(t, "  %u actor%s", d->pool_max, d->pool_max == 1 ? "" : "s");
    if (d->max_tasks) put(t, "  at most %u at once", d->max_tasks);
    if (d->cpu_e4) put(t, "  cpu %g", (double)d->cpu_e4 / 1e4);
    if (d->gpu_e4) put(t, "  gpu %g", (double)d->gpu_e4 / 1e4);
    if (d->batch_rows) put(t, "  batches of %lld rows", (long long)d->batch_rows);
}

static void put_exchange(struct text *t, const struct sk_node_desc *d) {
    if (d->op->props & SK_OP_MERGE) put(t, "  as many packs a task as the strategy says");
    if (!(d->op->props & SK_OP_EXCHANGE)) return;
    if (d->exchange.n_partitions)
        put(t, "  %u partition%s", d->exchange.n_partitions,
            d->exchange.n_partitions == 1 ? "" : "s");
    else put(t, "  partitions by size");
    if (d->exchange.cut) put(t, ", cut by samples of sorted runs");
    if (d->exchange.spread > d->n_inputs) put(t, ", large ones shared by their larger input");
    else if (d->exchange.spread) put(t, ", large ones shared by input %u", d->exchange.spread - 1);
}

static void put_source(struct text *t, const struct sk_node_desc *d) {
    int64_t rows = 0, bytes = 0;
    for (uint32_t i = 0; i < d->n_units; i++) {
        rows = rows < 0 || d->units[i].est_rows < 0 ? -1 : rows + d->units[i].est_rows;
        bytes = bytes < 0 || d->units[i].est_bytes < 0 ? -1 : bytes + d->units[i].est_bytes;
    }
    for (uint32_t i = 0; i < d->n_blocks; i++) {
        rows += (int64_t)d->blocks[i].n_rows;
        bytes += (int64_t)d->blocks[i].bytes;
    }
    if (d->feed) put(t, "  read by this process as the run goes");
    else if ((d->op->props & SK_OP_SOURCE) && d->n_blocks + d->n_units)
        put(t, "  %u %s", d->n_blocks ? d->n_blocks : d->n_units, d->n_blocks ? "blocks" : "tasks");
    if (rows > 0) put(t, "  %lld rows", (long long)rows);
    if (bytes > 0) put(t, "  "), put_bytes(t, (double)bytes);
}

static void put_node(struct text *t, const struct sk_plan *p, uint32_t id, uint32_t depth,
                     uint32_t *left) {
    const struct sk_node_desc *d = &p->nodes.p[id]->d;
    put(t, "%*s%s", indent(depth), "", d->label);
    if (d->op->props & SK_OP_LIMIT) put(t, "  first %lld rows", (long long)d->limit);
    put_source(t, d);
    put_exchange(t, d);
    put_resources(t, d);
    put(t, "\n");
    for (uint32_t i = 0; i < d->n_inputs; i++) {
        /* limits the output: unions of a node with itself make an exponentially large tree */
        if (!*left) {
            put(t, "%*s...\n", indent(depth + 1), "");
            return;
        }
        --*left;
        put_node(t, p, d->inputs[i], depth + 1, left);
    }
}

static void put_stage(struct text *t, const struct sk_plan *p, const struct sk_stages *st,
                      uint32_t i, uint32_t depth) {
    static const char *const what[] = {"blocks", "tasks", "actors", "limit", "union"};
    const struct sk_stage *s = &st->s[i];
    const struct sk_node_desc *d = &p->nodes.p[s->nodes[0]]->d;
    put(t, "%*s[%s] %s", indent(depth), "", what[s->kind], s->label);
    if (s->kind == SK_STAGE_LIMIT) put(t, "  first %lld rows", (long long)s->limit);
    if (s->cap_rows >= 0) put(t, "  a task stops after %lld rows", (long long)s->cap_rows);
    put_source(t, d);
    put_exchange(t, d);
    put_resources(t, d);
    put(t, "\n");
    for (uint32_t k = 0; k < s->n_inputs; k++) put_stage(t, p, st, s->inputs[k], depth + 1);
}

size_t sk_plan_explain(const struct sk_plan *p, uint32_t root, char *buf, size_t cap) {
    struct text t = {buf, cap, 0};
    struct sk_stages st = {0};
    struct sk_err err = {0};
    if (cap) buf[0] = 0;
    if (root >= p->nodes.n) {
        put(&t, "no such node\n");
        return t.n;
    }
    uint32_t left = 1000;
    put(&t, "logical\n");
    put_node(&t, p, root, 1, &left);
    put(&t, "physical\n");
    if (sk_plan_stages(p, root, &st, &err) == SK_OK) put_stage(&t, p, &st, st.n - 1, 1);
    else put(&t, "  %s\n", err.msg);
    sk_stages_free(&st);
    return t.n;
}
