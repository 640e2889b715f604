/* arena.c - chunks of sk_alloc memory, filled from the bottom up; the newest chunk first.
 *
 * Invariant: chunks are linked from newest to oldest; only the newest is allocated from; `used` of
 * a chunk never exceeds its `size`. A request that does not fit gets a new chunk, of its own size
 * if it is larger than a usual chunk; the new chunk becomes the newest, so that a mark is two
 * values only (chunk and bytes used). Cost: an addition and a comparison; one sk_alloc a chunk.
 * reset keeps the oldest chunk, so an arena that is reset often soon allocates little. */
#include "base/arena.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#elif !defined(NDEBUG)
#define POISON(p, n) memset((p), 0xa5, (n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { DEFAULT_CHUNK = 16384, GRAIN = 16 };

struct sk_arena_chunk {
    struct sk_arena_chunk *older;
    size_t size, used;
    uint64_t pad; /* keeps `data` 16-byte aligned */
    unsigned char data[];
};
_Static_assert(sizeof(struct sk_arena_chunk) % GRAIN == 0, "alignment of data");

void sk_arena_init(struct sk_arena *a, enum sk_tag tag, size_t chunk_bytes) {
    *a = (struct sk_arena){.chunk_bytes =
                               chunk_bytes ? (size_t)SK_ALIGN(chunk_bytes, GRAIN) : DEFAULT_CHUNK,
                           .tag = tag};
}

static void drop_top(struct sk_arena *a) {
    struct sk_arena_chunk *c = a->top;
    a->top = c->older;
    UNPOISON(c->data, c->size); /* unpoisoned, because the heap uses the memory again */
    sk_free(c);
}

void sk_arena_deinit(struct sk_arena *a) {
    while (a->top) drop_top(a);
    a->bytes = 0;
}

static bool add_chunk(struct sk_arena *a, size_t need) {
    size_t size = SK_MAX(need, a->chunk_bytes);
    if (size > SIZE_MAX - sizeof(struct sk_arena_chunk)) return false;
    struct sk_arena_chunk *c = sk_alloc(a->tag, sizeof(*c) + size);
    if (!c) return false;
    c->older = a->top;
    c->size = size;
    c->used = 0;
    c->pad = 0;
    POISON(c->data, c->size);
    a->top = c;
    return true;
}

void *sk_arena_alloc(struct sk_arena *a, size_t n) {
    if (n > SIZE_MAX / 2) return NULL;
    /* an allocation of 0 bytes still gets an address of its own */
    size_t need = (size_t)SK_ALIGN(n ? n : 1, GRAIN);
    if (!a->top || need > a->top->size - a->top->used)
        if (!add_chunk(a, need)) return NULL;
    void *p = a->top->data + a->top->used;
    a->top->used += need;
    a->bytes += need;
    /* the bytes of the rounding stay poisoned, so that an overrun by one byte is caught */
    UNPOISON(p, n);
    return p;
}

void *sk_arena_calloc(struct sk_arena *a, size_t n) {
    void *p = sk_arena_alloc(a, n);
    if (p && n) memset(p, 0, n);
    return p;
}

void *sk_arena_memdup(struct sk_arena *a, const void *p, size_t n) {
    void *q = sk_arena_alloc(a, n);
    if (q && n) memcpy(q, p, n);
    return q;
}

char *sk_arena_strdup(struct sk_arena *a, const char *s) {
    return sk_arena_memdup(a, s, strlen(s) + 1);
}

struct sk_arena_mark sk_arena_save(const struct sk_arena *a) {
    return (struct sk_arena_mark){
        .top = a->top, .used = a->top ? a->top->used : 0, .bytes = a->bytes};
}

static void rewind_top(struct sk_arena *a, size_t used) {
    struct sk_arena_chunk *c = a->top;
    /* fails if the arena was reset after the mark was taken, or marks were restored out of order */
    SK_ASSERT(used <= c->used);
    UNPOISON(c->data + used, c->used - used);
    POISON(c->data + used, c->used - used);
    c->used = used;
}

void sk_arena_restore(struct sk_arena *a, struct sk_arena_mark mark) {
    while (a->top != mark.top) {
        SK_ASSERT(a->top); /* fails when the mark belongs to another arena */
        drop_top(a);
    }
    if (a->top) rewind_top(a, mark.used);
    a->bytes = mark.bytes;
}

void sk_arena_reset(struct sk_arena *a) {
    while (a->top && a->top->older) drop_top(a);
    /* a chunk that was made for one giant request is not kept */
    if (a->top && a->top->size > a->chunk_bytes) drop_top(a);
    if (a->top) rewind_top(a, 0);
    a->bytes = 0;
}
