/* log.h - a log of one line a message, key=value; off by default.
 *
 *     sk_log(SK_LOG_INFO, "worker_died worker=%u status=%d", w, status);
 *  -> t=12.345678 pid=4711 lvl=info at=pool.c:120 worker_died worker=3 status=9
 *
 * The arguments are not evaluated when the level is off. This process keeps errors and warnings in
 * a small ring even when printing is off, and prints them when an assertion fails. Not for data or
 * per-task events (trace.h). Thread-safe; a line is one write(2), so lines of several processes do
 * not mix. */
#ifndef SK_LOG_H
#define SK_LOG_H

#include "base/base.h"

enum sk_log_level { SK_LOG_OFF, SK_LOG_ERROR, SK_LOG_WARN, SK_LOG_INFO, SK_LOG_DEBUG };

extern int sk_log_level_; /* messages up to this level are printed; read through sk_log only */

/* Prints messages up to `level` to fd, which the caller keeps and closes. Call before threads
 * start. */
void sk_log_set(enum sk_log_level level, int fd);
/* Gives the lines that would be printed, NUL-terminated and without their newline, to fn instead;
 * NULL: prints them. fn is called by any thread, with any locks held: it must not block. Call
 * before threads start. */
void sk_log_to(void (*fn)(enum sk_log_level level, const char *line, size_t n, void *ctx),
               void *ctx);
/* Parses "off", "error", ...; an unknown name gives SK_LOG_OFF. */
enum sk_log_level sk_log_parse(const char *name);
void sk_log_line(enum sk_log_level level, const char *file, int line, const char *fmt, ...)
    SK_PRINTF(4, 5);
void sk_log_dump(int fd); /* writes the kept lines, oldest first; async-signal-safe */

#define sk_log(level, ...)                                                        \
    do {                                                                          \
        if (SK_UNLIKELY((int)(level) <= sk_log_level_ || (level) <= SK_LOG_WARN)) \
            sk_log_line((level), __FILE__, __LINE__, __VA_ARGS__);                \
    } while (0)

#endif
