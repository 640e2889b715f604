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
 * (n_eased). So nothing goes round for ever: each round costs an event that is progress.
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
#include "base/vec.h"
#include "engine/local/local_int.h"

#define JOB_BYTES (UINT64_C(4) << 20) /* written or read at once */
#define JOB_OBJECTS 4096u
#define AHEAD_TASKS 32u                       /* of a queue: their arguments are read ahead and kept */
#define AHEAD_MIN (UINT64_C(128) << 10)       /* read behind a small object: what was written behind it */
#define DISK_BYTES_PER_S UINT64_C(1000000000) /* only the proportion of reading and writing matters */
#define RETRY_NS INT64_C(500000000)           /* a disk that refused is asked again */
#define REFUSED_NS INT64_C(2000000000)        /* no change for so long and the disk refuses: an error */
#define ALONE_NS INT64_C(1000000000)          /* no change for so long and nobody could bring one: an error */
#define TAKE_BACK_NS INT64_C(20000000)        /* what is queued on workers, and not begun, lets its arguments go */
#define OVERFLOW_NS INT64_C(40000000)         /* no change for so long and nobody could bring one: out of memory, onto disk */
#define OVERFLOW_LEAST (UINT64_C(4) << 30)
#define NEXT_NS INT64_C(100000000) /* between two errors */

enum { GOES, LATER, WANTED, FIRST, STAYS, CLASSES }; /* marks: sk_stored.mark - epoch */

static uint64_t room_of(const struct sk_obj *o) { return SK_ALIGN(SK_MAX(o->len, 1), SK_STORE_ALIGN); }
static uint64_t size_of(const struct sk_local *l) { return l->data_seg.size; }
static bool in_store(const struct sk_local *l, const struct sk_obj *o) { return o->u.off < size_of(l); } /* and not in the overflow */
/* Of the free bytes so many belong to the heaps of workers now (memory.c). */
static uint64_t lent_of(const struct sk_local *l) { return l->space.cap_bytes ? size_of(l) - SK_MIN(l->space.cap_bytes, size_of(l)) : 0; }
static uint64_t left_of(const struct sk_local *l) {
    uint64_t left = sk_store_free_bytes(l->store);
    return left - SK_MIN(lent_of(l), left);
}
static struct sk_stored *stored_of(struct sk_list *it) { return sk_container_of(it, struct sk_stored, link); }

/* ---- objects come and go ------------------------------------------------------------------------------------------------------------------ */

void sk_space_sealed(struct sk_local *l, struct sk_obj *o) {
    if (!l->space.spill || o->st) return;
    struct sk_stored *st = sk_calloc(SK_TAG_ENGINE, sizeof *st);
    if (!st) return; /* it stays in the store, that is all */
    st->o = o;
    sk_list_init(&st->sibling);
    sk_list_init(&st->link);
    sk_list_push_back(&l->space.lru, &st->link);
    o->st = st;
}

void sk_space_gone(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    l->space.n_eased++;
    if (!st) return;
    if (st->io) st->io->user = NULL; /* whoever ends the job cleans up */
    if (o->state == SK_O_READY && o->where == SK_V_DISK) l->space.n_disk--, l->space.disk_object_bytes -= o->len;
    sk_list_del(&st->link);
    sk_list_del(&st->sibling);
    if (l->space.spill) sk_spill_drop(l->space.spill, &st->at, o->len); /* not: the end of the engine */
    sk_free(st);
    o->st = NULL;
}

void sk_space_used(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    if (o->where != SK_V_STORE || st->io) return;
    sk_list_del(&st->link);
    sk_list_push_back(&l->space.lru, &st->link);
}

static void to_disk(struct sk_local *l, struct sk_stored *st) {
    struct sk_obj *o = st->o;
    sk_store_unref(l->store, o->u.off);
    sk_list_del(&st->link);
    o->where = SK_V_DISK;
    l->space.n_out++;
    l->space.n_disk++;
    l->space.disk_object_bytes += o->len;
}

void sk_space_want(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    if (o->where != SK_V_DISK || st->io || (!sk_list_empty(&st->link) && !st->ahead)) return;
    st->ahead = false;
    sk_list_del(&st->link);
    sk_list_push_back(&l->space.restores, &st->link);
}

/* ---- what may go ----------------------------------------------------------------------------------------------------------------------------- */

