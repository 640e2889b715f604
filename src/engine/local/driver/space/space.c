/* space.c - memory of the store when it is full: eviction to disk, reading back, and the order in
 * which waiting callers get memory. Runs with the lock held; the spill threads (store/spill_io.c)
 * work on the disk, and ring the loop's bell when a job is done.
 *
 * There are waits for two things. *Memory*: a task or a caller makes a value (space_memory.c;
 * l->space.mem_waits, the oldest first). *A value on disk*: a get or a task reads it (space_read.c;
 * stored.h has the states of values, and the order in which they are wanted). This file serves
 * both at each step of the loop; space_evict.c writes values to disk; space_mark.c finds out which
 * values are needed; space_stuck.c helps when there is no progress.
 *
 * How much a value is needed is marked anew before each choice, by a walk over everything that
 * uses values, so that the paths of tasks and values carry no counts. A value may be evicted for a
 * request if its row allows it:
 *
 *  needed by                        reading    keeping   the same    a reader   a maker
 *                                   ahead      1/16 free with waits
 *  nothing                          yes        yes       yes         yes        yes
 *  a task next in line              -          -         yes         yes        yes
 *  other waiters                    -          -         -           yes        once
 *  the first waiter                 -          -         -           -          once
 *  a task on a worker               -          -         -           -          -
 *
 * A *reader* is the first get or task that waits for a value on disk; a *maker* is a task or a put
 * that makes a value. "Keeping 1/16 free": evicting ahead of need, without and with waits.
 *
 * A value with a copy on disk is evicted at no cost. The first waiter gets all values that it
 * needs, and begins or is answered before more memory is looked for; it keeps what it has until its
 * last value has been read.
 *
 * *Once*: a value that something waits for would have to be read again, so evicting it must
 * bring progress. A maker evicts such values in one go (`last_resort`), during which nothing is
 * read. If that was not enough, it waits for users of memory, and does not try again until one of
 * them has released some (sk_space_released). So no value goes to disk and back for ever: each
 * round costs an event that is progress.
 *
 * Writing begins when less than 1/16 of the store is free, or something waits. When there has been
 * no progress for 40 ms and nothing runs that could release memory, the first waiter gets its bytes
 * in the *overflow*, a file that every process has mapped behind the store: only the files of this
 * part know the difference. A value larger than the store goes there at once. A value stays there
 * as long as it lives. A wait ends with an error only when the overflow gives no memory either: the
 * disk refuses (2 s without any change), or it has no room (1 s). Cost of a choice: about 50 ns for
 * each value looked at and each value in use. */
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "engine/conf.h"
#include "engine/local/driver/space/space_int.h"

#define OVERFLOW_LEAST (UINT64_C(4) << 30)
/* time until the next try after no value to evict was found */
#define AGAIN_NS INT64_C(2000000)

_Thread_local int sk_space_depth;

/* ---- serving waits in order ------------------------------------------------------------------ */

/* Evicts values to make room for a new value: first values that nothing waits for, then, once,
 * values that something waits for. False: nothing can be evicted now. */
static bool evict_for_maker(struct sk_local *l, uint64_t need, int64_t now) {
    struct sk_space *sp = &l->space;
    if (sk_space_evict(l, need, SK_USE_SOON, now)) return true;
    if (sp->released_seen != sp->n_released) {
        sp->released_seen = sp->n_released;
        sp->last_resort = true;
    }
    for (uint64_t use = SK_USE_AWAITED; sp->last_resort && use <= SK_USE_FIRST; use++)
        if (sk_space_evict(l, need, use, now)) {
            sp->gathered = 0;
            return true;
        }
    sp->last_resort = false;
    sp->choose_after_ns = now + AGAIN_NS;
    return false;
}

/* Evicts for the first waiter for a value on disk. */
static bool evict_for_reader(struct sk_local *l, uint64_t need, int64_t now) {
    if (sk_space_evict(l, need, SK_USE_SOON, now) || sk_space_evict(l, need, SK_USE_AWAITED, now))
        return true;
    l->space.choose_after_ns = now + AGAIN_NS;
    return false;
}

