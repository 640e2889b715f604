/* tool.c - shared by the programs of src/app: how they end, and tasks over the parts of a file. */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sortrec.h"

/* Ignores SIGXFSZ: a write beyond the limit of file size (ulimit -f) then fails with a message,
 * also in workers, instead of killing the process. */
__attribute__((constructor)) static void no_signal(void) { (void)signal(SIGXFSZ, SIG_IGN); }

void tool_die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void tool_ok(int rc) {
    if (rc) tool_die("%s", skate_error());
}

void *tool_need(void *p) {
    if (!p) tool_die("no memory");
    return p;
}

char *tool_path(const char *arg) {
    static const char *const known[] = {",buf", ",dir", ",trans=", ",count="};
    size_t n = strlen(arg);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *at = strstr(arg, known[i]);
        if (at && (size_t)(at - arg) < n) n = (size_t)(at - arg);
    }
    return tool_need(strndup(arg, n));
}

void tool_parts(const char *name, const void *args, size_t size, size_t n,
                void (*take)(void *ctx, const void *result), void (*undo)(void *ctx), void *ctx) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t ahead = (size_t)(cpus > 0 ? cpus : 1) + 2, sent = 0;
    skate_ref *r = tool_need(calloc(n + 1, sizeof *r));
    for (size_t i = 0; i < n; i++) {
        int rc = 0;
        struct skate_value v;
        for (; sent < n && sent < i + ahead && !rc; sent += !rc)
            rc = skate_submit(name, &SKATE_BYTES((const char *)args + sent * size, size), 1, 1,
                              NULL, &r[sent]);
        if (!rc) rc = skate_get(r[i], -1, &v);
        if (rc && undo) undo(ctx);
        tool_ok(rc);
        take(ctx, v.data);
        skate_value_release(&v);
        skate_release(r[i]);
    }
    free(r);
}

double tool_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t tool_bytes(const char *text) {
    char *end;
    unsigned long long v = strtoull(text, &end, 10);
    unsigned shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    if (end == text || *text == '-' || end[shift != 0] || v > UINT64_MAX >> 24 >> shift)
        tool_die("'%s' is no number of bytes", text);
    return (uint64_t)v << shift;
}

uint64_t tool_hash(uint64_t h, const void *p, size_t n) {
    h = h ? h : 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    return h;
}

void *tool_scratch(unsigned slot, size_t n) {
    static struct {
        void *p;
        size_t n;
    } of[4];
    enum { HUGE = 2 << 20 };
    if (of[slot].n < n) {
        if (of[slot].p) munmap(of[slot].p, of[slot].n);
        of[slot].n = (n + HUGE - 1) / HUGE * HUGE;
        of[slot].p =
            mmap(NULL, of[slot].n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (of[slot].p == MAP_FAILED) tool_die("no memory: %zu bytes", n);
        (void)madvise(of[slot].p, of[slot].n, MADV_HUGEPAGE);
    }
    return of[slot].p;
}

struct tool_runs tool_runs(const struct skate_task *t, size_t first, unsigned slot, size_t more) {
    size_t k = skate_n_args(t) - first;
    struct tool_runs r = {
        k, tool_scratch(slot, (k + 1) * (sizeof(void *) + (1 + more) * sizeof(size_t))), NULL,
        NULL};
    r.n = (size_t *)(void *)(r.at + k);
    r.more = r.n + k;
    for (size_t i = 0; i < k; i++) {
        r.at[i] = skate_arg_data(t, first + i, &r.n[i]);
        r.n[i] /= SORTREC_SIZE;
    }
    return r;
}

int tool_read(int fd, void *to, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = 0;
        if (k <= 0) return -1;
        done += (size_t)k;
    }
    return 0;
}

int tool_write(int fd, const void *from, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, (const char *)from + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        done += (size_t)k;
    }
    return 0;
}