static void mark(struct sk_local *l, struct sk_obj *o, uint64_t class) {
    if (o && o->st && o->st->mark < l->space.epoch + class) o->st->mark = l->space.epoch + class;
}
static uint64_t class_of(const struct sk_local *l, const struct sk_stored *st) {
    return st->mark > l->space.epoch ? st->mark - l->space.epoch : GOES;
}

struct arg_iter {
    struct sk_rd r;
    uint32_t left;
};
static struct arg_iter args_of(const struct sk_ltask *t) {
    return (struct arg_iter){sk_rd_init(t->spec.args, t->spec.args_len), t->spec.n_args};
}
static struct sk_obj *next_arg(struct sk_local *l, struct arg_iter *it) { /* that has, or had, its bytes in the store; NULL: no more */
    while (it->left) {
        struct sk_val v;
        it->left--;
        sk_rd_val(&it->r, &v);
        struct sk_obj *o = v.oid ? sk_obj_get(l, v.oid) : NULL;
        if (o && o->state == SK_O_READY && o->st) return o;
    }
    return NULL;
}

static void mark_args(struct sk_local *l, const struct sk_ltask *t, uint64_t class) {
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) mark(l, o, class);
}

static void mark_ids(struct sk_local *l, const uint64_t *ids, size_t n, uint64_t class) {
    for (size_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i]);
        if (o && o->state == SK_O_READY) mark(l, o, class);
    }
}

static void mark_waiters(struct sk_local *l, const struct sk_obj *o) { /* tasks that wait for o; gets are marked by themselves */
    for (const struct sk_dep *d = o->deps; d; d = d->next) {
        if (!d->task || d->task->space_epoch == l->space.epoch) continue;
        d->task->space_epoch = l->space.epoch;
        mark_args(l, d->task, WANTED);
    }
}

/* Who waits for the first object that is wanted back: the oldest get, else the oldest task. */
static void first_waiter(struct sk_local *l, const struct sk_getter **get, const struct sk_ltask **task) {
    const struct sk_list *first = sk_list_first(&l->space.restores);
    *get = NULL;
    *task = NULL;
    if (!first) return;
    const struct sk_obj *o = sk_container_of(first, struct sk_stored, link)->o;
    SK_LIST_EACH (it, &l->space.gets) {
        const struct sk_getter *g = sk_container_of(it, struct sk_getter, link);
        for (size_t i = 0; i < g->n; i++)
            if (g->ids[i] == o->id) {
                *get = g;
                return;
            }
    }
    for (const struct sk_dep *d = o->deps; d; d = d->next)
        if (d->task) *task = d->task; /* the last one in the list was the first */
}

static void mark_first(struct sk_local *l) {
    const struct sk_getter *g;
    const struct sk_ltask *t;
    first_waiter(l, &g, &t);
    if (g) mark_ids(l, g->ids, g->n, FIRST);
    if (t) mark_args(l, t, FIRST);
    /* And those whose turn it was, until what they waited for has been read: or the next one takes from them what has come already. */
    SK_LIST_EACH (it, &l->space.gets) {
        g = sk_container_of(it, struct sk_getter, link);
        bool reads = false;
        for (size_t i = 0; i < g->n && !reads; i++) {
            const struct sk_obj *o = sk_obj_get(l, g->ids[i]);
            reads = o && o->state == SK_O_READY && o->where == SK_V_DISK && o->st->io;
        }
        if (reads) mark_ids(l, g->ids, g->n, FIRST);
    }
    SK_LIST_EACH (it, &l->space.reading)
        for (const struct sk_dep *d = stored_of(it)->o->deps; d; d = d->next)
            if (d->task) mark_args(l, d->task, FIRST);
}

/* Calls f for the arguments of the next tasks in line, up to a quarter of the store. */
static void each_soon(struct sk_local *l, void (*f)(struct sk_local *l, struct sk_obj *o)) {
    uint64_t room = size_of(l) / 4;
    uint32_t n_args = 0;
    for (uint32_t s = 0; s < l->place.n_shapes; s++) {
        struct sk_place_shape *sh = l->place.shapes[s];
        uint32_t n = 0;
        for (uint32_t m = sh->levels; m && n < AHEAD_TASKS; m &= m - 1)
            SK_LIST_EACH (it, &sh->ready[__builtin_ctz(m)]) {
                if (n++ == AHEAD_TASKS) break;
                struct arg_iter a = args_of(sk_container_of(sk_container_of(it, struct sk_place_task, link), struct sk_ltask, place));
                for (struct sk_obj *o; (o = next_arg(l, &a));) {
                    if (room_of(o) > room || n_args++ > 1000) return;
                    room -= room_of(o);
                    f(l, o);
                }
            }
    }
    SK_LIST_EACH (it, &l->actors) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (sk_list_empty(&a->queue)) continue;
        struct arg_iter i = args_of(sk_container_of(a->queue.next, struct sk_ltask, on));
        for (struct sk_obj *o; (o = next_arg(l, &i));) {
            if (room_of(o) > room || n_args++ > 1000) return;
            room -= room_of(o);
            f(l, o);
        }
    }
}
static void mark_later(struct sk_local *l, struct sk_obj *o) { mark(l, o, LATER); }

