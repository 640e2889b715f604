/* dag_help.h - shared by the tests of channels: a channel and its buffers in memory that all
 * threads and child processes of a test map. */
#ifndef SK_TEST_DAG_HELP_H
#define SK_TEST_DAG_HELP_H

#include "dag/channel.h"
#include "ipc_help.h"

/* A pool that never gives out the same memory twice, counts its buffers, and fails if the test says
 * so. A reader with a stale pointer still finds the old message, which the test notices by its
 * version. The pool is in shared memory, so that the next process that writes to the channel can go
 * on with it. */
struct pool {
    _Atomic uint64_t used, live_bytes, n_live, fail;
};

struct rig {
    void *mem; /* the channel's memory */
    struct pool *pool;
    uint8_t *arena;
    uint64_t size;
    struct sk_chan_pool ops;
    uint64_t seed;
};

static sk_rc pool_alloc(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err) {
    struct rig *r = ctx;
    if (atomic_load(&r->pool->fail)) return SK_ERR(err, SK_EFULL, "the pool was told to fail");
    uint64_t n = SK_ALIGN(len, 64);
    *off = atomic_fetch_add(&r->pool->used, n);
    if (*off + n > r->size) return SK_ERR(err, SK_EFULL, "the test's arena is used up");
    atomic_fetch_add(&r->pool->live_bytes, n);
    atomic_fetch_add(&r->pool->n_live, 1);
    *cap = n;
    return SK_OK;
}

static void pool_free(void *ctx, sk_off off, uint64_t cap) {
    struct rig *r = ctx;
    memset(r->arena + off, 0xDD, cap); /* a reader that still uses the buffer reads nonsense */
    atomic_fetch_sub(&r->pool->live_bytes, cap);
    atomic_fetch_sub(&r->pool->n_live, 1);
}

SK_UNUSED static struct rig *rig(uint32_t n_readers, uint32_t n_cells, uint32_t n_bufs,
                                 uint64_t size) {
    struct rig *r = share(sizeof *r);
    struct sk_chan_shape s = {n_readers, n_cells, n_bufs};
    *r = (struct rig){
        .pool = share(sizeof *r->pool), .arena = share(size), .size = size, .seed = test_rand()};
    r->ops = (struct sk_chan_pool){r, pool_alloc, pool_free};
    r->mem = share(sk_chan_bytes(&s));
    CHECK_OK(sk_chan_create(r->mem, &s, NULL));
    return r;
}

SK_UNUSED static struct sk_chan_end end_of(struct rig *r, uint32_t end) {
    struct sk_chan_end e;
    struct sk_err err;
    CHECK_OK_ERR(sk_chan_attach(&e, r->mem, end, r->arena, r->size,
                                end == SK_CHAN_WRITER ? &r->ops : NULL, &err),
                 &err);
    return e;
}

SK_UNUSED static sk_rc write_by(struct sk_chan_end *w, size_t len, uint64_t i, int64_t deadline) {
    void *p;
    SK_TRY(sk_chan_reserve(w, len, deadline, &p, NULL));
    msg_fill(p, len, i);
    sk_chan_publish(w, len, (uint32_t)mix(i));
    return SK_OK;
}

SK_UNUSED static void done(struct sk_chan_end *e, const struct sk_chan_msg *m) {
    sk_chan_pass(e);
    sk_chan_release(e, m);
}

SK_UNUSED static void is_message(const struct sk_chan_msg *m, size_t len, uint64_t i) {
    CHECK_EQ(m->version, i);
    CHECK_EQ(m->len, len);
    CHECK_EQ(m->kind, (uint32_t)mix(i));
    CHECK_EQ((uintptr_t)m->p % 64, 0);
    CHECK_MSG(msg_true(m->p, m->len, i), "message %llu of %zu bytes is wrong",
              (unsigned long long)i, len);
}

#endif
