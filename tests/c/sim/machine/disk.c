/* disk.c - the disk of the simulated machine: files without names in heap memory, a limit on its
 * size, and bytes that change by themselves.
 *
 * Not here: time. The jobs of the spill threads take time; see the choice WORK in world.c.
 * Invariant: disk_bytes is 4 KiB for each page that was written and not punched. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "sim/machine/sim_int.h"

#define PAGE 4096u

static struct sk_sim_file *file_of(struct sk_sim *s, int fd) {
    SK_ASSERT(fd >= 0 && fd < SK_SIM_FILES && s->files[fd].used);
    return &s->files[fd];
}

static int m_open(void *ctx) {
    struct sk_sim *s = ctx;
    for (int i = 0; i < SK_SIM_FILES; i++)
        if (!s->files[i].used) {
            s->files[i] = (struct sk_sim_file){.used = true};
            return i;
        }
    errno = EMFILE;
    return -1;
}

static void grow(struct sk_sim_file *f, uint64_t to) {
    if (to <= f->cap) return;
    uint64_t cap = SK_ALIGN(SK_MAX(to, 2 * f->cap), 64 * PAGE);
    uint8_t *p = sk_realloc(SK_TAG_ENGINE, f->p, (size_t)cap),
            *there = p ? sk_realloc(SK_TAG_ENGINE, f->there, (size_t)(cap / PAGE)) : NULL;
    if (!there) abort(); /* a simulation without memory has no result */
    memset(p + f->cap, 0, (size_t)(cap - f->cap));
    memset(there + f->cap / PAGE, 0, (size_t)((cap - f->cap) / PAGE));
    f->p = p;
    f->there = there;
    f->cap = cap;
}

static ssize_t m_write(void *ctx, int fd, const void *p, size_t n, uint64_t off) {
    struct sk_sim *s = ctx;
    struct sk_sim_file *f = file_of(s, fd);
    uint64_t fresh = 0;
    SK_ASSERT(off % PAGE == 0 && n % PAGE == 0); /* direct I/O requires this, too */
    grow(f, off + n);
    for (uint64_t i = off / PAGE; i < (off + n) / PAGE; i++) fresh += f->there[i] ? 0 : PAGE;
    if (s->conf.disk_bytes && s->disk_bytes + fresh > s->conf.disk_bytes) {
        s->st.n_disk_full++;
        errno = ENOSPC;
        return -1;
    }
    s->disk_bytes += fresh;
    memset(f->there + off / PAGE, 1, n / PAGE);
    memcpy(f->p + off, p, n);
    f->len = SK_MAX(f->len, off + n);
    s->st.n_disk_writes++;
    if (sk_sim_fault(s, s->conf.disk_rot)) {
        f->p[off + sk_sim_below(s, n)] ^= (uint8_t)(1 + sk_sim_below(s, 255));
        s->st.n_disk_rot++;
        /* the changed byte may also be in a hole between values: then nothing is lost */
        s->st.n_values_lost++;
    }
    return (ssize_t)n;
}

static ssize_t m_read(void *ctx, int fd, void *p, size_t n, uint64_t off) {
    struct sk_sim *s = ctx;
    const struct sk_sim_file *f = file_of(s, fd);
    if (off >= f->len) return 0;
    n = (size_t)SK_MIN(n, f->len - off);
    memcpy(p, f->p + off, n);
    s->st.n_disk_reads++;
    return (ssize_t)n;
}

static void m_punch(void *ctx, int fd, uint64_t off, uint64_t len) {
    struct sk_sim *s = ctx;
    struct sk_sim_file *f = file_of(s, fd);
    for (uint64_t i = SK_ALIGN(off, PAGE) / PAGE; i < (off + len) / PAGE && i < f->cap / PAGE;
         i++) {
        s->disk_bytes -= f->there[i] ? PAGE : 0;
        f->there[i] = 0;
        memset(f->p + i * PAGE, 0, PAGE);
    }
}

static int m_fill(void *ctx, int fd, uint64_t off, uint64_t len) {
    struct sk_sim *s = ctx;
    struct sk_sim_file *f = file_of(s, fd);
    uint64_t from = off / PAGE, to = SK_ALIGN(off + len, PAGE) / PAGE, fresh = 0;
    grow(f, to * PAGE);
    for (uint64_t i = from; i < to; i++) fresh += f->there[i] ? 0 : PAGE;
    if (s->conf.disk_bytes && s->disk_bytes + fresh > s->conf.disk_bytes) {
        s->st.n_disk_full++;
        return ENOSPC;
    }
    s->disk_bytes += fresh;
    memset(f->there + from, 1, to - from);
    s->st.n_disk_filled++;
    return 0;
}

static void m_close(void *ctx, int fd) {
    struct sk_sim *s = ctx;
    struct sk_sim_file *f = file_of(s, fd);
    m_punch(s, fd, 0, f->cap);
    sk_free(f->p);
    sk_free(f->there);
    *f = (struct sk_sim_file){0};
}

void sk_disk_hooks(struct sk_machine *m) {
    m->file_open = m_open;
    m->file_write = m_write;
    m->file_read = m_read;
    m->file_punch = m_punch;
    m->file_fill = m_fill;
    m->file_close = m_close;
}

void sk_disk_close(struct sk_sim *s) {
    for (int i = 0; i < SK_SIM_FILES; i++)
        if (s->files[i].used) m_close(s, i);
    SK_ASSERT(s->disk_bytes == 0);
}
