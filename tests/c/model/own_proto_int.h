/* own_proto_int.h - inside the model of ownership: the state, the step in progress, and the calls
 * between its four files.
 *
 *     own_proto.c   the model for mc.h: begin, successors, symmetry      own_user.c    what
 *                   processes and the driver may do next
 *     own_engine.c  the engine: one message, one death, one loss         own_check.c   what must
 *                   hold after each step, and at the end
 *
 * A step copies the state, calls own_begin on the copy, changes it, and emits it by EMIT. */
#ifndef SK_TEST_OWN_PROTO_INT_H
#define SK_TEST_OWN_PROTO_INT_H

#include <setjmp.h>

#include "own_proto.h"

enum { NQ = 8, NY = 2, NV = 3 };

enum { O_NONE, O_PENDING, O_READY, O_ERROR, O_ACTOR };
struct obj {
    uint8_t state, store, maker, known, awaited, why, in[MI];
};

enum { T_NONE, T_SAID, T_WAITING, T_READY, T_SENT, T_RUNNING, T_FINISHED, T_NEVER };
enum { K_TASK, K_STREAM, K_CALL };
struct task {
    /* arg: by value; con: a reference */
    uint8_t state, kind, owner, first, n_ret, arg, con, worker, attempt, retries;
    /* references in the message that was sent */
    uint8_t vis[NV];
    uint8_t n_yielded, n_taken, yields[NY];
    uint8_t dropped, done, end_error, cancelled, stop, restart, remake, kept, tried, bulky, ended,
        holds, orphan;
    uint8_t wanted, aside[MA]; /* wanted: bits of yields */
    uint8_t from_attempt;      /* 1 + the attempt whose result was taken */
};

enum {
    M_ADD = 1,
    M_DEL,
    M_PUT,
    M_SUBMIT,
    M_GET,
    M_NEXT,
    M_DROP,
    M_YIELD,
    M_DONE,
    M_UNPIN,
    M_CANCEL
};
struct message {
    uint8_t type, obj, task, attempt, index, failed, in[MI];
};

/* RETURNING: the result exists and is not reported yet; GONE: the worker's actor is over, and no
 * new process follows. */
enum { W_IDLE, W_RUNNING, W_RETURNING, W_ASKED, W_WAITS, W_ANSWERED, W_DEAD, W_GONE };
struct worker {
    uint8_t phase, task, attempt, index, from, wanted; /* index: of the next yield */
    /* rep_in: of the value that was got, or is to be reported */
    uint8_t ask_obj, ask_task, rep_obj, rep_in[MI];
    uint8_t held; /* the request for ask_obj holds it */
    /* it has yielded: it waits while the window is full */
    uint8_t in_window;
    uint8_t args[NV]; /* references that are arguments of the task */
    uint8_t refs[MO], n_q;
    struct message q[NQ];
};

enum { A_NONE, A_ALIVE, A_DEAD };
struct st {
    uint8_t next_id, n_tasks, n_puts, n_gets, n_deaths, n_losses, n_raises, n_cancels;
    uint8_t actor, actor_obj, actor_stopping, actor_tasks;
    uint8_t driver[MO];
    uint8_t made_by[MO + 1]; /* the task; 0: none. For the checks only */
    uint8_t n_zombie;
    struct message zombie[NQ]; /* of processes whose death was noticed */
    struct obj obj[MO + 1];    /* 0: unused */
    struct task task[MT + 1];
    struct worker w[MP]; /* 0: unused */
    struct flat_own own;
    struct flat_lin lin;
};
_Static_assert(sizeof(struct st) <= MC_STATE_MAX, "fits");

struct own_run { /* one at a time */
    const struct own_cfg *cfg;
    struct sk_own *own;
    struct sk_lineage *lin;
    bool own_in, lin_in; /* loaded from the present state */
    const char *wrong;
    char text[200];
    uint8_t lost[MO], n_lost;
    struct st *s;
    struct mc *mc;
    sigjmp_buf jump;
};
extern struct own_run G;

#define BUG(b) (G.cfg->bug == (b))
#define EMIT(...)                                 \
    do {                                          \
        own_finish();                             \
        mc_step(G.mc, G.s, G.wrong, __VA_ARGS__); \
    } while (0)

/* own_proto.c */
void own_wrong(const char *fmt, ...) SK_PRINTF(1, 2); /* the first counts */
/* Checks a call whose failure the engine ignores; in the model a failure is an error. */
void own_fine(sk_rc rc, const char *what, uint8_t id);
/* Returns the table of the present state, loading it at the first call of a step. */
struct sk_own *own_table(void);
struct sk_lineage *own_lineage(void);
void own_begin(struct st *s);
/* ends a step, whose result is G.s: wakes waiting processes, checks and saves the state */
void own_finish(void);

/* own_engine.c: the functions have the names of the engine's */
void own_drain(void);
sk_rc own_obj_new(uint8_t id, uint8_t proc);
void own_value_set(uint8_t id, const uint8_t in[MI], bool store);
void own_fail_task(struct task *t);
void own_lose(uint8_t id);
void own_cancel(struct task *t);
void own_stream_drop(struct task *t);
bool own_stream_take(struct task *t, uint8_t proc, uint8_t *id); /* false: it has to wait */
sk_rc own_submit(uint8_t proc, struct task *t);
void own_wake(void); /* wakes processes whose object exists, and plans the recovery of lost ones */
void own_handle(uint8_t proc, const struct message *m);
void own_worker_died(uint8_t proc);

/* own_user.c */
void own_calls_of_user(const struct st *from, uint8_t proc);
void own_worker_steps(const struct st *from, uint8_t proc);
void own_driver_steps(const struct st *from);

/* own_check.c */
void own_check_all(void);
const char *own_end(const void *arg, const void *state);

static inline uint8_t n_in(const uint8_t in[MI]) { return (uint8_t)(!in[0] ? 0 : !in[1] ? 1 : 2); }
static inline bool under_way(const struct task *t) {
    return t->state >= T_WAITING && t->state <= T_RUNNING;
}

#endif
