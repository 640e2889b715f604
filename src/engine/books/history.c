/* history.c - the ring of ended attempts and the writing of rows; see history.h. */
#include "engine/books/history.h"

#include "base/mem.h"
#include "base/containers/vec.h"

#define TEXT_MAX (UINT64_C(8) << 20)
#define ERROR_MAX 16384u /* longer error values are not kept */
#define GONE_MAX 1000u   /* most rows of gone actors, and of gone workers */

static void drop_text(struct sk_history *h, struct sk_past *p) {
    if (!p->text) return;
    SK_ASSERT(h->text_bytes >= sizeof *p->text + p->text->cap);
    h->text_bytes -= sizeof *p->text + p->text->cap;
    sk_free(p->text);
    p->text = NULL;
}

static void add_text(struct sk_history *h, struct sk_past *p, const struct sk_ended *e) {
    size_t n = e->name.n + (e->error.n <= ERROR_MAX ? e->error.n : 0);
    if (p->text && (n > p->text->cap || (p->text->cap > 256 && n < p->text->cap / 4)))
        drop_text(h, p);
    struct sk_past_text *t = p->text;
    if (!t) {
        t = sk_alloc(SK_TAG_ENGINE, sizeof *t + n);
        if (!t) return;
        t->cap = (uint32_t)n;
        h->text_bytes += sizeof *t + n;
        p->text = t;
    }
    t->parent = e->parent;
    t->actor = e->actor;
    t->error_kind = e->error_kind;
    SK_ASSERT(n <= t->cap && e->name.n <= n);
    t->name_n = (uint32_t)e->name.n;
    t->error_n = (uint32_t)(n - e->name.n);
    if (t->name_n) memcpy(t->bytes, e->name.p, t->name_n);
    if (t->error_n) memcpy(t->bytes + t->name_n, e->error.p, t->error_n);
    uint64_t oldest = h->n > SK_STATE_PAST ? h->n - SK_STATE_PAST : 0;
    for (h->bare = SK_MAX(h->bare, oldest); h->text_bytes > TEXT_MAX && h->bare + 1 < h->n;
         h->bare++)
        drop_text(h, &h->p[h->bare % SK_STATE_PAST]);
}

void sk_history_add(struct sk_history *h, const struct sk_ended *e) {
    if (SK_UNLIKELY(!h->p)) {
        h->p = sk_alloc_aligned(SK_TAG_ENGINE, 64, SK_STATE_PAST * sizeof *h->p);
        if (!h->p) return;
        memset(h->p, 0, SK_STATE_PAST * sizeof *h->p);
    }
    SK_DCHECK(h->next < SK_STATE_PAST && h->next == h->n % SK_STATE_PAST);
    struct sk_past *p = &h->p[h->next];
    struct sk_past_text *text = p->text;
    *p = e->p;
    p->wait_s = e->start_ns ? (float)(e->start_ns - p->submit_ns) * 1e-9f : -1;
    p->run_s = (float)(e->end_ns - (e->start_ns ? e->start_ns : p->submit_ns)) * 1e-9f;
    p->text = text;
    h->n++;
    h->next = h->next + 1 == SK_STATE_PAST ? 0 : h->next + 1;
    __builtin_prefetch(&h->p[h->next], 1);
    if (e->name.n || e->error_kind || e->parent || e->actor) add_text(h, p, e);
    else if (SK_UNLIKELY(text != NULL)) drop_text(h, p);
}

void sk_history_gone(struct sk_gone *g, struct sk_bytes row) {
    void *copy = sk_memdup(SK_TAG_ENGINE, row.p, row.n);
    if (!copy) return;
    struct sk_bytes b = {copy, row.n};
    if (g->rows.n < GONE_MAX) {
        if (!sk_vec_push(&g->rows, SK_TAG_ENGINE, b)) sk_free(copy);
        return;
    }
    SK_DCHECK(g->at < g->rows.n);
    sk_free((void *)(uintptr_t)g->rows.p[g->at].p);
    g->rows.p[g->at] = b;
    g->at = (g->at + 1) % GONE_MAX;
}

static void free_gone(struct sk_gone *g) {
    for (uint32_t i = 0; i < g->rows.n; i++) sk_free((void *)(uintptr_t)g->rows.p[i].p);
    sk_vec_free(&g->rows);
}

void sk_history_free(struct sk_history *h) {
    for (uint32_t i = 0; h->p && i < SK_MIN(h->n, SK_STATE_PAST); i++) sk_free(h->p[i].text);
    free_gone(&h->actors);
    free_gone(&h->workers);
    sk_free(h->p);
    *h = (struct sk_history){0};
}

struct sk_rows sk_rows_begin(void *buf, size_t cap) {
    struct sk_rows r = {.w = sk_wr_init(buf, cap)};
    sk_wr_raw(&r.w, &r.head, sizeof r.head);
    return r;
}