static void mark_all(struct sk_local *l) {
    l->space.epoch += CLASSES;
    for (uint32_t i = 0; i < l->n_used; i++) {
        if (!l->workers[i]) continue;
        SK_LIST_EACH (it, &l->workers[i]->sent) mark_args(l, sk_container_of(it, struct sk_ltask, on), STAYS);
    }
    SK_LIST_EACH (it, &l->space.gets) {
        const struct sk_getter *g = sk_container_of(it, struct sk_getter, link);
        mark_ids(l, g->ids, g->n, WANTED);
    }
    SK_LIST_EACH (it, &l->space.reading) mark_waiters(l, stored_of(it)->o);
    SK_LIST_EACH (it, &l->space.restores) mark_waiters(l, stored_of(it)->o);
    mark_first(l);
    each_soon(l, mark_later);
}

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
        st->io = &job->items[i];
        sk_list_del(&st->link);
        sk_list_push_back(&l->space.writing, &st->link);
        bytes += room_of(st->o);
    }
    l->space.writing_bytes += bytes;
    return bytes;
}

static bool somebody_waits(const struct sk_local *l) { return !sk_list_empty(&l->space.rooms) || !sk_list_empty(&l->space.restores); }

/* Marks are fresh. */
static void wrote(struct sk_local *l, struct sk_spill_job *job) {
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
        l->space.writing_bytes -= SK_ALIGN(SK_MAX(x->len, 1), SK_STORE_ALIGN);
        if (!st) { /* freed meanwhile */
            sk_spill_drop(l->space.spill, &x->at, x->len);
            (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
            continue;
        }
        st->io = NULL;
        sk_list_del(&st->link);
        (void)sk_store_unpin(l->store, SK_PROC_SPILL, off);
        if (job->rc != SK_OK) {
            sk_list_push_front(&l->space.lru, &st->link);
            continue;
        }
        st->at = x->at;
        if (before) sk_list_insert_before(before->sibling.next, &st->sibling);
        before = st;
        uint64_t class = class_of(l, st); /* now; when it was chosen nobody may have wanted it */
        if (class == STAYS || (class >= WANTED && !somebody_waits(l)) || sk_store_pins(l->store, off))
            sk_list_push_back(&l->space.lru, &st->link);
        else to_disk(l, st);
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
static uint64_t choose(struct sk_local *l, uint64_t need, uint64_t most, int64_t now) {
    SK_VEC(struct sk_evict_cand) c = {0};
    SK_VEC(struct sk_stored *) who = {0};
    bool disk = l->space.disk_rc == SK_OK || now >= l->space.disk_retry_ns; /* a refusal sets that to a later time */
    uint64_t sum = 0, found = 0;
    mark_all(l);
    SK_LIST_EACH (it, &l->space.lru) {
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
                to_disk(l, st);
            }
            if (how[i] != SK_EVICT_SPILL || !go_on) continue;
            if (bytes && bytes + size > JOB_BYTES + JOB_BYTES / 4) go_on = flush_job(l, who.p, &n_job, &bytes, &found);
            who.p[n_job++] = st; /* the list is behind i */
            bytes += size;
            if (go_on && (bytes >= JOB_BYTES || n_job == JOB_OBJECTS)) go_on = flush_job(l, who.p, &n_job, &bytes, &found);
        }
        if (n_job && go_on) (void)flush_job(l, who.p, &n_job, &bytes, &found);
    }
    sk_free(how);
    sk_vec_free(&c);
    sk_vec_free(&who);
    if (found < need && disk && l->space.disk_rc != SK_OK)
        found += choose(l, need - found, most, now); /* it refused: what has a copy, then */
    return found;
}

/* ---- reading back --------------------------------------------------------------------------------------------------------------------------------- */

