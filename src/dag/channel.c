/* channel.c - a channel in shared memory: cells, buffers, and how its ends sleep and are woken.
 *
 * Not here: the meaning of messages, noticing that a process died, and the allocation of memory.
 *
 *   line 0     magic version n_readers n_cells n_bufs     constant after create
 *   line 1     the writer's count and sleep words; state and gone, which any process may set
 *   readers    for each: passed, its sleep words, done[n_bufs]; padded to whole lines
 *   bufs       n_bufs: place, size, version of the last message in it plus 1
 *   cells      n_cells: version v is in cell v % n_cells
 *
 *  field          | writer         | readers | order                         | after a crash
 *  cell, bufs     | the writer     | readers | before count                  | unread; a successor
 *                 |                | (cells) |                               | writes it again
 *  count          | the writer     | readers | seq_cst, then reads their     | messages below it
 *                 |                |         | asleep                        | are whole
 *  passed, done[b]| that reader    | writer  | seq_cst, then reads the       | a successor reads
 *                 |                |         | writer's asleep               | messages again
 *  sleep.asleep   | the sleeper    | others  | seq_cst, then reads what it   | one wasted wake-up
 *                 |                |         | waits for                     |
 *  sleep.word     | a waker adds 1 | sleeper | read before what it waits for | -
 *  state, gone    | any process    | all     | seq_cst, then reads asleep of | -
 *                 | sets bits      |         | all                           |
 *
 * Invariant (no lost wake-up): a process that changes a field stores it and then reads `asleep`; a
 * process that waits stores `asleep` and then reads the field that it waits for. All four accesses
 * are sequentially consistent, so at least one of the two processes sees the store of the other. If
 * the change happens between that read and the system call, the kernel finds another value in
 * `word` and does not sleep. While nobody sleeps, no end writes a word that another end writes, and
 * there is no system call.
 *
 * Invariant (buffers): buffer b is free when done[b] of every reader equals the buffer's version. A
 * reader sets done after it has passed that message, so a message that may be replayed keeps its
 * bytes. The writer takes the free buffer that it used last: if only one message is under way, that
 * is the same warm memory each time.
 *
 * Trust: numbers that another end wrote are checked before use: a corrupt end can damage messages,
 * but cannot make this end access memory outside of the channel and its buffers.
 *
 * Cost: see bench/c/channel_bench.c. */
#include "dag/channel.h"

#include <sched.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fault.h"
#include "ipc/ipc.h"

#define CHAN_MAGIC 0x4C454E4E41484353ull /* "SCHANNEL" */
#define CHAN_VERSION 1u
/* After this time, in ns, a spin yields the core: a partner on another core answers sooner, so this
 * one may be waiting for this thread's core. */
#define YIELD_AFTER_NS 20000
#define NO_BUF UINT32_MAX

struct chan_sleep {
    _Atomic uint32_t word, asleep;
};

struct chan_reader {
    _Atomic uint64_t passed;
    struct chan_sleep sleep;
    _Atomic uint64_t done[]; /* [n_bufs] */
};

struct chan_buf {
    uint64_t off, cap; /* cap 0: the buffer has no memory */
    uint64_t version;  /* version of the buffer's message, plus 1; 0: no message yet */
};

struct chan_cell {
    uint64_t version, off, len;
    uint32_t buf, kind;
};

struct sk_chan_shm {
    uint64_t magic;
    uint32_t version, n_readers, n_cells, n_bufs;
    uint8_t pad0[40];
    _Atomic uint64_t count;
    struct chan_sleep sleep; /* sleep words of the writer */
    _Atomic uint64_t gone;   /* bit r: reader r is buried */
    _Atomic uint32_t state;  /* bits CLOSED, WRITER_GONE */
    uint8_t pad1[36];
};
enum { CLOSED = 1, WRITER_GONE = 2 };
_Static_assert(sizeof(struct sk_chan_shm) == 128, "two cache lines");
_Static_assert(sizeof(struct chan_reader) == 16 && sizeof(struct chan_buf) == 24 &&
                   sizeof(struct chan_cell) == 32,
               "fixed layout");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counts are shared between processes");

/* ---- the layout of the shared memory --------------------------------------------------------- */

