/* space_disk.c - objects on their way to disk and back: jobs for the spill threads (store/spill_io.c), and what became of them. Runs with the lock held.
 *
 * What is chosen follows store/evict.c; what has a copy on disk goes for nothing. Invariant: an object that is being written stays where it is until the
 * write is done, and goes only if nobody has come to use it meanwhile. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/driver/space_int.h"

#define JOB_BYTES (UINT64_C(4) << 20)  /* written or read at once */
#define OVER_BYTES (UINT64_C(1) << 20) /* read into the overflow at once, about */
#define JOB_OBJECTS 4096u
#define AHEAD_MIN (UINT64_C(128) << 10)       /* read behind a small object: what was written behind it */
#define DISK_BYTES_PER_S UINT64_C(1000000000) /* only the proportion of reading and writing matters */
#define RETRY_NS INT64_C(500000000)           /* a disk that refused is asked again */

/* ---- writing ----------------------------------------------------------------------------------------------------------------------------------- */

static void disk_trouble(struct sk_local *l, sk_rc rc, const char *msg) {
    if (l->space.disk_rc == SK_OK) sk_log(SK_LOG_WARN, "spill_failed rc=%s msg=\"%s\"", sk_rc_name(rc), msg);
    l->space.disk_rc = rc;
    l->space.disk_retry_ns = sk_now_ns() + RETRY_NS;
    snprintf(l->space.disk_msg, sizeof l->space.disk_msg, "%.390s", msg);
}

/* Returns the bytes that will be freed: fewer than those of `who` when the quota allows no more; 0: none. */
static uint64_t write_out(struct sk_local *l, struct sk_stored *const *who, uint32_t n) {
    struct sk_spill_job *job = sk_spill_job(n);
    struct sk_err err = {.msg = "spill: no memory"};
    sk_rc rc = job ? SK_OK : SK_ENOMEM;
    uint32_t pinned = 0;
    for (; rc == SK_OK && pinned < n; pinned++) {
        struct sk_obj *o = who[pinned]->o;
        SK_DCHECK(o->where == SK_V_STORE && !who[pinned]->io && !who[pinned]->at.stretch);
        rc = sk_store_pin(l->store, SK_PROC_SPILL, o->u.off);
        if (rc != SK_OK) break;
        job->items[pinned] = (struct sk_spill_item){.id = o->id, .bytes = l->data_seg.base + o->u.off, .len = o->len, .user = who[pinned]};
    }
    if (rc == SK_OK) rc = sk_spill_write(l->space.spill, job, &err);
    if (rc != SK_OK) {
        while (pinned-- > 0) (void)sk_store_unpin(l->store, SK_PROC_SPILL, who[pinned]->o->u.off);
        sk_free(job);
        if (rc == SK_ENOSPC && n > 1) return write_out(l, who, n / 2);
        disk_trouble(l, rc, err.msg);
        return 0;
    }
    l->space.n_io++;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct sk_stored *st = who[i];
        sk_stored_begin_write(l, st, &job->items[i]);
        bytes += room_of(st->o);
    }
    SK_DCHECK(bytes <= size_of(l) && l->space.n_io > 0);
    l->space.writing_bytes += bytes;
    return bytes;
}

