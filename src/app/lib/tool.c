/* tool.c - what the programs of src/app share: how they end, and tasks over the parts of a file. */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that may not grow (ulimit -f) is a failed write with a message, in workers, too. */
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

void tool_parts(const char *name, const void *args, size_t size, size_t n, void (*take)(void *ctx, const void *result),
                void (*undo)(void *ctx), void *ctx) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t ahead = (size_t)(cpus > 0 ? cpus : 1) + 2, sent = 0;
    skate_ref *r = tool_need(calloc(n + 1, sizeof *r));
    for (size_t i = 0; i < n; i++) {
        int rc = 0;
        struct skate_value v;
        for (; sent < n && sent < i + ahead && !rc; sent += !rc)
            rc = skate_submit(name, &SKATE_BYTES((const char *)args + sent * size, size), 1, 1, NULL, &r[sent]);
        if (!rc) rc = skate_get(r[i], -1, &v);
        if (rc && undo) undo(ctx);
        tool_ok(rc);
        take(ctx, v.data);
        skate_value_release(&v);
        skate_release(r[i]);
    }
    free(r);
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