static size_t reader_stride(uint32_t n_bufs) {
    return SK_ALIGN(sizeof(struct chan_reader) + n_bufs * sizeof(uint64_t), 64);
}
static struct chan_reader *reader_of(const struct sk_chan_shm *c, uint32_t r) {
    return (struct chan_reader *)(void *)((uint8_t *)(uintptr_t)(c + 1) +
                                          r * reader_stride(c->n_bufs));
}
static struct chan_buf *bufs_of(const struct sk_chan_shm *c) {
    return (struct chan_buf *)(void *)reader_of(c, c->n_readers);
}
static struct chan_cell *cell_of(const struct sk_chan_shm *c, uint64_t version) {
    uint8_t *cells = (uint8_t *)bufs_of(c) + SK_ALIGN(c->n_bufs * sizeof(struct chan_buf), 64);
    return (struct chan_cell *)(void *)cells + version % c->n_cells;
}
static struct chan_sleep *sleep_of(struct sk_chan_shm *c, uint32_t end) {
    return end == SK_CHAN_WRITER ? &c->sleep : &reader_of(c, end)->sleep;
}

static bool shape_ok(uint32_t n_readers, uint32_t n_cells, uint32_t n_bufs) {
    return n_readers && n_readers <= SK_CHAN_READERS && n_cells && n_cells <= SK_CHAN_CELLS &&
           n_bufs && n_bufs <= SK_CHAN_BUFS;
}

size_t sk_chan_bytes(const struct sk_chan_shape *s) {
    if (!shape_ok(s->n_readers, s->n_cells, s->n_bufs)) return 0;
    return sizeof(struct sk_chan_shm) + s->n_readers * reader_stride(s->n_bufs) +
           SK_ALIGN(s->n_bufs * sizeof(struct chan_buf), 64) +
           s->n_cells * sizeof(struct chan_cell);
}

sk_rc sk_chan_create(void *mem, const struct sk_chan_shape *s, struct sk_err *err) {
    size_t len = sk_chan_bytes(s);
    if (!len || ((uintptr_t)mem & 63))
        return SK_ERR(
            err, SK_EINVAL,
            "a channel of %u readers (1 to %u), %u cells (1 to %u) and %u buffers (1 to %u) at %p",
            s->n_readers, SK_CHAN_READERS, s->n_cells, SK_CHAN_CELLS, s->n_bufs, SK_CHAN_BUFS, mem);
    memset(mem, 0, len);
    struct sk_chan_shm *c = mem;
    c->version = CHAN_VERSION;
    c->n_readers = s->n_readers;
    c->n_cells = s->n_cells;
    c->n_bufs = s->n_bufs;
    c->magic = CHAN_MAGIC;
    return SK_OK;
}

/* Releases all messages that a dead reader has passed but not released. If the version of a buffer
 * changes meanwhile, its old message was released before. */
static void let_shown_go(struct sk_chan_shm *c, struct chan_reader *r) {
    uint64_t passed = sk_load_relaxed(&r->passed);
    for (uint32_t b = 0; b < c->n_bufs; b++) {
        uint64_t v = __atomic_load_n(&bufs_of(c)[b].version, __ATOMIC_ACQUIRE);
        if (v && v <= passed && sk_load_relaxed(&r->done[b]) < v) sk_store_seq(&r->done[b], v);
    }
}

void sk_chan_lost(void *mem, uint32_t reader) {
    struct sk_chan_shm *c = mem;
    SK_ASSERT(reader < c->n_readers);
    let_shown_go(c, reader_of(c, reader));
    sk_chan_stir(mem);
}

uint64_t sk_chan_passed(const void *mem, uint32_t reader) {
    const struct sk_chan_shm *c = mem;
    SK_ASSERT(reader < c->n_readers);
    return sk_load_acq(&reader_of(c, reader)->passed);
}

