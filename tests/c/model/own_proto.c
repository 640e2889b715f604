/* own_proto.c - the protocol of own_proto.h: the state, what the engine does, what processes do, what must hold.
 *
 * One step is one call of a user, one message handled, one task sent or begun, one death or its notice. After each, sk_own_check and
 * sk_lineage_check hold, and (`wrong`):
 *   - whatever a living process, a message under way, a task that is not over or an alive value refers to is in the table of objects;
 *   - counts are exact: of a process, what it has = what the table says + what its messages will change; of holds likewise;
 *   - nothing is in the table that nobody refers to, once no message is under way;
 *   - a result comes from the attempt that the engine counts, once; yields have no hole and none comes twice;
 *   - an object that does not exist yet is being made by a task that is not over;
 * and a state in which nothing can happen has no object, no kept task, no hold and no process that waits.
 *
 * The real structures are loaded from the state only for steps that touch them. */
#include "own_proto.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

enum { NQ = 8, NY = 2, NV = 3 };

enum { O_NONE, O_PENDING, O_READY, O_ERROR, O_ACTOR };
struct obj {
    uint8_t state, store, maker, known, awaited, why, in[MI];
};

enum { T_NONE, T_SAID, T_WAITING, T_READY, T_SENT, T_RUNNING, T_FINISHED, T_NEVER };
enum { K_TASK, K_STREAM, K_CALL };
struct task {
    uint8_t state, kind, owner, first, arg, con, worker, attempt, retries; /* arg: by value; con: a reference */
    uint8_t vis[NV];                                                       /* references in the message that was sent */
    uint8_t n_yielded, n_taken, yields[NY];
    uint8_t dropped, done, end_error, cancelled, stop, restart, remake, kept, tried, bulky, ended, holds, orphan;
    uint8_t wanted, aside[MA]; /* wanted: bits of yields */
    uint8_t from_attempt;      /* 1 + the attempt whose result was taken */
};

enum { M_ADD = 1, M_DEL, M_PUT, M_SUBMIT, M_GET, M_NEXT, M_DROP, M_YIELD, M_DONE, M_UNPIN, M_CANCEL };
struct message {
    uint8_t type, obj, task, attempt, index, failed, in[MI];
};

/* RETURNING: the result is made, not yet reported; GONE: its actor is over, no new process comes */
enum { W_IDLE, W_RUNNING, W_RETURNING, W_ASKED, W_WAITS, W_ANSWERED, W_DEAD, W_GONE };
struct worker {
    uint8_t phase, task, attempt, index, from, wanted; /* index: of the next yield */
    uint8_t ask_obj, ask_task, rep_obj, rep_in[MI];    /* rep_in: of the value that was got, or is to be reported */
    uint8_t held;                                      /* the request for ask_obj holds it */
    uint8_t args[NV];                                  /* references that came as arguments */
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

static struct {
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
} G;

#define BUG(b) (G.cfg->bug == (b))

SK_PRINTF(1, 2) static void wrong(const char *fmt, ...) {
    if (G.wrong) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(G.text, sizeof G.text, fmt, ap);
    va_end(ap);
    G.wrong = G.text;
}

static struct sk_own *own(void) {
    if (!G.own_in) real_own_load(G.own, &G.s->own);
    G.own_in = true;
    return G.own;
}

static struct sk_lineage *lin(void) {
    if (!G.lin_in) real_lin_load(G.lin, &G.s->lin);
    G.lin_in = true;
    return G.lin;
}

/* What is freed and not drained yet has an entry that nobody finds. */
static struct obj *obj_get(uint8_t id) {
    if (!id || G.s->obj[id].state == O_NONE || (G.own_in && !sk_own_has(G.own, id))) return NULL;
    return &G.s->obj[id];
}
static uint8_t tid_of(const struct task *t) { return (uint8_t)(t - G.s->task); }
static uint8_t n_in(const uint8_t in[MI]) { return (uint8_t)(!in[0] ? 0 : !in[1] ? 1 : 2); }
static bool under_way(const struct task *t) { return t->state >= T_WAITING && t->state <= T_RUNNING; }

/* An own_ call that the engine cannot mind failing; here it is minded. */
static void fine(sk_rc rc, const char *what, uint8_t id) {
    if (rc != SK_OK && BUG(OWN_RIGHT)) wrong("%s object %u: %s", what, id, sk_rc_name(rc));
}

/* ---- the engine: loop.c ------------------------------------------------------------------------------------------------------------- */

static void fail_task(struct task *t);
static void task_end(struct task *t);
static void actor_advance(void);

static void obj_free(uint8_t id) {
    struct obj *o = &G.s->obj[id];
    struct obj was = *o;
    memset(o, 0, sizeof *o);
    if (was.state == O_ACTOR) {
        G.s->actor_stopping = 1;
        actor_advance();
    }
    if (was.known) sk_lineage_gone(lin(), id, (enum sk_lost_why)was.why);
}

static void drain(void) {
    uint64_t id;
    void *data;
    while (G.own_in && sk_own_next_freed(G.own, &id, &data)) obj_free((uint8_t)id);
    while (G.lin_in && sk_lineage_next_free(G.lin, &id, &data)) G.s->task[id].kept = 0;
}

static sk_rc obj_new(uint8_t id, uint8_t proc) {
    SK_TRY(sk_own_add(own(), id, proc, NULL, NULL));
    G.s->obj[id] = (struct obj){.state = O_PENDING};
    return SK_OK;
}

static void value_set(uint8_t id, const uint8_t in[MI], bool store) {
    struct obj *o = obj_get(id);
    if (!o || o->state != O_PENDING) return;
    o->state = O_READY;
    o->maker = 0;
    o->store = store;
    memcpy(o->in, in, MI);
    uint64_t ids[MI] = {in[0], in[1]};
    if (n_in(in)) fine(sk_own_contains(own(), id, ids, n_in(in), NULL), "count what is inside", id);
}

static void set_error(struct obj *o) {
    o->state = O_ERROR;
    o->maker = 0;
    o->store = 0;
    memset(o->in, 0, MI);
}

static void let_args_go(struct task *t) {
    if (!t->holds) return;
    t->holds = 0;
    if (BUG(OWN_TASK_DOES_NOT_HOLD)) return;
    if (t->arg) sk_own_unhold(own(), t->arg);
    if (t->con) sk_own_unhold(own(), t->con);
}

static sk_rc take_args(struct task *t) {
    t->holds = 1;
    if (BUG(OWN_TASK_DOES_NOT_HOLD)) return SK_OK;
    sk_rc rc = t->arg ? sk_own_hold(own(), t->arg, NULL) : SK_OK;
    if (rc != SK_OK) t->holds = 0;
    if (rc == SK_OK && t->con) {
        rc = sk_own_hold(own(), t->con, NULL);
        if (rc != SK_OK) {
            if (t->arg) sk_own_unhold(own(), t->arg);
            t->holds = 0;
        }
    }
    return rc;
}

static void fail_rest(struct task *t) {
    for (uint8_t i = 0; i < t->n_yielded; i++) {
        struct obj *o = obj_get(t->yields[i]);
        if (o && o->state == O_PENDING) set_error(o);
    }
}

static void fail_task(struct task *t) { /* sk_loop_finish_error */
    if (t->kind != K_STREAM) {
        struct obj *o = obj_get(t->first);
        if (o && o->state == O_PENDING) set_error(o);
    } else if (t->remake) {
        fail_rest(t);
    } else if (!t->dropped) {
        t->end_error = t->done = 1;
    }
    task_end(t);
}

static void retry(struct task *t) {
    t->attempt++;
    t->restart = 0;
    t->stop = 0;
    t->state = T_READY;
}

static void left_worker(struct task *t) {
    t->worker = 0;
    memset(t->vis, 0, sizeof t->vis);
}

/* ---- recover.c ---------------------------------------------------------------------------------------------------------------------- */

static bool keep_arg(struct task *t, uint32_t k, uint8_t oid, uint64_t *args, uint32_t *n) {
    struct obj *o = obj_get(oid);
    if (!o) return true;
    if (o->state == O_ERROR || (o->state == O_READY && !o->store && sk_own_n_inner(own(), oid) == 0)) {
        t->aside[k] = oid;
        return true;
    }
    if (o->state == O_PENDING && o->maker && !G.s->task[o->maker].kept && !BUG(OWN_PENDING_NOT_AWAITED)) {
        G.s->task[o->maker].bulky = 1;
        o->awaited = o->awaited || sk_own_hold(own(), oid, NULL) == SK_OK;
    }
    args[(*n)++] = oid;
    return true;
}

static bool can_be_lost(uint8_t id, const struct obj *o) {
    if (o->state == O_PENDING) return true;
    return (o->state == O_READY || o->state == O_ERROR) && (o->store || sk_own_n_inner(own(), id) || sk_lineage_knows(lin(), id));
}

static void keep(struct task *t, uint8_t first_yield) {
    uint64_t args[MA], returns[1];
    uint32_t n_args = 0, n_returns = 0;
    if (t->tried || t->kind == K_CALL || !G.cfg->retries) return;
    t->tried = 1;
    struct obj *o = t->kind == K_STREAM ? NULL : obj_get(t->first);
    if (first_yield) returns[n_returns++] = first_yield;
    if (o && can_be_lost(t->first, o)) {
        if (t->retries == 0) o->why = SK_LOST_RETRIES;
        returns[n_returns++] = t->first;
    }
    if (t->retries == 0 || !n_returns) return;
    if (t->arg && !keep_arg(t, 0, t->arg, args, &n_args)) return;
    if (t->con && !keep_arg(t, 1, t->con, args, &n_args)) return;
    struct sk_lineage_task spec = {.id = tid_of(t),
                                   .args = args,
                                   .n_args = n_args,
                                   .returns = returns,
                                   .n_returns = n_returns,
                                   .bytes = 1,
                                   .retries = t->retries,
                                   .open = first_yield != 0,
                                   .data = (void *)(uintptr_t)tid_of(t)};
    sk_rc rc = sk_lineage_add(lin(), &spec, NULL);
    fine(rc, "keep the task that made", t->first);
    if (rc != SK_OK) return;
    t->kept = 1;
    for (uint32_t i = 0; i < n_args; i++) G.s->obj[args[i]].known = 1;
    for (uint32_t i = 0; i < n_returns; i++) G.s->obj[returns[i]].known = 1;
}

static void recover_yielded(struct task *t, uint8_t id) {
    struct obj *o = &G.s->obj[id];
    if (t->retries == 0) o->why = SK_LOST_RETRIES;
    if (!t->tried) keep(t, id);
    else if (t->kept && sk_lineage_return(lin(), tid_of(t), id, 0, NULL) == SK_OK) o->known = 1;
}

static void let_awaited_go(const struct task *t) {
    uint32_t n = t->kind == K_STREAM ? t->n_yielded : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t id = t->kind == K_STREAM ? t->yields[i] : t->first;
        struct obj *o = obj_get(id);
        if (!o || !o->awaited) continue;
        o->awaited = 0;
        sk_own_unhold(own(), id);
    }
}