/* Marks are fresh. */
void sk_space_wrote(struct sk_local *l, struct sk_spill_job *job) {
    struct sk_stored *before = NULL;
    if (job->rc != SK_OK) {
        disk_trouble(l, job->rc, job->err.msg);
    } else {
        l->space.disk_rc = SK_OK;
        l->space.progress_ns = l->space.alone_ns = sk_now_ns();
    }
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        struct sk_stored *st = x->user;
        sk_off off = (sk_off)(x->bytes - l->data_seg.base);
        SK_ASSERT(l->space.writing_bytes >= SK_ALIGN(SK_MAX(x->len, 1), SK_STORE_ALIGN));
        l->space.writing_bytes -= SK_ALIGN(SK_MAX(x->len, 1), SK_STORE_ALIGN);
        if (!st) { /* freed meanwhile */
            sk_spill_drop(l->space.spill, &x->at, x->len);
            (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
            continue;
        }
        SK_ASSERT(st->io == x && st->o->where == SK_V_STORE && st->o->u.off == off);
        (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
        sk_stored_written(l, st, job->rc == SK_OK ? x : NULL, before);
        if (job->rc != SK_OK) continue;
        before = st;
        uint64_t class = class_of(l, st); /* now; when it was chosen nobody may have wanted it */
        if (class == STAYS || (class >= WANTED && !sk_space_awaited(l)) || sk_store_pins(l->store, off)) sk_stored_stay(l, st, true);
        else sk_stored_to_disk(l, st);
    }
}

static bool flush_job(struct sk_local *l, struct sk_stored *const *who, uint32_t *n, uint64_t *bytes, uint64_t *found) {
    uint64_t got = write_out(l, who, *n), want = *bytes;
    *found += got;
    *n = 0;
    *bytes = 0;
    return got == want;
}

/* Frees, or begins to write, at least `need` bytes of classes up to `most` if it can. Returns what it found. */
uint64_t sk_space_choose(struct sk_local *l, uint64_t need, uint64_t most, int64_t now) {
    SK_VEC(struct sk_evict_cand) c = {0};
    SK_VEC(struct sk_stored *) who = {0};
    int64_t retry_ns = l->space.disk_retry_ns; /* a refusal sets that to a later time */
    bool disk = l->space.disk_rc == SK_OK || now >= retry_ns;
    uint64_t sum = 0, found = 0;
    sk_space_mark_all(l);
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_LRU]) {
        struct sk_stored *st = stored_of(it);
        struct sk_obj *o = st->o;
        uint64_t class = class_of(l, st), n = room_of(o);
        if (class > most || o->gone || !in_store(l, o) || sk_store_pins(l->store, o->u.off)) continue;
        bool copy = st->at.stretch != NULL;
        if (!copy && !disk) continue;
        struct sk_evict_cand x = {.id = o->id,
                                  .bytes = n,
                                  .last_use_ns = c.n,
                                  .remake_ns = copy ? (int64_t)(n * UINT64_C(1000000000) / DISK_BYTES_PER_S) : INT64_MAX,
                                  .write_bytes_per_s = disk ? DISK_BYTES_PER_S : 0,
                                  .soon = class > GOES};
        if (!sk_vec_push(&c, SK_TAG_ENGINE, x) || !sk_vec_push(&who, SK_TAG_ENGINE, st)) break;
        if (class == GOES && (sum += n) >= 2 * need) break;
    }
    uint32_t n = SK_MIN(c.n, who.n), n_job = 0;
    enum sk_evict_how *how = n ? sk_alloc(SK_TAG_ENGINE, n * sizeof *how) : NULL;
    if (how) {
        (void)sk_evict_choose(c.p, n, need, how);
        uint64_t bytes = 0;
        bool go_on = true;
        for (uint32_t i = 0; i < n; i++) {
            struct sk_stored *st = who.p[i];
            uint64_t size = c.p[i].bytes;
            if (how[i] == SK_EVICT_DROP && st->at.stretch) {
                found += size;
                sk_stored_to_disk(l, st);
            }
            if (how[i] != SK_EVICT_SPILL || !go_on) continue;
            if (bytes && bytes + size > JOB_BYTES + JOB_BYTES / 4) go_on = flush_job(l, who.p, &n_job, &bytes, &found);
            SK_DCHECK(n_job <= i);
            who.p[n_job++] = st; /* the list is behind i */
            bytes += size;
            if (go_on && (bytes >= JOB_BYTES || n_job == JOB_OBJECTS)) go_on = flush_job(l, who.p, &n_job, &bytes, &found);
        }
        if (n_job && go_on) (void)flush_job(l, who.p, &n_job, &bytes, &found);
    }
    sk_free(how);
    sk_vec_free(&c);
    sk_vec_free(&who);
    if (found < need && disk && l->space.disk_retry_ns != retry_ns)
        found += sk_space_choose(l, need - found, most, now); /* it refused now: what has a copy, then */
    return found;
}