void sk_rows_add(struct sk_rows *r, const void *row, size_t row_n, const struct sk_bytes *texts,
                 uint32_t n_texts) {
    r->head.total++;
    if (r->head.n == SK_STATE_ROWS_MAX) return;
    SK_DCHECK(r->head.n < r->head.total);
    r->head.n++;
    sk_wr_raw(&r->w, row, row_n);
    for (uint32_t i = 0; i < n_texts; i++) sk_wr_raw(&r->w, texts[i].p, texts[i].n);
    sk_wr_align(&r->w, 8);
}

size_t sk_rows_end(struct sk_rows *r, void *buf, size_t cap) {
    if (sizeof r->head <= cap) memcpy(buf, &r->head, sizeof r->head);
    return r->w.n;
}

void sk_rows_past(struct sk_rows *r, const struct sk_history *h,
                  struct sk_past_more (*more)(void *ctx, const struct sk_past *p), void *ctx) {
    static const struct sk_past_text none = {0};
    for (uint64_t i = h->n > SK_STATE_PAST ? h->n - SK_STATE_PAST : 0; i < h->n; i++) {
        const struct sk_past *p = &h->p[i % SK_STATE_PAST];
        const struct sk_past_text *t = p->text ? p->text : &none;
        struct sk_past_more m = more(ctx, p);
        int64_t start = p->wait_s >= 0 ? p->submit_ns + (int64_t)((double)p->wait_s * 1e9) : 0;
        struct sk_task_row row = {
            .id = p->id,
            .parent = t->parent,
            .actor = t->actor,
            .group = m.need.group,
            .submit_ns = p->submit_ns,
            .start_ns = start,
            .end_ns = (start ? start : p->submit_ns) + (int64_t)((double)p->run_s * 1e9),
            .pid = p->pid,
            .worker = p->worker,
            .attempt = p->attempt,
            .state = p->failed ? SK_TS_FAILED : SK_TS_FINISHED,
            .kind = p->kind,
            .n_returns = p->n_returns,
            .error_kind = p->failed ? (t->error_kind ? t->error_kind : SK_KIND_ERROR) : 0,
            .name_n = t->name_n,
            .fn_n = (uint32_t)m.fn.n,
            .error_n = t->error_n,
            .more = m.need.more,
            .res = m.need.res};
        sk_rows_add(
            r, &row, sizeof row,
            (struct sk_bytes[]){{t->bytes, t->name_n}, m.fn, {t->bytes + t->name_n, t->error_n}},
            3);
    }
}

void sk_rows_gone(struct sk_rows *r, const struct sk_gone *g) {
    for (uint32_t i = 0; i < g->rows.n; i++) {
        struct sk_bytes b = g->rows.p[(g->at + i) % g->rows.n];
        sk_rows_add(r, b.p, b.n, NULL, 0);
    }
}

static size_t row_bytes(enum sk_state_what what) {
    switch (what) {
    case SK_STATE_TASKS: return sizeof(struct sk_task_row);
    case SK_STATE_ACTORS: return sizeof(struct sk_actor_row);
    case SK_STATE_OBJECTS: return sizeof(struct sk_object_row);
    case SK_STATE_WORKERS: return sizeof(struct sk_worker_row);
    }
    return 0;
}

bool sk_rows_head(struct sk_rd *r, struct sk_state_head *out) {
    const void *p = r->n ? sk_rd_raw(r, sizeof *out) : NULL;
    *out = (struct sk_state_head){0};
    if (p) memcpy(out, p, sizeof *out);
    return !r->bad;
}

bool sk_rows_next(struct sk_rd *r, enum sk_state_what what, struct sk_row *out) {
    size_t n = row_bytes(what);
    out->at = r->at;
    out->n_texts = 0;
    const void *p = sk_rd_raw(r, n);
    if (!p) return false;
    memcpy(&out->task, p, n);
    uint32_t len[SK_COUNT(out->texts)] = {0};
    switch (what) {
    case SK_STATE_TASKS:
        len[0] = out->task.name_n;
        len[1] = out->task.fn_n;
        len[2] = out->task.error_n;
        out->n_texts = 3;
        break;
    case SK_STATE_ACTORS:
        len[0] = out->actor.class_n;
        len[1] = out->actor.name_n;
        len[2] = out->actor.space_n;
        len[3] = out->actor.why_n;
        out->n_texts = 4;
        break;
    case SK_STATE_OBJECTS: break;
    case SK_STATE_WORKERS:
        len[0] = out->worker.text_n;
        out->n_texts = 1;
        break;
    }
    for (uint32_t i = 0; i < out->n_texts; i++)
        out->texts[i] = (struct sk_bytes){sk_rd_raw(r, len[i]), len[i]};
    sk_rd_align(r, 8);
    return !r->bad;
}

void sk_rows_copy(struct sk_rows *r, enum sk_state_what what, const struct sk_row *row) {
    SK_DCHECK(row->n_texts <= SK_COUNT(row->texts));
    sk_rows_add(r, &row->task, row_bytes(what), row->texts, row->n_texts);
}

void sk_rows_change(uint8_t *in, enum sk_state_what what, const struct sk_row *row) {
    memcpy(in + row->at, &row->task, row_bytes(what));
}
