/* graph.c - the head of a graph in shared memory: a table of offsets, written once before another
 * process maps it, and the record of deaths.
 *
 *   head | seats[n_actors] | ids[n_actors] | channels[n_nodes] | gone[n_nodes] |
 *       readers[n_nodes][n_actors + 2] | the channels | states[n_actors]
 *
 *  field       | writer                 | readers             | order         | after a crash
 *  dead, story | the process that       | all                 | story, then   | it is the driver:
 *              | buries, first death    |                     | dead: release | no graph is left
 *  gone[n]     | the one that buries    | the same            | -             | -
 *  closed      | any process: 1         | a process that has  | seq_cst       | -
 *              |                        | emptied a seat      |               |
 *  changes     | burying, closing: +1   | those who wait for  | seq_cst, past | -
 *              |                        | lost seats          | the change    |
 *  seats       | see loop.h
 *  the rest    | sk_dag_create          | all                 | magic last    | no graph
 *
 * A process that closes the graph sets `closed` and then marks the empty seats as left. A process
 * that empties a seat reads `closed` afterwards. So one of the two sees the change of the other. */
#include "dag/graph.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/mem.h"
#include "ipc/ipc.h"

#define GRAPH_MAGIC 0x4850415247444b53ull /* "SKDGRAPH" */
/* bytes of `story` that are reserved for the reason why an actor may not go on */
enum { MORE = 200 };

struct sk_dag_head {
    uint64_t magic;
    uint32_t n_actors, n_nodes;
    _Atomic uint32_t dead; /* 0: no actor has died; else 1 + index of the actor */
    _Atomic uint32_t closed, changes;
    uint32_t pad;
    uint64_t seats, ids, channels, gone, readers, states; /* offsets from the head */
    char story[1008];
};
_Static_assert(sizeof(struct sk_dag_head) == 1088, "whole lines");

static void *at(const struct sk_dag_head *h, uint64_t off) { return (uint8_t *)(uintptr_t)h + off; }
static uint32_t *readers_of(const struct sk_dag_head *h, uint32_t node) {
    return (uint32_t *)at(h, h->readers) + (size_t)node * (h->n_actors + 2);
}

/* Computes the offsets of the tables; *end: where the channels begin. */
static struct sk_dag_head layout(const struct sk_dag_shape *s, uint64_t *end) {
    struct sk_dag_head h = {.n_actors = s->n_actors, .n_nodes = s->n_nodes, .seats = sizeof h};
    h.ids = h.seats + s->n_actors * sizeof(struct sk_dag_seat);
    h.channels = h.ids + s->n_actors * sizeof(uint64_t);
    h.gone = h.channels + s->n_nodes * sizeof(uint64_t);
    h.readers = h.gone + s->n_nodes * sizeof(uint64_t);
    *end = SK_ALIGN(h.readers + (uint64_t)s->n_nodes * (s->n_actors + 2) * sizeof(uint32_t), 64);
    return h;
}

static uint64_t state_stride(void) { return SK_ALIGN(sk_chan_bytes(&SK_DAG_STATES), 64); }

/* Numbers the readers of each node's channel. readers: n_nodes * (n_actors + 2) entries, all
 * SK_DAG_NONE before; n: number of readers of each node. */
static void number_readers(const struct sk_dag_shape *s, uint32_t *readers, uint32_t *n) {
    for (uint32_t i = 0; i < s->n_edges; i++) {
        uint32_t from = s->edges[i].from, to = s->actor[s->edges[i].to];
        uint32_t *r = &readers[(size_t)from * (s->n_actors + 2) + to];
        if (!s->edges[i].meets && s->actor[from] != to && *r == SK_DAG_NONE) *r = n[from]++;
    }
}

/* Computes the bytes of the graph and the places of its channels; *states: where the channels of
 * states begin. 0: an error. */
static uint64_t measure(const struct sk_dag_shape *s, const uint32_t *n, uint64_t *channels,
                        uint64_t *states, struct sk_err *err) {
    uint64_t len;
    (void)layout(s, &len);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!n[i]) continue;
        uint64_t bytes = sk_chan_bytes(&(struct sk_chan_shape){n[i], s->n_cells, s->n_bufs});
        if (!bytes) {
            SK_IGNORE(SK_ERR(err, SK_EINVAL,
                             "a value of a graph goes to at most %u processes, and %u executions "
                             "are under way at most, not %u and %u",
                             SK_CHAN_READERS, SK_CHAN_CELLS, n[i], s->n_cells));
            return 0;
        }
        if (channels) channels[i] = len;
        len = SK_ALIGN(len + bytes, 64);
    }
    if (states) *states = len;
    return len + s->n_actors * state_stride();
}

