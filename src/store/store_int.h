/* store_int.h - inside of the store layer: the extent, the index of free extents, the book.
 *
 *   by address:  [live][ warm ][live][ warm | cold | warm ][live][ cold .................. ]
 *                      pure run       mixed run                  pure run
 *
 * A *piece* is one free extent, either warm (its pages are present) or cold; two neighbours are
 * never both warm or both cold, since they are merged. A *run* is a maximal row of free pieces.
 * Warm pieces are found by size (two-level bins), cold pieces by address (a treap that knows the
 * largest length below each node), and runs of two or more pieces by address in a second treap. A
 * run of one piece is in no further index, so the steady state (warm reuse) touches bins only. Each
 * free extent needs at most one span (a node of a treap): a cold piece has its own, and the span of
 * a mixed run is charged to one of its warm pieces. So one span is reserved with each extent, and
 * freeing never allocates. */
#ifndef SK_STORE_INT_H
#define SK_STORE_INT_H

#include "base/containers/map.h"
#include "base/mem.h"
#include "base/pool.h"
#include "store/store.h"

enum sk_ext_state { SK_EXT_COLD = 1, SK_EXT_WARM, SK_EXT_LEASED, SK_EXT_SEALED };
#define SK_EXT_IS_FREE(x) ((x)->state <= SK_EXT_WARM)

struct sk_ext {
    sk_off off;
    uint64_t len;
    struct sk_ext *prev, *next; /* neighbours by address; NULL at the ends */
    /* neighbours in a list: of a bin (warm) or of a process (leased) */
    struct sk_ext *ln_prev, *ln_next;
    enum sk_ext_state state;
    uint32_t proc;       /* leased: the process that has it */
    uint32_t refs, pins; /* of a sealed extent */
};
_Static_assert(sizeof(struct sk_ext) == 64, "one cache line");

struct sk_span { /* node of a treap ordered by address */
    sk_off off;
    uint64_t len;
    uint64_t max; /* largest len in this subtree */
    struct sk_span *l, *r;
    struct sk_ext *ext; /* the cold piece, or the first piece of the run */
    uint64_t prio;
};

struct sk_spans {
    struct sk_span *root;
    uint64_t n;
};

/* Bins: lengths below 32 * 64 bytes exactly, then 32 steps for each power of two (3 % wide). */
#define SK_BIN_SUB 32u
#define SK_BIN_ROWS 38u /* enough for lengths up to 2^47 bytes */
#define SK_STORE_MAX (UINT64_C(1) << 46)
/* a pin's key holds 40 bits of offset and 23 of process */
#define SK_STORE_PROC_MAX (UINT32_C(1) << 23)

struct sk_bins {
    uint64_t rows; /* bit r is set if row r has a piece */
    uint32_t subs[SK_BIN_ROWS];
    struct sk_ext *head[SK_BIN_ROWS][SK_BIN_SUB];
};

struct sk_pin {
    struct sk_ext *ext;
    struct sk_pin *prev, *next; /* pins of the same process */
    uint64_t count;
};

struct sk_store_proc {
    uint32_t proc;
    struct sk_ext *leases;
    struct sk_pin *pins;
};

struct sk_store {
    uint64_t size;
    /* book of the overflow, whose offset 0 is offset `size` of this book; NULL: none */
    struct sk_store *overflow;
    struct sk_ext *first; /* extent with the lowest address */
    struct sk_bins warm;
    struct sk_spans cold; /* spans of cold pieces */
    struct sk_spans runs; /* runs of at least two pieces */
    struct sk_map live;   /* key off + 1: the leased or sealed extent */
    struct sk_map pins;   /* pin key -> struct sk_pin */
    struct sk_map procs;  /* key proc + 1: the struct sk_store_proc */
    struct sk_store_proc *last_proc;
    struct sk_pool ext_pool, span_pool, pin_pool;
    /* No free run has this length or more (known from the last refusal); UINT64_MAX: not known. */
    uint64_t refused_len;
    uint64_t leased_bytes, sealed_bytes, warm_bytes, peak_bytes;
    uint64_t n_sealed, n_leased, n_pins;
};