static void recover_ended(struct task *t) {
    if (t->kind != K_STREAM && !t->remake) {
        keep(t, 0);
        let_awaited_go(t);
        return;
    }
    sk_lineage_done(lin(), tid_of(t), (int8_t)t->retries);
    t->remake = t->restart = 0;
    let_awaited_go(t);
    for (uint8_t i = 0; t->kind == K_STREAM && i < t->n_yielded; i++) {
        struct obj *o = obj_get(t->yields[i]);
        if (o && o->state == O_PENDING) G.lost[G.n_lost++] = t->yields[i];
    }
}

static void lose(uint8_t id) { /* sk_loop_lost */
    struct obj *o = &G.s->obj[id];
    o->state = O_PENDING;
    o->maker = 0;
    o->store = 0;
    memset(o->in, 0, MI);
    sk_own_uncontain(own(), id);
    G.lost[G.n_lost++] = id;
}

static struct obj *bring_back(uint8_t id, uint8_t *back, uint32_t *n) {
    struct obj *o = obj_get(id);
    sk_rc rc = o ? sk_own_ref(own(), id, 0, 1, NULL) : obj_new(id, 0);
    if (rc != SK_OK) wrong("bring back object %u: %s", id, sk_rc_name(rc));
    back[(*n)++] = id;
    return &G.s->obj[id];
}

static void begin_again(struct task *t, int32_t retries, uint8_t *back, uint32_t *n_back) {
    t->attempt++;
    t->retries = (uint8_t)retries;
    t->remake = 1;
    t->ended = t->cancelled = t->restart = t->stop = 0;
    t->state = T_WAITING;
    for (uint32_t k = 0; k < MA; k++) {
        uint8_t id = t->aside[k];
        if (!id) continue;
        bool there = obj_get(id) != NULL;
        struct obj *o = bring_back(id, back, n_back);
        if (!there) o->state = O_READY;
    }
    if (take_args(t) != SK_OK) wrong("task %u cannot run again: an argument is gone", tid_of(t));
}

static void restart(struct task *t) {
    if (t->restart || (t->state != T_SENT && t->state != T_RUNNING) || !t->worker) return;
    if (t->state == T_SENT) { /* sk_loop_unsend */
        left_worker(t);
        t->state = T_READY;
        return;
    }
    if (t->retries == 0) {
        fail_rest(t);
        return;
    }
    t->restart = t->stop = 1;
}

/* By what the tasks are, whatever lineage knows. */
static bool can_be_remade(uint8_t id) {
    const struct task *t = &G.s->task[G.s->made_by[id]];
    if (t == G.s->task || t->kind == K_CALL || t->state == T_NEVER || G.cfg->budget < G.cfg->n_tasks) return false;
    if (under_way(t) && t->kind != K_STREAM) return true;
    if (t->retries == 0) return false;
    for (uint32_t k = 0; k < MA; k++) {
        uint8_t arg = k ? t->con : t->arg;
        if (!arg || t->aside[k] == arg) continue;
        const struct obj *o = obj_get(arg);
        if (o ? o->state == O_ERROR : !can_be_remade(arg)) return false;
    }
    return true;
}

static void recover(uint8_t id) {
    struct obj *o = obj_get(id);
    if (!o || o->state != O_PENDING) return;
    enum sk_lost_why why = (enum sk_lost_why)o->why;
    uint64_t culprit, x;
    uint8_t back[2 * MO];
    uint32_t n_back = 0;
    void *data;
    int32_t retries;
    if (!sk_lineage_lost(lin(), id, &why, &culprit)) {
        if ((BUG(OWN_RIGHT) || BUG(OWN_PENDING_NOT_AWAITED)) && can_be_remade(id))
            wrong("object %u is given up, though it can be made again", id);
        set_error(o);
        return;
    }
    struct task *m = &G.s->task[(uintptr_t)sk_lineage_maker(lin(), id)];
    o->maker = tid_of(m);
    if (!m->remake && !m->ended && m->kind == K_STREAM) restart(m);
    while (sk_lineage_next_object(lin(), &x)) {
        struct obj *b = bring_back((uint8_t)x, back, &n_back);
        b->known = 1;
        b->why = SK_LOST_EVICTED;
        if (b->state == O_PENDING) b->maker = (uint8_t)(uintptr_t)sk_lineage_maker(lin(), x);
    }
    for (uint32_t i = 0; i < n_back; i++) {
        struct task *t = &G.s->task[(uintptr_t)sk_lineage_maker(lin(), back[i])];
        if (t != G.s->task && !t->remake && !t->ended && t->kind == K_STREAM) restart(t);
    }
    while (sk_lineage_next_task(lin(), &x, &data, &retries)) begin_again(&G.s->task[x], retries, back, &n_back);
    for (uint32_t i = 0; i < n_back; i++) fine(sk_own_unref(own(), back[i], 0, 1, NULL), "let go", back[i]);
}