/* ---- reading back --------------------------------------------------------------------------------------------------------------------------------- */

/* Those that wait for o get an error. */
void sk_space_refuse(struct sk_local *l, struct sk_stored *st, sk_rc rc, const char *msg) {
    struct sk_obj *o = st->o;
    char name[200];
    if (st->state != SK_STORED_DISK) sk_stored_unwant(l, st);
    sk_progressed(l);
    l->space.refuse_rc = rc;
    snprintf(l->space.refuse_msg, sizeof l->space.refuse_msg, "object %llu (%llu bytes) cannot be read back from disk: %s",
             (unsigned long long)o->id, (unsigned long long)o->len, msg);
    uint64_t id = o->id;
    SK_LIST_EACH (it, &l->space.gets) {
        struct sk_getter *g = sk_container_of(it, struct sk_getter, link);
        for (size_t i = 0; i < g->n; i++)
            if (g->ids[i] == id) g->refused = rc;
    }
    if (sk_own_hold(l->own, id, NULL) != SK_OK) return;
    for (struct sk_dep *d; (d = o->deps) != NULL;) {
        struct sk_ltask *t = d->task;
        struct sk_req *q = d->req;
        if (t) sk_ltask_forget_deps(t);
        else sk_dep_forget(q->waits);
        if (t && t->state == SK_T_WAITING) {
            struct sk_lactor *a = t->kind == SK_TASK_CALL ? t->actor : NULL;
            sk_ltask_fail(l, t, rc, "task %s: %s", sk_ltask_name(l, t, name, sizeof name), l->space.refuse_msg);
            if (a) l->upcalls->advance(l, a);
        }
        if (q) l->upcalls->answer(l, q, rc);
    }
    sk_own_unhold(l->own, id);
    sk_obj_drain(l);
}

static void came_back(struct sk_local *l, struct sk_stored *st, sk_off off) {
    struct sk_obj *o = st->o;
    uint64_t id = o->id;
    sk_stored_back(l, st, off);
    sk_obj_home(SK_PROC_SPILL, off);
    sk_progressed(l);
    if (!o->deps) return;
    if (sk_own_hold(l->own, id, NULL) != SK_OK) return;
    sk_dep_done(l, o);
    sk_own_unhold(l->own, id);
}

/* Who wants this part looks at its arguments again: the whole is in memory by now, or it is lost, too. */
static void part_lost(struct sk_local *l, uint64_t id) {
    struct sk_obj *o = sk_obj_get(l, id);
    if (!o || sk_own_hold(l->own, id, NULL) != SK_OK) return;
    for (struct sk_dep *d; (d = o->deps) != NULL;) {
        struct sk_ltask *t = d->task;
        SK_ASSERT(t && t->state == SK_T_WAITING); /* nobody else knows the object */
        sk_ltask_forget_deps(t);
        sk_parts_drop(l, t);
        l->upcalls->due(l, t);
    }
    sk_own_unhold(l->own, id);
}

