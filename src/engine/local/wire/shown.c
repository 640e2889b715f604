/* shown.c - what an engine shows in its view (contract: shown.h). Decides nothing. */
#include "engine/local/wire/shown.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/conf.h"

void sk_shown_init(struct sk_shown *s) {
    *s = (struct sk_shown){.w.seg = SK_SEG_EMPTY};
    sk_list_init(&s->runs);
}

/* Reads the command line of this process: its words, with spaces between them. */
static void command_line(char *to, size_t cap) {
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(to, 1, cap - 1, f) : 0;
    if (f) (void)fclose(f);
    while (n && !to[n - 1]) n--;
    for (size_t i = 0; i < n; i++)
        if (!to[i]) to[i] = ' ';
    to[n] = 0;
}

sk_rc sk_shown_open(struct sk_shown *s, const struct sk_engine_conf *conf, struct sk_err *err) {
    struct sk_view_about about = {.pid = getpid(),
                                  .started_ns = sk_now_ns(),
                                  .started_wall_ns = sk_wall_ns(),
                                  .cpu_e4 = conf->total.amount[SK_RES_CPU],
                                  .gpu_e4 = conf->total.amount[SK_RES_GPU]};
    if (conf->program) (void)snprintf(about.program, sizeof about.program, "%s", conf->program);
    else command_line(about.program, sizeof about.program);
    SK_TRY(sk_viewer_open(&s->w, &about, err));
    if (!sk_viewer_on(&s->w)) return SK_OK;
    s->history = sk_calloc(SK_TAG_ENGINE, sizeof *s->history);
    if (conf->record) {
        if (strlen(conf->record) >= SK_VIEW_PATH)
            return SK_ERR(err, SK_EINVAL, "the record's path is too long: %s", conf->record);
        s->record = sk_strdup(SK_TAG_ENGINE, conf->record);
    }
    if (!s->history || (conf->record && !s->record))
        return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    s->started_ns = about.started_ns;
    sk_samples_init(&s->samples, s->history->rows, SK_VIEW_SAMPLES, SK_VH_N);
    return SK_OK;
}

void sk_shown_last(struct sk_shown *s) {
    struct sk_err err;
    if (!sk_viewer_on(&s->w)) return;
    sk_viewer_end(&s->w);
    if (s->record && sk_view_save(s->w.seg.base, s->record, &err) != SK_OK)
        fprintf(stderr, "skate: %s\n", err.msg);
}

void sk_shown_close(struct sk_shown *s) {
    sk_viewer_close(&s->w);
    sk_free(s->record);
    sk_free(s->history);
    s->record = NULL;
    s->history = NULL;
}

void sk_shown_counters(struct sk_shown *s, const struct sk_view_counters *c) {
    if (!sk_viewer_on(&s->w)) return;
    SK_DCHECK(c->now_ns >= s->started_ns && s->history);
    sk_viewer_counters(&s->w, c);
    if (c->now_ns - s->started_ns < s->samples.next_ns) return;
    int64_t *row = sk_samples_add(&s->samples, c->now_ns - s->started_ns);
    row[SK_VH_STORE] = (int64_t)c->store_used;
    row[SK_VH_SPILLED] = (int64_t)c->spilled_now;
    row[SK_VH_RUNNING] = (int64_t)c->running;
    row[SK_VH_QUEUED] = (int64_t)c->queued;
    row[SK_VH_DONE] = (int64_t)(c->done + c->failed);
    s->history->n = s->samples.n;
    sk_viewer_history(&s->w, s->history);
}

bool sk_shown_tick(struct sk_shown *s, int64_t now_ns) {
    bool all = true;
    SK_LIST_EACH (it, &s->runs) {
        struct sk_viewed *v = sk_container_of(it, struct sk_viewed, link);
        all = v->tick(v, now_ns) && all;
    }
    return all;
}

void sk_shown_begin(struct sk_shown *s, struct sk_viewed *v) {
    uint32_t best = SK_VIEW_RUNS;
    v->id = ++s->n_runs;
    v->slot = UINT32_MAX;
    sk_list_init(&v->link);
    if (!sk_viewer_on(&s->w)) return;
    for (uint32_t i = 0; i < SK_VIEW_RUNS; i++)
        if (!s->slots[i].live && (best == SK_VIEW_RUNS || s->slots[i].id < s->slots[best].id))
            best = i;
    if (best == SK_VIEW_RUNS) return;
    SK_ASSERT(s->slots[best].id < v->id);
    v->slot = best;
    s->slots[best].id = v->id;
    s->slots[best].live = true;
    sk_list_push_back(&s->runs, &v->link);
}

void sk_shown_run(struct sk_shown *s, struct sk_viewed *v, struct sk_view_run *run) {
    if (v->slot >= SK_VIEW_RUNS) return;
    SK_DCHECK(s->slots[v->slot].id == v->id);
    run->id = v->id;
    sk_viewer_run(&s->w, v->slot, run);
}

void sk_shown_end(struct sk_shown *s, struct sk_viewed *v) {
    SK_DCHECK(v->slot >= SK_VIEW_RUNS || s->slots[v->slot].live);
    if (v->slot < SK_VIEW_RUNS) s->slots[v->slot].live = false;
    v->slot = UINT32_MAX;
    sk_list_del(&v->link);
}

void sk_shown_error(struct sk_shown *s, struct sk_view_error *e) {
    e->ns = sk_now_ns();
    sk_viewer_error(&s->w, e);
}