/* ---- loop.c again ------------------------------------------------------------------------------------------------------------------- */

static void task_end(struct task *t) {
    if (G.cfg->budget && (t->bulky || t->kept || t->remake)) recover_ended(t);
    let_args_go(t);
    t->state = T_FINISHED;
    t->ended = 1;
    t->worker = 0;
    if (t->kind == K_CALL) {
        G.s->actor_tasks--;
        actor_advance();
    }
}

static void cancel(struct task *t) {
    if (!under_way(t) || t->remake) return;
    t->cancelled = 1;
    if (t->state == T_RUNNING) {
        t->stop = 1;
        return;
    }
    left_worker(t);
    fail_task(t);
}

static void stream_drop(struct task *t) {
    t->dropped = 1;
    for (uint8_t i = t->n_taken; i < t->n_yielded; i++) fine(sk_own_unref(own(), t->yields[i], 0, 1, NULL), "drop a yield,", t->yields[i]);
    t->n_taken = t->n_yielded;
    t->end_error = 0;
    t->done = 1;
    if (t->state != T_FINISHED && !t->remake) cancel(t);
}

/* Its last call is over and nobody can name it: its process is ended. */
static void actor_advance(void) {
    if (G.s->actor != A_ALIVE || !G.s->actor_stopping || G.s->actor_tasks) return;
    struct worker *w = &G.s->w[G.cfg->n_workers];
    G.s->actor = A_DEAD;
    if (w->phase == W_DEAD) return;
    w->phase = W_DEAD;
    memset(w->refs, 0, sizeof w->refs);
}

static sk_rc submit(uint8_t proc, struct task *t) { /* task_make, sk_loop_submit */
    if (t->kind != K_STREAM) {
        SK_TRY(obj_new(t->first, proc));
        G.s->obj[t->first].maker = G.s->made_by[t->first] = tid_of(t);
        G.s->obj[t->first].why = t->kind == K_CALL ? SK_LOST_ACTOR : !G.cfg->retries ? SK_LOST_RETRIES : SK_LOST_EVICTED;
    }
    sk_rc rc = take_args(t);
    t->state = T_WAITING;
    if (t->kind == K_CALL) {
        G.s->actor_tasks++;
        if (G.s->actor != A_ALIVE || G.s->actor_stopping) fail_task(t);
    }
    return rc;
}

static bool stream_take(struct task *t, uint8_t proc, uint8_t *id) { /* false: it has to wait */
    *id = 0;
    if (t->n_taken < t->n_yielded) {
        *id = t->yields[t->n_taken++];
        if (proc) {
            fine(sk_own_ref(own(), *id, proc, 1, NULL), "hand over", *id);
            fine(sk_own_unref(own(), *id, 0, 1, NULL), "hand over", *id);
        }
        return true;
    }
    return t->done;
}

/* What would have been told at once: who waits for what is there now. */
static void wake(void) {
    for (bool more = true; more;) {
        more = false;
        while (G.n_lost) {
            uint8_t id = G.lost[0];
            memmove(G.lost, G.lost + 1, --G.n_lost);
            if (!BUG(OWN_PLAN_BEFORE_DRAIN)) drain();
            recover(id);
            more = true;
        }
        for (struct task *t = G.s->task + 1; t <= G.s->task + MT; t++) {
            const struct obj *o = t->arg ? obj_get(t->arg) : NULL;
            if (t->state == T_READY && o && o->state == O_PENDING) t->state = T_WAITING; /* sk_recover_args */
            if (t->state != T_WAITING || (o && o->state == O_PENDING)) continue;
            more = true;
            if (o && o->state == O_ERROR) fail_task(t);
            else t->state = T_READY;
        }
        for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
            struct worker *w = &G.s->w[p];
            if (w->phase != W_WAITS) continue;
            if (w->ask_obj) {
                const struct obj *o = obj_get(w->ask_obj);
                if (!o || o->state == O_PENDING) continue;
                memcpy(w->rep_in, o->in, MI);
                w->held = 0;
                sk_own_unhold(own(), w->ask_obj);
            } else {
                struct task *t = &G.s->task[w->ask_task];
                if (!stream_take(t, p, &w->rep_obj)) continue;
            }
            w->phase = W_ANSWERED;
            more = true;
        }
        drain();
    }
}

static struct task *reported(uint8_t proc, const struct message *m) { /* the task that a report counts for, or NULL */
    struct task *t = &G.s->task[m->task];
    if (t->state != T_SENT && t->state != T_RUNNING) return NULL;
    if (!BUG(OWN_NO_FENCE) && t->attempt != m->attempt) return NULL;
    if (!BUG(OWN_NO_FENCE) && t->worker != proc) return NULL;
    return t;
}

static void taken(struct task *t, const struct message *m) {
    if (m->attempt != t->attempt)
        wrong("task %u is in attempt %u and takes a report of attempt %u", m->task, t->attempt + 1, m->attempt + 1);
    if (t->from_attempt == m->attempt + 1 && m->type == M_DONE) wrong("task %u ends twice in attempt %u", m->task, m->attempt + 1);
    if (m->type == M_DONE) t->from_attempt = (uint8_t)(m->attempt + 1);
}

static void handle_done(uint8_t proc, const struct message *m) {
    struct task *t = reported(proc, m);
    if (!t) return;
    taken(t, m);
    left_worker(t);
    t->stop = 0;
    if (t->cancelled && m->failed) {
        fail_task(t);
        return;
    }
    if (t->remake && t->kind == K_STREAM && !t->wanted) {
        task_end(t);
        return;
    }
    if (t->restart && m->failed) {
        t->retries--;
        retry(t);
        return;
    }
    if (m->failed && t->retries && t->kind != K_CALL && !t->cancelled) { /* retry_exceptions */
        t->retries--;
        retry(t);
        return;
    }
    if (m->failed) {
        fail_task(t);
        return;
    }
    if (BUG(OWN_ARGUMENT_IN_RESULT)) {
        let_args_go(t);
        drain();
    }
    bool store = G.cfg->budget != 0;
    if (t->kind != K_STREAM) {
        if (store || n_in(m->in)) t->bulky = 1;
        value_set(t->first, m->in, store);
    } else if (t->remake) {
        fail_task(t);
        return;
    } else {
        t->done = 1;
    }
    task_end(t);
}

static void handle_yield(uint8_t proc, const struct message *m) {
    struct task *t = reported(proc, m);
    bool store = G.cfg->budget != 0;
    if (!t || (!t->remake && t->dropped)) return;
    taken(t, m);
    if (m->index < t->n_yielded) { /* a retry repeats what is there */
        if (!(t->wanted & 1u << m->index)) {
            if (BUG(OWN_NO_FENCE)) wrong("task %u gives yield %u twice", m->task, m->index);
            return;
        }
        t->wanted &= (uint8_t)~(1u << m->index);
        value_set(t->yields[m->index], m->in, store);
        return;
    }
    if (t->remake) return;
    if (m->index != t->n_yielded) wrong("task %u gives yield %u after %u", m->task, m->index, t->n_yielded);
    uint8_t id = G.s->next_id++;
    fine(obj_new(id, 0), "yield", id);
    G.s->made_by[id] = m->task;
    G.s->obj[id].why = G.cfg->retries ? SK_LOST_EVICTED : SK_LOST_RETRIES;
    value_set(id, m->in, store);
    t->yields[t->n_yielded++] = id;
    if (store || n_in(m->in)) {
        t->bulky = 1;
        if (G.cfg->budget) recover_yielded(t, id);
    }
}