void sk_space_read_back(struct sk_local *l, struct sk_spill_job *job) {
    l->space.progress_ns = l->space.alone_ns = sk_now_ns();
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        struct sk_stored *st = x->user;
        sk_off off = (sk_off)(x->bytes - l->data_seg.base);
        uint64_t len = SK_MAX(x->part_len ? x->part_len : x->len, 1);
        sk_rc rc = x->rc;
        if (st && rc == SK_OK) rc = sk_store_commit(l->store, SK_PROC_SPILL, off, len, NULL);
        if (!st || rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, off, len, NULL)); /* whole: cannot fail */
        if (!st) continue;
        SK_ASSERT(st->io == x && st->o->where == SK_V_DISK);
        sk_stored_unwant(l, st);
        if (rc == SK_OK) {
            came_back(l, st, off);
        } else if (rc == SK_ENOMEM) {
            sk_space_refuse(l, st, rc, "no memory");
        } else { /* its bytes are lost: made again if that can be */
            sk_log(SK_LOG_WARN, "spill_lost object=%llu msg=\"%s\"", (unsigned long long)x->id, job->err.msg);
            snprintf(l->space.spoiled_msg, sizeof l->space.spoiled_msg, "%.290s", job->err.msg);
            l->space.n_spoiled++;
            bool part = st->part; /* st goes with the value */
            uint64_t id = st->o->id;
            struct sk_obj *o = part ? sk_obj_get(l, x->id) : st->o;
            if (o && (!part || o->where == SK_V_DISK)) {
                o->spoiled = true;
                sk_recover_lost(l, x->id);
            }
            if (part) part_lost(l, id);
        }
    }
    sk_obj_drain(l);
}

struct reads {
    SK_VEC(struct sk_stored *) who;
    SK_VEC(sk_off) to;
    uint64_t bytes;
};

static void reads_flush(struct sk_local *l, struct reads *r) {
    uint32_t n = r->who.n;
    if (!n) return;
    struct sk_spill_job *job = sk_spill_job(n);
    struct sk_err err = {.msg = "no memory"};
    for (uint32_t i = 0; job && i < n; i++) {
        struct sk_stored *st = r->who.p[i];
        job->items[i] =
            (struct sk_spill_item){.id = st->o->id, .bytes = l->data_seg.base + r->to.p[i], .len = st->o->len, .at = st->at, .user = st};
        if (SK_LIKELY(!st->part)) continue;
        const struct sk_stored_part *p = sk_part_of(st);
        job->items[i].id = p->whole;
        job->items[i].len = p->len;
        job->items[i].part_at = p->at;
        job->items[i].part_len = st->o->len;
    }
    sk_rc rc = job ? sk_spill_read(l->space.spill, job, &err) : SK_ENOMEM;
    if (rc == SK_OK) {
        l->space.n_io++;
        for (uint32_t i = 0; i < n; i++) sk_stored_reads(job->items[i].user, &job->items[i]); /* they are in order of place now */
    } else {
        sk_free(job);
        for (uint32_t i = 0; i < n; i++)
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, r->to.p[i], SK_MAX(r->who.p[i]->o->len, 1), NULL));
        while (r->who.n) { /* telling who waits may free others of the list */
            struct sk_list *it = sk_list_first(&l->stored.in[SK_STORED_READING]);
            struct sk_stored *st = sk_vec_pop(&r->who);
            bool there = false;
            for (; it && it != &l->stored.in[SK_STORED_READING] && !there; it = it->next) there = stored_of(it) == st;
            if (there) sk_space_refuse(l, st, rc, err.msg);
        }
    }
    r->who.n = r->to.n = 0;
    r->bytes = 0;
}

static sk_rc reads_add(struct sk_local *l, struct reads *r, struct sk_stored *st, bool overflow) {
    sk_off off;
    uint64_t len = SK_MAX(st->o->len, 1);
    if (!sk_vec_reserve(&r->who, SK_TAG_ENGINE, r->who.n + 1) || !sk_vec_reserve(&r->to, SK_TAG_ENGINE, r->to.n + 1)) return SK_ENOMEM;
    SK_TRY(overflow ? sk_space_overflow(l, SK_PROC_SPILL, len, &off, NULL) : sk_store_alloc(l->store, SK_PROC_SPILL, len, &off, NULL));
    SK_DCHECK(st->o->where == SK_V_DISK && !st->io && r->who.n == r->to.n);
    r->who.p[r->who.n++] = st;
    r->to.p[r->to.n++] = off;
    r->bytes += st->o->len;
    sk_stored_begin_read(l, st);
    return SK_OK;
}