/* Those that wait for o get an error. */
static void refuse(struct sk_local *l, struct sk_stored *st, sk_rc rc, const char *msg) {
    struct sk_obj *o = st->o;
    char name[200];
    sk_list_del(&st->link);
    l->progress++;
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
            struct sk_lactor *a = t->is_method ? t->actor : NULL;
            sk_ltask_fail(l, t, rc, "task %s: %s", sk_ltask_name(l, t, name, sizeof name), l->space.refuse_msg);
            if (a) sk_actor_advance(l, a);
        }
        if (q) sk_req_reply(l, q, rc);
    }
    sk_own_unhold(l->own, id);
    sk_obj_drain(l);
}

static void came_back(struct sk_local *l, struct sk_stored *st, sk_off off) {
    struct sk_obj *o = st->o;
    uint64_t id = o->id;
    o->u.off = off;
    o->where = SK_V_STORE;
    sk_obj_home(SK_PROC_SPILL, off);
    l->space.n_disk--;
    l->space.disk_object_bytes -= o->len;
    sk_list_push_back(&l->space.lru, &st->link);
    l->progress++;
    if (!o->deps) return;
    if (sk_own_hold(l->own, id, NULL) != SK_OK) return;
    sk_dep_done(l, o);
    sk_own_unhold(l->own, id);
}

static void read_back(struct sk_local *l, struct sk_spill_job *job) {
    l->space.progress_ns = l->space.alone_ns = sk_now_ns();
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        struct sk_stored *st = x->user;
        sk_off off = (sk_off)(x->bytes - l->data_seg.base);
        uint64_t len = SK_MAX(x->len, 1);
        sk_rc rc = x->rc;
        if (st && rc == SK_OK) rc = sk_store_commit(l->store, SK_PROC_SPILL, off, len, NULL);
        if (!st || rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, off, len, NULL)); /* whole: cannot fail */
        if (!st) continue;
        st->io = NULL;
        sk_list_del(&st->link);
        if (rc == SK_OK) {
            came_back(l, st, off);
        } else if (rc == SK_ENOMEM) {
            refuse(l, st, rc, "no memory");
        } else { /* its bytes are lost: made again if that can be */
            sk_log(SK_LOG_WARN, "spill_lost object=%llu msg=\"%s\"", (unsigned long long)x->id, job->err.msg);
            snprintf(l->space.spoiled_msg, sizeof l->space.spoiled_msg, "%.290s", job->err.msg);
            l->space.n_spoiled++;
            st->o->spoiled = true;
            sk_recover_lost(l, x->id);
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
    }
    sk_rc rc = job ? sk_spill_read(l->space.spill, job, &err) : SK_ENOMEM;
    if (rc == SK_OK) {
        l->space.n_io++;
        for (uint32_t i = 0; i < n; i++) ((struct sk_stored *)job->items[i].user)->io = &job->items[i]; /* they are in order of place now */
    } else {
        sk_free(job);
        for (uint32_t i = 0; i < n; i++)
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, r->to.p[i], SK_MAX(r->who.p[i]->o->len, 1), NULL));
        while (r->who.n) { /* telling who waits may free others of the list */
            struct sk_list *it = sk_list_first(&l->space.reading);
            struct sk_stored *st = sk_vec_pop(&r->who);
            bool there = false;
            for (; it && it != &l->space.reading && !there; it = it->next) there = stored_of(it) == st;
            if (there) refuse(l, st, rc, err.msg);
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
    r->who.p[r->who.n++] = st;
    r->to.p[r->to.n++] = off;
    r->bytes += st->o->len;
    st->ahead = false;
    sk_list_del(&st->link);
    sk_list_push_back(&l->space.reading, &st->link);
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
        if (x->o->where == SK_V_DISK && !x->io && (sk_list_empty(&x->link) || x->ahead) && reads_add(l, r, x, false) != SK_OK) break;
        sp->last_pos = sk_spill_pos(&x->at);
    }
}

static void want_next(struct sk_obj *o, struct sk_list *after) {
    if (!o || o->state != SK_O_READY || o->where != SK_V_DISK || o->st->io || &o->st->link == after) return;
    o->st->ahead = false;
    sk_list_del(&o->st->link);
    sk_list_insert_before(after->next, &o->st->link);
}

/* What the first waiter had, and lost again while it was not the first, comes with the rest. */
static void gather_first(struct sk_local *l) {
    const struct sk_getter *g;
    const struct sk_ltask *t;
    struct sk_list *first = sk_list_first(&l->space.restores);
    if (!first || l->space.gathered == stored_of(first)->o->id) return;
    l->space.gathered = stored_of(first)->o->id;
    first_waiter(l, &g, &t);
    for (size_t i = g ? g->n : 0; i-- > 0;) want_next(sk_obj_get(l, g->ids[i]), first);
    if (!t) return;
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) want_next(o, first);
}

