/* space.c - room in the store of the local engine: what goes to disk, what comes back, who waits for room and for how long. Runs with the lock
 * held; the disk is the spill threads' (store/spill_io.c), which ring the loop's bell when a job is done.
 *
 *     in the store (lru) --chosen--> being written --done, nobody uses it--> on disk --wanted--> being read --> in the store, with its copy on disk
 *
 * Who may go is marked anew for each choice, by walking what uses objects. So the paths of tasks and values carry no counts for it and cost
 * nothing. The choice itself is evict.c's; what has a copy on disk goes for nothing. Four may ask for room, and each may only take what is below it:
 *
 *     who asks for room                       nobody's  next in line  waited for  the first waiter's  on workers, pinned
 *     reading ahead; keeping 1/16 free          takes
 *     the same while somebody waits             takes      takes
 *     the first task or get that waits for disk takes      takes         takes
 *     who makes something: a task, the user     takes      takes         once           once
 *
 * The first waiter gets all that it needs, and begins (at once, before more room is looked for) or is answered; it keeps what it has until its last
 * object has been read, while the next one is the first already.
 * *Once*: what is waited for would only be read again, so taking it must lead somewhere. It is taken in one campaign, in which nothing is read; if
 * that was not enough, what is left is up to those who use memory, and there is no other campaign until one of them has let something go
 * (sk_space_released). So nothing goes round for ever: each round costs an event that is progress.
 *
 * Who needs room waits in l->space.rooms, in order; behind those, objects that are wanted back. They are served when something was freed or
 * written. Writing begins when less than 1/16 of the store is free or somebody waits. When nothing moves and nothing runs that could release something (40 ms),
 * the first that waits gets its bytes in the *overflow*: a file that every process has mapped behind the store, so that nobody but this file knows the
 * difference. What is larger than the store goes there at once. It stays there as long as it lives; its disk comes back with it. Waiting ends with
 * an error only when that cannot be had, either: the disk refuses (2 s without any change), or it has no room (1 s). Cost of a choice: the objects
 * looked at and what is in use, about 50 ns each. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/conf.h"
#include "engine/local/driver/space_int.h"

#define REFUSED_NS INT64_C(2000000000) /* no change for so long and the disk refuses: an error */
#define ALONE_NS INT64_C(1000000000)   /* no change for so long and nobody could bring one: an error */
#define TAKE_BACK_NS INT64_C(20000000) /* what is queued on workers, and not begun, lets its arguments go */
#define OVERFLOW_NS INT64_C(40000000)  /* no change for so long and nobody could bring one: out of memory, onto disk */
#define OVERFLOW_LEAST (UINT64_C(4) << 30)
#define NEXT_NS INT64_C(100000000) /* between two errors */

_Thread_local int sk_space_depth;

/* ---- who waits for room -------------------------------------------------------------------------------------------------------------------------------- */

/* Whose book it goes into. */
static uint32_t proc_of(const struct sk_room *r) { return r->w && !r->graph ? r->w->proc : SK_PROC_DRIVER; }

static void room_over(struct sk_local *l, struct sk_room *r, sk_rc rc, const char *msg) {
    struct sk_err err;
    SK_DCHECK(!r->w || r->w->n_rooms > 0);
    sk_list_del(&r->link);
    if (rc == SK_OK && r->graph && (rc = sk_lgraph_own(l, r->graph, r->off, r->got, &err)) != SK_OK) msg = err.msg;
    r->rc = rc;
    sk_progressed(l);
    sk_space_released(l);
    if (!r->w) {
        if (rc != SK_OK) r->rc = SK_ERR(r->err, rc, "%s", msg);
        return;
    }
    r->w->n_rooms--;
    if (rc == SK_OK) {
        struct {
            uint32_t type, rc;
            uint64_t req, off, len;
        } m = {SK_M_REPLY, SK_OK, r->req, r->off, r->got};
        (void)sk_driver_link_reply(l, r->w, &m, sizeof m);
        r->w->has_lease |= !r->graph;
    } else {
        sk_driver_link_error(l, r->w, r->req, rc, msg);
    }
    sk_free(r);
}