/* A small object was read where reading stopped last: what lies behind it will be asked for next, twice as much each time. */
static void read_on(struct sk_local *l, struct reads *r, struct sk_stored *st) {
    struct sk_space *sp = &l->space;
    uint64_t pos = sk_spill_pos(&st->at);
    bool follows = pos > sp->last_pos && pos - sp->last_pos < JOB_BYTES;
    sp->ahead_bytes = follows ? SK_MIN(SK_MAX(sp->ahead_bytes * 2, AHEAD_MIN), JOB_BYTES) : 0;
    sp->last_pos = pos;
    uint64_t until = st->at.off + sp->ahead_bytes;
    for (struct sk_list *it = st->sibling.next; sp->ahead_bytes; it = it->next) {
        struct sk_stored *x = sk_container_of(it, struct sk_stored, sibling);
        if (x->at.off <= st->at.off || x->at.off > until) break; /* round the ring, or far enough */
        if (x->o->where == SK_V_DISK && !x->io && (x->state == SK_STORED_DISK || x->state == SK_STORED_AHEAD) &&
            reads_add(l, r, x, false) != SK_OK)
            break;
        sp->last_pos = sk_spill_pos(&x->at);
    }
}

/* What the first waiter had, and lost again while it was not the first, comes with the rest. */
static void gather_first(struct sk_local *l) {
    const struct sk_getter *g;
    const struct sk_ltask *t;
    struct sk_list *first = sk_list_first(wanted_of(l));
    if (!first || l->space.gathered == stored_of(first)->o->id) return;
    l->space.gathered = stored_of(first)->o->id;
    sk_space_first_waiter(l, &g, &t);
    for (size_t i = g ? g->n : 0; i-- > 0;) sk_stored_want_next(l, sk_obj_get(l, g->ids[i]), stored_of(first));
    if (!t) return;
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) sk_stored_want_next(l, o, stored_of(first));
}

/* SK_EFULL: the first one that is wanted finds no room. */
sk_rc sk_space_read(struct sk_local *l) {
    struct reads r = {0};
    gather_first(l);
    sk_rc rc = SK_OK;
    for (struct sk_list *it; rc == SK_OK && (it = sk_list_first(wanted_of(l)));) {
        struct sk_stored *st = stored_of(it);
        rc = reads_add(l, &r, st, room_of(st->o) > size_of(l));
        if (rc == SK_OK && !st->part && st->o->len < JOB_BYTES / 4 && sk_list_empty(&l->space.rooms)) read_on(l, &r, st);
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return rc;
}

/* What the next tasks in line need, as far as there is room for it that nobody has a use for. */
void sk_space_read_ahead(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, need = 2 * low, left = left_of(l);
    struct reads r = {0};
    sk_stored_soon_over(l); /* of the last time */
    if (!l->stored.n_disk || !sk_list_empty(&sp->rooms) || !sk_list_empty(wanted_of(l))) return;
    sk_space_each_soon(l, sk_stored_soon);
    if (sk_list_empty(&l->stored.in[SK_STORED_AHEAD])) return;
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_AHEAD]) need += room_of(stored_of(it)->o);
    int64_t now = sk_now_ns();
    if (left + sp->writing_bytes < need && now >= sp->choose_after_ns && !sk_space_choose(l, need - left - sp->writing_bytes, GOES, now))
        sp->choose_after_ns = now + 2000000;
    for (struct sk_list *it; (it = sk_list_first(&l->stored.in[SK_STORED_AHEAD]));) {
        struct sk_stored *st = stored_of(it);
        if (left_of(l) < room_of(st->o) + 2 * low || reads_add(l, &r, st, false) != SK_OK) break;
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
}

bool sk_space_read_over(struct sk_local *l) {
    struct reads r = {0};
    struct sk_list *it = sk_list_first(wanted_of(l)); /* what is wanted first, and what its waiter wants behind it */
    bool ok = reads_add(l, &r, stored_of(it), true) == SK_OK;
    while (ok && r.bytes < OVER_BYTES && (it = sk_list_first(wanted_of(l))) && reads_add(l, &r, stored_of(it), true) == SK_OK) {}
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return ok;
}
