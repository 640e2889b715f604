/* arena.h - a region of memory: allocate piece by piece, free everything at once (or everything
 * since a mark).
 *
 * A region serves data whose pieces all die together: those of a run, a step or a call. No piece is
 * freed singly; pairs of save and restore nest like a stack. Freed memory is poisoned under ASan
 * and overwritten in debug builds, so that a use after the end of the region shows up.
 * Thread-safety: a region belongs to one thread. Pointers are 16-byte aligned; sk_arena_alloc does
 * not zero. */
#ifndef SK_ARENA_H
#define SK_ARENA_H

#include "base/mem.h"

struct sk_arena_chunk;
struct sk_arena {
    struct sk_arena_chunk *top; /* newest chunk; NULL until the first allocation */
    size_t chunk_bytes;         /* bytes; size of a chunk unless one request needs more */
    size_t bytes; /* bytes allocated and not freed yet, each request rounded up to 16 */
    enum sk_tag tag;
};
struct sk_arena_mark {
    struct sk_arena_chunk *top;
    size_t used, bytes;
};

/* Allocates nothing yet. chunk_bytes 0 means 16 KiB. */
void sk_arena_init(struct sk_arena *a, enum sk_tag tag, size_t chunk_bytes);
/* Frees everything; the arena is empty and usable afterwards. */
void sk_arena_deinit(struct sk_arena *a);
void *sk_arena_alloc(struct sk_arena *a, size_t n) SK_MUST_USE;  /* NULL: no memory */
void *sk_arena_calloc(struct sk_arena *a, size_t n) SK_MUST_USE; /* zeroed */
void *sk_arena_memdup(struct sk_arena *a, const void *p, size_t n) SK_MUST_USE;
char *sk_arena_strdup(struct sk_arena *a, const char *s) SK_MUST_USE;
struct sk_arena_mark sk_arena_save(const struct sk_arena *a);
/* Frees everything that was allocated since the save. */
void sk_arena_restore(struct sk_arena *a, struct sk_arena_mark mark);
/* Frees everything, but keeps one chunk for the next use. */
void sk_arena_reset(struct sk_arena *a);

#endif