sk_rc sk_chan_attach(struct sk_chan_end *e, void *mem, uint32_t end, uint8_t *base, uint64_t size,
                     const struct sk_chan_pool *pool, struct sk_err *err) {
    struct sk_chan_shm *c = mem;
    if (c->magic != CHAN_MAGIC || c->version != CHAN_VERSION ||
        !shape_ok(c->n_readers, c->n_cells, c->n_bufs))
        return SK_ERR(err, SK_ECORRUPT,
                      "attach to a channel: magic %llx version %u, expected version %u",
                      (unsigned long long)c->magic, c->version, CHAN_VERSION);
    bool writer = end == SK_CHAN_WRITER;
    if ((!writer && end >= c->n_readers) || (pool != NULL) != writer)
        return SK_ERR(err, SK_EINVAL, "attach to a channel of %u readers as end %u", c->n_readers,
                      end);
    if (writer ? (sk_load_seq(&c->state) & WRITER_GONE) != 0
               : (sk_load_seq(&c->gone) >> end & 1) != 0)
        return SK_ERR(err, SK_EDEAD, "attach to a channel: this end was buried");
    *e = (struct sk_chan_end){.shm = c,
                              .base = base,
                              .size = size,
                              .pool = pool,
                              .end = end,
                              .buf = NO_BUF,
                              .spin = sk_spin_of(SK_SPIN_CAP_NS)};
    sk_store_relaxed(&sleep_of(c, end)->asleep, 0);
    uint64_t count = sk_load_acq(&c->count);
    if (writer) {
        e->next = count;
        /* the predecessor died before it published the messages in these buffers, so they are
         * free */
        for (uint32_t b = 0; b < c->n_bufs; b++)
            if (bufs_of(c)[b].version > count) /* atomic: others may read it (sk_chan_shown) */
                __atomic_store_n(&bufs_of(c)[b].version, sk_load_acq(&reader_of(c, 0)->done[b]),
                                 __ATOMIC_RELEASE);
        /* the predecessor may have died between a change and the wake-up for it */
        sk_chan_stir(mem);
        return SK_OK;
    }
    struct chan_reader *r = reader_of(c, end);
    e->next = sk_load_relaxed(&r->passed);
    if (e->next > count || count - e->next > c->n_cells)
        return SK_ERR(err, SK_ECORRUPT,
                      "attach to a channel: reader %u has passed %llu of %llu messages", end,
                      (unsigned long long)e->next, (unsigned long long)count);
    let_shown_go(c, r);
    sk_chan_stir(mem);
    return SK_OK;
}

/* ---- waiting and waking ---------------------------------------------------------------------- */

static inline void wake(struct chan_sleep *s) {
    if (SK_LIKELY(sk_load_seq(&s->asleep) == 0)) return;
    (void)sk_add_seq(&s->word, 1);
    sk_futex_wake(&s->word, 1);
}

/* Waits until ready(e) or the deadline: spins as long as this end's measurements say (spin.h), then
 * sleeps. */
static sk_rc wait_for(struct sk_chan_end *e, bool (*ready)(struct sk_chan_end *e),
                      int64_t deadline_ns) {
    int64_t start = sk_now_ns(), now = start, yielded = start;
    if (deadline_ns <= start) return ready(e) ? SK_OK : SK_ETIMEOUT;
    int64_t budget = sk_spin_budget(&e->spin);
    bool is = false;
    while (budget > 0 && !is && now - start < budget && now < deadline_ns) {
        for (int i = 0; i < 32 && !(is = ready(e)); i++) sk_cpu_relax();
        now = sk_now_ns();
        if (now - yielded >= YIELD_AFTER_NS) {
            (void)sched_yield();
            yielded = now;
        }
    }
    struct chan_sleep *s = sleep_of(e->shm, e->end);
    sk_rc rc = SK_OK;
    while (!is) {
        sk_store_seq(&s->asleep, 1);
        uint32_t word = sk_load_seq(&s->word);
        is = ready(e);
        /* checks once more after a timeout, so that a change at the very deadline counts */
        if (is || rc == SK_ETIMEOUT) break;
        SK_FAULT_HERE("channel.before_sleep");
        rc = sk_futex_wait(&s->word, word, deadline_ns);
    }
    sk_store_relaxed(&s->asleep, 0);
    sk_spin_learn(&e->spin, sk_now_ns() - start);
    return is ? SK_OK : SK_ETIMEOUT;
}

void sk_chan_stir(void *mem) {
    struct sk_chan_shm *c = mem;
    wake(&c->sleep);
    for (uint32_t r = 0; r < c->n_readers; r++) wake(&reader_of(c, r)->sleep);
}

void sk_chan_close(void *mem) {
    struct sk_chan_shm *c = mem;
    (void)atomic_fetch_or_explicit(&c->state, CLOSED, memory_order_seq_cst);
    sk_chan_stir(mem);
}

void sk_chan_bury(void *mem, uint32_t end) {
    struct sk_chan_shm *c = mem;
    SK_ASSERT(end == SK_CHAN_WRITER || end < c->n_readers);
    if (end == SK_CHAN_WRITER)
        (void)atomic_fetch_or_explicit(&c->state, WRITER_GONE, memory_order_seq_cst);
    else (void)atomic_fetch_or_explicit(&c->gone, UINT64_C(1) << end, memory_order_seq_cst);
    sk_chan_stir(mem);
}