static void handle(uint8_t proc, const struct message *m) {
    struct worker *w = &G.s->w[proc];
    switch (m->type) {
    case M_ADD:
        if (BUG(OWN_BORROW_IS_A_FLAG) && sk_own_borrowed(own(), m->obj, proc)) break;
        fine(sk_own_ref(own(), m->obj, proc, 1, NULL), "count a reference to", m->obj);
        break;
    case M_DEL: fine(sk_own_unref(own(), m->obj, proc, 1, NULL), "give back", m->obj); break;
    case M_PUT:
        fine(obj_new(m->obj, proc), "put", m->obj);
        if (BUG(OWN_PUT_LOSES_INNER)) { /* the value has them, the table does not know */
            G.s->obj[m->obj].state = O_READY;
            memcpy(G.s->obj[m->obj].in, m->in, MI);
        } else {
            value_set(m->obj, m->in, m->index);
        }
        break;
    case M_SUBMIT: fine(submit(proc, &G.s->task[m->task]), "submit with", G.s->task[m->task].arg); break;
    case M_GET:
        if (sk_own_hold(own(), m->obj, NULL) != SK_OK) {
            wrong("a process gets object %u, which is gone", m->obj);
            return;
        }
        w->held = w->phase == W_ASKED;
        if (w->held) w->phase = W_WAITS;
        else sk_own_unhold(own(), m->obj); /* it died behind this message: req_free */
        break;
    case M_NEXT:
        if (w->phase == W_ASKED) w->phase = W_WAITS;
        break;
    case M_CANCEL: cancel(&G.s->task[m->task]); break;
    case M_DROP: stream_drop(&G.s->task[m->task]); break;
    case M_YIELD: handle_yield(proc, m); break;
    case M_DONE: handle_done(proc, m); break;
    default: break;
    }
    drain();
}

static void worker_died(uint8_t proc) { /* sk_loop_worker_died, behind its last message */
    struct st *s = G.s;
    struct worker *w = &s->w[proc];
    bool is_actor = G.cfg->actor && proc == G.cfg->n_workers;
    if (w->held) sk_own_unhold(own(), w->ask_obj);
    sk_own_proc_dead(own(), proc);
    memset(w, 0, sizeof *w);
    if (is_actor && s->actor == A_DEAD) w->phase = W_GONE;
    for (struct task *t = s->task + 1; t <= s->task + MT; t++) {
        if (t->owner != proc || t->orphan) continue;
        if (t->state == T_SAID) t->state = T_NEVER;
        t->orphan = 1; /* the next process with this number is another */
        if (t->kind == K_STREAM && !t->dropped && t->state != T_NEVER && !BUG(OWN_STREAM_OUTLIVES_READER)) stream_drop(t);
    }
    for (struct task *t = s->task + 1; t <= s->task + MT; t++) {
        if (t->worker != proc || (t->state != T_SENT && t->state != T_RUNNING)) continue;
        bool started = t->state == T_RUNNING;
        left_worker(t);
        if (t->cancelled) {
            fail_task(t);
        } else if (!started) {
            t->state = T_READY;
        } else if (t->retries) {
            t->retries--;
            retry(t);
        } else {
            fail_task(t);
        }
    }
    drain();
}

/* ---- processes ---------------------------------------------------------------------------------------------------------------------- */

static bool room(const struct worker *w, uint32_t n) { return w->n_q + n <= NQ; }
static void say(struct worker *w, struct message m) {
    CHECK(w->n_q < NQ);
    w->q[w->n_q++] = m;
}

static bool is_actor_obj(uint8_t id) { return G.s->actor_obj == id; }

/* A reference reaches a worker as a Python object. `by_call`: as an argument of its task. */
static void get_ref(struct worker *w, uint8_t id, bool by_call) {
    w->refs[id - 1]++;
    if (BUG(OWN_HANDLE_NO_BORROW) && is_actor_obj(id)) return;
    if (BUG(OWN_ONLY_FROM_THE_CALLER) && !by_call) return;
    say(w, (struct message){.type = M_ADD, .obj = id});
}

static uint8_t *refs_of(uint8_t proc) { return proc ? G.s->w[proc].refs : G.s->driver; }

static void begin(struct st *s) {
    G.s = s;
    G.own_in = G.lin_in = false;
    G.wrong = NULL;
    G.n_lost = 0;
}

static void check_all(void);

/* `s` is what the step made of the state. */
#define EMIT(...)                                 \
    do {                                          \
        finish();                                 \
        mc_step(G.mc, G.s, G.wrong, __VA_ARGS__); \
    } while (0)

static void finish(void) {
    wake();
    if (G.own_in) {
        if (!sk_own_check(G.own)) wrong("sk_own_check does not hold");
        real_own_save(G.own, &G.s->own);
    }
    if (G.lin_in) {
        if (!sk_lineage_check(G.lin)) wrong("sk_lineage_check does not hold");
        real_lin_save(G.lin, &G.s->lin);
    }
    check_all();
}

static void set_text(char *buf, size_t cap, const uint8_t in[MI]) {
    if (!in[0]) snprintf(buf, cap, "no references");
    else if (!in[1]) snprintf(buf, cap, "a reference to %u", in[0]);
    else snprintf(buf, cap, "references to %u and %u", in[0], in[1]);
}

static const char *who(uint8_t proc) {
    static const char *name[] = {"driver", "worker 1", "worker 2", "worker 3"};
    return G.cfg->actor && proc == G.cfg->n_workers ? "actor" : name[proc];
}

/* Would a value of object `at` that contains `id` close a circle? Circles are kept for ever (own.h says so): left out unless asked for. */
static bool reaches(const struct st *s, uint8_t id, uint8_t at, uint32_t *seen) {
    if (id == at) return true;
    if (!id || *seen & 1u << id) return false;
    *seen |= 1u << id;
    for (uint8_t i = 0; i < MI; i++)
        if (s->obj[id].in[i] && reaches(s, s->obj[id].in[i], at, seen)) return true;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) { /* values that are on their way to it */
        const struct worker *w = &s->w[p];
        for (uint8_t i = 0; i < MI && w->phase == W_RETURNING && s->task[w->task].first == id; i++)
            if (w->rep_in[i] && reaches(s, w->rep_in[i], at, seen)) return true;
        for (uint8_t k = 0; k < w->n_q; k++)
            for (uint8_t i = 0; i < MI; i++) {
                const struct message *m = &w->q[k];
                bool to = (m->type == M_PUT && m->obj == id) || (m->type == M_DONE && s->task[m->task].first == id);
                if (to && m->in[i] && reaches(s, m->in[i], at, seen)) return true;
            }
    }
    return false;
}

static bool circle(const struct st *s, const uint8_t in[MI], uint8_t at) {
    for (uint8_t i = 0; !G.cfg->circles && i < MI; i++) {
        uint32_t seen = 0;
        if (in[i] && in[i] != at && reaches(s, in[i], at, &seen)) return true;
    }
    return false;
}

/* Every choice of at most cfg->inner references that `proc` has: calls fn for each. */
typedef void (*choice_fn)(const struct st *from, uint8_t proc, const uint8_t in[MI]);
static void each_choice(const struct st *from, uint8_t proc, choice_fn fn) {
    const uint8_t *r = proc ? from->w[proc].refs : from->driver;
    uint8_t in[MI] = {0};
    fn(from, proc, in);
    for (uint8_t a = 0; G.cfg->inner && a < MO; a++) {
        if (!r[a]) continue;
        in[0] = (uint8_t)(a + 1);
        in[1] = 0;
        fn(from, proc, in);
        for (uint8_t b = (uint8_t)(a + 1); G.cfg->inner > 1 && b < MO; b++) {
            if (!r[b]) continue;
            in[1] = (uint8_t)(b + 1);
            fn(from, proc, in);
        }
    }
}

static void do_put(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    struct st s = *from;
    begin(&s);
    uint8_t id = s.next_id++;
    s.n_puts++;
    bool store = G.cfg->budget && n_in(in); /* small ones stay in the driver's heap */
    if (proc) {
        say(&s.w[proc], (struct message){.type = M_PUT, .obj = id, .index = store, .in = {in[0], in[1]}});
    } else {
        fine(obj_new(id, 0), "put", id);
        s.obj[id].why = SK_LOST_PUT;
        value_set(id, in, store);
    }
    refs_of(proc)[id - 1]++;
    char what[60];
    set_text(what, sizeof what, in);
    EMIT("%s: put() makes object %u with %s inside", who(proc), id, what);
}

