/* shown.h - what an engine shows in its view (engine/view.h): counters over time, its runs, the
 * last errors, ended attempts of tasks. For each engine that has a view: the local one, and the
 * host of nodes. Whoever calls has one lock for all calls. Invariant: a slot of the view belongs to
 * one run that goes on, or to one that has ended. */
#ifndef SK_LOCAL_SHOWN_H
#define SK_LOCAL_SHOWN_H

#include "base/containers/list.h"
#include "base/containers/samples.h"
#include "engine/local/wire/view.h"

struct sk_engine_conf;

struct sk_shown {
    struct sk_view_writer w;
    struct sk_list runs; /* of sk_viewed: the runs that go on */
    uint64_t n_runs, n_done, n_failed;
    struct {
        uint64_t id; /* 0: this slot was never used */
        bool live;
    } slots[SK_VIEW_RUNS];
    int64_t started_ns;
    char *record;              /* path of the record that is written at the end; NULL: none */
    struct sk_samples samples; /* in `history` */
    struct sk_view_history *history;
};

void sk_shown_init(struct sk_shown *s);
sk_rc sk_shown_open(struct sk_shown *s, const struct sk_engine_conf *conf,
                    struct sk_err *err) SK_MUST_USE;
/* The engine closes: notes it, and writes the record. */
void sk_shown_last(struct sk_shown *s);
void sk_shown_close(struct sk_shown *s);
void sk_shown_counters(struct sk_shown *s, const struct sk_view_counters *c);
/* Lets the runs store their state. False: one of them could not. They call the engine meanwhile. */
bool sk_shown_tick(struct sk_shown *s, int64_t now_ns);
/* See struct sk_view_ops. */
void sk_shown_begin(struct sk_shown *s, struct sk_viewed *v);
void sk_shown_run(struct sk_shown *s, struct sk_viewed *v, struct sk_view_run *run);
void sk_shown_end(struct sk_shown *s, struct sk_viewed *v);
void sk_shown_error(struct sk_shown *s, struct sk_view_error *e);

#endif
