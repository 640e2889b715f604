/* space_evict.c - eviction: chooses values, makes jobs for the spill threads (store/spill_io.c),
 * and takes their results. Runs with the lock held.
 *
 * The choice follows store/evict.c. Invariant: a value that is being written stays in the store
 * until the write is done, and its memory is freed only if nothing uses the value by then. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/space/space_int.h"

/* only the proportion of reading to writing matters */
#define DISK_BYTES_PER_S UINT64_C(1000000000)
#define RETRY_NS INT64_C(500000000) /* wait before a disk that refused is tried again */

static void disk_trouble(struct sk_local *l, sk_rc rc, const char *msg) {
    if (l->space.disk_rc == SK_OK)
        sk_log(SK_LOG_WARN, "spill_failed rc=%s msg=\"%s\"", sk_rc_name(rc), msg);
    l->space.disk_rc = rc;
    l->space.disk_retry_ns = sk_now_ns() + RETRY_NS;
    snprintf(l->space.disk_msg, sizeof l->space.disk_msg, "%.390s", msg);
}

/* Begins to write values. Returns the bytes that this will free: fewer than those of `who` when
 * the quota allows no more; 0: none. */
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
        job->items[pinned] = (struct sk_spill_item){
            .id = o->id, .bytes = l->data_seg.base + o->u.off, .len = o->len, .user = who[pinned]};
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

/* Takes the result of a write. The caller has just marked all values. */
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
        if (!st) { /* the value was freed meanwhile */
            sk_spill_drop(l->space.spill, &x->at, x->len);
            (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
            continue;
        }
        SK_ASSERT(st->io == x && st->o->where == SK_V_STORE && st->o->u.off == off);
        (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
        sk_stored_written(l, st, job->rc == SK_OK ? x : NULL, before);
        if (job->rc != SK_OK) continue;
        before = st;
        /* how much the value is needed now: it may have become wanted since it was chosen */
        uint64_t use = use_of(l, st);
        if (use == SK_USE_NOW || (use >= SK_USE_AWAITED && !sk_space_awaited(l)) ||
            sk_store_pins(l->store, off))
            sk_stored_stay(l, st, true);
        else sk_stored_to_disk(l, st);
    }
}

static bool flush_job(struct sk_local *l, struct sk_stored *const *who, uint32_t *n,
                      uint64_t *bytes, uint64_t *found) {
    uint64_t got = write_out(l, who, *n), want = *bytes;
    *found += got;
    *n = 0;
    *bytes = 0;
    return got == want;
}

/* Evicts at least `need` bytes of values, or begins to write them, if possible. Takes only values
 * whose need (SK_USE_*) is at most `most`. Returns the bytes of the values found. */
uint64_t sk_space_evict(struct sk_local *l, uint64_t need, uint64_t most, int64_t now) {
    SK_VEC(struct sk_evict_cand) c = {0};
    SK_VEC(struct sk_stored *) who = {0};
    int64_t retry_ns = l->space.disk_retry_ns; /* a refusal by the disk sets it to a later time */
    bool disk = l->space.disk_rc == SK_OK || now >= retry_ns;
    uint64_t sum = 0, found = 0;
    sk_space_mark_all(l);
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_LRU]) {
        struct sk_stored *st = stored_of(it);
        struct sk_obj *o = st->o;
        uint64_t use = use_of(l, st), n = room_of(o);
        if (use > most || o->gone || !in_store(l, o) || sk_store_pins(l->store, o->u.off)) continue;
        bool copy = st->at.stretch != NULL;
        if (!copy && !disk) continue;
        struct sk_evict_cand x = {
            .id = o->id,
            .bytes = n,
            .last_use_ns = c.n,
            .remake_ns = copy ? (int64_t)(n * UINT64_C(1000000000) / DISK_BYTES_PER_S) : INT64_MAX,
            .write_bytes_per_s = disk ? DISK_BYTES_PER_S : 0,
            .soon = use > SK_USE_NONE};
        if (!sk_vec_push(&c, SK_TAG_ENGINE, x) || !sk_vec_push(&who, SK_TAG_ENGINE, st)) break;
        if (use == SK_USE_NONE && (sum += n) >= 2 * need) break;
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
            if (bytes && bytes + size > JOB_BYTES + JOB_BYTES / 4)
                go_on = flush_job(l, who.p, &n_job, &bytes, &found);
            SK_DCHECK(n_job <= i);
            /* this entry is free: the loop has read the entries up to i already */
            who.p[n_job++] = st;
            bytes += size;
            if (go_on && (bytes >= JOB_BYTES || n_job == JOB_OBJECTS))
                go_on = flush_job(l, who.p, &n_job, &bytes, &found);
        }
        if (n_job && go_on) (void)flush_job(l, who.p, &n_job, &bytes, &found);
    }
    sk_free(how);
    sk_vec_free(&c);
    sk_vec_free(&who);
    if (found < need && disk && l->space.disk_retry_ns != retry_ns)
        /* the disk has just refused a write: evict values that have a copy on disk instead */
        found += sk_space_evict(l, need - found, most, now);
    return found;
}