/* The references in the result are the process's own until the report is sent (wtask.held): what else it has may be dropped meanwhile. */
static bool held_in_result(const struct worker *w, uint8_t id) {
    bool was_arg = false;
    for (uint32_t k = 0; k < NV; k++) was_arg |= w->args[k] == id;
    return id && !BUG(OWN_RESULT_GIVEN_BACK_EARLY) && !(BUG(OWN_ARGUMENT_IN_RESULT) && was_arg);
}

static void task_left(struct worker *w) {
    w->phase = W_IDLE;
    w->task = w->attempt = w->index = w->from = w->wanted = 0;
    memset(w->args, 0, sizeof w->args);
    memset(w->rep_in, 0, MI);
}

static void do_report(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    struct st s = *from;
    begin(&s);
    struct worker *w = &s.w[proc];
    const struct task *t = &s.task[w->task];
    uint8_t tid = w->task, attempt = w->attempt;
    say(w, (struct message){.type = M_DONE, .task = tid, .attempt = attempt, .in = {in[0], in[1]}});
    for (uint32_t i = 0; i < MI; i++)
        if (held_in_result(w, in[i])) say(w, (struct message){.type = M_DEL, .obj = in[i]});
    char what[60];
    set_text(what, sizeof what, in);
    task_left(w);
    if (t->kind == K_STREAM) EMIT("%s: stream task %u (attempt %u) ends", who(proc), tid, attempt + 1);
    else EMIT("%s: reports task %u (attempt %u): object %u with %s inside", who(proc), tid, attempt + 1, t->first, what);
}

static void do_return(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    if (circle(from, in, from->task[from->w[proc].task].first)) return;
    if (!in[0]) {
        do_report(from, proc, in);
        return;
    }
    struct st s = *from;
    begin(&s);
    struct worker *w = &s.w[proc];
    for (uint32_t i = 0; i < MI; i++)
        if (held_in_result(w, in[i])) say(w, (struct message){.type = M_ADD, .obj = in[i]});
    w->phase = W_RETURNING;
    memcpy(w->rep_in, in, MI);
    char what[60];
    set_text(what, sizeof what, in);
    EMIT("%s: task %u returns a value with %s inside", who(proc), w->task, what);
}

static void do_fail(const struct st *from, uint8_t proc, const char *why) {
    struct st s = *from;
    begin(&s);
    struct worker *w = &s.w[proc];
    uint8_t tid = w->task;
    say(w, (struct message){.type = M_DONE, .task = tid, .attempt = w->attempt, .failed = 1});
    task_left(w);
    EMIT("%s: task %u %s", who(proc), tid, why);
}

static void do_yield(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    struct st s = *from;
    begin(&s);
    struct worker *w = &s.w[proc];
    uint8_t index = w->index++;
    w->wanted &= (uint8_t)~(1u << index);
    say(w, (struct message){.type = M_YIELD, .task = w->task, .attempt = w->attempt, .index = index, .in = {in[0], in[1]}});
    char what[60];
    set_text(what, sizeof what, in);
    EMIT("%s: stream task %u (attempt %u) yields number %u with %s inside", who(proc), w->task, w->attempt + 1, index, what);
}

static void do_submit(const struct st *from, uint8_t proc, uint8_t kind, uint8_t arg, uint8_t con) {
    struct st s = *from;
    begin(&s);
    uint8_t tid = ++s.n_tasks;
    struct task *t = &s.task[tid];
    *t = (struct task){.state = T_SAID, .kind = kind, .owner = proc, .arg = arg, .con = con, .retries = G.cfg->retries};
    if (kind != K_STREAM) {
        t->first = s.next_id++;
        refs_of(proc)[t->first - 1]++;
    }
    if (proc) say(&s.w[proc], (struct message){.type = M_SUBMIT, .task = tid});
    else fine(submit(0, t), "submit with", arg);
    char a[40] = "", c[40] = "";
    if (arg) snprintf(a, sizeof a, " with the value of object %u", arg);
    if (con) snprintf(c, sizeof c, " with a reference to %u", con);
    if (kind == K_STREAM) EMIT("%s: submits stream task %u%s%s", who(proc), tid, a, c);
    else
        EMIT("%s: %s %u%s%s, which will make object %u", who(proc), kind == K_CALL ? "calls the actor, task" : "submits task", tid, a, c,
             t->first);
}

static void submits(const struct st *from, uint8_t proc) {
    const uint8_t *r = proc ? from->w[proc].refs : from->driver;
    for (uint8_t con = 0; con <= MO; con++) {
        if (con && !r[con - 1]) continue;
        for (uint8_t arg = 0; arg <= (G.cfg->by_value ? MO : 0); arg++) {
            if (arg && (!r[arg - 1] || arg == from->actor_obj || (con && arg == con))) continue;
            bool id_left = from->next_id <= G.cfg->n_objs;
            if (id_left) do_submit(from, proc, K_TASK, arg, con);
            if (G.cfg->yields) do_submit(from, proc, K_STREAM, arg, con);
            if (id_left && from->actor_obj && r[from->actor_obj - 1]) do_submit(from, proc, K_CALL, arg, con);
        }
    }
}

/* Would who waits for object `id` (or for stream task `tid`) wait for what `me` makes? A program that waits for itself hangs under any protocol;
 * such calls are left out. */
static bool waits_for(const struct st *s, uint8_t id, uint8_t tid, uint8_t me, uint32_t *seen) {
    for (uint8_t t = 1; id && !tid && t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        if (x->first == id) tid = t;
        for (uint8_t i = 0; i < x->n_yielded; i++)
            if (x->yields[i] == id) tid = t;
    }
    if (!tid || *seen & 1u << tid) return false;
    *seen |= 1u << tid;
    if (tid == me) return true;
    const struct task *t = &s->task[tid];
    if (t->arg && t->state != T_RUNNING && waits_for(s, t->arg, 0, me, seen)) return true;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        bool on = w->task == tid || (t->kind == K_CALL && p == G.cfg->n_workers && w->task); /* calls wait for the one before */
        if (on && w->task == me) return true;
        if (on && (w->phase == W_ASKED || w->phase == W_WAITS) && waits_for(s, w->ask_obj, w->ask_task, me, seen)) return true;
    }
    return false;
}