static bool room_try(struct sk_local *l, struct sk_room *r) {
    uint32_t proc = proc_of(r);
    SK_DCHECK(r->min <= r->len);
    r->got = r->len;
    sk_rc rc = sk_space_alloc(l, proc, r->len, &r->off, NULL);
    if (rc != SK_OK && r->min < r->len) {
        r->got = r->min;
        rc = sk_space_alloc(l, proc, r->min, &r->off, NULL);
    }
    if (rc == SK_EFULL) return false;
    SK_DCHECK(rc != SK_OK || r->got >= r->min);
    room_over(l, r, rc, "no memory for the store's book");
    return true;
}

bool sk_space_at_work(const struct sk_lworker *w) {
    if (sk_list_empty(&w->sent)) return false;
    if (!w->actor || !w->actor->n_groups) return !w->place.blocked && !w->n_rooms;
    uint32_t n_waiting = w->n_rooms;
    SK_LIST_EACH (it, &w->reqs) n_waiting++;
    return w->actor->n_sent > n_waiting;
}

/* Somebody is at work who may release something without our help. */
static bool others_may_help(const struct sk_local *l) {
    if (l->space.n_inside == 0 || l->place.n_starting) return true; /* the user's own code */
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        if (w && sk_space_at_work(w)) return true;
    }
    return false;
}

/* What is on workers and not begun goes back in line: its arguments may be spilled. */
static void take_back_all(struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w && w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
        if (!w || !w->actor) continue;
        for (struct sk_list *it = w->sent.prev; it != &w->sent;) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            it = it->prev;
            if (t->kind == SK_TASK_INIT || !sk_ltask_unsend(l, w, t)) continue;
            sk_actor_call_again(w->actor, t);
            sk_space_hold_back(l);
        }
    }
}

static void full_text(struct sk_local *l, uint64_t len, char *buf, size_t cap) {
    struct sk_err e = {.msg = ""};
    sk_off off;
    if (sk_space_alloc(l, SK_PROC_SPILL, len, &off, &e) == SK_OK) { /* there is room all of a sudden */
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, off, len, NULL));
        snprintf(e.msg, sizeof e.msg, "the store was full");
    }
    if (l->space.disk_rc != SK_OK) snprintf(buf, cap, "%.400s; and nothing can be spilled: %.400s", e.msg, l->space.disk_msg);
    else
        snprintf(buf, cap, "%.400s; the rest is in use: views, arguments of running tasks, and what is being written cannot be spilled",
                 e.msg);
}

/* The first that waits gets its bytes on disk. */
static bool overflow_first(struct sk_local *l) {
    struct sk_list *it = sk_list_first(&l->space.rooms);
    if (it) {
        struct sk_room *r = sk_container_of(it, struct sk_room, link);
        if (sk_space_overflow(l, proc_of(r), r->min, &r->off, NULL) != SK_OK) return false;
        r->got = r->min;
        room_over(l, r, SK_OK, NULL);
        return true;
    }
    return sk_space_read_over(l);
}

/* Nothing was freed, written or read for a while: help, or give the first one an error. */
static void stuck(struct sk_local *l, int64_t now) {
    struct sk_space *sp = &l->space;
    uint64_t left = sk_store_free_bytes(l->store);
    if (left != sp->free_seen) {
        sp->free_seen = left;
        sp->progress_ns = sp->alone_ns = now;
        sp->taken_back = false;
        return;
    }
    if (sp->n_io) return;
    /* A graph's waits for who waits for the graph, without us: nobody's help is awaited. */
    const struct sk_list *first = sk_list_first(&sp->rooms);
    bool alone = (first && sk_container_of(first, struct sk_room, link)->graph) || !others_may_help(l);
    if (!alone) sp->alone_ns = now;
    int64_t waited = now - sp->progress_ns;
    if (waited > TAKE_BACK_NS && !sp->taken_back) {
        sp->taken_back = true;
        sp->choose_after_ns = 0;
        take_back_all(l);
        return;
    }
    /* Since something went there nobody has let go of anything: nor will they while we wait. */
    bool still = alone && sp->overflow_released == sp->n_released;
    if ((still || now - sp->alone_ns > OVERFLOW_NS) && overflow_first(l)) {
        sp->progress_ns = sp->alone_ns = now;
        sp->overflow_released = sp->n_released;
        return;
    }
    if (now - sp->alone_ns <= ALONE_NS && (sp->disk_rc == SK_OK || waited <= REFUSED_NS)) return;
    if (lent_of(l)) { /* rather than an error: until memory is looked at the next time */
        sp->cap_bytes = 0;
        sp->choose_after_ns = 0;
        return;
    }
    sp->progress_ns = now - REFUSED_NS + NEXT_NS;
    sp->alone_ns = now - ALONE_NS + NEXT_NS;
    char msg[1000];
    struct sk_list *it = sk_list_first(&sp->rooms);
    sk_rc rc = sp->disk_rc != SK_OK && sp->disk_rc != SK_ENOMEM ? sp->disk_rc : SK_EFULL;
    if (it) {
        struct sk_room *r = sk_container_of(it, struct sk_room, link);
        full_text(l, r->min, msg, sizeof msg);
        room_over(l, r, rc, msg);
    } else if ((it = sk_list_first(wanted_of(l)))) {
        full_text(l, SK_MAX(stored_of(it)->o->len, 1), msg, sizeof msg);
        sk_space_refuse(l, stored_of(it), rc, msg);
    }
}

