/* mem.h - the only way to the C heap: each allocation is tagged and counted, and a test can make
 * the nth one fail.
 *
 * Every block has a 16-byte head (size, tag), so that sk_free needs only the pointer and the bytes
 * in use by each layer are known at any time. Not for shared memory (store, ipc), and not an
 * allocator of its own: glibc's malloc does the work. Thread-safe. Pointers are 16-byte aligned. */
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

/* All allocating functions return NULL when memory is refused (by the system or by the test hook);
 * n = 0 gives a valid pointer to no bytes. */
void *sk_alloc(enum sk_tag tag, size_t n) SK_MUST_USE;
void *sk_calloc(enum sk_tag tag, size_t n) SK_MUST_USE;
/* p may be NULL. On failure the block at p stays as it was. The block is counted under `tag`
 * afterwards. */
void *sk_realloc(enum sk_tag tag, void *p, size_t n) SK_MUST_USE;
/* `align` is a power of two from 16 to 4096. Free with sk_free; sk_realloc is not allowed. Large
 * blocks get huge pages, as by sk_alloc_large. */
void *sk_alloc_aligned(enum sk_tag tag, size_t align, size_t n) SK_MUST_USE;
/* For scratch memory of many megabytes that is used whole and at once: on huge pages where the
 * machine has them (first touches of 4 KiB pages cost as much as a sort). */
void *sk_alloc_large(enum sk_tag tag, size_t n) SK_MUST_USE;
/* Asks for huge pages for n bytes at p, a block of malloc that does not come from this file. Does
 * nothing if p is NULL or n is too small for a mapping of its own. */
void sk_mem_advise(void *p, size_t n);
/* Makes malloc keep up to `most` bytes that are freed, and reuse them for blocks of up to half of
 * that; sk_mem_trim gives them back. Both do nothing where the C library has no such setting (musl,
 * which gives memory back by itself). */
void sk_mem_keep(size_t most);
void sk_mem_trim(void);
void sk_free(void *p); /* NULL is fine; errno is kept */
char *sk_strdup(enum sk_tag tag, const char *s) SK_MUST_USE;
void *sk_memdup(enum sk_tag tag, const void *p, size_t n) SK_MUST_USE;

size_t sk_mem_size(const void *p); /* bytes that the caller requested */
/* Bytes in use now, without the heads; SK_TAG_N: sum of all tags. */
int64_t sk_mem_bytes(enum sk_tag tag);
int64_t sk_mem_blocks(enum sk_tag tag); /* number of blocks in use now; SK_TAG_N: sum of all tags */
const char *sk_tag_name(enum sk_tag tag);

/* Test hook: the nth allocation from now (1 is the next) fails, once; 0 turns the hook off. The
 * loop
 *
 *     for (int64_t n = 1;; n++) {
 *         sk_mem_fail_at(n);
 *         work();
 *         bool hit = sk_mem_failed();
 *         sk_mem_fail_at(0);
 *         if (!hit) break;
 *     }
 *
 * walks every allocation of work(). */
void sk_mem_fail_at(int64_t nth);
/* True if the failure set by the last sk_mem_fail_at has happened. */
bool sk_mem_failed(void);

/* For simulations of processes: calls born(p) after each allocation and gone(p) before each
 * release, so that the simulator can free the memory of a process that it kills. NULL turns the
 * callbacks off. For one thread only; the callbacks must not use sk_alloc. */
void sk_mem_watch(void (*born)(void *p), void (*gone)(void *p));

#endif