static void calls_of_user(const struct st *from, uint8_t proc) {
    struct st s;
    const struct worker *fw = &from->w[proc];
    const uint8_t *r = proc ? fw->refs : from->driver;
    bool is_actor = G.cfg->actor && proc == G.cfg->n_workers;
    for (uint8_t k = 0; k < MO; k++) {
        if (!r[k] || (proc && !room(fw, 1))) continue;
        if (is_actor && G.cfg->actor_keeps && fw->phase == W_IDLE) continue;
        s = *from;
        begin(&s);
        refs_of(proc)[k]--;
        if (proc) {
            bool counted = !(BUG(OWN_HANDLE_NO_BORROW) && is_actor_obj((uint8_t)(k + 1)));
            if (counted) say(&s.w[proc], (struct message){.type = M_DEL, .obj = (uint8_t)(k + 1)});
        } else {
            fine(sk_own_unref(own(), k + 1u, 0, 1, NULL), "give back", (uint8_t)(k + 1));
            drain();
        }
        EMIT("%s: drops a reference to %u", who(proc), k + 1);
    }
    for (uint8_t tid = 1; tid <= from->n_tasks; tid++) { /* streams that it reads */
        const struct task *t = &from->task[tid];
        if (t->kind != K_STREAM || t->owner != proc || t->orphan || t->dropped) continue;
        bool dropping = false; /* said already */
        for (uint8_t i = 0; proc && i < fw->n_q; i++) dropping |= fw->q[i].type == M_DROP && fw->q[i].task == tid;
        if (dropping || (proc && !room(fw, 1))) continue;
        s = *from;
        begin(&s);
        if (proc) say(&s.w[proc], (struct message){.type = M_DROP, .task = tid});
        else stream_drop(&s.task[tid]);
        drain();
        EMIT("%s: drops the generator of task %u", who(proc), tid);
        if (proc ? fw->phase != W_RUNNING : t->n_taken >= t->n_yielded) continue;
        uint32_t seen = 0;
        if (proc && (t->n_taken == NY || waits_for(from, 0, tid, fw->task, &seen))) continue;
        s = *from;
        begin(&s);
        if (proc) {
            s.w[proc].phase = W_ASKED;
            s.w[proc].ask_task = tid;
            say(&s.w[proc], (struct message){.type = M_NEXT, .task = tid});
            EMIT("%s: asks for the next of stream task %u", who(proc), tid);
        } else {
            uint8_t id;
            (void)stream_take(&s.task[tid], 0, &id);
            s.driver[id - 1]++;
            EMIT("driver: takes object %u from stream task %u", id, tid);
        }
    }
    for (uint8_t tid = 1; tid <= from->n_tasks && from->n_cancels < G.cfg->cancels; tid++) {
        const struct task *t = &from->task[tid];
        bool names_it = t->kind == K_STREAM ? t->owner == proc && !t->orphan && !t->dropped : r[t->first - 1] != 0;
        if (!names_it || t->state >= T_FINISHED || (proc && (fw->phase != W_RUNNING || !room(fw, 1)))) continue;
        s = *from;
        begin(&s);
        s.n_cancels++;
        if (proc) say(&s.w[proc], (struct message){.type = M_CANCEL, .task = tid});
        else cancel(&s.task[tid]);
        drain();
        EMIT("%s: cancels task %u", who(proc), tid);
    }
    if (proc && fw->phase != W_RUNNING) return;
    if (from->n_puts < G.cfg->puts && from->next_id <= G.cfg->n_objs && !(G.cfg->worker_puts_only && !proc) && (!proc || room(fw, 1)))
        each_choice(from, proc, do_put);
    if (from->n_tasks < G.cfg->n_tasks && (!proc || (G.cfg->nested_submit && room(fw, 1)))) submits(from, proc);
    if (from->n_gets < G.cfg->gets && !(G.cfg->no_driver_get && !proc)) {
        for (uint8_t k = 0; k < MO; k++) {
            const struct obj *o = &from->obj[k + 1];
            if (!r[k] || from->actor_obj == k + 1) continue;
            if (!proc && o->state != O_READY) continue; /* an error or nothing yet: nothing comes of it */
            uint32_t seen = 0;
            if (proc && (!room(fw, 1) || waits_for(from, (uint8_t)(k + 1), 0, fw->task, &seen))) continue;
            s = *from;
            begin(&s);
            s.n_gets++;
            if (proc) {
                s.w[proc].phase = W_ASKED;
                s.w[proc].ask_obj = (uint8_t)(k + 1);
                say(&s.w[proc], (struct message){.type = M_GET, .obj = (uint8_t)(k + 1)});
                EMIT("%s: get(%u)", who(proc), k + 1);
            } else {
                for (uint32_t i = 0; i < n_in(o->in); i++) {
                    s.driver[o->in[i] - 1]++;
                    fine(sk_own_ref(own(), o->in[i], 0, 1, NULL), "count", o->in[i]);
                }
                char what[60];
                set_text(what, sizeof what, o->in);
                EMIT("driver: get(%u) gives %s", k + 1, what);
            }
        }
    }
}

static void worker_steps(const struct st *from, uint8_t proc) {
    const struct worker *fw = &from->w[proc];
    struct st s;
    if (fw->phase == W_DEAD || fw->phase == W_GONE) return;
    if (from->n_deaths < G.cfg->deaths) {
        s = *from;
        begin(&s);
        s.n_deaths++;
        struct worker *w = &s.w[proc];
        w->phase = W_DEAD;
        memset(w->refs, 0, sizeof w->refs);
        w->ask_obj = w->held ? w->ask_obj : 0;
        w->ask_task = w->rep_obj = 0;
        memset(w->rep_in, 0, MI);
        memset(w->args, 0, sizeof w->args);
        EMIT("%s: dies", who(proc));
    }
    if (fw->phase == W_IDLE) {
        for (uint8_t tid = 1; tid <= from->n_tasks; tid++) {
            const struct task *ft = &from->task[tid];
            if (ft->state != T_SENT || ft->worker != proc || !room(fw, NV)) continue;
            s = *from;
            begin(&s);
            struct worker *w = &s.w[proc];
            struct task *t = &s.task[tid];
            t->state = T_RUNNING;
            w->phase = W_RUNNING;
            w->task = tid;
            w->attempt = t->attempt;
            w->wanted = t->wanted;
            w->from = t->n_yielded;
            w->index = t->wanted ? (uint8_t)__builtin_ctz(t->wanted) : t->n_yielded;
            for (uint32_t i = 0; i < NV && t->vis[i]; i++) {
                w->args[i] = t->vis[i];
                get_ref(w, t->vis[i], true);
            }
            EMIT("%s: begins task %u (attempt %u)", who(proc), tid, t->attempt + 1);
        }
    }
    if (fw->phase == W_ANSWERED && room(fw, MI + 1)) {
        s = *from;
        begin(&s);
        struct worker *w = &s.w[proc];
        for (uint32_t i = 0; i < n_in(w->rep_in); i++) get_ref(w, w->rep_in[i], false);
        if (w->rep_obj) w->refs[w->rep_obj - 1]++; /* counted for it already */
        if (G.cfg->budget && w->ask_obj) say(w, (struct message){.type = M_UNPIN, .obj = w->ask_obj});
        char what[60];
        set_text(what, sizeof what, w->rep_in);
        uint8_t got = w->rep_obj, asked = w->ask_obj, task = w->ask_task;
        w->phase = W_RUNNING;
        w->ask_obj = w->ask_task = w->rep_obj = 0;
        memset(w->rep_in, 0, MI);
        if (asked) EMIT("%s: has the value of %u: %s", who(proc), asked, what);
        else if (got) EMIT("%s: has object %u of stream task %u", who(proc), got, task);
        else EMIT("%s: hears that stream task %u is over", who(proc), task);
    }
    if (fw->phase == W_IDLE || fw->phase == W_RUNNING || fw->phase == W_RETURNING) calls_of_user(from, proc);
    if (fw->phase == W_RETURNING && room(fw, 1 + MI)) do_report(from, proc, fw->rep_in);
    if (fw->phase != W_RUNNING) return;
    const struct task *t = &from->task[fw->task];
    bool stopped = t->kind == K_STREAM && ((t->stop && t->attempt == fw->attempt) || (t->remake && !fw->wanted));
    if (stopped && room(fw, 1)) do_fail(from, proc, "is told to stop at its next yield, and ends");
    if (from->n_raises < G.cfg->raises && room(fw, 1) && !stopped) {
        struct st up = *from;
        up.n_raises++;
        do_fail(&up, proc, "raises");
    }
    if (t->kind == K_STREAM) {
        static const uint8_t none[MI];
        if (!stopped && room(fw, 1)) {
            if (fw->index < G.cfg->yields && from->next_id <= G.cfg->n_objs) {
                if (fw->index >= fw->from || fw->wanted & 1u << fw->index) {
                    each_choice(from, proc, do_yield);
                } else {
                    s = *from;
                    begin(&s);
                    s.w[proc].index++;
                    EMIT("%s: stream task %u gives number %u again, which is there", who(proc), fw->task, fw->index);
                }
            }
            do_return(from, proc, none);
        }
    } else if (room(fw, 1 + MI)) {
        each_choice(from, proc, do_return);
    }
}

static const char *message_text(const struct message *m, char *buf, size_t cap) {
    static const char *name[] = {"",          "add a reference to", "give back",      "put",   "submit task", "get", "next of task",
                                 "drop task", "yield of task",      "report of task", "unpin", "cancel task"};
    snprintf(buf, cap, "%s %u", name[m->type], m->obj ? m->obj : m->task);
    return buf;
}

