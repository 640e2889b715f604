/* seg.c - memfd segments: create, map, return pages, fetch huge pages; and a tail of disk behind a
 * segment.
 *
 * Not here: the meaning of the bytes and the right to write them (store).
 *
 * Invariant: a struct sk_seg is either SK_SEG_EMPTY or owns one descriptor and one mapping of
 * exactly `size` bytes, and perhaps the descriptor of a file that is mapped right behind it; with
 * `huge` the mapping starts on a 2 MiB boundary, so that file offsets and addresses agree modulo 2
 * MiB and the kernel can map huge pages.
 *
 * Cost: fresh pages are the expensive part. GB/s of memcpy into a fresh 1 GiB segment, by 1 and 2
 * threads, 2-core AMD EPYC VM, Linux 6.18, shmem_enabled=never (its default), best of 3
 * (build/dev/bin/ipc_bench seg):
 *
 *   pages already present      15-20    18-25    the copy itself
 *   sk_seg_warm, then copy     9-10     8-14     fetching: 0.055 s a GiB, 0.1 ms a 2 MiB unit;
 *                                                2.5 us when it is huge already
 *   4 KiB faults               1.3-1.6  2.5-2.9
 *   MADV_HUGEPAGE, then faults 1.4      1.4-2.9  nothing gained: a memfd obeys shmem_enabled, and
 *                                                only MADV_COLLAPSE ignores it
 *   fallocate, then copy       1.7-1.9  1.8-2.5  allocates 4 KiB pages (0.22 s) and the faults come
 *                                                on top
 *   MADV_POPULATE_WRITE        1.6-1.8  3.2      same faults, without the traps
 *
 * Punching 1 GiB takes 2.3 ms of huge pages, 200-250 ms of small ones. The first read of it by
 * another process takes 0.04 s or 0.09 s. In a VM, memory that the guest has never touched costs
 * 2-3 s a GiB once, by any method, until the host has provided it. */
#include "ipc/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SEG_HUGE ((size_t)2 << 20)
#define COLD_PAGES 12 /* up to this many missing pages of a unit are left to page faults */
#define LEAST_PAGE ((size_t)4096)

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Maps fd, and `tail` bytes of tail_fd behind it. With `huge` the function first reserves a larger
 * range of addresses and then returns the surplus, because only newer kernels align shared mappings
 * by themselves. */
static sk_rc seg_map(int fd, size_t size, bool huge, int tail_fd, size_t tail, uint8_t **out,
                     struct sk_err *err) {
    if (SK_FAULT("seg.mmap"))
        return SK_ERR(err, SK_ENOMEM, "map a segment of %zu bytes: fault injected", size);
    uint8_t *at = NULL;
    int flags = MAP_SHARED | MAP_NORESERVE;
    size_t all = size + tail;
    if (huge || tail) {
        uint8_t *room = mmap(NULL, all + SEG_HUGE, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return SK_ERR_SYS(err, "reserve %zu bytes of address space (check ulimit -v)",
                              all + SEG_HUGE);
        size_t skip = (size_t)(SK_ALIGN((uintptr_t)room, SEG_HUGE) - (uintptr_t)room);
        SK_DCHECK(skip < SEG_HUGE);
        at = room + skip;
        size_t after = SEG_HUGE - skip;
        if (skip) (void)munmap(room, skip);
        if (after) (void)munmap(at + all, after);
        flags |= MAP_FIXED;
    }
    uint8_t *base = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED || (tail && mmap(base + size, tail, PROT_READ | PROT_WRITE, flags,
                                            tail_fd, 0) == MAP_FAILED)) {
        sk_rc rc = SK_ERR_SYS(err, "map a segment of %zu bytes (check ulimit -v)", all);
        if (at) (void)munmap(at, all);
        return rc;
    }
    /* refused by kernels without transparent huge pages: the segment works all the same */
    if (huge) (void)madvise(base, size, MADV_HUGEPAGE);
    /* The core of a crash would have the store of all processes and the zeros of its holes, which
     * it would allocate: a worker of a small store once wrote 4.7 GB for half a minute. */
    if (huge || tail) (void)madvise(base, all, MADV_DONTDUMP);
    *out = base;
    return SK_OK;
}

