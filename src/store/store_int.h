/* store_int.h - inside of the store layer: the extent, the free index, the book.
 *
 *   address list:  [live][ warm ][live][ warm | cold | warm ][live][ cold .................. ]
 *                          pure run       mixed run                  pure run
 *
 * A *piece* is one free extent of one temperature; neighbours of one temperature are always merged.
 * A *run* is a maximal row of free pieces. Warm pieces are found by size (two-level bins), cold
 * pieces by address (a treap that knows the largest length below each node), and runs of two or
 * more pieces by address in a second treap; a run of one piece is in no further index, so that the
 * steady state (warm reuse) touches bins only. Each free extent needs at most one span: a cold
 * piece its own, a mixed run one that is charged to one of its warm pieces; so a span is reserved
 * with each extent, and freeing never allocates. */
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
    struct sk_ext *prev, *next;       /* by address; NULL at the ends */
    struct sk_ext *ln_prev, *ln_next; /* warm: its bin; leased: its process */
    enum sk_ext_state state;
    uint32_t proc;       /* leased: to whom */
    uint32_t refs, pins; /* sealed */
};
_Static_assert(sizeof(struct sk_ext) == 64, "one cache line");

struct sk_span { /* node of a treap by address */
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
#define SK_BIN_ROWS 38u /* up to 2^47 bytes */
#define SK_STORE_MAX (UINT64_C(1) << 46)
/* pin keys hold 40 bits of offset and 23 of process */
#define SK_STORE_PROC_MAX (UINT32_C(1) << 23)

struct sk_bins {
    uint64_t rows; /* bit: row has a piece */
    uint32_t subs[SK_BIN_ROWS];
    struct sk_ext *head[SK_BIN_ROWS][SK_BIN_SUB];
};

struct sk_pin {
    struct sk_ext *ext;
    struct sk_pin *prev, *next; /* of its process */
    uint64_t count;
};

struct sk_store_proc {
    uint32_t proc;
    struct sk_ext *leases;
    struct sk_pin *pins;
};

struct sk_store {
    uint64_t size;
    struct sk_store *overflow; /* NULL: none; its offset 0 is our `size` */
    struct sk_ext *first;      /* by address */
    struct sk_bins warm;
    struct sk_spans cold; /* cold pieces */
    struct sk_spans runs; /* runs of at least two pieces */
    struct sk_map live;   /* off + 1 -> leased or sealed extent */
    struct sk_map pins;   /* pin key -> struct sk_pin */
    struct sk_map procs;  /* proc + 1 -> struct sk_store_proc */
    struct sk_store_proc *last_proc;
    struct sk_pool ext_pool, span_pool, pin_pool;
    /* no free run is this long or longer (as found by the last refusal); UINT64_MAX: not known */
    uint64_t refused_len;
    uint64_t leased_bytes, sealed_bytes, warm_bytes, peak_bytes;
    uint64_t n_sealed, n_leased, n_pins;
};

/* The book that has *off, which becomes an offset of that book. */
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

/* free_index.c */
void sk_bin_of(uint64_t len, uint32_t *row, uint32_t *sub);
void sk_bins_add(struct sk_bins *b, struct sk_ext *x);
void sk_bins_del(struct sk_bins *b, struct sk_ext *x);
/* A piece of at least len, smallest bin first, looking at no more than `effort` pieces in len's own
 * bin (whose pieces may be too short; those of later bins never are). NULL: none, or not found with
 * that effort. */
struct sk_ext *sk_bins_find(const struct sk_bins *b, uint64_t len, uint32_t effort);
/* First piece of the highest bin not above (row, sub); lowers them to that bin. NULL: none. */
struct sk_ext *sk_bins_top(const struct sk_bins *b, uint32_t *row, uint32_t *sub);
/* for messages: exact, or up to 3 % low when very many are about that long; 0: empty */
uint64_t sk_bins_largest(const struct sk_bins *b);

/* off, len, ext are set */
void sk_spans_add(struct sk_spans *t, struct sk_span *s);
/* the node, for reuse; it must be there */
struct sk_span *sk_spans_del(struct sk_spans *t, sk_off off);
/* greatest start <= off */
struct sk_span *sk_spans_floor(const struct sk_spans *t, sk_off off);
/* lowest start with at least len */
struct sk_span *sk_spans_first_fit(const struct sk_spans *t, uint64_t len);
bool sk_spans_check(const struct sk_spans *t);

/* shalloc.c */
/* a live extent, in no list and no map any more: becomes warm */
void sk_store_free_ext(struct sk_store *st, struct sk_ext *x);
/* asserts that it is there */
struct sk_ext *sk_store_sealed(const struct sk_store *st, sk_off off);
/* refs == pins == 0: frees */
void sk_store_drop_sealed(struct sk_store *st, struct sk_ext *x);
void sk_store_drop_lease(struct sk_store *st, struct sk_store_proc *p, struct sk_ext *x);
/* pin.c */
/* NULL: nothing known of it */
struct sk_store_proc *sk_store_proc_find(struct sk_store *st, uint32_t proc);
/* made on demand; NULL: no memory */
struct sk_store_proc *sk_store_proc_get(struct sk_store *st, uint32_t proc);
/* store_check.c: like sk_store_check; says what is wrong (static text) */
const char *sk_store_check_why(const struct sk_store *st); /* NULL: all well */
/* "64 MiB", "5.0 GiB", "512 B" */
const char *sk_store_human(uint64_t bytes, char buf[24]);

#endif
