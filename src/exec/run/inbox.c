/* inbox.c - how a run is entered: by its owner's calls and by the events of its tasks, on any
 * thread, but by one thread at a time, and with the events in order.
 *
 * The run has a mutex, which is held through a step and the engine calls that the step makes. The
 * engine calls the sink, perhaps with locks of its own held, so the sink never waits for this
 * mutex. If the mutex is held, by another thread or further up on this stack, the sink copies the
 * event into `deferred`; the thread that holds the mutex takes the deferred events when it releases
 * the mutex. So no thread waits for a run while it holds an engine's lock.
 *
 *     sink:   copy the event into `deferred`; then try the mutex
 *     holder: release the mutex; then look into `deferred` and try the mutex
 *
 * Each does its first step before its second, with a fence between: one of them sees the other, and
 * no event is left behind.
 *
 * A stop does not wait for user code, so the inbox outlives the run until the engine has reported
 * the end of each task: `refs` counts its tasks, the run, and the calls under way. Ending an actor
 * may run user code in some engines, so it is done after the mutex was released.
 *
 * Cost: a try-lock and two counts a batch of events. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

struct deferred {
    struct sk_list link;
    struct sk_event ev;
    struct sk_err *err; /* copy of the error that ev.err pointed to, or NULL */
    uint8_t note[];
};

struct sk_inbox {
    struct sk_sink base;
    struct sk_engine *e;
    struct sk_exec *x; /* NULL: the run was stopped */
    const struct sk_inbox_run *run;
    _Atomic uint64_t refs;
    _Atomic uint64_t n_deferred;
    _Atomic bool wakes; /* result of run->wakes when the mutex was last released */
    pthread_mutex_t mu, deferred_mu;
    bool awaited; /* the owner waits for a call, or is about to; guarded by mu */
    /* number of calls, and the threads that wait for one; call_mu guards nothing else */
    pthread_mutex_t call_mu;
    pthread_cond_t call_came;
    uint64_t calls;
    struct sk_list deferred;
    uint64_t n_lost; /* number of events in n_deferred that were lost for lack of memory */
    SK_VEC(struct sk_run_actor) gone;
    struct sk_notes notes; /* state of notes.c, for an engine without notes */
};

static void unref(struct sk_inbox *in) {
    if (atomic_fetch_sub(&in->refs, 1) != 1) return;
    SK_ASSERT(sk_list_empty(&in->deferred) && !in->gone.n);
    pthread_mutex_destroy(&in->mu);
    pthread_mutex_destroy(&in->deferred_mu);
    pthread_mutex_destroy(&in->call_mu);
    pthread_cond_destroy(&in->call_came);
    sk_vec_free(&in->gone);
    sk_notes_deinit(&in->notes);
    sk_free(in);
}

static bool is_last(const struct sk_event *ev) {
    return ev->kind == SK_EV_DONE || ev->kind == SK_EV_FAILED;
}

static void give_back(struct sk_engine *e, const struct sk_event *ev) {
    if ((ev->kind == SK_EV_YIELDED || ev->kind == SK_EV_FAILED) && ev->oid.v)
        e->ops->release(e, ev->oid);
}

/* Gives the run the event with its note, also if the note arrived as a separate yield before it.
 * Call with the mutex held. */
static void take_noted(struct sk_inbox *in, const struct sk_event *ev) {
    struct sk_event now = *ev;
    struct sk_err err = {0};
    if (!in->e->no_notes || sk_notes_take(&in->notes, in->e, &now, &err))
        in->run->take(in->x, &now);
}

/* Gives the run an event; if the run was stopped, releases the references of the event instead.
 * Call with the mutex held. */
static void take(struct sk_inbox *in, const struct sk_event *ev) {
    if (in->x) take_noted(in, ev);
    else give_back(in->e, ev);
    if (SK_UNLIKELY(in->awaited)) { /* the event may have begun tasks, which the owner drives */
        in->awaited = false;
        sk_inbox_called(in);
    }
    if (is_last(ev)) unref(in); /* the task's reference; the caller has one of its own */
}

static void defer(struct sk_inbox *in, const struct sk_event *ev) {
    struct deferred *d = sk_alloc(TAG, sizeof *d + ev->note.n);
    struct sk_err *err = d && ev->err ? sk_memdup(TAG, ev->err, sizeof *err) : NULL;
    if (!d || (ev->err && !err)) {
        sk_free(d);
        give_back(in->e, ev);
        pthread_mutex_lock(&in->deferred_mu);
        in->n_lost++;
        pthread_mutex_unlock(&in->deferred_mu);
        atomic_fetch_add(&in->n_deferred, 1);
        if (is_last(ev)) unref(in);
        return;
    }
    d->ev = *ev;
    d->ev.err = d->err = err;
    memcpy(d->note, ev->note.n ? ev->note.p : (const void *)"", ev->note.n);
    d->ev.note.p = d->note;
    pthread_mutex_lock(&in->deferred_mu);
    sk_list_push_back(&in->deferred, &d->link);
    pthread_mutex_unlock(&in->deferred_mu);
    atomic_fetch_add(&in->n_deferred, 1);
}

/* Takes deferred events until none is left. Call with the mutex held. */
static void take_deferred(struct sk_inbox *in) {
    while (atomic_load(&in->n_deferred)) {
        struct sk_list now;
        sk_list_init(&now);
        pthread_mutex_lock(&in->deferred_mu);
        sk_list_splice(&now, &in->deferred);
        uint64_t taken = in->n_lost;
        in->n_lost = 0;
        pthread_mutex_unlock(&in->deferred_mu);
        if (taken && in->x) in->run->lost(in->x);
        while (!sk_list_empty(&now)) {
            struct deferred *d = sk_container_of(now.next, struct deferred, link);
            sk_list_del(&d->link);
            take(in, &d->ev);
            sk_free(d->err);
            sk_free(d);
            taken++;
        }
        /* sk_inbox_wakes reads n_deferred before `wakes`, so `wakes` is set while the events still
         * count */
        atomic_store(&in->wakes, in->x && in->run->wakes(in->x));
        atomic_fetch_sub(&in->n_deferred, taken);
    }
}

