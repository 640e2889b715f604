/* arena.h - a region: allocate freely, give everything back at once (or back to a mark).
 *
 * For lifetimes with one end: a run, a step, a call. Nothing is freed singly; a save/restore pair
 * nests like a stack. Memory given back is poisoned under ASan and overwritten in debug builds, so
 * a pointer that outlives its region shows itself. Thread-safety: one thread. Pointers are 16-byte
 * aligned, memory is not zeroed by sk_arena_alloc. */
#ifndef SK_ARENA_H
#define SK_ARENA_H

#include "base/mem.h"

struct sk_arena_chunk;
struct sk_arena {
    struct sk_arena_chunk *top; /* newest chunk; NULL until the first allocation */
    size_t chunk_bytes;         /* size of the usual chunk */
    size_t bytes;               /* given out and not given back, after rounding to 16 */
    enum sk_tag tag;
};
struct sk_arena_mark {
    struct sk_arena_chunk *top;
    size_t used, bytes;
};

/* chunk_bytes 0: 16 KiB; allocates nothing */
void sk_arena_init(struct sk_arena *a, enum sk_tag tag, size_t chunk_bytes);
/* empty and usable after */
void sk_arena_deinit(struct sk_arena *a);
void *sk_arena_alloc(struct sk_arena *a, size_t n) SK_MUST_USE;  /* NULL: no memory */
void *sk_arena_calloc(struct sk_arena *a, size_t n) SK_MUST_USE; /* zeroed */
void *sk_arena_memdup(struct sk_arena *a, const void *p, size_t n) SK_MUST_USE;
char *sk_arena_strdup(struct sk_arena *a, const char *s) SK_MUST_USE;
struct sk_arena_mark sk_arena_save(const struct sk_arena *a);
/* everything allocated since the save is gone */
void sk_arena_restore(struct sk_arena *a, struct sk_arena_mark mark);
/* everything is gone; one chunk is kept for the next round */
void sk_arena_reset(struct sk_arena *a);

#endif