uint64_t sk_chan_written(const void *mem) {
    const struct sk_chan_shm *c = mem;
    return sk_load_acq(&c->count);
}

bool sk_chan_shown(const void *mem, uint64_t except) {
    const struct sk_chan_shm *c = mem;
    for (uint32_t r = 0; r < c->n_readers; r++) {
        uint64_t passed = sk_load_seq(&reader_of(c, r)->passed);
        for (uint32_t b = 0; b < c->n_bufs && !(except >> r & 1); b++) {
            uint64_t v = __atomic_load_n(&bufs_of(c)[b].version, __ATOMIC_ACQUIRE);
            if (!__atomic_load_n(&bufs_of(c)[b].cap, __ATOMIC_RELAXED)) break;
            if (v && v <= passed && sk_load_seq(&reader_of(c, r)->done[b]) < v) return true;
        }
    }
    return false;
}

static uint64_t least_passed(const struct sk_chan_shm *c) {
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < c->n_readers; r++) {
        /* the number grows, so it is read once; SK_MIN would read it twice */
        uint64_t passed = sk_load_seq(&reader_of(c, r)->passed);
        least = SK_MIN(least, passed);
    }
    return least;
}

/* ---- calls of the writer --------------------------------------------------------------------- */

static bool buf_free(const struct sk_chan_shm *c, uint32_t b) {
    uint64_t v = bufs_of(c)[b].version;
    for (uint32_t r = 0; v && r < c->n_readers; r++)
        if (sk_load_seq(&reader_of(c, r)->done[b]) < v) return false;
    return true;
}

/* Chooses a free buffer: the one used last if it is large enough, else the first that is, else the
 * first free one, which then gets new memory. */
static uint32_t pick(const struct sk_chan_end *e, uint64_t len) {
    const struct sk_chan_shm *c = e->shm;
    if (bufs_of(c)[e->last].cap >= len && bufs_of(c)[e->last].cap && buf_free(c, e->last))
        return e->last;
    uint32_t best = NO_BUF;
    for (uint32_t b = 0; b < c->n_bufs; b++) {
        if (!buf_free(c, b)) continue;
        uint64_t cap = bufs_of(c)[b].cap;
        if (cap && cap >= len) return b;
        if (best == NO_BUF) best = b;
        if (cap == 0) break; /* buffers get memory in order, so those behind this one have none */
    }
    return best;
}

static bool has_cell(struct sk_chan_end *e) {
    if (SK_LIKELY(e->next < e->room)) return true;
    e->room = least_passed(e->shm) + e->shm->n_cells;
    return e->next < e->room;
}

static bool any_free(const struct sk_chan_shm *c) {
    for (uint32_t b = 0; b < c->n_bufs; b++)
        if (buf_free(c, b)) return true;
    return false;
}

static bool writer_ready(struct sk_chan_end *e) {
    struct sk_chan_shm *c = e->shm;
    return (sk_load_seq(&c->state) & CLOSED) || sk_load_seq(&c->gone) ||
           (has_cell(e) && any_free(c));
}

static sk_rc behind(struct sk_chan_end *e, struct sk_err *err) {
    const struct sk_chan_shm *c = e->shm;
    for (uint32_t r = 0; r < c->n_readers; r++) {
        uint64_t passed = sk_load_acq(&reader_of(c, r)->passed);
        if (e->next >= passed + c->n_cells)
            return SK_ERR(err, SK_ETIMEOUT,
                          "write message %llu: reader %u is %llu messages behind, of at most %u: "
                          "it computes, or does not read",
                          (unsigned long long)e->next, r, (unsigned long long)(e->next - passed),
                          c->n_cells);
    }
    uint32_t most = 0, who = 0;
    for (uint32_t r = 0; r < c->n_readers; r++) {
        uint32_t n = 0;
        for (uint32_t b = 0; b < c->n_bufs; b++)
            n += sk_load_acq(&reader_of(c, r)->done[b]) < bufs_of(c)[b].version;
        if (n > most) most = n, who = r;
    }
    return SK_ERR(err, SK_ETIMEOUT,
                  "write message %llu: reader %u keeps %u of %u buffers: results that are still in "
                  "use; let some of them go",
                  (unsigned long long)e->next, who, most, c->n_bufs);
}