sk_rc sk_seg_create(struct sk_seg *s, const char *label, size_t size, bool huge,
                    struct sk_err *err) {
    size_t page = page_size();
    if (size == 0 || size > SIZE_MAX / 2)
        return SK_ERR(err, SK_EINVAL, "create segment %s: size %zu is not possible", label, size);
    size = (size_t)SK_ALIGN(size, page);

    if (SK_UNLIKELY(sk_machine_ != NULL)) {
        uint8_t *at = sk_machine_->seg_open(sk_machine_->ctx, label, size);
        if (!at)
            return SK_ERR(err, SK_ENOMEM, "create segment %s: the simulated machine has no memory",
                          label);
        *s = (struct sk_seg){.fd = -1, .base = at, .size = size, .tail_fd = -1};
        return SK_OK;
    }
    if (SK_FAULT("seg.memfd"))
        return SK_ERR(err, SK_EIO, "create segment %s: fault injected", label);
    /* First with MFD_NOEXEC_SEAL, since kernels with vm.memfd_noexec=2 refuse a memfd without it;
     * then without the flag, for kernels before 6.3 that do not know it. */
    int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return SK_ERR_SYS(err, "create segment %s (check ulimit -n)", label);

    sk_rc rc = SK_OK;
    uint8_t *base = NULL;
    if (SK_FAULT("seg.truncate")) {
        rc = SK_ERR(err, SK_EIO, "size segment %s: fault injected", label);
        goto out;
    }
    if (SK_FAULT("seg.mode") ? (errno = EPERM, true) : fchmod(fd, 0600) != 0) {
        /* a memfd is made with mode 0777 or 0666: users who may look into /proc/<pid>/fd could
         * open it */
        rc = SK_ERR_SYS(err, "close segment %s to other users", label);
        goto out;
    }
    if (ftruncate(fd, (off_t)size) != 0) {
        rc = SK_ERR_SYS(err, "size segment %s to %zu bytes", label, size);
        goto out;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        /* without the seal a peer could shrink the segment and cause SIGBUS in every process */
        rc = SK_ERR_SYS(err, "seal segment %s", label);
        goto out;
    }
    SK_GO(seg_map(fd, size, huge, -1, 0, &base, err));
    *s = (struct sk_seg){.fd = fd, .base = base, .size = size, .tail_fd = -1, .id = sk_fd_id(fd)};
    fd = -1;
out:
    if (fd >= 0) (void)close(fd);
    return rc;
}

sk_rc sk_seg_attach(struct sk_seg *s, int fd, size_t size, bool huge, struct sk_err *err) {
    sk_rc rc = SK_OK;
    uint8_t *base = NULL;
    struct stat st;
    if (fd < 0 || size == 0 || size > SIZE_MAX / 2) {
        rc = SK_ERR(err, SK_EINVAL, "attach segment: descriptor %d, size %zu", fd, size);
        goto out;
    }
    size = (size_t)SK_ALIGN(size, page_size());
    if (fstat(fd, &st) != 0) {
        rc = SK_ERR_SYS(err, "attach segment: descriptor %d", fd);
        goto out;
    }
    if ((uint64_t)st.st_size < size) {
        rc = SK_ERR(err, SK_ECORRUPT, "attach segment: descriptor %d has %lld bytes, %zu expected",
                    fd, (long long)st.st_size, size);
        goto out;
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        rc = SK_ERR_SYS(err, "attach segment: descriptor %d", fd);
        goto out;
    }
    SK_GO(seg_map(fd, size, huge, -1, 0, &base, err));
    *s = (struct sk_seg){.fd = fd, .base = base, .size = size, .tail_fd = -1, .id = sk_fd_id(fd)};
    fd = -1;
out:
    if (fd >= 0) (void)close(fd);
    return rc;
}