static uint32_t *new_readers(const struct sk_dag_shape *s, uint32_t **n, struct sk_err *err) {
    size_t ends = (size_t)s->n_nodes * (s->n_actors + 2);
    uint32_t *readers = sk_alloc(SK_TAG_PLAN, (ends + s->n_nodes + 1) * sizeof *readers);
    if (!readers) {
        SK_IGNORE(SK_ERR(err, SK_ENOMEM, "a graph of %u nodes", s->n_nodes));
        return NULL;
    }
    memset(readers, 0xff, ends * sizeof *readers);
    *n = readers + ends;
    memset(*n, 0, (s->n_nodes + 1) * sizeof **n);
    number_readers(s, readers, *n);
    return readers;
}

uint64_t sk_dag_bytes(const struct sk_dag_shape *s, struct sk_err *err) {
    uint32_t *n, *readers = new_readers(s, &n, err);
    uint64_t bytes = readers ? measure(s, n, NULL, NULL, err) : 0;
    sk_free(readers);
    return bytes;
}

sk_rc sk_dag_create(void *mem, const struct sk_dag_shape *s, struct sk_err *err) {
    uint64_t end;
    uint32_t *n, *readers = new_readers(s, &n, err);
    if (!readers) return SK_ENOMEM;
    struct sk_dag_head *h = mem;
    *h = layout(s, &end);
    memset(at(h, h->seats), 0, h->readers - h->seats);
    memcpy(at(h, h->ids), s->ids, s->n_actors * sizeof *s->ids);
    memcpy(at(h, h->readers), readers, (size_t)s->n_nodes * (s->n_actors + 2) * sizeof *readers);
    sk_rc rc = measure(s, n, at(h, h->channels), &h->states, err) ? SK_OK : SK_EINVAL;
    for (uint32_t i = 0; rc == SK_OK && i < s->n_nodes; i++)
        if (n[i])
            rc = sk_chan_create(sk_dag_channel(h, i),
                                &(struct sk_chan_shape){n[i], s->n_cells, s->n_bufs}, err);
    for (uint32_t i = 0; i < s->n_actors; i++) sk_dag_seat_init(sk_dag_seat(h, i), s->id);
    for (uint32_t i = 0; rc == SK_OK && i < s->n_actors; i++)
        rc = sk_chan_create(sk_dag_states(h, i), &SK_DAG_STATES, err);
    sk_free(readers);
    if (rc == SK_OK) __atomic_store_n(&h->magic, GRAPH_MAGIC, __ATOMIC_RELEASE);
    return rc;
}

void *sk_dag_channel(const struct sk_dag_head *h, uint32_t node) {
    SK_ASSERT(node < h->n_nodes);
    uint64_t off = ((const uint64_t *)at(h, h->channels))[node];
    return off ? at(h, off) : NULL;
}

uint32_t sk_dag_reader(const struct sk_dag_head *h, uint32_t node, uint32_t actor) {
    SK_ASSERT(node < h->n_nodes && actor < h->n_actors + 2);
    return readers_of(h, node)[actor];
}

struct sk_dag_seat *sk_dag_seat(const struct sk_dag_head *h, uint32_t actor) {
    SK_ASSERT(actor < h->n_actors);
    return (struct sk_dag_seat *)at(h, h->seats) + actor;
}

void *sk_dag_states(const struct sk_dag_head *h, uint32_t actor) {
    SK_ASSERT(actor < h->n_actors);
    return at(h, h->states + actor * state_stride());
}

_Atomic uint32_t *sk_dag_changes(struct sk_dag_head *h) { return &h->changes; }
bool sk_dag_closed(const struct sk_dag_head *h) { return sk_load_seq(&h->closed) != 0; }

static void changed(struct sk_dag_head *h) {
    (void)sk_add_seq(&h->changes, 1);
    sk_futex_wake(&h->changes, 1 << 20);
}

static bool is_graph(const struct sk_dag_head *h) {
    return __atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) == GRAPH_MAGIC;
}

void sk_dag_close(struct sk_dag_head *h) {
    sk_store_seq(&h->closed, 1);
    for (uint32_t n = 0; n < h->n_nodes; n++)
        if (sk_dag_channel(h, n)) sk_chan_close(sk_dag_channel(h, n));
    for (uint32_t i = 0; i < h->n_actors; i++) (void)sk_dag_seat_skip(sk_dag_seat(h, i));
    changed(h);
}

