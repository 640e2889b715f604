/* link.c - the driver's end of the link to one worker: messages down, answers to requests, and how
 * the worker is ended. Runs with the lock held.
 *
 * Not here: making the worker's process (pool.c), handling its messages (messages.c), its end
 * (death.c).
 * Invariant: messages arrive in the order in which they were sent; an answer is never lost: an
 * answer that does not fit into the ring is kept until the worker has read older messages. A killed
 * worker is sent no more messages; its death is reported by the fork server. Cost of a message: one
 * copy. */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"

/* ---- messages down --------------------------------------------------------------------------- */

sk_rc sk_driver_link_send(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len) {
    if (w->out.n)
        return SK_EAGAIN; /* older answers are waiting to be sent, and the order is kept */
    if (len <= sk_ring_max_msg(&w->down)) {
        void *p = sk_ring_reserve(&w->down, len);
        if (!p) return SK_EAGAIN;
        memcpy(p, msg, len);
        sk_ring_commit(&w->down, len);
    } else {
        sk_off off;
        void *p = sk_ring_reserve(&w->down, 24);
        if (!p) return SK_EAGAIN;
        if (!sk_vec_reserve(&w->big, SK_TAG_ENGINE, w->big.n + 1)) return SK_ENOMEM;
        sk_rc rc = sk_store_alloc(l->store, SK_PROC_DRIVER, len, &off, NULL);
        /* The values that the message names may fill the store, so the message goes to the
         * overflow. If the disk has no room either, the call fails with SK_EFULL. */
        if (rc == SK_EFULL && l->upcalls->full(l, SK_PROC_DRIVER, len, &off, NULL) == SK_OK)
            rc = SK_OK;
        SK_TRY(rc);
        memcpy(l->data_seg.base + off, msg, len);
        rc = sk_store_commit(l->store, SK_PROC_DRIVER, off, len, NULL);
        if (rc != SK_OK) {
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, off, len, NULL));
            return rc;
        }
        w->big.p[w->big.n++] = off;
        struct {
            uint32_t type, pad;
            uint64_t off, len;
        } m = {SK_M_BIG, 0, off, len};
        memcpy(p, &m, sizeof m);
        sk_ring_commit(&w->down, sizeof m);
    }
    sk_bell_ring(&w->sh->bell);
    return SK_OK;
}

/* Answers must not be lost: an answer that does not fit into the ring now is kept, in order, until
 * the worker has read older messages. */
bool sk_driver_link_reply(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len) {
    sk_rc rc = w->dying ? SK_OK : sk_driver_link_send(l, w, msg, len);
    if (rc == SK_OK) return true;
    /* if the answer were kept, it might wait for ever for memory that this worker or another
     * waiter holds */
    if (rc == SK_EFULL) return false;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, len + 8);
    if (p) {
        uint64_t n = len;
        memcpy(p, &n, 8);
        memcpy(p + 8, msg, len);
    }
    if (!p || !sk_vec_push(&w->out, SK_TAG_ENGINE, p)) {
        sk_free(p);
        sk_driver_link_kill(l, w, "there is no memory left to answer it");
    }
    return true;
}

void sk_driver_link_flush(struct sk_local *l, struct sk_lworker *w) {
    uint32_t n = w->out.n, i = 0;
    if (w->dying) return;
    w->out.n = 0; /* sk_driver_link_send refuses to send while `out` holds answers */
    for (; i < n; i++) {
        uint64_t len;
        memcpy(&len, w->out.p[i], 8);
        if (sk_driver_link_send(l, w, w->out.p[i] + 8, (size_t)len) != SK_OK) break;
        sk_free(w->out.p[i]);
    }
    SK_DCHECK(w->out.n == 0 && i <= n);
    if (i && i < n) memmove(w->out.p, w->out.p + i, (n - i) * sizeof *w->out.p);
    w->out.n = n - i;
}

/* ---- answers --------------------------------------------------------------------------------- */

void sk_driver_link_error(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                          const char *msg) {
    uint8_t buf[1200];
    struct sk_wr m = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&m, SK_M_REPLY);
    sk_wr_u32(&m, (uint32_t)rc);
    sk_wr_u64(&m, req);
    sk_wr_str(&m, msg);
    (void)sk_driver_link_reply(l, w, buf, m.n);
}

void sk_driver_link_answer(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                           uint64_t value, const struct sk_err *err) {
    if (rc != SK_OK) {
        sk_driver_link_error(l, w, req, rc, err->msg);
        return;
    }
    struct {
        uint32_t type, rc;
        uint64_t req, value;
    } m = {SK_M_REPLY, SK_OK, req, value};
    (void)sk_driver_link_reply(l, w, &m, sizeof m);
}

void sk_driver_link_list(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                         size_t (*write)(struct sk_local *l, uint64_t what, void *buf, size_t cap),
                         uint64_t what) {
    size_t n = write(l, what, NULL, 0), cap = SK_ALIGN(n, 16) + 64;
    /* room for the message, and for the list that goes into it */
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, 2 * cap);
    if (!p) {
        sk_driver_link_kill(l, w, "there is no memory left to answer it");
        return;
    }
    (void)write(l, what, p + cap, n);
    struct sk_wr m = sk_wr_init(p, cap);
    sk_wr_u32(&m, SK_M_REPLY);
    sk_wr_u32(&m, SK_OK);
    sk_wr_u64(&m, req);
    sk_wr_bytes(&m, p + cap, n);
    if (!sk_driver_link_reply(l, w, p, m.n))
        sk_driver_link_kill(l, w, "the object store is too full for an answer to it");
    sk_free(p);
}