/* A process reads it: pinned for it (and a task's arguments for the task) until the driver is told otherwise, which is behind the messages
 * that count what is inside. What is pinned is never spilled, so it cannot be lost. */
static bool being_read(const struct st *s, uint8_t id) {
    bool is = false;
    for (uint8_t t = 1; t <= s->n_tasks; t++) is |= s->task[t].worker && s->task[t].arg == id;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        is |= w->phase == W_ANSWERED && w->ask_obj == id;
        for (uint8_t i = 0; i < w->n_q; i++) is |= w->q[i].type == M_UNPIN && w->q[i].obj == id;
    }
    return is;
}

static void driver_steps(const struct st *from) {
    struct st s;
    char text[60];
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *fw = &from->w[p];
        for (uint8_t i = 0; i < fw->n_q; i++) {
            if (i && !(BUG(OWN_OUT_OF_ORDER) && fw->q[i].type == M_DEL)) continue;
            if (i) { /* overtakes others, but not those about the same object */
                bool same = false;
                for (uint8_t k = 0; k < i; k++) same |= fw->q[k].obj == fw->q[i].obj || fw->q[k].type != M_ADD;
                if (same) continue;
            }
            if (fw->q[i].type == M_YIELD && from->next_id > MO) continue;
            s = *from;
            begin(&s);
            struct message m = s.w[p].q[i];
            memmove(&s.w[p].q[i], &s.w[p].q[i + 1], (size_t)(s.w[p].n_q - 1 - i) * sizeof m);
            memset(&s.w[p].q[--s.w[p].n_q], 0, sizeof m);
            handle(p, &m);
            EMIT("driver: handles \"%s\" of %s%s", message_text(&m, text, sizeof text), who(p), i ? ", before what came first" : "");
        }
        if (fw->phase == W_DEAD && (!fw->n_q || (G.cfg->late && from->n_zombie + fw->n_q <= NQ))) {
            s = *from;
            begin(&s);
            for (uint8_t i = 0; i < fw->n_q; i++) {
                struct message m = fw->q[i];
                if (m.type == M_YIELD || m.type == M_DONE) s.zombie[s.n_zombie++] = m; /* all others are known by their process: dropped */
            }
            worker_died(p);
            EMIT("driver: notices that %s is dead%s", who(p), fw->n_q ? ", with messages still under way" : "");
        }
    }
    if (from->n_zombie) {
        s = *from;
        begin(&s);
        struct message m = s.zombie[0];
        memmove(s.zombie, s.zombie + 1, (size_t)(s.n_zombie - 1) * sizeof m);
        memset(&s.zombie[--s.n_zombie], 0, sizeof m);
        handle(0, &m);
        EMIT("driver: handles \"%s\" (attempt %u) of a process that is gone", message_text(&m, text, sizeof text), m.attempt + 1);
    }
    for (uint8_t tid = 1; tid <= from->n_tasks; tid++) {
        if (from->task[tid].state != T_READY) continue;
        bool call = from->task[tid].kind == K_CALL, sent = false;
        for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
            if (G.cfg->actor && (p == G.cfg->n_workers) != call) continue;
            bool busy = from->w[p].phase != W_IDLE;
            for (uint8_t k = 1; k <= from->n_tasks; k++)
                busy |= from->task[k].worker == p && (from->task[k].state == T_SENT || from->task[k].state == T_RUNNING);
            if (busy) continue;
            s = *from;
            begin(&s);
            struct task *t = &s.task[tid];
            uint8_t n = 0;
            if (t->con) t->vis[n++] = t->con;
            for (uint32_t i = 0; t->arg && i < n_in(s.obj[t->arg].in); i++) t->vis[n++] = s.obj[t->arg].in[i];
            t->state = T_SENT;
            t->worker = p;
            t->wanted = 0;
            for (uint8_t i = 0; i < t->n_yielded; i++)
                if (s.obj[t->yields[i]].state == O_PENDING) t->wanted |= (uint8_t)(1u << i);
            EMIT("driver: sends task %u to %s", tid, who(p));
            sent = true;
        }
        bool stuck = !sent && !call; /* all wait, and none more can be had: sk_loop_fail_waiting */
        for (uint8_t p = 1; p <= G.cfg->n_workers; p++)
            if (!(G.cfg->actor && p == G.cfg->n_workers)) stuck &= from->w[p].phase == W_WAITS;
        if (stuck) {
            s = *from;
            begin(&s);
            (void)own();
            fail_task(&s.task[tid]);
            drain();
            EMIT("driver: fails task %u, as all workers wait", tid);
        }
    }
    for (uint8_t id = 1; id <= MO && from->n_losses < G.cfg->losses; id++) {
        if (from->obj[id].state != O_READY || !from->obj[id].store || (being_read(from, id) && !BUG(OWN_LOST_UNDER_A_READER))) continue;
        s = *from;
        begin(&s);
        s.n_losses++;
        lose(id);
        EMIT("driver: the value of object %u is lost", id);
    }
    if (G.cfg->actor && !from->actor_obj && from->next_id <= G.cfg->n_objs) {
        s = *from;
        begin(&s);
        uint8_t id = s.next_id++;
        fine(obj_new(id, 0), "make the actor", id);
        s.obj[id].state = O_ACTOR;
        s.obj[id].why = SK_LOST_ACTOR;
        s.driver[id - 1] = 1;
        s.actor = A_ALIVE;
        s.actor_obj = id;
        EMIT("driver: makes the actor, object %u", id);
    }
}

/* ---- what must hold --------------------------------------------------------------------------------------------------------------------- */

struct marks {
    const char *why[MO + 1]; /* NULL: not referred to */
    uint8_t who[MO + 1], todo[MO], n;
};

static void mark(struct marks *k, uint8_t id, const char *why, uint8_t w) {
    if (!id || k->why[id]) return;
    k->why[id] = why;
    k->who[id] = w;
    k->todo[k->n++] = id;
}

static void mark_message(struct marks *k, const struct message *m, uint8_t proc) {
    const struct st *s = G.s;
    if (m->type == M_DEL) return; /* no use of it */
    if (m->type == M_SUBMIT) {
        mark(k, s->task[m->task].arg, "a call under way has it as an argument, from process", proc);
        mark(k, s->task[m->task].con, "a call under way has it as an argument, from process", proc);
    }
    for (uint32_t i = 0; i < n_in(m->in); i++) mark(k, m->in[i], "a value under way contains it, from process", proc);
}

/* Everything that somebody can still come to use; made: bits of objects whose making is under way. */
static uint32_t mark_all(struct marks *k) {
    const struct st *s = G.s;
    uint32_t made = 0;
    memset(k, 0, sizeof *k);
    for (uint8_t i = 0; i < MO; i++)
        if (s->driver[i]) mark(k, (uint8_t)(i + 1), "a reference is held by process", 0);
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        for (uint8_t i = 0; i < MO; i++)
            if (w->refs[i]) mark(k, (uint8_t)(i + 1), "a reference is held by process", p);
        mark(k, w->rep_obj, "it was handed over to process", p);
        for (uint8_t i = 0; i < MI; i++)
            mark(k, w->rep_in[i],
                 w->phase == W_RETURNING ? "a result that is about to be reported contains it, of process"
                                         : "a value on its way contains it, to process",
                 p);
        for (uint8_t i = 0; i < w->n_q; i++) {
            const struct message *m = &w->q[i];
            mark_message(k, m, p);
            if (m->type == M_PUT) made |= 1u << m->obj;
            if (m->type == M_SUBMIT && s->task[m->task].first) made |= 1u << s->task[m->task].first;
        }
    }
    for (uint8_t t = 1; t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        if (under_way(x)) {
            mark(k, x->arg, "it is an argument of task", t);
            mark(k, x->con, "it is an argument of task", t);
            if (x->state == T_SENT)
                for (uint8_t i = 0; i < NV; i++) mark(k, x->vis[i], "it is in the message with task", t);
        }
        for (uint8_t i = x->n_taken; x->kind == K_STREAM && i < x->n_yielded; i++)
            mark(k, x->yields[i], "it can be taken from stream task", t);
    }
    for (uint8_t i = 1; i <= MO; i++)
        if (s->obj[i].awaited) mark(k, i, "a kept task waits for its maker, task", s->obj[i].maker);
    while (k->n) {
        uint8_t id = k->todo[--k->n];
        const struct obj *o = &s->obj[id];
        for (uint8_t i = 0; o->state == O_READY && i < MI; i++) mark(k, o->in[i], "it is inside object", id);
    }
    return made;
}