/* For who makes something: first what is to be had for nothing, then the one campaign. False: nothing can be done now. */
static bool press(struct sk_local *l, uint64_t need, int64_t now) {
    struct sk_space *sp = &l->space;
    if (sk_space_choose(l, need, LATER, now)) return true;
    if (sp->released_seen != sp->n_released) {
        sp->released_seen = sp->n_released;
        sp->campaign = true;
    }
    for (uint64_t class = WANTED; sp->campaign && class <= FIRST; class++)
        if (sk_space_choose(l, need, class, now)) {
            sp->gathered = 0;
            return true;
        }
    sp->campaign = false;
    sp->choose_after_ns = now + 2000000;
    return false;
}

/* For the first waiter. */
static bool pull(struct sk_local *l, uint64_t need, int64_t now) {
    if (sk_space_choose(l, need, LATER, now) || sk_space_choose(l, need, WANTED, now)) return true;
    l->space.choose_after_ns = now + 2000000;
    return false;
}

static void serve(struct sk_local *l, int64_t now) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, want = 0, head = 0;
    bool may = now >= sp->choose_after_ns;
    SK_LIST_EACH (it, &sp->rooms) {
        const struct sk_room *r = sk_container_of(it, struct sk_room, link);
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
        uint64_t coming = sk_store_free_bytes(l->store) + sp->writing_bytes, all = want + lent_of(l);
        if (coming < all && may) {
            uint64_t found = sk_space_choose(l, all - coming, lent_of(l) || sk_space_awaited(l) ? LATER : GOES, now);
            int64_t took = sk_now_ns() - now;
            if (!found) sp->choose_after_ns = now + took + SK_MAX(4 * took, 1000000);
        }
        bool room = false;
        SK_LIST_EACH_SAFE (it, tmp, &sp->rooms) {
            if (room_try(l, sk_container_of(it, struct sk_room, link))) continue;
            room = true;
            if (sp->writing_bytes) break; /* in order, as long as room is on its way */
        }
        /* In pieces that are too small: one more as large as needed, and so on until it fits or nothing is left. */
        if (room) again = may && !sp->writing_bytes && press(l, SK_MAX(head, low), now) && !sp->writing_bytes;
        else sp->campaign = false;
        if (again || (room && (sp->writing_bytes || sp->campaign))) continue;
        if (sk_space_read(l) == SK_EFULL) again = may && !sp->writing_bytes && pull(l, SK_MAX(first, low), now) && !sp->writing_bytes;
    }
}

static void step(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    struct sk_spill_job *job;
    bool marked = false, came = false;
    if (!sp->spill) return;
    while ((job = sk_spill_next_done(sp->spill))) {
        sp->n_io--;
        if (job->what == SK_SPILL_WRITE && !marked) sk_space_mark_all(l);
        marked = job->what == SK_SPILL_WRITE; /* what came back may have been sent to a worker at once */
        came |= !marked;
        if (marked) sk_space_wrote(l, job);
        else sk_space_read_back(l, job);
        sk_free(job);
    }
    if (came) l->upcalls->came_back(l); /* what can begin now has it safe, before more room is looked for */
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
        serve(l, now);
        if (sk_space_awaited(l)) stuck(l, now);
    }
    sp->waiting = sk_space_awaited(l);
    sk_place_cap_depth(&l->place, !sk_list_empty(&sp->rooms) || (sp->waiting && sp->taken_back) ? 1 : 0);
    if (!sp->held_back) return;
    sp->held_back = false;
    SK_LIST_EACH_SAFE (it, tmp, &l->actors.all) l->upcalls->advance(l, sk_container_of(it, struct sk_lactor, link));
}