/* SK_EFULL: the first one that is wanted finds no room. */
static sk_rc start_reads(struct sk_local *l) {
    struct reads r = {0};
    gather_first(l);
    sk_rc rc = SK_OK;
    for (struct sk_list *it; rc == SK_OK && (it = sk_list_first(&l->space.restores));) {
        struct sk_stored *st = stored_of(it);
        rc = reads_add(l, &r, st, room_of(st->o) > size_of(l));
        if (rc == SK_OK && st->o->len < JOB_BYTES / 4 && sk_list_empty(&l->space.rooms)) read_on(l, &r, st);
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return rc;
}

static void want_soon(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    if (o->where != SK_V_DISK || st->io || !sk_list_empty(&st->link)) return;
    st->ahead = true;
    sk_list_push_back(&l->space.ahead, &st->link);
}

/* What the next tasks in line need, as far as there is room for it that nobody has a use for. */
static void read_ahead(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, need = 2 * low, left = left_of(l);
    struct reads r = {0};
    SK_LIST_EACH_SAFE (it, tmp, &sp->ahead) { /* of the last time */
        stored_of(it)->ahead = false;
        sk_list_del(it);
    }
    if (!sp->n_disk || !sk_list_empty(&sp->rooms) || !sk_list_empty(&sp->restores)) return;
    each_soon(l, want_soon);
    if (sk_list_empty(&sp->ahead)) return;
    SK_LIST_EACH (it, &sp->ahead) need += room_of(stored_of(it)->o);
    int64_t now = sk_now_ns();
    if (left + sp->writing_bytes < need && now >= sp->choose_after_ns && !choose(l, need - left - sp->writing_bytes, GOES, now))
        sp->choose_after_ns = now + 2000000;
    for (struct sk_list *it; (it = sk_list_first(&sp->ahead));) {
        struct sk_stored *st = stored_of(it);
        if (left_of(l) < room_of(st->o) + 2 * low || reads_add(l, &r, st, false) != SK_OK) break;
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
}

/* ---- who waits for room -------------------------------------------------------------------------------------------------------------------------------- */

static void room_over(struct sk_local *l, struct sk_room *r, sk_rc rc, const char *msg) {
    sk_list_del(&r->link);
    r->rc = rc;
    l->progress++;
    l->space.n_eased++;
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
        (void)sk_pool_reply(l, r->w, &m, sizeof m);
        r->w->has_lease = true;
    } else {
        sk_req_error(l, r->w, r->req, rc, msg);
    }
    sk_free(r);
}

/* A sixteenth is left to what comes back from disk: with a full disk and a full store nothing could be read any more. */
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) {
    uint64_t size = size_of(l) - lent_of(l), left = left_of(l);
    bool kept = l->space.n_disk || l->space.writing_bytes;
    if (len > size - size / 16) size = size_of(l), left = sk_store_free_bytes(l->store); /* what is lent could never do */
    if (len <= size && left < len + (kept ? SK_MIN(size / 16, size - len) : 0) && (kept || lent_of(l)))
        return SK_ERR(err, SK_EFULL, "store is full: need %llu bytes; %llu of %llu are free%s%s", (unsigned long long)len,
                      (unsigned long long)left, (unsigned long long)size,
                      size < size_of(l) ? " as long as tasks need the rest of the memory" : "",
                      kept ? ", and 1/16 is kept for objects that come back from disk" : "");
    return sk_store_alloc(l->store, proc, len, off, err);
}

sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) {
    struct sk_space *sp = &l->space;
    struct sk_err why = {.msg = ""};
    uint64_t n = SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN);
    if (!l->data_seg.tail) return SK_EFULL;
    sk_rc rc = sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), n, &why);
    if (rc == SK_OK) rc = sk_store_alloc_overflow(l->store, proc, len, off, &why);
    if (rc == SK_OK) {
        rc = sk_seg_fill(&l->data_seg, *off, n, &why);
        if (rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, proc, *off, len, NULL)); /* whole: cannot fail */
    }
    SK_IGNORE(sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), 0, NULL)); /* nothing more is asked for */
    if (rc != SK_OK) {
        char store[sizeof why.msg];
        snprintf(store, sizeof store, "%.300s", err ? err->msg : "");
        return SK_ERR(err, rc == SK_EFULL ? SK_EFULL : SK_ENOSPC, "%s%son disk it cannot be, either: %.300s", store, *store ? "; " : "",
                      why.msg);
    }
    if (!sp->n_overflow++)
        sk_log(SK_LOG_WARN,
               "overflow bytes=%llu msg=\"the store is full of what is in use, or too small for this object: it is kept on disk, mapped\"",
               (unsigned long long)len);
    sp->overflow_bytes += len;
    return SK_OK;
}

