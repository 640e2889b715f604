/* mem.c - malloc with a count for each tag.
 *
 * Each block has a 16-byte head; each tag has two relaxed counters; one countdown makes an
 * allocation fail in tests. This is no allocator, no cache and no leak finder (the test runner
 * compares the counters, ASan finds the culprit). Invariant: the sum of head.size over live blocks
 * with tag t equals used[t].bytes; a head's magic is SK_MEM_LIVE from alloc to free, so that a
 * double free or a foreign pointer stops the process before it harms the heap. Cost: 16 bytes a
 * block and two uncontended atomic adds (about 10 ns more than malloc). */
#include "base/mem.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SK_MEM_LIVE = 0x534b4d45, SK_MEM_DEAD = 0x64656164 };

struct head {
    uint64_t size;
    uint32_t magic;
    uint16_t tag;
    uint16_t before; /* bytes from the start of glibc's block to the user's pointer */
};
_Static_assert(sizeof(struct head) == 16, "keeps malloc's alignment");

/* One cache line a tag: threads that work in different layers don't share a counter's line. */
static struct ledger {
    _Atomic int64_t bytes, blocks;
    uint8_t pad[48];
} used[SK_TAG_N] __attribute__((aligned(64)));

static _Atomic int64_t fail_countdown; /* above 0 while a failure is set */
static _Atomic bool fail_happened;
static void (*watch_born)(void *p);
static void (*watch_gone)(void *p);

static inline struct head *head_of(const void *p) {
    return (struct head *)(void *)((uintptr_t)p - sizeof(struct head));
}

static bool refused(void) {
    if (SK_LIKELY(atomic_load_explicit(&fail_countdown, memory_order_relaxed) <= 0)) return false;
    /* Several threads may pass the test above; the one that takes the count from 1 to 0 fails. */
    if (atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) != 1) return false;
    atomic_store_explicit(&fail_happened, true, memory_order_relaxed);
    return true;
}

static void count(unsigned tag, int64_t bytes, int64_t blocks) {
    atomic_fetch_add_explicit(&used[tag].bytes, bytes, memory_order_relaxed);
    if (blocks) atomic_fetch_add_explicit(&used[tag].blocks, blocks, memory_order_relaxed);
}

static void *born(char *raw, size_t before, enum sk_tag tag, size_t n) {
    if (!raw) return NULL;
    void *p = raw + before;
    *head_of(p) = (struct head){
        .size = n, .magic = SK_MEM_LIVE, .tag = (uint16_t)tag, .before = (uint16_t)before};
    count(tag, (int64_t)n, 1);
    if (SK_UNLIKELY(watch_born != NULL)) watch_born(p);
    return p;
}

static bool too_big(size_t n) { return n > (size_t)PTRDIFF_MAX - 8192; }

void *sk_alloc(enum sk_tag tag, size_t n) {
    SK_DCHECK((unsigned)tag < SK_TAG_N);
    if (refused() || too_big(n)) return NULL;
    return born(malloc(n + sizeof(struct head)), sizeof(struct head), tag, n);
}

void *sk_calloc(enum sk_tag tag, size_t n) {
    SK_DCHECK((unsigned)tag < SK_TAG_N);
    if (refused() || too_big(n)) return NULL;
    return born(calloc(1, n + sizeof(struct head)), sizeof(struct head), tag, n);
}

void sk_mem_advise(void *p, size_t n) {
    /* glibc gives blocks of this size a mapping of their own, so the advice ends with the block */
    enum { HUGE = 2 << 20, OWN_MAPPING = 32 << 20 };
    if (!p || n < OWN_MAPPING) return;
    size_t skip = -(uintptr_t)p & (HUGE - 1);
    /* without huge pages the memory is only slower */
    (void)madvise((uint8_t *)p + skip, (n - skip) & ~(size_t)(HUGE - 1), MADV_HUGEPAGE);
}

/* By default malloc of glibc maps blocks of over 128 KiB, and unmaps them when they are freed:
 * every array would be written to fresh pages (1.2 GB/s; warm pages: 12 GB/s). With these limits,
 * values of up to half of the memory that is kept reuse memory. */
void sk_mem_keep(size_t most) {
#ifdef __GLIBC__
    enum { OLD_MOST = 32 << 20 }; /* the limit of older versions of glibc */
    if (!mallopt(M_MMAP_THRESHOLD, (int)(most / 2))) (void)mallopt(M_MMAP_THRESHOLD, OLD_MOST);
    (void)mallopt(M_TRIM_THRESHOLD, (int)most);
#else
    (void)most;
#endif
}

