/* files_local.c - files of this machine. A file under construction is named .<name>.<pid>.tmp in
 * the same folder and is renamed when it is committed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "files.h"
#include "tool.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14: pages go to disk at once and are then dropped */
#endif

enum { AHEAD = 2 << 20 }; /* bytes of one posix_fadvise call */

struct local {
    struct files_out out;
    int fd;
    uint64_t at;
    char *path, *temp;
};

static int failed(const char *path) { return files_fail("%s: %s", path, strerror(errno)); }

static int size(const char *path, uint64_t *bytes, uint64_t *version) {
    struct stat st;
    if (stat(path, &st)) return failed(path);
    if (!S_ISREG(st.st_mode)) return files_fail("%s: not a regular file", path);
    *bytes = (uint64_t)st.st_size;
    *version = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
    return 0;
}

static int read_(const struct files_range *r, size_t n) {
    for (; n; n--, r++) {
        int fd = open(r->url, O_RDONLY | O_CLOEXEC);
        if (fd < 0) return failed(r->url);
        int rc = tool_read(fd, r->to, r->n, r->at), error = errno;
        if (files_past_cache)
            (void)posix_fadvise(fd, (off_t)r->at, (off_t)r->n, POSIX_FADV_DONTNEED);
        close(fd);
        errno = error;
        if (rc && !error)
            return files_fail("%s: it ends before byte %" PRIu64 ": it became shorter", r->url,
                              r->at + r->n);
        if (rc) return failed(r->url);
    }
    return 0;
}

/* Arguments of a read-ahead. It runs on a thread of its own, since posix_fadvise waits while the
 * disk's queue is full, and calls it for AHEAD bytes at a time, which the kernel accepts at
 * once. */
struct ahead {
    char *url;
    uint64_t at, n;
};

static void *fetch(void *arg) {
    struct ahead *a = arg;
    int fd = open(a->url, O_RDONLY | O_CLOEXEC);
    for (uint64_t done = 0; fd >= 0 && done < a->n; done += AHEAD)
        (void)posix_fadvise(fd, (off_t)(a->at + done), AHEAD, POSIX_FADV_WILLNEED);
    if (fd >= 0) close(fd);
    free(a->url), free(a);
    return NULL;
}

static void ahead(const struct files_range *r, uint32_t further) {
    struct ahead *a = tool_need(malloc(sizeof *a));
    pthread_t t;
    *a = (struct ahead){tool_need(strdup(r->url)), r->at + further * (uint64_t)r->n, r->n};
    if (!pthread_create(&t, NULL, fetch, a)) (void)pthread_detach(t);
    else free(a->url), free(a);
}

static int create(const char *path, struct files_out **out) {
    struct local *f = tool_need(calloc(1, sizeof *f));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    f->out.ops = &files_local;
    f->path = tool_need(strdup(path));
    if (asprintf(&f->temp, "%.*s.%s.%d.tmp", (int)(name - path), path, name, (int)getpid()) < 0)
        abort();
    f->fd = open(f->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        (void)failed(path);
        free(f->temp), free(f->path), free(f);
        return -1;
    }
    *out = &f->out;
    return 0;
}

/* Writes bytes past the page cache, as many as the file system allows, and returns their number;
 * tool_write writes the rest. */
static size_t write_past(int fd, const uint8_t *from, size_t n, uint64_t at) {
    size_t done = 0;
    while (done < n) {
        struct iovec io = {(void *)(uintptr_t)(from + done), n - done};
        ssize_t k = pwritev2(fd, &io, 1, (off_t)(at + done), RWF_DONTCACHE);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        done += (size_t)k;
    }
    return done;
}

static int write_(struct files_out *o, const void *from, size_t n) {
    struct local *f = (struct local *)(void *)o;
    size_t past = files_past_cache ? write_past(f->fd, from, n, f->at) : 0;
    f->at += past, from = (const uint8_t *)from + past, n -= past;
    if (tool_write(f->fd, from, n, f->at)) return failed(f->path);
    f->at += n;
    return 0;
}

static int end(struct local *f, bool keep) {
    int rc = close(f->fd);
    if (keep && (rc || rename(f->temp, f->path))) rc = failed(f->path);
    if (!keep || rc) unlink(f->temp);
    free(f->temp), free(f->path), free(f);
    return rc;
}
static int commit(struct files_out *o) { return end((struct local *)(void *)o, true); }
static void abort_(struct files_out *o) { (void)end((struct local *)(void *)o, false); }

static int sweep(const char *folder) {
    if (mkdir(folder, 0777) && errno != EEXIST) return failed(folder);
    DIR *d = opendir(folder);
    int fd = d ? dirfd(d) : -1;
    if (fd < 0) return failed(folder);
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (e->d_name[0] == '.' && n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0)
            (void)unlinkat(fd, e->d_name, 0);
    }
    closedir(d);
    return 0;
}

const struct files_ops files_local = {"",     size,   read_,  ahead, create,
                                      write_, commit, abort_, sweep};
