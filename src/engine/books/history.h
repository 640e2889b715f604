/* history.h - what ended tasks leave behind for state lists and timelines: a ring of the last
 * SK_STATE_PAST attempts. Pure: no clock, no ipc.
 *
 * Rows of living things are not here: each engine writes them from its tables when it is asked
 * (state.h). Invariant: the ring never holds more than its number of entries and TEXT_MAX bytes of
 * names and error values; the oldest texts go first. Cost: 10 ns an entry (the texts of an entry
 * reuse the memory of the one it replaces), 64 bytes each from the first ended task on.
 * Thread-safety: none; the engine's lock guards it. */
#ifndef SK_HISTORY_H
#define SK_HISTORY_H

#include "base/containers/vec.h"
#include "base/wire.h"
#include "engine/state.h"

/* one ended attempt, in one cache line: with 136 bytes the ring cost 10,000 no-op tasks 25 % */
struct sk_past {
    uint64_t id, fn;
    int64_t submit_ns;
    /* from there to its start (< 0: it never ran), from its start to its end */
    float wait_s, run_s;
    int32_t pid;
    uint32_t n_returns;
    sk_shape shape;
    uint16_t worker, attempt;
    uint8_t kind; /* enum sk_task_kind */
    bool failed;
    struct sk_past_text *text; /* what most have not; NULL: nothing, or let go */
};
_Static_assert(sizeof(struct sk_past) <= 64, "one cache line");
struct sk_past_text {
    uint64_t parent, actor;
    uint32_t cap, name_n, error_n, error_kind; /* cap: of bytes */
    char bytes[];                              /* the name, the error's value */
};

struct sk_history {
    struct sk_past *p; /* [i % SK_STATE_PAST]; NULL: nothing ended yet */
    uint64_t n;        /* ever */
    uint32_t next;     /* n % SK_STATE_PAST */
    uint64_t bare;     /* entries below have no text any more */
    uint64_t text_bytes;
    struct sk_gone {
        SK_VEC(struct sk_bytes) rows; /* oldest first from `at` */
        uint32_t at;
    } actors, workers; /* that are gone */
};

struct sk_ended {     /* on its way in */
    struct sk_past p; /* without text */
    uint64_t parent, actor;
    uint32_t error_kind;
    struct sk_bytes name, error;
    int64_t start_ns, end_ns; /* start 0: it never ran */
};
/* Memory that is refused costs the entry, or its text, nothing else. */
void sk_history_add(struct sk_history *h, const struct sk_ended *e);
void sk_history_gone(struct sk_gone *g, struct sk_bytes row); /* copied */
void sk_history_free(struct sk_history *h);

/* What the rows of both engines are written with. */
struct sk_rows {
    struct sk_wr w;
    struct sk_state_head head;
};
struct sk_rows sk_rows_begin(void *buf, size_t cap);
void sk_rows_add(struct sk_rows *r, const void *row, size_t row_n, const struct sk_bytes *texts,
                 uint32_t n_texts);
size_t sk_rows_end(struct sk_rows *r, void *buf, size_t cap); /* the length needed */
/* The ended ones: of an entry, what the engine knows beyond it. */
struct sk_past_more {
    struct sk_bytes fn;
    struct sk_need need;
};
void sk_rows_past(struct sk_rows *r, const struct sk_history *h,
                  struct sk_past_more (*more)(void *ctx, const struct sk_past *p), void *ctx);
void sk_rows_gone(struct sk_rows *r, const struct sk_gone *g);

#endif
