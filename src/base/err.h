/* err.h - an error is a code plus a fixed-size message owned by the caller.
 *
 * The message names the operation, its object, the fault and a remedy: "spill /x: disk full (need
 * 64 MiB, have 12); set spill_dir". The macro records where the error occurred (file:line).
 * Thread-safety: a struct sk_err belongs to one thread. */
#ifndef SK_ERR_H
#define SK_ERR_H

#include "base/base.h"

struct sk_err {
    int code;
    int line;
    const char *file; /* source file where the error occurred; a static string */
    char msg[1008];   /* NUL-terminated UTF-8, cut when longer */
};

/* Fills *err (unless it is NULL) and returns `code`, so that `return SK_ERR(err, SK_EINVAL, "...",
 * ...)` reads as one step. */
/* The static analyzer sees one file at a time: it would assume that sk_err_set may return SK_OK. */
#ifndef __clang_analyzer__
#define SK_ERR(err, code, ...) sk_err_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)
#else
#define SK_ERR(err, code, ...) \
    ((void)sk_err_set((err), (code), __FILE__, __LINE__, __VA_ARGS__), (sk_rc)(code))
#endif
sk_rc sk_err_set(struct sk_err *err, int code, const char *file, int line, const char *fmt, ...)
    SK_PRINTF(5, 6);
/* Like SK_ERR with SK_EIO, and appends ": strerror(errno)" to the message. The code becomes
 * SK_ENOSPC for ENOSPC and EDQUOT, SK_ENOMEM for ENOMEM. errno is preserved. */
#define SK_ERR_SYS(err, ...) sk_err_sys((err), __FILE__, __LINE__, __VA_ARGS__)
sk_rc sk_err_sys(struct sk_err *err, const char *file, int line, const char *fmt, ...)
    SK_PRINTF(4, 5);
/* Puts the formatted text and ": " in front of the message that *err has. */
void sk_err_prefix(struct sk_err *err, const char *fmt, ...) SK_PRINTF(2, 3);
const char *sk_rc_name(sk_rc rc); /* "SK_EFULL"; never NULL */

#endif