static void reader_gone(struct sk_dag_head *h, uint32_t actor) {
    for (uint32_t n = 0; n < h->n_nodes; n++) {
        uint32_t r = readers_of(h, n)[actor];
        if (r != SK_DAG_NONE) ((uint64_t *)at(h, h->gone))[n] |= UINT64_C(1) << r;
    }
}

/* Makes the seat of a dead process free for the actor's next process. false: the actor may not go
 * on; `more` then gets the reason, a text to be added to the text about the death. */
static bool goes_on(struct sk_dag_head *h, uint32_t actor, char *more, size_t cap) {
    struct sk_dag_seat *s = sk_dag_seat(h, actor);
    uint64_t execution = sk_replay_from(NULL, 0, sk_chan_written(sk_dag_states(h, actor)));
    uint32_t state = sk_dag_seat_state(s);
    if (state == SK_SEAT_LEFT || sk_dag_closed(h)) return false;
    /* no process has taken the seat since the last death: the code that was to start the loop
     * starts it in the actor's newest process */
    if (state == SK_SEAT_EMPTY) return true;
    for (uint32_t n = 0; n < h->n_nodes; n++) {
        uint32_t r = readers_of(h, n)[actor];
        if (r == SK_DAG_NONE) continue;
        execution = SK_MAX(execution, sk_chan_passed(sk_dag_channel(h, n), r));
    }
    if (!sk_replay_again(&s->deaths, execution, s->retries)) {
        (void)snprintf(more, cap,
                       "\nThe actor restarts, but its max_task_retries is %d, and %u of its "
                       "processes have died in execution %llu of a compiled graph",
                       s->retries, s->deaths.n, (unsigned long long)execution);
        return false;
    }
    for (uint32_t n = 0; n < h->n_nodes; n++) {
        uint32_t r = readers_of(h, n)[actor];
        if (r != SK_DAG_NONE) sk_chan_lost(sk_dag_channel(h, n), r);
        else if (sk_dag_channel(h, n)) sk_chan_stir(sk_dag_channel(h, n));
    }
    sk_chan_lost(sk_dag_states(h, actor), 0);
    if (!sk_dag_seat_lose(s)) return false;
    if (sk_dag_closed(h)) (void)sk_dag_seat_skip(s);
    changed(h);
    return true;
}

static uint32_t actor_of(const struct sk_dag_head *h, uint64_t id) {
    /* the result n_actors means that the actor has no seat in this graph */
    uint32_t i = 0;
    while (i < h->n_actors && ((const uint64_t *)at(h, h->ids))[i] != id) i++;
    return i;
}

/* Records the death of an actor; later deaths are ignored. */
static void note_death(struct sk_dag_head *h, uint32_t who, const char *how, const char *more) {
    if (sk_load_acq(&h->dead)) return;
    (void)snprintf(h->story, sizeof h->story, "%.*s%s", (int)(sizeof h->story - MORE), how, more);
    sk_store_rel(&h->dead, who + 1);
}

void sk_dag_condemn(void *head, uint64_t id, const char *how) {
    struct sk_dag_head *h = head;
    if (!is_graph(h)) return;
    uint32_t i = actor_of(h, id);
    if (i == h->n_actors) return;
    note_death(h, i, how, "");
    sk_dag_close(h);
}

void sk_dag_bury(void *head, uint64_t id, const char *how, bool restarts) {
    struct sk_dag_head *h = head;
    if (!is_graph(h)) return;
    bool all = id == UINT64_MAX;
    uint32_t i = actor_of(h, id);
    if (id && !all && i == h->n_actors) return;
    char more[MORE] = "";
    if (restarts && id && !all && goes_on(h, i, more, sizeof more)) return;
    note_death(h, i, how, more);
    if (!all) reader_gone(h, id ? i : h->n_actors + 1);
    sk_dag_close(h);
    if (id && !all) sk_dag_seat_leave(sk_dag_seat(h, i), SK_EDEAD, how);
}

uint32_t sk_dag_dead(const struct sk_dag_head *h, const char **how) {
    uint32_t who = sk_load_acq(&h->dead);
    *how = h->story;
    return who ? who - 1 : SK_DAG_NONE;
}

bool sk_dag_in_use(const void *head) {
    const struct sk_dag_head *h = head;
    if (!is_graph(h)) return false;
    for (uint32_t i = 0; i < h->n_actors; i++)
        if (sk_dag_seat_state(sk_dag_seat(h, i)) != SK_SEAT_LEFT) return true;
    for (uint32_t n = 0; n < h->n_nodes; n++)
        if (sk_dag_channel(h, n) &&
            sk_chan_shown(sk_dag_channel(h, n), ((const uint64_t *)at(h, h->gone))[n]))
            return true;
    return false; /* channels of states need no check, since only their own actor reads them */
}