static sk_rc tail_of_machine(struct sk_seg *s, const char *label, int fd, size_t len,
                             struct sk_err *err) {
    sk_machine_->seg_close(sk_machine_->ctx, s->base);
    s->base = sk_machine_->seg_open(sk_machine_->ctx, label, s->size + len);
    if (!s->base) {
        sk_machine_->file_close(sk_machine_->ctx, fd);
        return SK_ERR(err, SK_ENOMEM, "tail of %s: the simulated machine has no memory", label);
    }
    s->tail_fd = fd;
    s->tail = len;
    return SK_OK;
}

sk_rc sk_seg_tail(struct sk_seg *s, const char *label, int fd, size_t len, struct sk_err *err) {
    sk_rc rc = SK_OK;
    uint8_t *base = NULL;
    struct stat st;
    if (fd < 0 || s->tail || !len || len > SIZE_MAX / 2 - s->size || len % page_size())
        return SK_ERR(err, SK_EINVAL, "tail of %s: descriptor %d, %zu bytes behind %zu", label, fd,
                      len, s->size);
    if (SK_UNLIKELY(sk_machine_ != NULL)) return tail_of_machine(s, label, fd, len, err);
    if (SK_FAULT("seg.tail")) {
        rc = SK_ERR(err, SK_ENOMEM, "tail of %s: fault injected", label);
        goto out;
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fstat(fd, &st) != 0) {
        rc = SK_ERR_SYS(err, "tail of %s: descriptor %d", label, fd);
        goto out;
    }
    if ((uint64_t)st.st_size < len) {
        rc = SK_ERR(err, SK_ECORRUPT, "tail of %s: descriptor %d has %lld bytes, %zu expected",
                    label, fd, (long long)st.st_size, len);
        goto out;
    }
    SK_GO(seg_map(s->fd, s->size, !((uintptr_t)s->base & (SEG_HUGE - 1)), fd, len, &base, err));
    SK_ASSERT(munmap(s->base, s->size) == 0);
    *s = (struct sk_seg){s->fd, base, s->size, fd, len, s->id, sk_fd_id(fd)};
    fd = -1;
out:
    if (fd >= 0) (void)close(fd);
    return rc;
}

void sk_seg_close(struct sk_seg *s) {
    if (SK_UNLIKELY(sk_machine_ != NULL)) {
        if (s->base) sk_machine_->seg_close(sk_machine_->ctx, s->base);
        if (s->tail_fd >= 0) sk_machine_->file_close(sk_machine_->ctx, s->tail_fd);
        *s = SK_SEG_EMPTY;
        return;
    }
    if (s->base) SK_ASSERT(munmap(s->base, s->size + s->tail) == 0);
    sk_seg_close_fd(s);
    *s = SK_SEG_EMPTY;
}

void sk_seg_close_fd(struct sk_seg *s) {
    if (sk_machine_) return;
    sk_fd_close(&s->fd, s->id);
    sk_fd_close(&s->tail_fd, s->tail_id);
}

bool sk_seg_lost(const struct sk_seg *s) {
    if (sk_machine_ || !s->base) return false;
    return !sk_fd_ours(s->fd, s->id) || (s->tail && !sk_fd_ours(s->tail_fd, s->tail_id));
}

/* Checks a range without unsigned wrap, since off + len may come from a corrupt message. A valid
 * range lies either in the memory or in the tail. */
