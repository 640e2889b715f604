/* look.c - reads the state of a local engine from its control segment alone: from a signal handler
 * of the driver, or from another process (`skate stack`).
 *
 * No lock, no allocation; the only word that is written holds the pid of the process whose turn on
 * stderr it is. So it works while the driver hangs with the engine's lock held. Invariant: reads
 * stay inside the segment, whatever it contains; texts may be torn (they are only shown). Cost: one
 * slot a worker. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/host.h"
#include "engine/local/wire/look.h"

/* a wait that ended less than this long ago (ns) may have gone on: see waits_ns */
#define WAITS_NS 50000000

static void copy_text(char *dst, size_t cap, const char *src, size_t max) {
    size_t n = strnlen(src, SK_MIN(max, cap - 1));
    memcpy(dst, src, n);
    dst[n] = 0;
}

static size_t look(const uint8_t *base, size_t size, struct sk_look *out,
                   struct sk_look_worker *rows, size_t cap) {
    const struct sk_ctl *ctl = (const struct sk_ctl *)(const void *)base;
    /* read once, since the value may change */
    uint32_t grows = atomic_load_explicit(&ctl->n_used, memory_order_acquire),
             used = SK_MIN(grows, ctl->n_slots);
    int64_t now = sk_now_ns(), waits = atomic_load(&ctl->waits_ns);
    /* not the segment's own stride: its maker may change that between a check and its use */
    size_t n = 0, stride = sk_slot_stride();
    *out = (struct sk_look){.driver_pid = ctl->driver_pid};
    if (waits > now - WAITS_NS)
        copy_text(out->waits, sizeof out->waits, ctl->waits, sizeof ctl->waits);
    for (uint32_t i = 0; i < used && n < cap && 4096 + (i + 1) * stride <= size; i++) {
        const struct sk_slot *s = (const struct sk_slot *)(const void *)(base + 4096 + i * stride);
        if (s->pid <= 0) continue;
        rows[n] = (struct sk_look_worker){.pid = s->pid,
                                          .task = atomic_load(&s->task),
                                          .for_ns = now - atomic_load(&s->since_ns)};
        if (rows[n].task)
            copy_text(rows[n].name, sizeof rows[n].name, s->task_name, sizeof s->task_name);
        n++;
    }
    return n;
}

/* ---- this process ---------------------------------------------------------------------------- */

static struct {
    _Atomic(const uint8_t *) base;
    _Atomic size_t size;
    _Atomic(const struct sk_slot *) slot; /* in a worker: the worker's own slot */
    _Atomic uint32_t n_inside;
    pid_t pid;
} me;

void sk_look_open(const uint8_t *base, size_t size, const struct sk_slot *slot) {
    me.pid = getpid();
    atomic_store(&me.size, size);
    atomic_store(&me.slot, slot);
    atomic_store(&me.base, base);
}

void sk_look_close(void) {
    atomic_store(&me.base, NULL);
    /* waits for signal handlers on other threads that use the segment: microseconds, a second at
     * most */
    while (atomic_load(&me.n_inside)) sched_yield();
}

bool sk_look_self(struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n) {
    atomic_fetch_add(&me.n_inside, 1);
    const uint8_t *base = atomic_load(&me.base);
    bool here = base && me.pid == getpid(); /* false in a child that the user forked */
    const struct sk_slot *s = here ? atomic_load(&me.slot) : NULL;
    *n = 0;
    *out = (struct sk_look){0};
    if (s) {
        rows[0] = (struct sk_look_worker){.pid = s->pid,
                                          .task = atomic_load(&s->task),
                                          .for_ns = sk_now_ns() - atomic_load(&s->since_ns)};
        if (rows[0].task)
            copy_text(rows[0].name, sizeof rows[0].name, s->task_name, sizeof s->task_name);
        *n = 1;
    } else if (here) {
        *n = look(base, atomic_load(&me.size), out, rows, cap);
    }
    atomic_fetch_sub(&me.n_inside, 1);
    return here;
}

void sk_look_speak(bool begin) {
    atomic_fetch_add(&me.n_inside, 1);
    const uint8_t *base = atomic_load(&me.base);
    _Atomic int32_t *speaks =
        base && me.pid == getpid() ? &((struct sk_ctl *)(uintptr_t)base)->speaks : NULL;
    int32_t free = 0, pid = me.pid;
    if (speaks && !begin) {
        (void)atomic_compare_exchange_strong(speaks, &pid, 0);
    } else if (speaks) {
        for (int64_t until = sk_now_ns() + SK_SEC;
             !atomic_compare_exchange_weak(speaks, &free, pid) && sk_now_ns() < until;
             sched_yield())
            /* if the process that has the turn is dead, the next round takes the turn over */
            if (free && kill(free, 0) == 0) free = 0;
    }
    atomic_fetch_sub(&me.n_inside, 1);
}

/* ---- an engine of another process ------------------------------------------------------------ */

sk_rc sk_look_at(const char *path, struct sk_look *out, struct sk_look_worker *rows, size_t cap,
                 size_t *n, struct sk_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return SK_ERR_SYS(err, "open %s", path);
    /* The file may be of any process: if it could shrink, reading would raise SIGBUS here. */
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 4096 ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) || fcntl(fd, F_GET_SEALS) < 0) {
        close(fd);
        return SK_ERR(err, SK_ECORRUPT, "%s is not the control segment of an engine", path);
    }
    size_t size = (size_t)st.st_size;
    const uint8_t *base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    int e = errno;
    close(fd);
    errno = e;
    if (base == MAP_FAILED) return SK_ERR_SYS(err, "map %s", path);
    const struct sk_ctl *ctl = (const struct sk_ctl *)(const void *)base;
    sk_rc rc = SK_OK;
    if (ctl->magic != SK_CTL_MAGIC)
        rc = SK_ERR(err, SK_ECORRUPT, "%s is not the control segment of an engine", path);
    else if (ctl->version != SK_CTL_VERSION || ctl->slot_stride != sk_slot_stride())
        rc = SK_ERR(err, SK_EINVAL, "%s is of another version of skate", path);
    else *n = look(base, size, out, rows, cap);
    munmap((void *)(uintptr_t)base, size);
    return rc;
}