void sk_space_step(struct sk_local *l) {
    step(l);
    sk_moves_tell(l); /* and of what was dropped for a task that was to be sent, since the last turn */
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------------------------------------ */

static void leased(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t off, uint64_t len) {
    struct {
        uint32_t type, rc;
        uint64_t req, off, len;
    } m = {SK_M_REPLY, SK_OK, req, off, len};
    (void)sk_driver_link_reply(l, w, &m, sizeof m);
}

void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t graph, uint64_t len, uint64_t min) {
    struct sk_err err = {.msg = "no memory"};
    struct sk_room now = {.w = w, .graph = graph, .len = len, .min = min};
    bool wait = l->space.spill && min <= size_of(l);
    sk_rc rc = SK_EFULL;
    if (!wait && l->data_seg.tail) {
        SK_IGNORE(sk_space_alloc(l, proc_of(&now), min, &now.off, &err)); /* larger than the store: for the words */
        rc = sk_space_overflow(l, proc_of(&now), min, &now.off, &err);
        now.got = min;
    } else if (!wait || sk_list_empty(&l->space.rooms)) {
        rc = sk_space_alloc(l, proc_of(&now), len, &now.off, &err);
        now.got = len;
        if (rc == SK_EFULL && min < len) {
            rc = sk_space_alloc(l, proc_of(&now), min, &now.off, &err);
            now.got = min;
        }
    }
    struct sk_room *r = rc == SK_EFULL && wait ? sk_alloc(SK_TAG_ENGINE, sizeof *r) : NULL;
    if (rc == SK_OK && graph) rc = sk_lgraph_own(l, graph, now.off, now.got, &err);
    if (r) {
        *r = (struct sk_room){.w = w, .req = req, .graph = graph, .len = len, .min = min, .rc = SK_EAGAIN};
        w->n_rooms++;
        sk_list_push_back(&l->space.rooms, &r->link);
        if (w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w); /* what is queued behind it must not wait for it */
    } else if (rc == SK_OK) {
        leased(l, w, req, now.off, now.got);
        w->has_lease |= !graph;
    } else {
        sk_driver_link_error(l, w, req, rc, err.msg);
    }
}

void sk_space_lease_now(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len) {
    sk_off off;
    bool plenty = !sk_space_awaited(l) && len <= size_of(l) && left_of(l) >= len + size_of(l) / 16; /* below that objects go to disk */
    if (!plenty || sk_space_alloc(l, w->proc, len, &off, NULL) != SK_OK) {
        sk_driver_link_error(l, w, req, SK_EFULL, "the store has little room");
        return;
    }
    leased(l, w, req, off, len);
    w->has_lease = true;
}

/* Parts of what is on disk. */
static sk_rc make_parts(struct sk_local *l, struct sk_ltask *t) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.where != SK_V_PART || !v.len || sk_part_find(t, i)) continue;
        const struct sk_obj *o = sk_obj_get(l, v.oid);
        if (o->state == SK_O_READY && o->where == SK_V_DISK) SK_TRY(sk_part_make(l, t, i, o, &v));
    }
    return SK_OK;
}

sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) {
    if (SK_UNLIKELY(t->spec.parts)) SK_TRY(make_parts(l, t));
    struct arg_iter it = args_of(t);
    SK_DCHECK(t->state == SK_T_READY && !t->waits && t->n_unready == 0);
    for (struct sk_obj *o; (o = next_arg(l, &it));) {
        if (o->where != SK_V_DISK) continue;
        if (sk_dep_add(&o->deps, t, NULL) != SK_OK) {
            sk_ltask_forget_deps(t);
            return SK_ENOMEM;
        }
        t->n_unready++;
        sk_stored_want(l, o);
    }
    if (!t->n_unready) return SK_OK;
    sk_ltask_to(t, SK_T_WAITING);
    return SK_EAGAIN;
}

