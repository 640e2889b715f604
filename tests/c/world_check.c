/* world_check.c - records the history of a run, and decides which errors have a cause in it. */
#include <stdarg.h>
#include <unistd.h>

#include "base/rand.h"
#include "world.h"

struct world W;

#define MAGIC 0x57A7E5u

uint64_t mix(uint64_t a, uint64_t b) {
    return sk_rand_mix(a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x632be59bd9b4e019));
}
uint64_t rnd(uint64_t n) {
    W.rng = mix(W.rng, 7);
    return (uint64_t)(((unsigned __int128)W.rng * n) >> 64);
}

void world_fail(const char *file, int line, const char *fmt, ...) {
    char msg[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    if (W.hunting) {
        if (write(STDOUT_FILENO, msg, strlen(msg)) < 0) _exit(1);
        _exit(FOUND);
    }
    test_fail(file, line, "%s [replay: SK_SIM_PROFILE=%s SK_SIM_SEED=%llu]", msg, W.f->name,
              (unsigned long long)W.seed);
}

/* ---- tables: kept from run to run, of the C heap, for workers write them, too ---------------- */

static void grow(void *pp, uint32_t *cap, size_t size) {
    void **p = pp;
    *cap = *cap ? *cap * 2 : 256;
    void *q = realloc(*p, *cap * size);
    if (!q) abort();
    *p = q;
}

static uint32_t *slot_of(uint64_t oid) {
    uint32_t i = (uint32_t)mix(oid, 1) & (W.by_cap - 1);
    while (W.by_oid[i] && W.objs[W.by_oid[i] - 1].oid != oid) i = (i + 1) & (W.by_cap - 1);
    return &W.by_oid[i];
}

uint32_t obj_new(uint64_t oid, struct expect x, uint32_t task) {
    if (W.n_objs == W.cap_objs) grow(&W.objs, &W.cap_objs, sizeof *W.objs);
    if (W.n_objs * 2 >= W.by_cap) {
        W.by_cap = W.by_cap ? W.by_cap * 2 : 1024;
        free(W.by_oid);
        W.by_oid = calloc(W.by_cap, sizeof *W.by_oid);
        if (!W.by_oid) abort();
        for (uint32_t i = 0; i < W.n_objs; i++) *slot_of(W.objs[i].oid) = i + 1;
    }
    W.objs[W.n_objs] = (struct wobj){.oid = oid, .x = x, .task = task};
    MUST(!*slot_of(oid), "object %llx: the id was given out before", (unsigned long long)oid);
    *slot_of(oid) = W.n_objs + 1;
    return W.n_objs++;
}

bool obj_known(uint64_t oid, uint32_t *i) {
    uint32_t at = W.by_cap ? *slot_of(oid) : 0;
    if (at) *i = at - 1;
    return at != 0;
}
uint32_t obj_of(uint64_t oid) {
    uint32_t i = 0;
    MUST(obj_known(oid, &i), "a reference to object %llx, which nobody made",
         (unsigned long long)oid);
    return i;
}

uint32_t task_new(const struct params *p, const uint32_t *args, uint32_t n_args, uint32_t parent,
                  int32_t retries) {
    if (W.n_tasks == W.cap_tasks) grow(&W.tasks, &W.cap_tasks, sizeof *W.tasks);
    struct wtask *t = &W.tasks[W.n_tasks];
    *t = (struct wtask){.p = *p, .n_args = n_args, .parent = parent, .retries = retries};
    t->p.task = W.n_tasks;
    for (uint32_t i = 0; i < n_args; i++) t->args[i] = args[i];
    return W.n_tasks++;
}

void world_reset(struct sk_engine *e, const struct profile *f, uint64_t seed) {
    if (W.by_oid) memset(W.by_oid, 0, W.by_cap * sizeof *W.by_oid);
    W.e = e;
    W.f = f;
    W.seed = seed;
    W.rng = mix(seed, 99);
    W.n_objs = W.n_tasks = W.n_actors = W.n_sinks = W.n_groups = W.in_group = W.n_early = 0;
}

static void count_kill(struct wtask *t, bool begun) { begun ? t->kills++ : t->kills_queued++; }

void task_named(uint32_t k, uint64_t tid) {
    if (W.tasks[k].tid == tid) return;
    W.tasks[k].tid = tid;
    for (uint32_t i = 0; i < W.n_early;) {
        if (W.early[i].tid != tid) {
            i++;
            continue;
        }
        count_kill(&W.tasks[k], W.early[i].begun);
        W.early[i] = W.early[--W.n_early];
    }
}

void world_on_kill(void *ctx, sk_tid id, bool begun) {
    (void)ctx;
    for (uint32_t i = 0; i < W.n_tasks; i++)
        if (W.tasks[i].tid == id.v) {
            count_kill(&W.tasks[i], begun);
            return;
        }
    MUST(W.n_early < sizeof W.early / sizeof W.early[0], "kills of tasks that nobody submits");
    W.early[W.n_early].tid = id.v;
    W.early[W.n_early++].begun = begun;
}
void world_on_stuck(void *ctx, const char *why) {
    (void)ctx;
    world_fail(__FILE__, __LINE__, "%s", why);
}

/* ---- causes ---------------------------------------------------------------------------------- */

enum {
    CAUSE_DEAD = 1,
    CAUSE_CANCEL = 2,
    CAUSE_ACTOR = 4,
    CAUSE_PUT = 8,
    CAUSE_CALL = 16,
    CAUSE_RETRIES = 32,
    CAUSE_GROUP = 64
};

static uint8_t *seen_objs, *seen_tasks;

static uint32_t causes_of_task(uint32_t k);

static uint32_t causes_of_obj(uint32_t i) {
    const struct wobj *o = &W.objs[i];
    if (seen_objs[i]) return 0;
    seen_objs[i] = 1;
    uint32_t m = o->task ? causes_of_task(o->task - 1) : CAUSE_PUT;
    for (uint32_t k = 0; k < o->n_inner; k++)
        if (o->inner[k]) m |= causes_of_obj(o->inner[k] - 1);
    return m;
}

static uint32_t causes_of_task(uint32_t k) {
    const struct wtask *t = &W.tasks[k];
    if (seen_tasks[k]) return 0;
    seen_tasks[k] = 1;
    uint32_t m = 0;
    /* A killed attempt may have been claimed but not begun, so n_started does not count it. Earlier
     * attempts raised, or made a value that was lost. */
    struct sk_sim_stats st;
    sk_sim_get_stats(W.e, &st);
    uint32_t attempts =
        SK_MAX(t->kills + (st.n_values_lost ? t->n_started : t->n_raised), t->n_started);
    if (t->kills && t->retries >= 0 && attempts > (uint32_t)t->retries) m |= CAUSE_DEAD;
    if (t->retries >= 0) m |= CAUSE_RETRIES;
    if (t->cancelled || t->dropped) m |= CAUSE_CANCEL;
    if (t->group && W.groups[t->group - 1].removed) m |= CAUSE_GROUP;
    if (t->actor) {
        const struct wactor *a = &W.actors[t->actor - 1];
        m |= CAUSE_CALL;
        if (a->killed) m |= CAUSE_ACTOR;
        /* its process died with the constructor or a call on it */
        for (uint32_t i = 0; i < W.n_tasks; i++)
            if (W.tasks[i].actor == t->actor && W.tasks[i].kills + W.tasks[i].kills_queued)
                m |= CAUSE_ACTOR;
        m |= causes_of_task(a->init);
    }
    for (uint32_t i = 0; i < t->n_args; i++) m |= causes_of_obj(t->args[i]);
    for (uint32_t i = 0; i < W.n_tasks; i++)
        if (W.tasks[i].parent == k + 1) m |= causes_of_task(i);
    for (uint32_t i = 0; i < W.n_objs; i++)
        if (W.objs[i].by == k + 1) m |= CAUSE_PUT;
    return m;
}

static uint32_t causes(uint32_t i) {
    seen_objs = calloc(W.n_objs + 1, 1);
    seen_tasks = calloc(W.n_tasks + 1, 1);
    if (!seen_objs || !seen_tasks) abort();
    uint32_t m = causes_of_obj(i);
    free(seen_objs);
    free(seen_tasks);
    return m;
}

static const char *say(uint32_t i) {
    static char buf[200];
    const struct wobj *o = &W.objs[i];
    const struct wtask *t = o->task ? &W.tasks[o->task - 1] : NULL;
    if (!t) snprintf(buf, sizeof buf, "object %llx, a put", (unsigned long long)o->oid);
    else
        snprintf(buf, sizeof buf,
                 "object %llx of task %llx, code %u, retries %d, %u started, %u killed%s%s",
                 (unsigned long long)o->oid, (unsigned long long)t->tid, t->p.code, t->retries,
                 t->n_started, t->kills, t->cancelled ? ", cancelled" : "",
                 t->actor ? ", a call" : "");
    return buf;
}

static void legitimate(int32_t code, const char *text, uint32_t i) {
    struct sk_sim_stats st;
    uint32_t m = causes(i);
    sk_sim_get_stats(W.e, &st);
    W.n_errors++;
    bool ok = false;
    switch (code) {
    case SK_EDEAD:
        ok = (m & CAUSE_DEAD) ||
             (strstr(text, "cannot be run") && st.n_kills + st.n_spawns_failed >= 8);
        break;
    case SK_ECANCEL: ok = m & CAUSE_CANCEL; break;
    case SK_EGROUP: ok = m & CAUSE_GROUP; break;
    case SK_EACTOR:
        ok = (m & (CAUSE_ACTOR | CAUSE_GROUP)) ||
             (strstr(text, "all worker processes wait") && W.f->max_workers <= 8);
        break;
    case SK_ELOST:
        ok = st.n_values_lost &&
             ((strstr(text, "put()") && (m & CAUSE_PUT)) ||
              (strstr(text, "call of an actor") && (m & CAUSE_CALL)) ||
              (strstr(text, "max_retries") && (m & CAUSE_RETRIES)) ||
              (strstr(text, "forgotten") && W.f->lineage_bytes) || strstr(text, "lost for good"));
        break;
    case SK_ENOSPC:
    case SK_EFULL:
        ok = W.f->store_bytes <= 2u << 20;
        W.n_full++;
        break;
    case SK_ESTALL:
        ok = W.f->max_workers <= 8;
        W.n_stall++;
        break;
    default: break;
    }
    MUST(ok, "%s: error %s without a cause (%x): %.300s", say(i), sk_rc_name(code), m, text);
}

void check_rc(sk_rc rc, const struct sk_err *err, uint32_t i) {
    MUST(rc == SK_EFULL || rc == SK_ENOSPC || rc == SK_ECANCEL, "get of %s: %s: %s", say(i),
         sk_rc_name(rc), err->msg);
    legitimate(rc, err->msg, i);
}

/* ---- values ---------------------------------------------------------------------------------- */

bool check_view(const struct sk_view *v, uint32_t i) {
    struct wobj *o = &W.objs[i];
    W.n_gets++;
    if (v->kind == SK_KIND_ENGINE_ERROR) {
        int32_t code = 0;
        MUST(v->len > 4, "%s: an empty error", say(i));
        memcpy(&code, v->data, 4);
        legitimate(code, (const char *)v->data + 4, i);
        o->n_inner = 0; /* the references in the value are lost with it */
        return false;
    }
    if (v->kind == KIND_USER_ERROR) {
        struct user_error u;
        MUST(v->len == sizeof u, "%s: a user error of %zu bytes", say(i), v->len);
        memcpy(&u, v->data, sizeof u);
        const struct wtask *t = o->task ? &W.tasks[o->task - 1] : NULL;
        bool flaky = u.magic == MAGIC + 1; /* deaths have used up its retries */
        W.n_user_errors++;
        MUST(flaky || (u.magic == MAGIC && o->x.bad && u.vid == o->x.vid),
             "%s: user error %llx, expected %s %llx", say(i), (unsigned long long)u.vid,
             o->x.bad ? "error" : "value", (unsigned long long)o->x.vid);
        (void)t;
        return false;
    }
    struct value h = {0};
    MUST(v->kind == KIND_VALUE && v->len >= sizeof h, "%s: a value of kind %u and %zu bytes",
         say(i), v->kind, v->len);
    memcpy(&h, v->data, sizeof h);
    MUST(h.magic == MAGIC && h.len == v->len && h.n_inner <= MAX_INNER,
         "%s: the head of the value is damaged", say(i));
    MUST(!o->x.bad && h.vid == o->x.vid, "%s: value %llx, expected %s %llx", say(i),
         (unsigned long long)h.vid, o->x.bad ? "error" : "value", (unsigned long long)o->x.vid);
    uint64_t differs = 0, w;
    for (size_t k = sizeof h; k < v->len; k += 8) { /* lengths are multiples of 8 */
        memcpy(&w, v->data + k, 8);
        differs |= w ^ word_of(h.vid, k);
    }
    MUST(!differs, "%s: a byte of its %zu is wrong", say(i), v->len);
    for (uint32_t k = 0; k < h.n_inner; k++) {
        uint32_t at = obj_of(h.inner[k].oid);
        o->inner[k] = at + 1;
        MUST(W.objs[at].x.vid == h.inner[k].vid && W.objs[at].x.bad == (h.inner[k].bad != 0),
             "%s: reference %u inside is to another object", say(i), k);
    }
    o->n_inner = h.n_inner;
    if (o->task) { /* by the fence, only events of the last attempt count */
        const struct wtask *t = &W.tasks[o->task - 1];
        struct sk_sim_stats st;
        sk_sim_get_stats(W.e, &st);
        if (!st.n_values_lost && t->p.code != INIT && t->p.code != STREAM)
            MUST(h.attempt == t->last_attempt,
                 "%s: the value of attempt %u, but attempt %u was begun", say(i), h.attempt,
                 t->last_attempt);
    }
    return true;
}