/* Evicts as much as is needed, gives memory to waits in order, then reads wanted values. Repeats
 * these steps while an eviction has freed memory at once and there still are waits. */
static void serve_waiters(struct sk_local *l, int64_t now) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, want = 0, head = 0;
    bool may = now >= sp->choose_after_ns;
    SK_LIST_EACH (it, &sp->mem_waits) {
        const struct sk_mem_wait *r = sk_container_of(it, struct sk_mem_wait, link);
        if (!head) head = r->len;
        want += r->len;
    }
    uint64_t back = 0, first = 0;
    SK_LIST_EACH (it, wanted_of(l)) {
        if (!first) first = room_of(stored_of(it)->o);
        if ((back += room_of(stored_of(it)->o)) > size_of(l) / 4) break;
    }
    want = SK_MAX(SK_MIN(want + back, size_of(l) / 2), SK_MAX(head, first)) + 2 * low;
    for (bool again = true; again;) {
        again = false;
        uint64_t coming = sk_store_free_bytes(l->store) + sp->writing_bytes,
                 all = want + lent_of(l);
        if (coming < all && may) {
            uint64_t found =
                sk_space_evict(l, all - coming,
                               lent_of(l) || sk_space_awaited(l) ? SK_USE_SOON : SK_USE_NONE, now);
            int64_t took = sk_now_ns() - now;
            if (!found) sp->choose_after_ns = now + took + SK_MAX(4 * took, 1000000);
        }
        bool waits = false; /* true if something still waits for memory */
        SK_LIST_EACH_SAFE (it, tmp, &sp->mem_waits) {
            if (sk_space_try(l, sk_container_of(it, struct sk_mem_wait, link))) continue;
            waits = true;
            /* waits are served in order as long as memory is being freed */
            if (sp->writing_bytes) break;
        }
        /* Free memory may lie in pieces that are too small: one more value of the needed size is
         * evicted, until the request fits or nothing is left to evict. */
        if (waits)
            again = may && !sp->writing_bytes && evict_for_maker(l, SK_MAX(head, low), now) &&
                    !sp->writing_bytes;
        else sp->last_resort = false;
        if (again || (waits && (sp->writing_bytes || sp->last_resort))) continue;
        if (sk_space_read(l) == SK_EFULL)
            again = may && !sp->writing_bytes && evict_for_reader(l, SK_MAX(first, low), now) &&
                    !sp->writing_bytes;
    }
}

/* Takes the results of disk jobs, then serves the waits that can be served. */
static void step(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    struct sk_spill_job *job;
    /* marked: space_mark.c has marked the needs; came: values were read back */
    bool marked = false, came = false;
    if (!sp->spill) return;
    while ((job = sk_spill_next_done(sp->spill))) {
        sp->n_io--;
        if (job->what == SK_SPILL_WRITE && !marked) sk_space_mark_all(l);
        /* values that were read back may have been sent to a worker at once, so the marks are out
         * of date */
        marked = job->what == SK_SPILL_WRITE;
        came |= !marked;
        if (marked) sk_space_wrote(l, job);
        else sk_space_read_back(l, job);
        sk_free(job);
    }
    /* tasks that can begin now begin before memory is taken from them */
    if (came) l->upcalls->came_back(l);
    sk_space_give_back(l);
    sk_space_read_ahead(l);
    uint64_t left = left_of(l);
    bool waits = sk_space_awaited(l);
    if (waits || left + sp->writing_bytes < size_of(l) / 16) {
        int64_t now = sk_now_ns();
        if (waits && !sp->waiting) {
            sp->progress_ns = sp->alone_ns = now;
            sp->free_seen = sk_store_free_bytes(l->store);
            sp->taken_back = false;
        }
        sp->waiting = waits;
        serve_waiters(l, now);
        if (sk_space_awaited(l)) sk_space_stuck(l, now);
    }
    sp->waiting = sk_space_awaited(l);
    sk_place_cap_depth(&l->place,
                       !sk_list_empty(&sp->mem_waits) || (sp->waiting && sp->taken_back) ? 1 : 0);
    if (!sp->held_back) return;
    sp->held_back = false;
    SK_LIST_EACH_SAFE (it, tmp, &l->actors.all)
        l->upcalls->advance(l, sk_container_of(it, struct sk_lactor, link));
}