static bool in_memory(const struct sk_seg *s, sk_off off, size_t len) {
    return off <= s->size && len <= s->size - off;
}
static bool in_tail(const struct sk_seg *s, sk_off off, size_t len) {
    return off >= s->size && off - s->size <= s->tail && len <= s->tail - (off - s->size);
}
static bool seg_holds(const struct sk_seg *s, sk_off off, size_t len) {
    return in_memory(s, off, len) || in_tail(s, off, len);
}
/* Returns the descriptor of the file that holds *off, and makes *off the offset in that file. */
static int fd_of(const struct sk_seg *s, sk_off *off) {
    if (*off < s->size) return s->fd;
    *off -= s->size;
    SK_DCHECK(*off <= s->tail);
    return s->tail_fd;
}

sk_rc sk_seg_fill(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) {
    if (!len || !in_tail(s, off, len))
        return SK_ERR(err, SK_EINVAL, "disk for %zu bytes at %llu: the tail is %zu behind %zu", len,
                      (unsigned long long)off, s->tail, s->size);
    if (sk_seg_lost(s)) return SK_ERR(err, SK_EIO, SK_FD_LOST);
    int fd = fd_of(s, &off), e;
    do
        e = SK_FAULT("seg.fill") ? ENOSPC
            : sk_machine_        ? sk_machine_->file_fill(sk_machine_->ctx, fd, off, len)
                                 : posix_fallocate(fd, (off_t)off, (off_t)len);
    while (e == EINTR);
    if (e == 0) return SK_OK;
    errno = e;
    return SK_ERR_SYS(err, "%zu bytes of disk for what the store has no room for", len);
}

sk_rc sk_seg_punch(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) {
    if (!seg_holds(s, off, len))
        return SK_ERR(err, SK_EINVAL, "punch %zu bytes at %llu: segment has %zu", len,
                      (unsigned long long)off, s->size);
    size_t page = page_size();
    sk_off from = SK_ALIGN(off, page);
    int fd = fd_of(s, &off), r;
    uint64_t lo = SK_ALIGN(off, page), hi = (off + len) & ~(uint64_t)(page - 1);
    if (lo >= hi) return SK_OK;
    if (sk_machine_) {
        if (fd >= 0) sk_machine_->file_punch(sk_machine_->ctx, fd, lo, hi - lo);
        return SK_OK;
    }
    if (SK_FAULT("seg.punch")) return SK_ERR(err, SK_EIO, "punch: fault injected");
    /* by address and not by descriptor, whose number may belong to a file of the user by now */
    do r = madvise(s->base + from, hi - lo, MADV_REMOVE);
    while (r != 0 && errno == EINTR);
    if (r != 0)
        return SK_ERR_SYS(err, "punch %llu bytes at %llu", (unsigned long long)(hi - lo),
                          (unsigned long long)lo);
    return SK_OK;
}

/* True if more than COLD_PAGES pages of [at, at + n), a range within one unit, are missing: then
 * fetching the huge page (0.1 ms) is cheaper than the page faults (4 us each). If all pages are
 * present, the check costs 0.3 us. */
static bool cold(uint8_t *at, size_t n) {
    unsigned char there[SEG_HUGE / LEAST_PAGE];
    size_t page = page_size(), skip = (uintptr_t)at & (page - 1),
           pages = SK_ALIGN(skip + n, page) / page, missing = 0;
    /* the range is within one unit; mincore writes one byte a page */
    SK_ASSERT(pages <= SK_COUNT(there));
    if (pages <= COLD_PAGES || mincore(at - skip, pages * page, there) != 0) return false;
    for (size_t i = 0; i < pages; i++) missing += !(there[i] & 1);
    return missing > COLD_PAGES;
}