/* Disk of what was freed in the overflow. */
void sk_space_give_back(struct sk_local *l) {
    sk_off off;
    uint64_t len;
    bool any = false;
    while (sk_store_take_overflow(l->store, &off, &len)) {
        any = true;
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len,
                               NULL)); /* a file system that cannot: the blocks are used again, or go with the file */
    }
    if (any) SK_IGNORE(sk_spill_overflow(l->space.spill, sk_store_overflow_used(l->store), 0, NULL));
}

static bool room_try(struct sk_local *l, struct sk_room *r) {
    uint32_t proc = r->w ? r->w->proc : SK_PROC_DRIVER;
    r->got = r->len;
    sk_rc rc = sk_space_alloc(l, proc, r->len, &r->off, NULL);
    if (rc != SK_OK && r->min < r->len) {
        r->got = r->min;
        rc = sk_space_alloc(l, proc, r->min, &r->off, NULL);
    }
    if (rc == SK_EFULL) return false;
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
    for (uint32_t i = 0; i < l->n_used; i++) {
        const struct sk_lworker *w = l->workers[i];
        if (w && sk_space_at_work(w)) return true;
    }
    return false;
}

/* What is on workers and not begun goes back in line: its arguments may be spilled. */
static void take_back_all(struct sk_local *l) {
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (w && w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
        if (!w || !w->actor) continue;
        for (struct sk_list *it = w->sent.prev; it != &w->sent;) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            it = it->prev;
            if (!t->is_init && sk_ltask_unsend(l, w, t)) sk_list_push_front(&w->actor->queue, &t->on), l->space.held_back = true;
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
        if (sk_space_overflow(l, r->w ? r->w->proc : SK_PROC_DRIVER, r->min, &r->off, NULL) != SK_OK) return false;
        r->got = r->min;
        room_over(l, r, SK_OK, NULL);
        return true;
    }
    struct reads r = {0};
    bool ok = reads_add(l, &r, stored_of(sk_list_first(&l->space.restores)), true) == SK_OK;
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return ok;
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
    if (others_may_help(l)) sp->alone_ns = now;
    int64_t waited = now - sp->progress_ns;
    if (waited > TAKE_BACK_NS && !sp->taken_back) {
        sp->taken_back = true;
        sp->choose_after_ns = 0;
        take_back_all(l);
        return;
    }
    if (now - sp->alone_ns > OVERFLOW_NS && overflow_first(l)) {
        sp->progress_ns = sp->alone_ns = now;
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
    } else if ((it = sk_list_first(&sp->restores))) {
        full_text(l, SK_MAX(stored_of(it)->o->len, 1), msg, sizeof msg);
        refuse(l, stored_of(it), rc, msg);
    }
}

/* For who makes something: first what is to be had for nothing, then the one campaign. False: nothing can be done now. */
static bool press(struct sk_local *l, uint64_t need, int64_t now) {
    struct sk_space *sp = &l->space;
    if (choose(l, need, LATER, now)) return true;
    if (sp->eased_seen != sp->n_eased) {
        sp->eased_seen = sp->n_eased;
        sp->campaign = true;
    }
    for (uint64_t class = WANTED; sp->campaign && class <= FIRST; class++)
        if (choose(l, need, class, now)) {
            sp->gathered = 0;
            return true;
        }
    sp->campaign = false;
    sp->choose_after_ns = now + 2000000;
    return false;
}

/* For the first waiter. */
static bool pull(struct sk_local *l, uint64_t need, int64_t now) {
    if (choose(l, need, LATER, now) || choose(l, need, WANTED, now)) return true;
    l->space.choose_after_ns = now + 2000000;
    return false;
}