void sk_space_step(struct sk_local *l) {
    step(l);
    /* also about values that were evicted since the last turn, when a task was sent */
    sk_moves_tell(l);
}

void sk_space_caller_waits(struct sk_local *l, bool waits) {
    SK_ASSERT(waits || l->space.n_inside > 0);
    l->space.n_inside += waits ? 1u : -1u;
}

void sk_space_hold_back(struct sk_local *l) { l->space.held_back = true; }

void sk_space_cap(struct sk_local *l, uint64_t bytes) { l->space.cap_bytes = bytes; }

/* ---- begin and end --------------------------------------------------------------------------- */

static void wake(void *arg) { /* called by a spill thread */
    struct sk_local *l = arg;
    sk_bell_ring(&l->ctl->bell[0]);
    sk_bell_ring(&l->ctl->bell[1]);
}

void sk_space_init(struct sk_local *l) {
    sk_list_init(&l->space.mem_waits);
    sk_list_init(&l->space.get_waits);
    l->space.n_released = 1; /* allows the first eviction of awaited values */
}

/* Size of the overflow in bytes; 0: none. */
static uint64_t overflow_size(const struct sk_local *l, const struct sk_engine_conf *conf) {
    struct rlimit space, file;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE),
             n = conf->overflow_bytes ? conf->overflow_bytes
                                      : SK_MAX(4 * size_of(l), OVERFLOW_LEAST);
    if (n == UINT64_MAX || getrlimit(RLIMIT_AS, &space) != 0 || getrlimit(RLIMIT_FSIZE, &file) != 0)
        return 0;
    if (space.rlim_cur != RLIM_INFINITY) return 0; /* with `ulimit -v` address space is scarce */
    if (file.rlim_cur != RLIM_INFINITY) n = SK_MIN(n, (uint64_t)file.rlim_cur);
    if (conf->spill_bytes) n = SK_MIN(n, conf->spill_bytes);
    return n & ~(page - 1);
}

sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    const struct sk_spill_conf c = {.dirs = conf->spill_dirs,
                                    .n_dirs = conf->n_spill_dirs,
                                    .quota_bytes = conf->spill_bytes,
                                    .wake = wake,
                                    .wake_arg = l};
    if (!c.n_dirs) return SK_OK;
    SK_TRY(sk_spill_create(&l->space.spill, &c, err));
    uint64_t n = overflow_size(l, conf);
    int fd = -1;
    struct sk_err why;
    sk_rc rc = n ? sk_spill_open_overflow(l->space.spill, n, &fd, &why) : SK_OK;
    if (rc == SK_OK && n) rc = sk_seg_tail(&l->data_seg, "skate-data", fd, n, &why);
    if (rc == SK_OK && n) return sk_store_add_overflow(l->store, n, err);
    /* a file of this size cannot be made: then a full store is an error */
    if (rc != SK_OK) sk_log(SK_LOG_WARN, "no_overflow rc=%s msg=\"%s\"", sk_rc_name(rc), why.msg);
    return sk_machine_ ? rc : SK_OK;
}

void sk_space_close(struct sk_local *l) { /* the caller frees objects and their sk_stored */
    sk_spill_destroy(l->space.spill);
    l->space.spill = NULL;
    sk_stored_no_jobs(l);
    while (!sk_list_empty(&l->space.mem_waits)) {
        struct sk_list *it = l->space.mem_waits.next;
        sk_list_del(it);
        /* only workers' waits are left: callers in the driver have gone */
        sk_free(sk_container_of(it, struct sk_mem_wait, link));
    }
}

bool sk_space_check(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t writing = 0;
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_WRITING]) writing += room_of(stored_of(it)->o);
    SK_LIST_EACH (it, &sp->mem_waits) {
        const struct sk_mem_wait *r = sk_container_of(it, struct sk_mem_wait, link);
        if (r->min > r->len ||
            (r->w && (!r->w->n_mem_waits || l->pool.workers[r->w->slot] != r->w)))
            return false;
    }
    return (!sp->spill || sk_spill_check(sp->spill)) && writing <= sp->writing_bytes;
}