static void end_actors(struct sk_engine *e, struct sk_run_actor *a, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        /* an error means that the actor is dead already, which is the aim */
        (void)!e->ops->actor_end(e, a[i].aid, true, NULL);
        e->ops->release(e, a[i].ready);
        sk_actor_release(e, a[i].aid);
    }
}

void sk_inbox_enter(struct sk_inbox *in) {
    atomic_fetch_add(&in->refs, 1);
    pthread_mutex_lock(&in->mu);
}

bool sk_inbox_try_enter(struct sk_inbox *in) {
    if (pthread_mutex_trylock(&in->mu) != 0) return false;
    atomic_fetch_add(&in->refs, 1);
    return true;
}

void sk_inbox_leave(struct sk_inbox *in) {
    for (;;) {
        take_deferred(in);
        atomic_store(&in->wakes, in->x && in->run->wakes(in->x));
        struct sk_run_actor *gone = in->gone.p;
        uint32_t n_gone = in->gone.n;
        memset(&in->gone, 0, sizeof in->gone);
        pthread_mutex_unlock(&in->mu);
        end_actors(in->e, gone, n_gone);
        sk_free(gone);
        atomic_thread_fence(memory_order_seq_cst);
        if (!atomic_load(&in->n_deferred) || pthread_mutex_trylock(&in->mu) != 0) break;
    }
    unref(in);
}

uint64_t sk_inbox_calls(struct sk_inbox *in) {
    in->awaited = true;
    pthread_mutex_lock(&in->call_mu);
    uint64_t n = in->calls;
    pthread_mutex_unlock(&in->call_mu);
    return n;
}

void sk_inbox_called(struct sk_inbox *in) {
    pthread_mutex_lock(&in->call_mu);
    in->calls++;
    pthread_cond_broadcast(&in->call_came);
    pthread_mutex_unlock(&in->call_mu);
}

sk_rc sk_inbox_await_call(struct sk_inbox *in, uint64_t seen, int64_t deadline_ns) {
    struct timespec at = {.tv_sec = (time_t)(SK_MAX(deadline_ns, 0) / SK_SEC),
                          .tv_nsec = (long)(SK_MAX(deadline_ns, 0) % SK_SEC)};
    int rc = 0;
    pthread_mutex_lock(&in->call_mu);
    while (in->calls == seen && rc == 0)
        rc = deadline_ns == INT64_MAX ? pthread_cond_wait(&in->call_came, &in->call_mu)
                                      : pthread_cond_timedwait(&in->call_came, &in->call_mu, &at);
    bool came = in->calls != seen;
    pthread_mutex_unlock(&in->call_mu);
    return came ? SK_OK : SK_ETIMEOUT;
}

static void on_events(struct sk_sink *base, const struct sk_event *ev, size_t n) {
    struct sk_inbox *in = sk_container_of(base, struct sk_inbox, base);
    atomic_fetch_add(&in->refs, 1);
    bool mine = pthread_mutex_trylock(&in->mu) == 0;
    if (mine) take_deferred(in); /* the deferred events are older than these */
    for (size_t i = 0; i < n; i++) {
        if (mine) take(in, &ev[i]);
        else defer(in, &ev[i]);
    }
    if (!mine) {
        atomic_thread_fence(memory_order_seq_cst);
        mine = pthread_mutex_trylock(&in->mu) == 0;
    }
    if (mine) sk_inbox_leave(in);
    else unref(in);
}

/* The engine calls this while a thread drives it, without the run's mutex. Deferred events count,
 * because the run has not yet said whether they wake its owner. */
bool sk_inbox_wakes(void *inbox) {
    struct sk_inbox *in = inbox;
    return atomic_load(&in->n_deferred) || atomic_load(&in->wakes);
}

struct sk_sink *sk_inbox_sink(struct sk_inbox *in) { return &in->base; }
void sk_inbox_task(struct sk_inbox *in) { atomic_fetch_add(&in->refs, 1); }
void sk_inbox_no_task(struct sk_inbox *in) { unref(in); }

void sk_inbox_actor_gone(struct sk_inbox *in, struct sk_run_actor a) {
    if (!a.aid.v) return;
    if (!sk_vec_push(&in->gone, TAG, a)) end_actors(in->e, &a, 1);
}

sk_rc sk_inbox_create(struct sk_engine *e, struct sk_exec *x, const struct sk_inbox_run *run,
                      struct sk_inbox **out, struct sk_err *err) {
    struct sk_inbox *in = sk_calloc(TAG, sizeof *in);
    if (!in) return SK_ERR(err, SK_ENOMEM, "run a pipeline");
    in->base.on_events = on_events;
    in->e = e;
    in->x = x;
    in->run = run;
    atomic_init(&in->refs, 1);
    pthread_mutex_init(&in->mu, NULL);
    pthread_mutex_init(&in->deferred_mu, NULL);
    pthread_mutex_init(&in->call_mu, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&in->call_came, &clock);
    pthread_condattr_destroy(&clock);
    sk_list_init(&in->deferred);
    sk_map_init(&in->notes.by_task, TAG);
    *out = in;
    return SK_OK;
}

void sk_inbox_stop(struct sk_inbox *in) { in->x = NULL; }
void sk_inbox_destroy(struct sk_inbox *in) { unref(in); }
