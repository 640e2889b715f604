/* mem.h - the only way to the C heap: tagged, counted, and able to fail on the nth call.
 *
 * Every block carries a 16-byte head (size, tag), so `sk_free` takes just the pointer and the bytes
 * in use by each layer are known at any time. Not for shared memory (store, ipc) and not an
 * allocator of its own: it is glibc's with a ledger. Thread-safety: all of it, from any thread.
 * Pointers are 16-byte aligned. */
#ifndef SK_MEM_H
#define SK_MEM_H

#include "base/base.h"

enum sk_tag {
    SK_TAG_BASE,
    SK_TAG_IPC,
    SK_TAG_STORE,
    SK_TAG_BLOCK,
    SK_TAG_KERNEL,
    SK_TAG_ENGINE,
    SK_TAG_PLAN,
    SK_TAG_EXEC,
    SK_TAG_PY,
    SK_TAG_TEST,
    SK_TAG_N
};

/* All return NULL when memory is refused (or the test hook says so); n = 0 gives a valid pointer to
 * nothing. */
void *sk_alloc(enum sk_tag tag, size_t n) SK_MUST_USE;
void *sk_calloc(enum sk_tag tag, size_t n) SK_MUST_USE;
/* p may be NULL. On failure p stays as it was. The block moves to `tag`. */
void *sk_realloc(enum sk_tag tag, void *p, size_t n) SK_MUST_USE;
/* align: a power of two from 16 to 4096. Freed with sk_free; sk_realloc of it is not allowed. Large
 * ones as of sk_alloc_large. */
void *sk_alloc_aligned(enum sk_tag tag, size_t align, size_t n) SK_MUST_USE;
/* For scratch of many megabytes that is used whole, at once: on huge pages where the machine has
 * them (first touch of 4 KiB pages costs as much as a sort). */
void *sk_alloc_large(enum sk_tag tag, size_t n) SK_MUST_USE;
/* The same for n bytes at p that another caller of malloc got; nothing where they are too few to
 * have a mapping of their own, or p is NULL. */
void sk_mem_advise(void *p, size_t n);
void sk_free(void *p); /* NULL is fine; errno is kept */
char *sk_strdup(enum sk_tag tag, const char *s) SK_MUST_USE;
void *sk_memdup(enum sk_tag tag, const void *p, size_t n) SK_MUST_USE;

size_t sk_mem_size(const void *p); /* bytes asked for */
/* in use now, heads not counted; SK_TAG_N: all tags together */
int64_t sk_mem_bytes(enum sk_tag tag);
int64_t sk_mem_blocks(enum sk_tag tag); /* number of blocks in use now; SK_TAG_N: all */
const char *sk_tag_name(enum sk_tag tag);

/* Test hook: the nth allocation from now (1 = the next one) fails, once; 0 = off. The loop
 *     for (int64_t n = 1;; n++) { sk_mem_fail_at(n); work(); bool hit = sk_mem_failed();
 *     sk_mem_fail_at(0); if (!hit) break; }
 * walks every allocation of work(). */
void sk_mem_fail_at(int64_t nth);
/* true when the failure asked for by the last sk_mem_fail_at has happened */
bool sk_mem_failed(void);

/* For simulations of processes: born(p) after each allocation, gone(p) before each release, so that
 * the memory of a process that is killed in mid-air can be found. NULL: off. One thread only; the
 * two must not allocate by sk_alloc. */
void sk_mem_watch(void (*born)(void *p), void (*gone)(void *p));

#endif