/* Gets memory of at least len bytes for free buffer b. If the process is killed in this function,
 * the buffer has less memory than was allocated, or none. */
static sk_rc grow(struct sk_chan_end *e, uint32_t b, uint64_t len, struct sk_err *err) {
    struct chan_buf *buf = &bufs_of(e->shm)[b];
    sk_off off = 0;
    uint64_t cap = 0, old_off = buf->off, old_cap = buf->cap;
    SK_TRY(e->pool->alloc(e->pool->ctx, SK_MAX(len, 64), &off, &cap, err));
    SK_ASSERT(cap >= len && off <= e->size && cap <= e->size - off && (off & 63) == 0);
    __atomic_store_n(&buf->cap, 0, __ATOMIC_RELEASE);
    /* A release store lets what follows it be done before it. The fence keeps the three stores in
     * order for whoever finds them after a kill; for that, no processor reorders them. */
    atomic_signal_fence(memory_order_seq_cst);
    buf->off = off;
    SK_FAULT_HERE("channel.in_grow");
    __atomic_store_n(&buf->cap, cap, __ATOMIC_RELEASE);
    if (old_cap) e->pool->free(e->pool->ctx, old_off, old_cap);
    return SK_OK;
}

sk_rc sk_chan_reserve(struct sk_chan_end *e, uint64_t len, int64_t deadline_ns, void **out,
                      struct sk_err *err) {
    struct sk_chan_shm *c = e->shm;
    SK_ASSERT(e->end == SK_CHAN_WRITER);
    for (;;) {
        if (SK_UNLIKELY(sk_load_seq(&c->state) & CLOSED))
            return SK_ERR(err, SK_ECLOSED, "write message %llu: the channel is closed",
                          (unsigned long long)e->next);
        uint64_t gone = sk_load_seq(&c->gone);
        if (SK_UNLIKELY(gone))
            return SK_ERR(err, SK_EDEAD, "write message %llu: the process of reader %d is dead",
                          (unsigned long long)e->next, __builtin_ctzll(gone));
        uint32_t b = has_cell(e) ? pick(e, len) : NO_BUF;
        if (SK_LIKELY(b != NO_BUF)) {
            if (SK_UNLIKELY(bufs_of(c)[b].cap < SK_MAX(len, 1))) SK_TRY(grow(e, b, len, err));
            e->buf = b;
            *out = e->base + bufs_of(c)[b].off;
            return SK_OK;
        }
        if (wait_for(e, writer_ready, deadline_ns) != SK_OK) return behind(e, err);
    }
}

void sk_chan_publish(struct sk_chan_end *e, uint64_t len, uint32_t kind) {
    struct sk_chan_shm *c = e->shm;
    SK_ASSERT(e->end == SK_CHAN_WRITER && e->buf < c->n_bufs);
    struct chan_buf *buf = &bufs_of(c)[e->buf];
    SK_ASSERT(len <= buf->cap);
    *cell_of(c, e->next) = (struct chan_cell){
        .version = e->next, .off = buf->off, .len = len, .buf = e->buf, .kind = kind};
    SK_FAULT_HERE("channel.before_version");
    __atomic_store_n(&buf->version, e->next + 1, __ATOMIC_RELEASE);
    SK_FAULT_HERE("channel.before_publish");
    e->last = e->buf;
    e->buf = NO_BUF;
    sk_store_seq(&c->count, ++e->next);
    SK_FAULT_HERE("channel.after_publish");
    for (uint32_t r = 0; r < c->n_readers; r++) wake(&reader_of(c, r)->sleep);
}

/* ---- calls of a reader ----------------------------------------------------------------------- */

static bool reader_ready(struct sk_chan_end *e) {
    struct sk_chan_shm *c = e->shm;
    return sk_load_seq(&c->count) != e->next || sk_load_seq(&c->state);
}