static void check_counts(void) {
    const struct st *s = G.s;
    int want[MP][MO] = {{0}}, holds[MO] = {0};
    for (uint8_t i = 0; i < MO; i++) want[0][i] = s->driver[i];
    for (uint8_t t = 1; t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        for (uint8_t i = x->n_taken; x->kind == K_STREAM && i < x->n_yielded; i++) want[0][x->yields[i] - 1]++;
        if (x->holds && x->arg) holds[x->arg - 1]++;
        if (x->holds && x->con) holds[x->con - 1]++;
        if (under_way(x) != (bool)x->holds) wrong("task %u %s its arguments", t, x->holds ? "is over and holds" : "does not hold");
    }
    for (uint8_t i = 0; i < MO; i++) holds[i] += s->obj[i + 1].awaited;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        if (w->held) holds[w->ask_obj - 1]++;
        if (w->phase == W_DEAD) {
            memcpy(want[p], (int[MO]){-1, -1, -1, -1, -1, -1, -1, -1}, sizeof want[p]); /* goes as a whole */
            continue;
        }
        for (uint8_t i = 0; i < MO; i++) want[p][i] = w->refs[i];
        if (w->rep_obj) want[p][w->rep_obj - 1]++;
        for (uint8_t i = 0; w->phase == W_RETURNING && i < n_in(w->rep_in); i++) want[p][w->rep_in[i] - 1]++;
        for (uint8_t i = 0; i < w->n_q; i++) {
            const struct message *m = &w->q[i];
            if (m->type == M_ADD || m->type == M_PUT) want[p][m->obj - 1]--;
            if (m->type == M_DEL) want[p][m->obj - 1]++;
            if (m->type == M_SUBMIT && s->task[m->task].first) want[p][s->task[m->task].first - 1]--;
        }
    }
    for (uint8_t i = 0; i < MO; i++) {
        for (uint8_t p = 0; p <= G.cfg->n_workers; p++)
            if (!(p && s->w[p].phase == W_DEAD) && want[p][i] != s->own.refs[p][i])
                wrong("object %u: process %u has %d counted references, the table says %u", i + 1, p, want[p][i], s->own.refs[p][i]);
        if (holds[i] != s->own.holds[i]) wrong("object %u: %d holds, the table says %u", i + 1, holds[i], s->own.holds[i]);
    }
}

static bool quiet(void) { /* no message is under way */
    bool q = !G.s->n_zombie;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) q &= !G.s->w[p].n_q && G.s->w[p].phase != W_DEAD;
    return q;
}

static void check_all(void) {
    const struct st *s = G.s;
    struct marks k;
    uint32_t made = mark_all(&k);
    for (uint8_t id = 1; id <= MO; id++) {
        bool there = s->own.alive[id - 1], known = s->obj[id].state != O_NONE;
        if (k.why[id] && !there && !(made & 1u << id)) wrong("object %u was freed, and %s %u", id, k.why[id], k.who[id]);
        if (there != known) wrong("object %u: in one table only", id);
        if (there && !k.why[id] && quiet()) wrong("object %u is kept, and nothing refers to it", id);
        if (s->obj[id].state == O_PENDING && BUG(OWN_RIGHT)) {
            const struct task *t = &s->task[s->obj[id].maker];
            if (!s->obj[id].maker || !under_way(t)) wrong("object %u will never be made: task %u is over", id, s->obj[id].maker);
        }
    }
    if (BUG(OWN_RIGHT)) check_counts();
}

static const char *proto_end(const void *arg, const void *state) {
    struct st s = *(const struct st *)state;
    (void)arg;
    begin(&s);
    for (uint8_t t = 1; t <= s.n_tasks; t++)
        if (s.task[t].state != T_FINISHED && s.task[t].state != T_NEVER) wrong("nothing can happen, and task %u is not over", t);
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++)
        if (s.w[p].phase != W_IDLE && s.w[p].phase != W_GONE) wrong("nothing can happen, and process %u waits", p);
    for (uint8_t id = 1; id <= MO; id++) {
        if (s.own.alive[id - 1]) wrong("all is over, and object %u is kept", id);
        if (s.lin.obj[id - 1].there) wrong("all is over, and lineage knows object %u", id);
    }
    if (s.lin.n_aged) wrong("all is over, and lineage keeps task %u", s.lin.aged[0]);
    return G.wrong;
}

/* ---- the model -------------------------------------------------------------------------------------------------------------------------- */

static void proto_init(const void *arg, void *state) {
    struct st *s = state;
    const struct own_cfg *cfg = arg;
    s->next_id = 1;
    (void)cfg;
}

static void on_abort(int sig) {
    (void)sig;
    siglongjmp(G.jump, 1);
}

static void make_tables(void) {
    CHECK_OK(sk_own_create(&G.own, NULL));
    CHECK_OK(sk_lineage_create(&G.lin, G.cfg->budget ? G.cfg->budget : 255, NULL));
}

static void proto_next(const void *arg, const void *state, struct mc *m) {
    const struct st *from = state;
    (void)arg;
    G.mc = m;
    if (sigsetjmp(G.jump, 0)) { /* an assertion of the engine: what it was at work on is left as it is */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGABRT);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        test_may_leak();
        make_tables();
        mc_step(m, from, "an assertion of the engine fails (above)", "the step that fails an assertion");
        return;
    }
    calls_of_user(from, 0);
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) worker_steps(from, p);
    driver_steps(from);
}

/* Workers are alike: their order is that of their bytes. */
static void proto_canon(const void *arg, void *state) {
    struct st *s = state, was = *s;
    const struct own_cfg *cfg = arg;
    uint8_t n = (uint8_t)(cfg->n_workers - cfg->actor), to[MP] = {0, 1, 2, 3}, at[MP] = {0, 1, 2, 3}; /* at[new] = old */
    for (uint8_t i = 2; i <= n; i++)
        for (uint8_t k = i; k > 1; k--) {
            int c = memcmp(&was.w[at[k - 1]], &was.w[at[k]], sizeof was.w[0]);
            if (c == 0) c = memcmp(was.own.refs[at[k - 1]], was.own.refs[at[k]], MO);
            if (c <= 0) break;
            uint8_t x = at[k];
            at[k] = at[k - 1];
            at[k - 1] = x;
        }
    bool same = true;
    for (uint8_t i = 1; i <= n; i++) {
        to[at[i]] = i;
        same &= at[i] == i;
    }
    if (same) return;
    for (uint8_t i = 1; i <= n; i++) {
        s->w[i] = was.w[at[i]];
        memcpy(s->own.refs[i], was.own.refs[at[i]], MO);
    }
    for (uint8_t t = 1; t <= MT; t++) {
        s->task[t].worker = to[was.task[t].worker];
        s->task[t].owner = to[was.task[t].owner];
    }
}

void own_proto_init(const struct own_cfg *cfg) {
    CHECK(cfg->n_workers < MP && cfg->n_objs <= MO && cfg->n_tasks <= MT && cfg->yields <= NY && cfg->inner <= MI);
    memset(&G, 0, sizeof G);
    G.cfg = cfg;
    make_tables();
    signal(SIGABRT, on_abort);
}

void own_proto_exit(void) {
    signal(SIGABRT, SIG_DFL);
    sk_own_destroy(G.own);
    sk_lineage_destroy(G.lin);
}

const struct mc_model own_proto = {
    .name = "ownership", .size = sizeof(struct st), .init = proto_init, .next = proto_next, .canon = proto_canon, .end = proto_end};