static void serve(struct sk_local *l, int64_t now) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, want = sp->extra, head = 0;
    bool hope = sp->extra != 0, may = now >= sp->choose_after_ns;
    sp->extra = 0;
    SK_LIST_EACH (it, &sp->rooms) {
        const struct sk_room *r = sk_container_of(it, struct sk_room, link);
        if (!head) head = r->len;
        want += r->len;
    }
    uint64_t back = 0, first = 0;
    SK_LIST_EACH (it, &sp->restores) {
        if (!first) first = room_of(stored_of(it)->o);
        if ((back += room_of(stored_of(it)->o)) > size_of(l) / 4) break;
    }
    want = SK_MAX(SK_MIN(want + back, size_of(l) / 2), SK_MAX(head, first)) + 2 * low;
    for (bool again = true; again;) {
        again = false;
        uint64_t coming = sk_store_free_bytes(l->store) + sp->writing_bytes, all = want + lent_of(l);
        if (coming < all && may) {
            uint64_t found = choose(l, all - coming, hope || lent_of(l) || somebody_waits(l) ? LATER : GOES, now);
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
        if (start_reads(l) == SK_EFULL) again = may && !sp->writing_bytes && pull(l, SK_MAX(first, low), now) && !sp->writing_bytes;
    }
}

void sk_space_step(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    struct sk_spill_job *job;
    bool marked = false, came = false;
    if (!sp->spill) return;
    while ((job = sk_spill_next_done(sp->spill))) {
        sp->n_io--;
        if (job->what == SK_SPILL_WRITE && !marked) mark_all(l);
        marked = job->what == SK_SPILL_WRITE; /* what came back may have been sent to a worker at once */
        came |= !marked;
        if (marked) wrote(l, job);
        else read_back(l, job);
        sk_free(job);
    }
    if (came) sk_loop_dispatch(l); /* what can begin now has it safe, before more room is looked for */
    sk_space_give_back(l);
    read_ahead(l);
    uint64_t left = left_of(l);
    bool waits = somebody_waits(l);
    if (waits || left + sp->writing_bytes < size_of(l) / 16) {
        int64_t now = sk_now_ns();
        if (waits && !sp->waiting) {
            sp->progress_ns = sp->alone_ns = now;
            sp->free_seen = sk_store_free_bytes(l->store);
            sp->taken_back = false;
        }
        sp->waiting = waits;
        serve(l, now);
        if (somebody_waits(l)) stuck(l, now);
    }
    sp->waiting = somebody_waits(l);
    l->place.depth_cap = !sk_list_empty(&sp->rooms) || (sp->waiting && sp->taken_back) ? 1 : 0;
    if (!sp->held_back) return;
    sp->held_back = false;
    SK_LIST_EACH_SAFE (it, tmp, &l->actors) sk_actor_advance(l, sk_container_of(it, struct sk_lactor, link));
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------------------------------------ */

void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len, uint64_t min) {
    struct sk_err err = {.msg = "no memory"};
    struct sk_room now = {.len = len, .min = min};
    bool wait = l->space.spill && min <= size_of(l);
    sk_rc rc = SK_EFULL;
    if (!wait && l->data_seg.tail) {
        SK_IGNORE(sk_space_alloc(l, w->proc, min, &now.off, &err)); /* larger than the store: for the words */
        rc = sk_space_overflow(l, w->proc, min, &now.off, &err);
        now.got = min;
    } else if (!wait || sk_list_empty(&l->space.rooms)) {
        rc = sk_space_alloc(l, w->proc, len, &now.off, &err);
        now.got = len;
        if (rc == SK_EFULL && min < len) {
            rc = sk_space_alloc(l, w->proc, min, &now.off, &err);
            now.got = min;
        }
    }
    struct sk_room *r = rc == SK_EFULL && wait ? sk_alloc(SK_TAG_ENGINE, sizeof *r) : NULL;
    if (r) {
        *r = (struct sk_room){.w = w, .req = req, .len = len, .min = min, .rc = SK_EAGAIN};
        w->n_rooms++;
        sk_list_push_back(&l->space.rooms, &r->link);
        if (w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w); /* what is queued behind it must not wait for it */
    } else if (rc == SK_OK) {
        struct {
            uint32_t type, rc;
            uint64_t req, off, len;
        } m = {SK_M_REPLY, SK_OK, req, now.off, now.got};
        (void)sk_pool_reply(l, w, &m, sizeof m);
        w->has_lease = true;
    } else {
        sk_req_error(l, w, req, rc, err.msg);
    }
}

sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) {
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) {
        if (o->where != SK_V_DISK) continue;
        if (sk_dep_add(&o->deps, t, NULL) != SK_OK) {
            sk_ltask_forget_deps(t);
            return SK_ENOMEM;
        }
        t->n_unready++;
        sk_space_want(l, o);
    }
    if (!t->n_unready) return SK_OK;
    t->state = SK_T_WAITING;
    return SK_EAGAIN;
}

