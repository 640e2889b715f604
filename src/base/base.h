/* base.h - definitions that every C file of skate may use: result codes, attributes, assertions,
 * small helpers.
 *
 * Not here: allocation (mem.h), messages (err.h), containers (vec.h, map.h, list.h, heap.h).
 *
 * Result codes are 0 or a negative SK_E*. A function that can fail returns sk_rc, leaves its
 * out-parameters untouched on failure and takes `struct sk_err *err` (which may be NULL) as its
 * last parameter. Only py/core/err.c turns codes into Python exceptions. */
#ifndef SK_BASE_H
#define SK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int sk_rc;

enum {
    SK_OK = 0,
    SK_ENOMEM = -1,       /* the C heap or mmap refused */
    SK_EINVAL = -2,       /* the caller's argument is wrong */
    SK_ENOSYS = -3,       /* the machine, or the simulation of one, lacks this ability */
    SK_EIO = -4,          /* a system call failed; errno is in the message */
    SK_ENOSPC = -5,       /* a disk is full */
    SK_EFULL = -6,        /* the object store is full, or the object can never fit */
    SK_ETIMEOUT = -7,     /* the deadline passed; nothing changed */
    SK_EAGAIN = -8,       /* not now (ring full, no credit left); try again after progress */
    SK_EDEAD = -9,        /* the process that ran the task died and no retries are left */
    SK_ETASK = -10,       /* user code raised; the value is the serialised error */
    SK_ELOST = -11,       /* the object is gone and cannot be remade */
    SK_ECANCEL = -12,     /* cancelled by the user */
    SK_ECORRUPT = -13,    /* invalid bytes: wrong magic, checksum or length */
    SK_EINFEASIBLE = -14, /* the request exceeds all that the machine was given */
    SK_ECLOSED = -15,     /* the engine or the peer is shut down */
    SK_EACTOR = -16,      /* the actor is dead */
    SK_ENOENT = -17,      /* nothing has this name */
    SK_EDONE = -18,       /* end of a stream; not a failure */
    /* No progress is possible: a bug or an impossible plan. The message names what is waiting and
     * what each waits for. */
    SK_ESTALL = -19,
    SK_EEXIST = -20,   /* the name is in use */
    SK_EGROUP = -21,   /* the placement group of the request was removed */
    SK_EUNAVAIL = -22, /* the actor is being restarted */
    SK_EPENDING = -23, /* the actor's limit of pending calls is reached */
    SK_EOOM = -24,     /* a worker was stopped because memory was short */
    SK_ERANGE = -25,   /* a number does not fit its type */
};

#define SK_MUST_USE __attribute__((warn_unused_result))
#define SK_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SK_LIKELY(x) __builtin_expect(!!(x), 1)
#define SK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SK_UNUSED __attribute__((unused))
#define SK_API __attribute__((visibility("default")))

#define SK_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SK_MAX(a, b) ((a) > (b) ? (a) : (b))
#define SK_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SK_ALIGN(n, a) (((n) + ((a) - 1)) & ~(uint64_t)((a) - 1)) /* a: a power of two */
#define sk_container_of(ptr, type, member) \
    ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* Ignores a failure that changes nothing for the caller; a comment beside it says why. */
#define SK_IGNORE(expr)             \
    do {                            \
        sk_rc sk_ignored_ = (expr); \
        (void)sk_ignored_;          \
    } while (0)

/* Returns from the function on a failure. To be used only while the function holds no resource;
 * otherwise use SK_GO. */
#define SK_TRY(expr)                                             \
    do {                                                         \
        sk_rc sk_try_rc_ = (expr);                               \
        if (SK_UNLIKELY(sk_try_rc_ != SK_OK)) return sk_try_rc_; \
    } while (0)

/* Like SK_TRY, for a function that holds resources: sets its variable `rc` and goes to its label
 * `out`. */
#define SK_GO(expr)                             \
    do {                                        \
        rc = (expr);                            \
        if (SK_UNLIKELY(rc != SK_OK)) goto out; \
    } while (0)

/* Three tiers of assertions. SK_ASSERT stays in release builds: an abort is better than corrupted
 * memory that other processes map. SK_DCHECK is compiled into debug builds. SK_XCHECK walks whole
 * structures and is compiled in with SK_EXPENSIVE_CHECKS only. Input, messages of peers and files
 * are never asserted: faults in them are reported as errors. */
void sk_assert_fail(const char *expr, const char *file, int line) __attribute__((noreturn, cold));
#define SK_ASSERT(x) (SK_LIKELY(x) ? (void)0 : sk_assert_fail(#x, __FILE__, __LINE__))
#ifdef NDEBUG
#define SK_DCHECK(x) ((void)sizeof(!(x)))
#else
#define SK_DCHECK(x) SK_ASSERT(x)
#endif
#ifdef SK_EXPENSIVE_CHECKS
#define SK_XCHECK(x) SK_ASSERT(x)
#else
#define SK_XCHECK(x) ((void)sizeof(!(x)))
#endif

typedef uint64_t sk_off; /* byte offset in a segment; shared memory never holds pointers */

struct sk_bytes { /* a view of bytes that someone else owns */
    const void *p;
    size_t n;
};
/* The bytes of a text, without its NUL. NULL: none. */
static inline struct sk_bytes sk_text(const char *s) {
    return (struct sk_bytes){s ? s : "", s ? strlen(s) : 0};
}

#endif
