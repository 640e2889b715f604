/* view_save.c - writes the bytes of a view to a file, which is a record then: by the driver when it
 * closes the engine, or by the witness (ipc/witness.c) when the driver was killed.
 *
 * A record appears under its name whole or not at all. Pages without content are left out of the
 * file (it is sparse). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "base/mem.h"
#include "engine/local/wire/view.h"

#define PIECE ((size_t)4096)

static bool put(int fd, const uint8_t *p, size_t n, uint64_t at) {
    while (n) {
        ssize_t k = SK_FAULT("view.write") ? (errno = ENOSPC, -1) : pwrite(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return true;
}

static bool empty(const uint8_t *p) { return p[0] == 0 && memcmp(p, p + 1, PIECE - 1) == 0; }

static bool put_all(int fd, const uint8_t *base) {
    size_t size = sk_view_bytes();
    struct sk_view_head h;
    memcpy(&h, base, sizeof h);
    if (!h.ended) h.ended = 2; /* killed */
    if (ftruncate(fd, (off_t)size) != 0) return false;
    for (size_t at = 0; at + PIECE <= size; at += PIECE)
        if (!empty(base + at) && !put(fd, base + at, PIECE, at)) return false;
    return put(fd, (const uint8_t *)&h, sizeof h, 0);
}

sk_rc sk_view_save(const uint8_t *base, const char *path, struct sk_err *err) {
    char temp[SK_VIEW_PATH + 32];
    SK_ASSERT(sk_view_bytes() % PIECE == 0);
    (void)snprintf(temp, sizeof temp, "%s.%d.tmp", path, (int)getpid());
    (void)unlink(temp); /* of a process that had this pid */
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return SK_ERR_SYS(err, "the record of this program: make %s", temp);
    bool whole = put_all(fd, base);
    if (close(fd) != 0) whole = false;
    if (whole && rename(temp, path) == 0) return SK_OK;
    sk_rc rc = SK_ERR_SYS(err, "the record of this program: write %s", path);
    (void)unlink(temp);
    return rc;
}

/* ---- the witness ----------------------------------------------------------------------------- */

static struct {
    uint8_t *base;
    char path[SK_VIEW_PATH];
} seen;

static bool over(void *ctx) {
    (void)ctx;
    return sk_load_acq(&((struct sk_view_head *)(void *)seen.base)->ended) != 0;
}

static void save(void *ctx) {
    (void)ctx;
    struct sk_err err; /* nobody is there to be told */
    if (!over(NULL)) SK_IGNORE(sk_view_save(seen.base, seen.path, &err));
}

bool sk_view_witness(const char *given, struct sk_witness *out) {
    int fd, at = 0;
    if (sscanf(given, "%d,%n", &fd, &at) != 1 || !at || strlen(given + at) >= sizeof seen.path)
        return false;
    seen.base = mmap(NULL, sk_view_bytes(), PROT_READ, MAP_SHARED, fd, 0);
    if (seen.base == MAP_FAILED) {
        (void)close(fd);
        return false;
    }
    (void)snprintf(seen.path, sizeof seen.path, "%s", given + at);
    *out = (struct sk_witness){.fd = fd, .over = over, .save = save};
    return true;
}