bool sk_space_get(struct sk_local *l, struct sk_req *q) {
    bool waits = false;
    if (!l->space.n_disk) return false;
    for (uint32_t i = 0; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        if (o->state != SK_O_READY || o->where != SK_V_DISK) continue;
        waits = true;
        if (sk_dep_add(&o->deps, NULL, q) != SK_OK) {
            sk_pool_kill(l, q->w, "there is no memory left to answer it");
            break;
        }
        q->n_ready--;
        sk_space_want(l, o);
    }
    return waits;
}

bool sk_space_hope(struct sk_local *l, uint64_t len) {
    if (!l->space.spill || len > size_of(l)) return false;
    l->space.extra = len;
    serve(l, sk_now_ns());
    return l->space.writing_bytes || sk_store_free_bytes(l->store) >= len || others_may_help(l);
}

void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w) {
    l->space.n_eased++;
    if (!w->n_rooms) return;
    SK_LIST_EACH_SAFE (it, tmp, &l->space.rooms) {
        struct sk_room *r = sk_container_of(it, struct sk_room, link);
        if (r->w != w) continue;
        sk_list_del(&r->link);
        sk_free(r);
    }
    w->n_rooms = 0;
}

/* ---- begin and end ------------------------------------------------------------------------------------------------------------------------------------------ */

static void wake(void *arg) { /* a spill thread */
    struct sk_local *l = arg;
    sk_bell_ring(&l->ctl->bell[0]);
    sk_bell_ring(&l->ctl->bell[1]);
}

void sk_space_init(struct sk_local *l) {
    struct sk_list *lists[] = {&l->space.lru,     &l->space.writing, &l->space.restores, &l->space.ahead,
                               &l->space.reading, &l->space.rooms,   &l->space.gets};
    for (size_t i = 0; i < SK_COUNT(lists); i++) sk_list_init(lists[i]);
    l->space.n_eased = 1; /* the first campaigns are free */
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
    SK_LIST_EACH (it, &l->space.writing) stored_of(it)->io = NULL;
    SK_LIST_EACH (it, &l->space.reading) stored_of(it)->io = NULL;
    while (!sk_list_empty(&l->space.rooms)) {
        struct sk_list *it = l->space.rooms.next;
        sk_list_del(it);
        sk_free(sk_container_of(it, struct sk_room, link)); /* of workers: callers have left */
    }
}

#define NEED(x)                 \
    do {                        \
        if (!(x)) return false; \
    } while (0)

bool sk_space_check(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t n_disk = 0, bytes = 0, writing = 0, n_listed = 0, id;
    void *v;
    SK_LIST_EACH (it, &sp->lru) NEED(stored_of(it)->o->where == SK_V_STORE && !stored_of(it)->io && ++n_listed);
    SK_LIST_EACH (it, &sp->writing) {
        NEED(stored_of(it)->o->where == SK_V_STORE && stored_of(it)->io && ++n_listed);
        writing += room_of(stored_of(it)->o);
    }
    SK_LIST_EACH (it, &sp->restores)
        NEED(stored_of(it)->o->where == SK_V_DISK && !stored_of(it)->io && !stored_of(it)->ahead && ++n_listed);
    SK_LIST_EACH (it, &sp->ahead) NEED(stored_of(it)->o->where == SK_V_DISK && !stored_of(it)->io && stored_of(it)->ahead && ++n_listed);
    SK_LIST_EACH (it, &sp->reading) NEED(stored_of(it)->o->where == SK_V_DISK && stored_of(it)->io && ++n_listed);
    for (uint32_t c = 0; sk_own_each(l->own, &c, &id, &v);) {
        const struct sk_obj *o = v;
        if (!o->st) {
            NEED(o->state != SK_O_READY || o->where != SK_V_DISK);
            continue;
        }
        NEED(o->st->o == o && o->state == SK_O_READY && (o->where == SK_V_STORE || o->where == SK_V_DISK));
        NEED(!o->st->io || o->st->io->user == o->st);
        n_listed -= !sk_list_empty(&o->st->link);
        if (o->where != SK_V_DISK) continue;
        NEED(o->st->at.stretch);
        n_disk++;
        bytes += o->len;
    }
    return n_disk == sp->n_disk && bytes == sp->disk_object_bytes && n_listed == 0 && writing <= sp->writing_bytes;
}