/* Returns the book that *off belongs to and makes *off an offset in it. */
static inline struct sk_store *sk_store_book(const struct sk_store *st, sk_off *off) {
    if (SK_UNLIKELY(st->overflow != NULL) && *off >= st->size) {
        *off -= st->size;
        return st->overflow;
    }
    return (struct sk_store *)(uintptr_t)st;
}

static inline uint64_t sk_ext_end(const struct sk_ext *x) { return x->off + x->len; }

static inline void sk_ext_push(struct sk_ext **head, struct sk_ext *x) {
    x->ln_prev = NULL;
    x->ln_next = *head;
    if (*head) (*head)->ln_prev = x;
    *head = x;
}

static inline void sk_ext_unpush(struct sk_ext **head, struct sk_ext *x) {
    if (x->ln_prev) x->ln_prev->ln_next = x->ln_next;
    else *head = x->ln_next;
    if (x->ln_next) x->ln_next->ln_prev = x->ln_prev;
}

/* ---- free_index.c */
void sk_bin_of(uint64_t len, uint32_t *row, uint32_t *sub);
void sk_bins_add(struct sk_bins *b, struct sk_ext *x);
void sk_bins_del(struct sk_bins *b, struct sk_ext *x);
/* Finds a piece of at least len bytes, in the smallest possible bin. Looks at no more than `effort`
 * pieces in the bin of len itself, whose pieces may be too short; pieces of later bins never are.
 * NULL: there is none, or none was found with that effort. */
struct sk_ext *sk_bins_find(const struct sk_bins *b, uint64_t len, uint32_t effort);
/* The first piece of the highest bin that is not above (row, sub); sets them to that bin. NULL:
 * none. */
struct sk_ext *sk_bins_top(const struct sk_bins *b, uint32_t *row, uint32_t *sub);
/* Length of the largest piece, for messages: exact, or up to 3 % too low when very many pieces are
 * about that long; 0: there is no piece. */
uint64_t sk_bins_largest(const struct sk_bins *b);

/* Adds node s; the caller has set its off, len and ext. */
void sk_spans_add(struct sk_spans *t, struct sk_span *s);
/* Removes the node that starts at off, which must be there, and returns it for reuse. */
struct sk_span *sk_spans_del(struct sk_spans *t, sk_off off);
/* Returns the node with the greatest start <= off. */
struct sk_span *sk_spans_floor(const struct sk_spans *t, sk_off off);
/* Returns the node with the lowest start among those of at least len. */
struct sk_span *sk_spans_first_fit(const struct sk_spans *t, uint64_t len);
bool sk_spans_check(const struct sk_spans *t);

/* ---- shalloc.c */
/* Frees a live extent that is in no list and no map any more; it becomes warm. */
void sk_store_free_ext(struct sk_store *st, struct sk_ext *x);
/* The sealed extent at off; asserts that there is one. */
struct sk_ext *sk_store_sealed(const struct sk_store *st, sk_off off);
/* Frees a sealed extent whose refs and pins are 0. */
void sk_store_drop_sealed(struct sk_store *st, struct sk_ext *x);
void sk_store_drop_lease(struct sk_store *st, struct sk_store_proc *p, struct sk_ext *x);
/* ---- pin.c */
/* Returns the entry of a process; NULL: the process has no lease and no pin. */
struct sk_store_proc *sk_store_proc_find(struct sk_store *st, uint32_t proc);
/* Returns the entry of a process and creates it if needed; NULL: no memory. */
struct sk_store_proc *sk_store_proc_get(struct sk_store *st, uint32_t proc);
/* Like sk_store_check, but returns the broken rule as a static text; NULL: all is well. */
const char *sk_store_check_why(const struct sk_store *st);
/* Formats a size: "64 MiB", "5.0 GiB", "512 B". */
const char *sk_store_human(uint64_t bytes, char buf[24]);

#endif