/* New ids have to be from the worker's own range, each used once. */
bool sk_driver_link_fresh_ids(struct sk_local *l, struct sk_lworker *w, uint64_t base) {
    if ((base - l->id_base) >> 40 == w->proc && !sk_map_get(&l->tasks, base)) return true;
    sk_driver_link_kill(l, w, "it sent a message that makes no sense");
    return false;
}

/* ---- the end of a worker --------------------------------------------------------------------- */

size_t sk_driver_link_hand(const struct sk_lworker *w, char *buf, size_t cap) {
    struct sk_slot *s = w->sh;
    uint64_t task = atomic_load_explicit(&s->task, memory_order_relaxed);
    s->doing[sizeof s->doing - 1] = 0;
    if (cap) buf[0] = 0;
    if (!task || task != atomic_load_explicit(&s->hand, memory_order_relaxed) || !s->doing[0])
        return 0;
    return (size_t)snprintf(buf, cap, "\nin %s", s->doing);
}

/* Sends SIGINT for the task w->interrupt; the worker ignores the signal if another task runs. A
 * signal that arrives between Python's last check for signals and its sleep is seen only after the
 * sleep: so the signal is sent again (sk_pool_reap) until the worker says that it has interrupted
 * the task. */
void sk_driver_link_interrupt(struct sk_local *l, struct sk_lworker *w) {
    const struct sk_ltask *t = sk_map_get(&l->tasks, w->interrupt);
    if (!t || t->worker != w || t->state != SK_T_SENT ||
        atomic_load_explicit(&w->sh->interrupted, memory_order_acquire) == t->id)
        w->interrupt = 0;
    else if (!w->killed && w->pid > 0)
        SK_IGNORE(sk_forksrv_kill(&l->forksrv, w->pid, SIGINT, NULL));
}

void sk_driver_link_interrupt_task(struct sk_local *l, struct sk_lworker *w, uint64_t tid) {
    atomic_store_explicit(&w->sh->interrupted, 0, memory_order_release);
    w->interrupt = tid;
    sk_driver_link_interrupt(l, w);
}

void sk_driver_link_unheard(struct sk_local *l, struct sk_lworker *w, const char *why) {
    w->unheard = true;
    sk_driver_link_kill(l, w, why);
}

void sk_driver_link_big_read(struct sk_local *l, struct sk_lworker *w, uint64_t off) {
    for (uint32_t i = 0; i < w->big.n; i++)
        if (w->big.p[i] == off) {
            w->big.p[i] = w->big.p[--w->big.n];
            sk_store_unref(l->store, off);
            return;
        }
}

void sk_driver_link_bind(struct sk_lworker *w, struct sk_lactor *a) {
    SK_ASSERT(!w->actor && !w->had_actor && !w->killed);
    w->actor = a;
}

void sk_driver_link_actor_dead(struct sk_lworker *w, uint64_t aid) {
    SK_ASSERT(w->actor && !w->had_actor);
    w->actor = NULL;
    /* loops of graphs run in the process, and the graphs are told when it has ended */
    w->had_actor = aid;
}

void sk_driver_link_dying(struct sk_lworker *w) { w->dying = true; }

void sk_driver_link_retire(struct sk_local *l, struct sk_lworker *w) {
    if (w->killed && w->place.state == SK_W_IDLE) sk_place_worker_gone(&l->place, &w->place);
}

void sk_driver_link_kill(struct sk_local *l, struct sk_lworker *w, const char *why) {
    if (w->killed) return;
    w->killed = true;
    w->kill_why = why;
    if (w->pid > 0) SK_IGNORE(sk_forksrv_kill(&l->forksrv, w->pid, SIGKILL, NULL));
    /* A process that has not started yet is killed when its STARTED report arrives. The fork server
     * reports that death, too. */
    sk_driver_link_retire(l, w);
}

void sk_driver_link_kill_task(struct sk_local *l, struct sk_ltask *t, const char *why) {
    struct sk_lworker *w = t->worker;
    SK_ASSERT(w && l->pool.workers[w->slot] == w);
    if (w->killed) return;
    w->kill_task = t->id;
    sk_driver_link_kill(l, w, why);
}

void sk_driver_link_leave(struct sk_local *l, struct sk_lworker *w, const char *why) {
    uint32_t m[2] = {SK_M_EXIT, 0};
    if (w->killed) return;
    sk_place_worker_gone(&l->place, &w->place);
    (void)sk_driver_link_reply(l, w, m, sizeof m);
    w->kill_why = why;
    w->leave_ns = sk_now_ns();
}

void sk_driver_link_free(struct sk_lworker *w) {
    sk_map_deinit(&w->known);
    for (uint32_t i = 0; i < w->out.n; i++) sk_free(w->out.p[i]);
    sk_vec_free(&w->out);
    sk_vec_free(&w->big);
    sk_free(w);
}
