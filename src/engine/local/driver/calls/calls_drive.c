/* calls_drive.c - waiting and driving: a caller that waits drives the loop in place, so that a
 * synchronous call costs one round trip and no thread switch.
 *
 * One caller at a time drives (l->driving); other callers wait on l->turn and check their condition
 * after each progress; the loop thread drives when no caller does. ctl->who tells the workers which
 * of the driver's two bells to ring. */
#include <time.h>

#include "base/clock.h"
#include "engine/local/driver/calls/calls.h"

#define TELL_NS 10000000 /* ns; a wait that lasts longer is shown by `skate stack` */

sk_rc sk_driver_closed(struct sk_err *err) {
    return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Called with the lock held once. Returns with the lock held; drops the lock meanwhile. */
static sk_rc drive_unlocked(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline,
                            const struct sk_waited *w);
sk_rc sk_driver_wait_unlocked(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline,
                              const struct sk_waited *w) {
    sk_space_caller_waits(l, true);
    sk_rc rc = drive_unlocked(l, done, arg, deadline, w);
    sk_space_caller_waits(l, false);
    return rc;
}

static sk_rc drive_unlocked(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline,
                            const struct sk_waited *w) {
    sk_rc rc = SK_OK;
    bool told = false;
    for (;;) {
        if (l->closing) return SK_ECLOSED;
        if (done(arg)) return SK_OK;
        if (!l->driving) break;
        if (deadline != INT64_MAX && sk_now_ns() >= deadline) return SK_ETIMEOUT;
        struct timespec ts;
        int64_t until = SK_MIN(deadline, sk_now_ns() + 100000000);
        ts.tv_sec = until / 1000000000;
        ts.tv_nsec = until % 1000000000;
        l->n_callers++;
        pthread_cond_timedwait(&l->turn, &l->mu, &ts);
        l->n_callers--;
    }
    l->driving = true;
    int64_t began = INT64_MAX;
    sk_ctl_drives(l->ctl, 0);
    for (;;) {
        uint32_t seen = sk_bell_seq(&l->ctl->bell[0]);
        uint64_t before = l->progress;
        uint32_t n = sk_loop_pump(l);
        sk_space_step(l);
        sk_loop_dispatch(l);
        if ((n || l->progress != before) && l->n_callers) pthread_cond_broadcast(&l->turn);
        if (l->closing) {
            rc = SK_ECLOSED;
            break;
        }
        if (done(arg)) break;
        int64_t now = sk_now_ns();
        sk_show_turn(l, now);
        if (now >= deadline) {
            rc = SK_ETIMEOUT;
            break;
        }
        if (n) continue;
        struct sk_pace_view view = sk_loop_view(l, now, n);
        struct sk_pace_sleep s = sk_pace_caller(&view, l->n_cpu, l->spin_ns, deadline);
        if (began == INT64_MAX) began = now;
        if (now - began >= TELL_NS) {
            sk_state_waits(l, w->verb, w->ids, w->n, w->tid);
            told = true;
            began = now;
        }
        s.until_ns = SK_MIN(s.until_ns, began + (told ? 10 : 1) * TELL_NS);
        pthread_mutex_unlock(&l->mu);
        (void)sk_bell_wait(&l->ctl->bell[0], seen, s.spin_ns, s.until_ns);
        pthread_mutex_lock(&l->mu);
    }
    /* After a timeout the wait is shown a moment longer: a layer above waits in slices, and may
     * call again at once. */
    if (told) atomic_store(&l->ctl->waits_ns, rc == SK_ETIMEOUT ? sk_now_ns() : 0);
    l->driving = false;
    sk_ctl_drives(l->ctl, 1);
    if (sk_loop_pump(l)) sk_loop_dispatch(l);
    if (l->n_callers) pthread_cond_broadcast(&l->turn);
    return rc;
}

sk_rc sk_driver_drive(struct sk_engine *e, bool (*done)(void *), void *arg, int64_t deadline,
                      struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_driver_wait_unlocked(sk_local_of(e), done, arg, deadline,
                                       &(struct sk_waited){.verb = "the tasks of a Dataset"});
    sk_driver_unlock(e);
    if (rc == SK_ECLOSED) return sk_driver_closed(err);
    if (rc == SK_ETIMEOUT) return SK_ERR(err, rc, "the time is over");
    return rc;
}
