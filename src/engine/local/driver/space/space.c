/* space.c - memory of the store when it is full: what is evicted to disk, what is read back, and
 * who gets memory next. Runs with the lock held; the disk is the spill threads' (store/spill_io.c),
 * which ring the loop's bell when a job is done.
 *
 * Two things are waited for. *Memory*: a task or a caller makes a value (space_memory.c;
 * l->space.mem_waits, the oldest first). *A value on disk*: a get or a task reads it (space_read.c;
 * stored.h has the states of values, and the order in which they are wanted). This file serves both
 * at each step of the loop; space_evict.c writes values to disk; space_mark.c says who uses which
 * value; space_stuck.c helps when nothing moves.
 *
 * How a value is used is marked anew before each choice, by walking what uses values, so that the
 * paths of tasks and values carry no counts. Whoever asks for memory may evict values with a use
 * that stands to the left in its row:
 *
 *     who asks for memory                         no use   a task next in line   awaited by others
 *     awaited by the first waiter   in use on a worker
 *     reading ahead; keeping 1/16 free             yes
 *     the same while somebody waits                yes          yes
 *     a reader: the first get or task that waits   yes          yes                   yes
 *     a maker: a task, a put                       yes          yes                  once
 *         once
 *
 * A value with a copy on disk is evicted at no cost. The first waiter gets all values that it
 * needs, and begins, or is answered, before anybody looks for more memory; it keeps what it has
 * until its last value has been read.
 *
 * *Once*: a value that is awaited would only be read again, so evicting it must lead somewhere. A
 * maker evicts such values in one go (`last_resort`), in which nothing is read. If that was not
 * enough, it waits for those who use memory, and does not try again until one of them has let some
 * go (sk_space_released). So no value goes round for ever: each round costs an event that is
 * progress.
 *
 * Writing begins when less than 1/16 of the store is free, or somebody waits. When nothing moves
 * for 40 ms and nothing runs that could let memory go, the first waiter gets its bytes in the
 * *overflow*, a file that every process has mapped behind the store: only the files of this part
 * know the difference. A value that is larger than the store goes there at once. It stays there as
 * long as it lives. A wait ends with an error only when the overflow cannot be had, either: the
 * disk refuses (2 s without any change), or it has no room (1 s). Cost of a choice: the values
 * looked at and those in use, about 50 ns each. */
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "engine/conf.h"
#include "engine/local/driver/space/space_int.h"

#define OVERFLOW_LEAST (UINT64_C(4) << 30)
#define AGAIN_NS INT64_C(2000000) /* after a choice that found nothing */

_Thread_local int sk_space_depth;

/* ---- who is served --------------------------------------------------------------------------- */

/* Evicts for one who makes a value: first what nobody awaits, then, once, what somebody does.
 * False: nothing can be evicted now. */
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

/* Evicts for the first who waits for a value on disk. */
static bool evict_for_reader(struct sk_local *l, uint64_t need, int64_t now) {
    if (sk_space_evict(l, need, SK_USE_SOON, now) || sk_space_evict(l, need, SK_USE_AWAITED, now))
        return true;
    l->space.choose_after_ns = now + AGAIN_NS;
    return false;
}

/* Evicts what is needed, and gives memory to those who wait for it, in order; then reads what is
 * wanted. Repeated as long as an eviction had memory at once and somebody still waits. */
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
        bool waits = false; /* somebody, still, for memory */
        SK_LIST_EACH_SAFE (it, tmp, &sp->mem_waits) {
            if (sk_space_try(l, sk_container_of(it, struct sk_mem_wait, link))) continue;
            waits = true;
            if (sp->writing_bytes) break; /* in order, as long as memory is on its way */
        }
        /* What is free may lie in pieces that are too small: one more value as large as needed
         * goes, until it fits or nothing is left. */
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

/* What the disk has done; then who can be served. */
static void step(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    struct sk_spill_job *job;
    bool marked = false, came = false; /* uses are marked; values came back */
    if (!sp->spill) return;
    while ((job = sk_spill_next_done(sp->spill))) {
        sp->n_io--;
        if (job->what == SK_SPILL_WRITE && !marked) sk_space_mark_all(l);
        /* what came back may have been sent to a worker at once */
        marked = job->what == SK_SPILL_WRITE;
        came |= !marked;
        if (marked) sk_space_wrote(l, job);
        else sk_space_read_back(l, job);
        sk_free(job);
    }
    /* what can begin now begins, before memory is taken from it */
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
    /* and of what was dropped for a task that was to be sent, since the last turn */
    sk_moves_tell(l);
}

void sk_space_caller_waits(struct sk_local *l, bool waits) {
    SK_ASSERT(waits || l->space.n_inside > 0);
    l->space.n_inside += waits ? 1u : -1u;
}

void sk_space_hold_back(struct sk_local *l) { l->space.held_back = true; }

void sk_space_cap(struct sk_local *l, uint64_t bytes) { l->space.cap_bytes = bytes; }

/* ---- begin and end --------------------------------------------------------------------------- */

static void wake(void *arg) { /* a spill thread */
    struct sk_local *l = arg;
    sk_bell_ring(&l->ctl->bell[0]);
    sk_bell_ring(&l->ctl->bell[1]);
}

void sk_space_init(struct sk_local *l) {
    sk_list_init(&l->space.mem_waits);
    sk_list_init(&l->space.get_waits);
    l->space.n_released = 1; /* the first campaigns are free */
}

/* Bytes of the file behind the store; 0: none. */
static uint64_t overflow_size(const struct sk_local *l, const struct sk_engine_conf *conf) {
    struct rlimit space, file;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE),
             n = conf->overflow_bytes ? conf->overflow_bytes
                                      : SK_MAX(4 * size_of(l), OVERFLOW_LEAST);
    if (n == UINT64_MAX || getrlimit(RLIMIT_AS, &space) != 0 || getrlimit(RLIMIT_FSIZE, &file) != 0)
        return 0;
    if (space.rlim_cur != RLIM_INFINITY) return 0; /* ulimit -v: address space is dear */
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
    if (rc != SK_OK)
        sk_log(SK_LOG_WARN, "no_overflow rc=%s msg=\"%s\"", sk_rc_name(rc),
               why.msg); /* a file that long cannot be: a full store is an error then */
    return sk_machine_ ? rc : SK_OK;
}

void sk_space_close(struct sk_local *l) { /* objects and their sk_stored are the caller's */
    sk_spill_destroy(l->space.spill);
    l->space.spill = NULL;
    sk_stored_no_jobs(l);
    while (!sk_list_empty(&l->space.mem_waits)) {
        struct sk_list *it = l->space.mem_waits.next;
        sk_list_del(it);
        sk_free(sk_container_of(it, struct sk_mem_wait, link)); /* of workers: callers have left */
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
