/* test_engine_order.c - the handshakes between driver and worker in the control segment, of two
 * threads that do both sides at the same moment, many times: what one of them stores, the other has
 * to see, whatever the processor reorders. */
#include <pthread.h>
#include <sched.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"
#include "engine/local/worker/worker.h"
#include "engine_help.h"

enum { TRIES = 4000 };

static struct {
    struct sk_ctl *ctl;
    struct sk_ring ring; /* of the thread that stands for the driver */
    struct sk_worker_engine worker;
    _Atomic uint32_t arrived;
} it;

/* Both threads leave the n-th call together. */
static void meet(uint32_t n) {
    (void)sk_add_seq(&it.arrived, 1);
    for (uint32_t spins = 0; sk_load_acq(&it.arrived) < 2 * n; spins++) {
        if (spins % 256 == 255) sched_yield();
        else sk_cpu_relax();
    }
}

static void *publisher(SK_UNUSED void *arg) {
    for (uint32_t i = 0; i < TRIES; i++) {
        meet(2 * i + 1);
        uint8_t *p = sk_ring_reserve(&it.worker.up, 8);
        memset(p, 0, 8);
        sk_ring_commit(&it.worker.up, 8);
        sk_worker_link_ring(&it.worker, false);
        meet(2 * i + 2);
    }
    return NULL;
}

TEST(driver_changes_its_bell_while_a_worker_rings) {
    uint8_t *mem = sk_alloc_aligned(SK_TAG_ENGINE, 64, sizeof(struct sk_ctl) + sk_ring_bytes(4096));
    memset(mem, 0, sizeof(struct sk_ctl));
    it.ctl = (struct sk_ctl *)(void *)mem;
    sk_ring_create(&it.ring, mem + sizeof(struct sk_ctl), 4096);
    it.worker.ctl = it.ctl;
    CHECK_OK(sk_ring_attach(&it.worker.up, mem + sizeof(struct sk_ctl), 4096, NULL));
    pthread_t th;
    CHECK_EQ(pthread_create(&th, NULL, publisher, NULL), 0);
    uint32_t n_missed = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        size_t len;
        uint32_t who = (i & 1) ^ 1, seen = sk_bell_seq(&it.ctl->bell[who]);
        meet(2 * i + 1);
        sk_ctl_drives(it.ctl, who);
        bool saw = sk_ring_peek(&it.ring, &len) != NULL;
        meet(2 * i + 2);
        /* not seen: then the bell that the driver listens to now was rung */
        if (!saw && sk_bell_seq(&it.ctl->bell[who]) == seen) n_missed++;
        CHECK(saw || sk_ring_peek(&it.ring, &len));
        sk_ring_pop(&it.ring);
    }
    pthread_join(th, NULL);
    CHECK_EQ(n_missed, 0);
    sk_free(mem);
}

TASK(order_nothing) { return ret_i64(t, 0, 0, err); }

TEST(driver_without_messages_answers_a_worker_that_waits_for_room) {
    eng_open(&(struct eng_opt){.cpus = 1});
    CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "order_nothing"})), 0);
    struct sk_local *l = (struct sk_local *)eng;
    struct sk_slot *s = l->pool.workers[0]->sh;
    /* as if the driver had looked at this word too early: all messages are read */
    sk_store_seq(&s->want_space, 1);
    sk_bell_ring(&l->ctl->bell[1]);
    int64_t until = sk_now_ns() + 20 * SK_SEC;
    while (sk_load_seq(&s->want_space) && sk_now_ns() < until) sched_yield();
    CHECK_EQ(sk_load_seq(&s->want_space), 0);
    eng_close();
}