bool sk_space_get(struct sk_local *l, struct sk_req *q) {
    bool waits = false;
    if (!l->stored.n_disk) return false;
    for (uint32_t i = 0; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        SK_ASSERT(o && q->n_ready <= q->n);
        if (o->state != SK_O_READY || o->where != SK_V_DISK) continue;
        waits = true;
        if (sk_dep_add(&o->deps, NULL, q) != SK_OK) {
            sk_driver_link_kill(l, q->w, "there is no memory left to answer it");
            break;
        }
        q->n_ready--;
        sk_stored_want(l, o);
    }
    return waits;
}

void sk_space_await(struct sk_local *l, struct sk_room *r) {
    SK_DCHECK(!r->w && r->rc == SK_EAGAIN);
    sk_list_push_back(&l->space.rooms, &r->link);
    sk_bell_ring(&l->ctl->bell[0]); /* another caller may be driving, asleep */
}

void sk_space_get_begins(struct sk_local *l, struct sk_getter *g) {
    sk_list_push_back(&l->space.gets, &g->link);
    if (!sk_list_empty(wanted_of(l))) sk_bell_ring(&l->ctl->bell[0]); /* another caller may be driving, asleep */
}

void sk_space_get_over(struct sk_local *l, struct sk_getter *g) {
    sk_list_del(&g->link);
    sk_space_released(l);
}

void sk_space_caller_waits(struct sk_local *l, bool waits) {
    SK_ASSERT(waits || l->space.n_inside > 0);
    l->space.n_inside += waits ? 1u : -1u;
}

void sk_space_hold_back(struct sk_local *l) { l->space.held_back = true; }

void sk_space_cap(struct sk_local *l, uint64_t bytes) { l->space.cap_bytes = bytes; }

void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w) {
    sk_space_released(l);
    if (!w->n_rooms) return;
    SK_LIST_EACH_SAFE (it, tmp, &l->space.rooms) {
        struct sk_room *r = sk_container_of(it, struct sk_room, link);
        if (r->w != w) continue;
        sk_list_del(&r->link);
        sk_free(r);
        w->n_rooms--;
    }
    SK_ASSERT(w->n_rooms == 0); /* or one of them would be answered when its worker is freed */
}

/* ---- begin and end ------------------------------------------------------------------------------------------------------------------------------------------ */

static void wake(void *arg) { /* a spill thread */
    struct sk_local *l = arg;
    sk_bell_ring(&l->ctl->bell[0]);
    sk_bell_ring(&l->ctl->bell[1]);
}

void sk_space_init(struct sk_local *l) {
    sk_list_init(&l->space.rooms);
    sk_list_init(&l->space.gets);
    l->space.n_released = 1; /* the first campaigns are free */
}

/* Bytes of the file behind the store; 0: none. */
static uint64_t overflow_size(const struct sk_local *l, const struct sk_engine_conf *conf) {
    struct rlimit space, file;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE),
             n = conf->overflow_bytes ? conf->overflow_bytes : SK_MAX(4 * size_of(l), OVERFLOW_LEAST);
    if (n == UINT64_MAX || getrlimit(RLIMIT_AS, &space) != 0 || getrlimit(RLIMIT_FSIZE, &file) != 0) return 0;
    if (space.rlim_cur != RLIM_INFINITY) return 0; /* ulimit -v: address space is dear */
    if (file.rlim_cur != RLIM_INFINITY) n = SK_MIN(n, (uint64_t)file.rlim_cur);
    if (conf->spill_bytes) n = SK_MIN(n, conf->spill_bytes);
    return n & ~(page - 1);
}

sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    const struct sk_spill_conf c = {
        .dirs = conf->spill_dirs, .n_dirs = conf->n_spill_dirs, .quota_bytes = conf->spill_bytes, .wake = wake, .wake_arg = l};
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
    while (!sk_list_empty(&l->space.rooms)) {
        struct sk_list *it = l->space.rooms.next;
        sk_list_del(it);
        sk_free(sk_container_of(it, struct sk_room, link)); /* of workers: callers have left */
    }
}

bool sk_space_check(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t writing = 0;
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_WRITING]) writing += room_of(stored_of(it)->o);
    SK_LIST_EACH (it, &sp->rooms) {
        const struct sk_room *r = sk_container_of(it, struct sk_room, link);
        if (r->min > r->len || (r->w && (!r->w->n_rooms || l->pool.workers[r->w->slot] != r->w))) return false;
    }
    return (!sp->spill || sk_spill_check(sp->spill)) && writing <= sp->writing_bytes;
}
