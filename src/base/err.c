/* err.c - filling in struct sk_err, and ending the process on a failed assertion.
 *
 * Not here: what a code means to Python (py/core/err.c). Invariant: msg is always NUL-terminated,
 * cut between UTF-8 characters. Cost: one vsnprintf an error; errors are not on a hot path
 * (SK_EAGAIN and SK_ETIMEOUT are often returned without a message). */
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log/log.h"

/* Cuts off half a UTF-8 character at the end of a truncated text, since the message becomes a
 * Python str. Other bytes of arguments, valid UTF-8 or not, stay as they are. `wanted` is the
 * result of snprintf. */
static void cut_at_char(char *s, size_t cap, int wanted) {
    if (wanted < 0) {
        s[0] = 0;
        return;
    }
    if ((size_t)wanted < cap) return;
    size_t n = cap - 1;
    size_t back = 0;
    while (back < 4 && back < n && ((unsigned char)s[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back >= n) return;
    unsigned char lead = (unsigned char)s[n - 1 - back];
    size_t len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (len > back + 1) s[n - 1 - back] = 0;
}

static void fill(struct sk_err *err, int code, const char *file, int line, const char *fmt,
                 va_list ap) {
    err->code = code;
    err->file = file;
    err->line = line;
    /* An argument may be err->msg itself (wrapping an older message): so the text is formatted into
     * a buffer, then copied. */
    char text[sizeof(err->msg)];
    cut_at_char(text, sizeof(text), vsnprintf(text, sizeof(text), fmt, ap));
    memcpy(err->msg, text, sizeof(text));
}

sk_rc sk_err_set(struct sk_err *err, int code, const char *file, int line, const char *fmt, ...) {
    SK_DCHECK(code < 0);
    if (!err) return code;
    int keep = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, file, line, fmt, ap);
    va_end(ap);
    errno = keep;
    return code;
}

sk_rc sk_err_sys(struct sk_err *err, const char *file, int line, const char *fmt, ...) {
    int why = errno;
    int code = why == ENOSPC || why == EDQUOT ? SK_ENOSPC : why == ENOMEM ? SK_ENOMEM : SK_EIO;
    if (!err) return code;
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, file, line, fmt, ap);
    va_end(ap);
    char buf[128];
#ifdef __GLIBC__
    const char *text = strerror_r(why, buf, sizeof(buf));
#else /* the form of POSIX */
    const char *text = strerror_r(why, buf, sizeof(buf)) == 0 ? buf : "unknown error";
#endif
    size_t n = strlen(err->msg);
    cut_at_char(err->msg + n, sizeof(err->msg) - n,
                snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", text));
    errno = why;
    return code;
}

void sk_err_prefix(struct sk_err *err, const char *fmt, ...) {
    if (!err) return;
    int keep = errno;
    char old[sizeof(err->msg)], what[sizeof(err->msg)];
    memcpy(old, err->msg, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    cut_at_char(what, sizeof(what), vsnprintf(what, sizeof(what), fmt, ap));
    va_end(ap);
    size_t n = strlen(what), cap = sizeof(err->msg);
    memcpy(err->msg, what, n + 1);
    cut_at_char(err->msg + n, cap - n, snprintf(err->msg + n, cap - n, ": %s", old));
    errno = keep;
}

const char *sk_rc_name(sk_rc rc) {
    static const char *const name[] = {
        "SK_OK",      "SK_ENOMEM",   "SK_EINVAL",      "SK_ENOSYS",  "SK_EIO",      "SK_ENOSPC",
        "SK_EFULL",   "SK_ETIMEOUT", "SK_EAGAIN",      "SK_EDEAD",   "SK_ETASK",    "SK_ELOST",
        "SK_ECANCEL", "SK_ECORRUPT", "SK_EINFEASIBLE", "SK_ECLOSED", "SK_EACTOR",   "SK_ENOENT",
        "SK_EDONE",   "SK_ESTALL",   "SK_EEXIST",      "SK_EGROUP",  "SK_EUNAVAIL", "SK_EPENDING",
        "SK_EOOM",    "SK_ERANGE"};
    _Static_assert(SK_COUNT(name) == 1 - SK_ERANGE, "a name for each code");
    return rc <= 0 && rc >= SK_ERANGE ? name[-rc] : "SK_E?";
}

static void say(int fd, const char *text, size_t len) {
    /* if stderr is closed, nothing can be done: the abort still shows the failure */
    if (write(fd, text, len) < 0) return;
}

void sk_assert_fail(const char *expr, const char *file, int line) {
    char text[512];
    int n = snprintf(text, sizeof(text), "skate: assertion failed: %s at %s:%d (pid %d)\n", expr,
                     file, line, (int)getpid());
    if (n > 0) {
        size_t len = SK_MIN((size_t)n, sizeof(text) - 1);
        say(STDERR_FILENO, text, len);
        /* stderr may be a file that vanishes with the process, as in pytest's workers */
        const char *path = getenv("SKATE_ASSERT_LOG");
        int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (fd >= 0) {
            say(fd, text, len);
            sk_log_dump(fd);
            close(fd);
        }
    }
    sk_log_dump(STDERR_FILENO);
    abort();
}
