/* log.c - formats a line, writes it, and keeps the latest errors and warnings.
 *
 * Not here: rotation, sinks, rate limits. Invariant: a line holds no newline inside, is at most
 * LINE_BYTES long, and goes out in one write. The ring has 32 lines, and a counter assigns its
 * slots. A writer that laps another one loses an old line or mixes the text of two; it cannot
 * corrupt memory. Cost: one comparison when off; about 1 us a line when on. */
#include "base/log/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

enum { LINE_BYTES = 512, RING_LINES = 32 };

int sk_log_level_ = SK_LOG_OFF;
static int log_fd = STDERR_FILENO;
static void (*log_fn)(enum sk_log_level level, const char *line, size_t n, void *ctx);
static void *log_ctx;
static const char *const level_name[] = {"off", "error", "warn", "info", "debug"};

static struct {
    _Atomic uint32_t next;
    _Atomic uint32_t len[RING_LINES]; /* bytes; 0: the slot is empty or being written */
    char text[RING_LINES][LINE_BYTES];
} ring;

void sk_log_set(enum sk_log_level level, int fd) {
    sk_log_level_ = (int)level;
    log_fd = fd;
}

void sk_log_to(void (*fn)(enum sk_log_level level, const char *line, size_t n, void *ctx),
               void *ctx) {
    log_fn = fn;
    log_ctx = ctx;
}

enum sk_log_level sk_log_parse(const char *name) {
    for (unsigned i = 0; name && i < SK_COUNT(level_name); i++)
        if (strcmp(name, level_name[i]) == 0) return (enum sk_log_level)i;
    return SK_LOG_OFF;
}

static void put_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return; /* a failure to write the log cannot be reported anywhere */
        p += w;
        n -= (size_t)w;
    }
}

void sk_log_line(enum sk_log_level level, const char *file, int line, const char *fmt, ...) {
    int keep = errno;
    char text[LINE_BYTES];
    const char *base = strrchr(file, '/');
    int64_t t = sk_now_ns();
    int n = snprintf(text, sizeof(text), "t=%lld.%06lld pid=%d lvl=%s at=%s:%d ",
                     (long long)(t / SK_SEC), (long long)(t % SK_SEC / 1000), (int)getpid(),
                     level_name[level], base ? base + 1 : file, line);
    size_t len = n < 0 ? 0 : SK_MIN((size_t)n, sizeof(text) - 1);
    va_list ap;
    va_start(ap, fmt);
    n = vsnprintf(text + len, sizeof(text) - len, fmt, ap);
    va_end(ap);
    if (n > 0) len = SK_MIN(len + (size_t)n, sizeof(text) - 2);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n') text[i] = ' ';
    text[len++] = '\n';

    if (level <= SK_LOG_WARN) {
        uint32_t slot = sk_add_relaxed(&ring.next, 1) % RING_LINES;
        sk_store_relaxed(&ring.len[slot], 0);
        memcpy(ring.text[slot], text, len);
        sk_store_rel(&ring.len[slot], (uint32_t)len);
    }
    if ((int)level <= sk_log_level_ && log_fn) {
        text[--len] = 0;
        log_fn(level, text, len, log_ctx);
    } else if ((int)level <= sk_log_level_) {
        put_all(log_fd, text, len);
    }
    errno = keep;
}

void sk_log_dump(int fd) {
    uint32_t next = sk_load_relaxed(&ring.next);
    for (uint32_t i = 0; i < RING_LINES; i++) {
        uint32_t slot = (next + i) % RING_LINES;
        put_all(fd, ring.text[slot], sk_load_acq(&ring.len[slot]));
    }
}