size_t sk_seg_warm(struct sk_seg *s, sk_off off, size_t len) {
    if (sk_machine_ || !in_memory(s, off, len) || ((uintptr_t)s->base & (SEG_HUGE - 1)) ||
        SK_FAULT("seg.warm"))
        return 0;
    size_t huge = 0, page = page_size();
    /* Unit by unit: a refusal (fragmented memory) costs that unit only. One page must be present,
     * or the kernel finds no page table to collapse (EINVAL); a read fault provides it and cannot
     * disturb a concurrent writer. */
    for (uint64_t at = off, end = off + len, next; at < end; at = next) {
        uint64_t unit = at & ~(uint64_t)(SEG_HUGE - 1);
        next = SK_MIN(unit + SEG_HUGE, end);
        if (!in_memory(s, unit, SEG_HUGE) || !cold(s->base + at, (size_t)(next - at))) continue;
        if (madvise(s->base + unit, page, MADV_POPULATE_READ) == 0 &&
            madvise(s->base + unit, SEG_HUGE, MADV_COLLAPSE) == 0)
            huge += SEG_HUGE;
        else if (errno == EINVAL) break; /* this kernel never collapses such memory */
    }
    return huge;
}

sk_rc sk_seg_window(const struct sk_seg *s, sk_off off, size_t len, bool own, void **at,
                    struct sk_err *err) {
    if (sk_machine_) return SK_ERR(err, SK_ENOSYS, "window: a simulated machine maps nothing");
    if (!len || !seg_holds(s, off, len))
        return SK_ERR(err, SK_EINVAL, "window of %zu bytes at %llu: segment has %zu", len,
                      (unsigned long long)off, s->size);
    if (sk_seg_lost(s)) return SK_ERR(err, SK_EIO, SK_FD_LOST);
    size_t in_page = (size_t)off & (page_size() - 1),
           size = (size_t)SK_ALIGN(in_page + len, page_size()), skip = 0, claimed = size;
    uint8_t *room = *at ? (uint8_t *)*at - in_page : NULL;
    bool fresh = !room;
    if (fresh) { /* address and offset agree modulo 2 MiB, so that huge pages can be mapped */
        claimed += size >= SEG_HUGE ? SEG_HUGE : 0;
        room = SK_FAULT("seg.window") ? MAP_FAILED
                                      : mmap(NULL, claimed, PROT_NONE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return SK_ERR(
                err, SK_ENOMEM,
                "map %zu bytes of the store once more (check ulimit -v, vm.max_map_count)", size);
        if (claimed > size) skip = (size_t)((off - in_page - (uintptr_t)room) & (SEG_HUGE - 1));
    }
    SK_DCHECK(skip + size <= claimed);
    int fd = fd_of(s, &off);
    void *got = mmap(room + skip, size, PROT_READ | PROT_WRITE,
                     (own ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE | MAP_FIXED, fd,
                     (off_t)(off - in_page));
    if (got == MAP_FAILED) {
        sk_rc rc = SK_ERR_SYS(
            err, "map %zu bytes of the store once more (check ulimit -v, vm.max_map_count)", size);
        if (fresh) (void)munmap(room, claimed);
        return rc;
    }
    if (skip) (void)munmap(room, skip);
    if (claimed > skip + size) (void)munmap(room + skip + size, claimed - skip - size);
    *at = room + skip + in_page;
    return SK_OK;
}

sk_rc sk_seg_file(const struct sk_seg *s, sk_off off, size_t len, int *fd, uint64_t *at,
                  struct sk_err *err) {
    if (sk_machine_ || !len || !seg_holds(s, off, len))
        return SK_ERR(err, SK_EINVAL, "file of %zu bytes at %llu: segment has %zu", len,
                      (unsigned long long)off, s->size);
    if (sk_seg_lost(s)) return SK_ERR(err, SK_EIO, SK_FD_LOST);
    *fd = fd_of(s, &off);
    *at = off;
    return SK_OK;
}

void sk_seg_window_close(void *at, size_t len) {
    size_t in_page = (uintptr_t)at & (page_size() - 1);
    SK_ASSERT(munmap((uint8_t *)at - in_page, (size_t)SK_ALIGN(in_page + len, page_size())) == 0);
}

uint64_t sk_seg_present(const struct sk_seg *s) {
    struct stat st;
    if (sk_machine_ || s->fd < 0 || fstat(s->fd, &st) != 0) return 0;
    return (uint64_t)st.st_blocks * 512;
}