void sk_mem_trim(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void *sk_alloc_aligned(enum sk_tag tag, size_t align, size_t n) {
    SK_DCHECK((unsigned)tag < SK_TAG_N);
    SK_ASSERT(align >= sizeof(struct head) && align <= 4096 && (align & (align - 1)) == 0);
    if (refused() || too_big(n)) return NULL;
    void *raw = NULL;
    if (posix_memalign(&raw, align, n + align) != 0) return NULL;
    sk_mem_advise(raw, n);
    return born(raw, align, tag, n);
}

void *sk_alloc_large(enum sk_tag tag, size_t n) {
    void *p = sk_alloc(tag, n);
    sk_mem_advise(p, n);
    return p;
}

void *sk_realloc(enum sk_tag tag, void *p, size_t n) {
    if (!p) return sk_alloc(tag, n);
    SK_DCHECK((unsigned)tag < SK_TAG_N);
    struct head *h = head_of(p);
    SK_ASSERT(h->magic == SK_MEM_LIVE && h->before == sizeof(struct head));
    if (refused() || too_big(n)) return NULL;
    struct head old = *h;
    if (SK_UNLIKELY(watch_gone != NULL)) watch_gone(p);
    struct head *moved = realloc(h, n + sizeof(struct head));
    if (SK_UNLIKELY(watch_born != NULL)) watch_born(moved ? (void *)(moved + 1) : p);
    if (!moved) return NULL;
    moved->size = n;
    moved->tag = (uint16_t)tag;
    count(old.tag, -(int64_t)old.size, -1);
    count(tag, (int64_t)n, 1);
    return moved + 1;
}

void sk_free(void *p) {
    if (!p) return;
    struct head *h = head_of(p);
    SK_ASSERT(h->magic == SK_MEM_LIVE);
    if (SK_UNLIKELY(watch_gone != NULL)) watch_gone(p);
    h->magic = SK_MEM_DEAD;
    count(h->tag, -(int64_t)h->size, -1);
    int keep = errno; /* glibc before 2.33 may change it; error paths free before they report */
    free((char *)p - h->before);
    errno = keep;
}

char *sk_strdup(enum sk_tag tag, const char *s) { return sk_memdup(tag, s, strlen(s) + 1); }

void *sk_memdup(enum sk_tag tag, const void *p, size_t n) {
    void *q = sk_alloc(tag, n);
    if (q && n) memcpy(q, p, n);
    return q;
}

size_t sk_mem_size(const void *p) {
    const struct head *h = head_of(p);
    SK_ASSERT(h->magic == SK_MEM_LIVE);
    return (size_t)h->size;
}

int64_t sk_mem_bytes(enum sk_tag tag) {
    if (tag != SK_TAG_N) return atomic_load_explicit(&used[tag].bytes, memory_order_relaxed);
    int64_t sum = 0;
    for (unsigned t = 0; t < SK_TAG_N; t++)
        sum += atomic_load_explicit(&used[t].bytes, memory_order_relaxed);
    return sum;
}

int64_t sk_mem_blocks(enum sk_tag tag) {
    if (tag != SK_TAG_N) return atomic_load_explicit(&used[tag].blocks, memory_order_relaxed);
    int64_t sum = 0;
    for (unsigned t = 0; t < SK_TAG_N; t++)
        sum += atomic_load_explicit(&used[t].blocks, memory_order_relaxed);
    return sum;
}

const char *sk_tag_name(enum sk_tag tag) {
    static const char *const name[SK_TAG_N] = {"base",   "ipc",  "store", "block", "kernel",
                                               "engine", "plan", "exec",  "py",    "test"};
    return (unsigned)tag < SK_TAG_N ? name[tag] : "?";
}

void sk_mem_watch(void (*born_fn)(void *p), void (*gone_fn)(void *p)) {
    watch_born = born_fn;
    watch_gone = gone_fn;
}

void sk_mem_fail_at(int64_t nth) {
    atomic_store_explicit(&fail_happened, false, memory_order_relaxed);
    atomic_store_explicit(&fail_countdown, nth, memory_order_relaxed);
}

bool sk_mem_failed(void) { return atomic_load_explicit(&fail_happened, memory_order_relaxed); }