sk_rc sk_chan_read(struct sk_chan_end *e, int64_t deadline_ns, struct sk_chan_msg *out,
                   struct sk_err *err) {
    struct sk_chan_shm *c = e->shm;
    SK_ASSERT(e->end < c->n_readers);
    uint64_t count;
    while ((count = sk_load_acq(&c->count)) == e->next) {
        uint32_t state = sk_load_seq(&c->state);
        if (state & CLOSED) break;
        if (state & WRITER_GONE) {
            /* the message was published before the writer died */
            if (sk_load_acq(&c->count) != e->next) continue;
            return SK_ERR(err, SK_EDEAD, "read message %llu: the writer's process is dead",
                          (unsigned long long)e->next);
        }
        if (wait_for(e, reader_ready, deadline_ns) != SK_OK)
            return SK_ERR(err, SK_ETIMEOUT, "read message %llu: the writer has not written it yet",
                          (unsigned long long)e->next);
    }
    if (SK_UNLIKELY(sk_load_seq(&c->state) & CLOSED) && !(e->drains && count != e->next))
        return SK_ERR(err, SK_ECLOSED, "read message %llu: the channel is closed",
                      (unsigned long long)e->next);
    struct chan_cell cell = *cell_of(c, e->next);
    if (SK_UNLIKELY(count < e->next || cell.version != e->next || cell.buf >= c->n_bufs ||
                    cell.off > e->size || cell.len > e->size - cell.off))
        return SK_ERR(err, SK_ECORRUPT,
                      "read message %llu of %llu: the cell says version %llu, %llu bytes at %llu",
                      (unsigned long long)e->next, (unsigned long long)count,
                      (unsigned long long)cell.version, (unsigned long long)cell.len,
                      (unsigned long long)cell.off);
    *out = (struct sk_chan_msg){.p = e->base + cell.off,
                                .len = cell.len,
                                .version = cell.version,
                                .kind = cell.kind,
                                .buf = cell.buf};
    e->next++;
    return SK_OK;
}

void sk_chan_pass(struct sk_chan_end *e) {
    struct sk_chan_shm *c = e->shm;
    SK_ASSERT(e->end < c->n_readers);
    struct chan_reader *r = reader_of(c, e->end);
    SK_FAULT_HERE("channel.before_pass");
    sk_store_seq(&r->passed, e->next);
    SK_FAULT_HERE("channel.after_pass");
    wake(&c->sleep);
}

void sk_chan_again(struct sk_chan_end *e) {
    SK_ASSERT(e->end < e->shm->n_readers &&
              e->next > sk_load_relaxed(&reader_of(e->shm, e->end)->passed));
    e->next--;
}

void sk_chan_release(struct sk_chan_end *e, const struct sk_chan_msg *msg) {
    struct sk_chan_shm *c = e->shm;
    struct chan_reader *r = reader_of(c, e->end);
    SK_ASSERT(e->end < c->n_readers && msg->buf < c->n_bufs &&
              msg->version < sk_load_relaxed(&r->passed));
    /* the message was not released before */
    SK_ASSERT(sk_load_relaxed(&r->done[msg->buf]) <= msg->version);
    SK_FAULT_HERE("channel.before_release");
    sk_store_seq(&r->done[msg->buf], msg->version + 1);
    SK_FAULT_HERE("channel.after_release");
    wake(&c->sleep);
}

/* ---- calls on the whole channel -------------------------------------------------------------- */

void sk_chan_free_bufs(void *mem, const struct sk_chan_pool *pool) {
    struct sk_chan_shm *c = mem;
    for (uint32_t b = 0; b < c->n_bufs; b++) {
        struct chan_buf *buf = &bufs_of(c)[b];
        if (buf->cap) pool->free(pool->ctx, buf->off, buf->cap);
        *buf = (struct chan_buf){0, 0, 0};
    }
}

bool sk_chan_check(const void *mem) {
    const struct sk_chan_shm *c = mem;
    if (c->magic != CHAN_MAGIC || !shape_ok(c->n_readers, c->n_cells, c->n_bufs)) return false;
    /* `least` is loaded first: both numbers grow, so it cannot be above `count` */
    uint64_t least = least_passed(c), count = sk_load_acq(&c->count);
    if (least > count) return false;
    for (uint32_t r = 0; r < c->n_readers; r++) {
        if (sk_load_acq(&reader_of(c, r)->passed) > sk_load_acq(&c->count)) return false;
        for (uint32_t b = 0; b < c->n_bufs; b++)
            if (sk_load_acq(&reader_of(c, r)->done[b]) >
                __atomic_load_n(&bufs_of(c)[b].version, __ATOMIC_ACQUIRE))
                return false;
    }
    for (uint64_t v = least; v < count; v++) {
        /* a message that may be replayed has its bytes in its buffer, unless every reader has
         * passed it by now */
        const struct chan_cell *cell = cell_of(c, v);
        bool there =
            cell->version == v && cell->buf < c->n_bufs && bufs_of(c)[cell->buf].version == v + 1;
        if (!there && v >= least_passed(c)) return false;
    }
    return true;
}
