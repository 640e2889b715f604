/* state.c - the ring of ended attempts and the writing of rows; see state.h. */
#include "engine/state.h"

#include "base/mem.h"
#include "base/vec.h"

#define TEXT_MAX (UINT64_C(8) << 20)
#define ERROR_MAX 16384u /* a longer error value is not kept */
#define DEAD_MAX 1000u   /* actors */

static void drop_text(struct sk_history *h, struct sk_past *p) {
    h->text_bytes -= p->text_cap;
    sk_free(p->text);
    p->text = NULL;
    p->text_cap = p->name_n = p->error_n = 0;
}

void sk_history_add(struct sk_history *h, const struct sk_past *e, struct sk_bytes name, struct sk_bytes error) {
    if (SK_UNLIKELY(!h->p) && !(h->p = sk_calloc(SK_TAG_ENGINE, SK_STATE_PAST * sizeof *h->p))) return;
    struct sk_past *p = &h->p[h->n % SK_STATE_PAST];
    char *text = p->text;
    uint32_t cap = p->text_cap;
    *p = *e;
    p->text = text;
    p->text_cap = cap;
    p->name_n = p->error_n = 0;
    h->n++;
    size_t n = name.n + (error.n <= ERROR_MAX ? error.n : 0);
    if (SK_LIKELY(!n && !cap)) return;
    if (n > cap || (cap > 256 && n < cap / 4)) {
        drop_text(h, p);
        if (!n || !(p->text = sk_alloc(SK_TAG_ENGINE, n))) return;
        p->text_cap = (uint32_t)n;
        h->text_bytes += n;
    }
    if (name.n) memcpy(p->text, name.p, name.n);
    p->name_n = (uint32_t)name.n;
    if (n > name.n) {
        memcpy(p->text + name.n, error.p, error.n);
        p->error_n = (uint32_t)error.n;
    }
    uint64_t oldest = h->n > SK_STATE_PAST ? h->n - SK_STATE_PAST : 0;
    for (h->bare = SK_MAX(h->bare, oldest); h->text_bytes > TEXT_MAX && h->bare + 1 < h->n; h->bare++)
        drop_text(h, &h->p[h->bare % SK_STATE_PAST]);
}

void sk_history_actor(struct sk_history *h, struct sk_bytes row) {
    void *copy = sk_memdup(SK_TAG_ENGINE, row.p, row.n);
    if (!copy) return;
    struct sk_bytes b = {copy, row.n};
    if (h->dead.n < DEAD_MAX) {
        if (!sk_vec_push(&h->dead, SK_TAG_ENGINE, b)) sk_free(copy);
        return;
    }
    sk_free((void *)(uintptr_t)h->dead.p[h->dead_at].p);
    h->dead.p[h->dead_at] = b;
    h->dead_at = (h->dead_at + 1) % DEAD_MAX;
}

void sk_history_free(struct sk_history *h) {
    for (uint32_t i = 0; h->p && i < SK_MIN(h->n, SK_STATE_PAST); i++) sk_free(h->p[i].text);
    for (uint32_t i = 0; i < h->dead.n; i++) sk_free((void *)(uintptr_t)h->dead.p[i].p);
    sk_vec_free(&h->dead);
    sk_free(h->p);
    *h = (struct sk_history){0};
}

struct sk_rows sk_rows_begin(void *buf, size_t cap) {
    struct sk_rows r = {.w = sk_wr_init(buf, cap)};
    sk_wr_raw(&r.w, &r.head, sizeof r.head);
    return r;
}

void sk_rows_add(struct sk_rows *r, const void *row, size_t row_n, const struct sk_bytes *texts, uint32_t n_texts) {
    r->head.total++;
    if (r->head.n == SK_STATE_ROWS_MAX) return;
    r->head.n++;
    sk_wr_raw(&r->w, row, row_n);
    for (uint32_t i = 0; i < n_texts; i++) sk_wr_raw(&r->w, texts[i].p, texts[i].n);
    sk_wr_align(&r->w, 8);
}

size_t sk_rows_end(struct sk_rows *r, void *buf, size_t cap) {
    if (sizeof r->head <= cap) memcpy(buf, &r->head, sizeof r->head);
    return r->w.n;
}

void sk_rows_past(struct sk_rows *r, const struct sk_history *h, struct sk_past_more (*more)(void *ctx, const struct sk_past *p),
                  void *ctx) {
    for (uint64_t i = h->n > SK_STATE_PAST ? h->n - SK_STATE_PAST : 0; i < h->n; i++) {
        const struct sk_past *p = &h->p[i % SK_STATE_PAST];
        struct sk_past_more m = more(ctx, p);
        struct sk_task_row row = {.id = p->id,
                                  .parent = p->parent,
                                  .actor = p->actor,
                                  .group = m.group,
                                  .submit_ns = p->submit_ns,
                                  .start_ns = p->start_ns,
                                  .end_ns = p->end_ns,
                                  .pid = p->pid,
                                  .worker = p->worker,
                                  .attempt = p->attempt,
                                  .state = p->failed ? SK_TS_FAILED : SK_TS_FINISHED,
                                  .kind = p->kind,
                                  .n_returns = p->n_returns,
                                  .error_kind = p->error_kind,
                                  .name_n = p->name_n,
                                  .fn_n = (uint32_t)m.fn.n,
                                  .error_n = p->error_n,
                                  .res = m.res};
        const char *text = p->text ? p->text : "";
        sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){{text, p->name_n}, m.fn, {text + p->name_n, p->error_n}}, 3);
    }
}

void sk_rows_dead_actors(struct sk_rows *r, const struct sk_history *h) {
    for (uint32_t i = 0; i < h->dead.n; i++) {
        struct sk_bytes b = h->dead.p[(h->dead_at + i) % h->dead.n];
        sk_rows_add(r, b.p, b.n, NULL, 0);
    }
}
