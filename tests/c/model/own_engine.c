/* own_engine.c - the engine in the model of ownership: the effects of object.c, task.c, stream.c,
 * request.c, death.c and recover.c on references.
 *
 * Not here: places, bytes, replies that do not fit, lack of memory. Counts and lineage are the
 * engine's own code (real.h). The functions have the names and the order of calls of the functions
 * that they model; a change there has to be made here, too. Invariant: as in the engine, an object
 * that own.c has freed but that was not drained yet has an entry, which obj_get does not return. */
#include "own_proto_int.h"

/* Returns the object's entry; NULL also if the object is freed and not drained yet. */
static struct obj *obj_get(uint8_t id) {
    if (!id || G.s->obj[id].state == O_NONE || (G.own_in && !sk_own_has(G.own, id))) return NULL;
    return &G.s->obj[id];
}
static uint8_t tid_of(const struct task *t) { return (uint8_t)(t - G.s->task); }

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
    if (was.known) sk_lineage_gone(own_lineage(), id, (enum sk_lost_why)was.why);
}

void own_drain(void) {
    uint64_t id;
    void *data;
    while (G.own_in && sk_own_next_freed(G.own, &id, &data)) obj_free((uint8_t)id);
    while (G.lin_in && sk_lineage_next_free(G.lin, &id, &data)) G.s->task[id].kept = 0;
}

sk_rc own_obj_new(uint8_t id, uint8_t proc) {
    SK_TRY(sk_own_add(own_table(), id, proc, NULL, NULL));
    G.s->obj[id] = (struct obj){.state = O_PENDING};
    return SK_OK;
}

void own_value_set(uint8_t id, const uint8_t in[MI], bool store) {
    struct obj *o = obj_get(id);
    if (!o || o->state != O_PENDING) return;
    o->state = O_READY;
    o->maker = 0;
    o->store = store;
    memcpy(o->in, in, MI);
    uint64_t ids[MI] = {in[0], in[1]};
    if (n_in(in))
        own_fine(sk_own_contains(own_table(), id, ids, n_in(in), NULL), "count what is inside", id);
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
    if (t->arg) sk_own_unhold(own_table(), t->arg);
    if (t->con) sk_own_unhold(own_table(), t->con);
}

static sk_rc take_args(struct task *t) {
    t->holds = 1;
    if (BUG(OWN_TASK_DOES_NOT_HOLD)) return SK_OK;
    sk_rc rc = t->arg ? sk_own_hold(own_table(), t->arg, NULL) : SK_OK;
    if (rc != SK_OK) t->holds = 0;
    if (rc == SK_OK && t->con) {
        rc = sk_own_hold(own_table(), t->con, NULL);
        if (rc != SK_OK) {
            if (t->arg) sk_own_unhold(own_table(), t->arg);
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

/* Models sk_loop_finish_error. */
void own_fail_task(struct task *t) {
    if (t->kind != K_STREAM) {
        for (uint8_t i = 0; i < t->n_ret; i++) {
            struct obj *o = obj_get((uint8_t)(t->first + i));
            if (o && o->state == O_PENDING) set_error(o);
        }
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

/* ---- recover.c ------------------------------------------------------------------------------- */

static bool keep_arg(struct task *t, uint32_t k, uint8_t oid, uint64_t *args, uint32_t *n) {
    struct obj *o = obj_get(oid);
    if (!o) return true;
    if (o->state == O_ERROR ||
        (o->state == O_READY && !o->store && sk_own_n_inner(own_table(), oid) == 0)) {
        t->aside[k] = oid;
        return true;
    }
    if (o->state == O_PENDING && o->maker && !G.s->task[o->maker].kept &&
        !BUG(OWN_PENDING_NOT_AWAITED)) {
        G.s->task[o->maker].bulky = 1;
        o->awaited = o->awaited || sk_own_hold(own_table(), oid, NULL) == SK_OK;
    }
    args[(*n)++] = oid;
    return true;
}

static bool can_be_lost(uint8_t id, const struct obj *o) {
    if (o->state == O_PENDING) return true;
    return (o->state == O_READY || o->state == O_ERROR) &&
           (o->store || sk_own_n_inner(own_table(), id) || sk_lineage_knows(own_lineage(), id));
}

static void keep(struct task *t, uint8_t first_yield) {
    uint64_t args[MA], returns[MI + 1];
    uint32_t n_args = 0, n_returns = 0;
    if (t->tried || t->kind == K_CALL || !G.cfg->retries) return;
    t->tried = 1;
    if (first_yield) returns[n_returns++] = first_yield;
    for (uint8_t i = 0; i < t->n_ret; i++) {
        uint8_t id = (uint8_t)(t->first + i);
        struct obj *o = obj_get(id);
        if (!o || !can_be_lost(id, o)) continue;
        if (t->retries == 0) o->why = SK_LOST_RETRIES;
        returns[n_returns++] = id;
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
    sk_rc rc = sk_lineage_add(own_lineage(), &spec, NULL);
    own_fine(rc, "keep the task that made", t->first);
    if (rc != SK_OK) return;
    t->kept = 1;
    for (uint32_t i = 0; i < n_args; i++) G.s->obj[args[i]].known = 1;
    for (uint32_t i = 0; i < n_returns; i++) G.s->obj[returns[i]].known = 1;
}

static void recover_yielded(struct task *t, uint8_t id) {
    struct obj *o = &G.s->obj[id];
    if (t->retries == 0) o->why = SK_LOST_RETRIES;
    if (!t->tried) keep(t, id);
    else if (t->kept && sk_lineage_return(own_lineage(), tid_of(t), id, 0, NULL) == SK_OK)
        o->known = 1;
}

static void let_awaited_go(const struct task *t) {
    uint32_t n = t->kind == K_STREAM ? t->n_yielded : t->n_ret;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t id = t->kind == K_STREAM ? t->yields[i] : (uint8_t)(t->first + i);
        struct obj *o = obj_get(id);
        if (!o || !o->awaited) continue;
        o->awaited = 0;
        sk_own_unhold(own_table(), id);
    }
}

static void recover_ended(struct task *t) {
    if (t->kind != K_STREAM && !t->remake) {
        keep(t, 0);
        let_awaited_go(t);
        return;
    }
    sk_lineage_done(own_lineage(), tid_of(t), (int8_t)t->retries);
    t->remake = t->restart = 0;
    let_awaited_go(t);
    for (uint8_t i = 0; t->kind == K_STREAM && i < t->n_yielded; i++) {
        struct obj *o = obj_get(t->yields[i]);
        if (o && o->state == O_PENDING) G.lost[G.n_lost++] = t->yields[i];
    }
}

void own_lose(uint8_t id) { /* sk_loop_lost */
    struct obj *o = &G.s->obj[id];
    o->state = O_PENDING;
    o->maker = 0;
    o->store = 0;
    memset(o->in, 0, MI);
    sk_own_uncontain(own_table(), id);
    G.lost[G.n_lost++] = id;
}

static struct obj *bring_back(uint8_t id, uint8_t *back, uint32_t *n) {
    struct obj *o = obj_get(id);
    sk_rc rc = o ? sk_own_ref(own_table(), id, 0, 1, NULL) : own_obj_new(id, 0);
    if (rc != SK_OK) own_wrong("bring back object %u: %s", id, sk_rc_name(rc));
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
    if (take_args(t) != SK_OK)
        own_wrong("task %u cannot run again: an argument is gone", tid_of(t));
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

/* Decides from the states of the tasks, without asking lineage. */
static bool can_be_remade(uint8_t id) {
    const struct task *t = &G.s->task[G.s->made_by[id]];
    if (t == G.s->task || t->kind == K_CALL || t->state == T_NEVER ||
        G.cfg->budget < G.cfg->n_tasks)
        return false;
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
    if (!sk_lineage_lost(own_lineage(), id, &why, &culprit)) {
        if ((BUG(OWN_RIGHT) || BUG(OWN_PENDING_NOT_AWAITED)) && can_be_remade(id))
            own_wrong("object %u is given up, though it can be made again", id);
        set_error(o);
        return;
    }
    struct task *m = &G.s->task[(uintptr_t)sk_lineage_maker(own_lineage(), id)];
    o->maker = tid_of(m);
    if (!m->remake && !m->ended && m->kind == K_STREAM) restart(m);
    while (sk_lineage_next_object(own_lineage(), &x)) {
        struct obj *b = bring_back((uint8_t)x, back, &n_back);
        b->known = 1;
        b->why = SK_LOST_EVICTED;
        if (b->state == O_PENDING)
            b->maker = (uint8_t)(uintptr_t)sk_lineage_maker(own_lineage(), x);
    }
    for (uint32_t i = 0; i < n_back; i++) {
        struct task *t = &G.s->task[(uintptr_t)sk_lineage_maker(own_lineage(), back[i])];
        if (t != G.s->task && !t->remake && !t->ended && t->kind == K_STREAM) restart(t);
    }
    while (sk_lineage_next_task(own_lineage(), &x, &data, &retries))
        begin_again(&G.s->task[x], retries, back, &n_back);
    for (uint32_t i = 0; i < n_back; i++)
        own_fine(sk_own_unref(own_table(), back[i], 0, 1, NULL), "let go", back[i]);
}

/* ---- loop.c again ---------------------------------------------------------------------------- */

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

void own_cancel(struct task *t) {
    if (!under_way(t) || t->remake) return;
    t->cancelled = 1;
    if (t->state == T_RUNNING) {
        t->stop = 1;
        return;
    }
    left_worker(t);
    own_fail_task(t);
}

void own_stream_drop(struct task *t) {
    t->dropped = 1;
    for (uint8_t i = t->n_taken; i < t->n_yielded; i++)
        own_fine(sk_own_unref(own_table(), t->yields[i], 0, 1, NULL), "drop a yield,",
                 t->yields[i]);
    t->n_taken = t->n_yielded;
    t->end_error = 0;
    t->done = 1;
}

/* Ends the actor's process if its last call is over and no handle is left. */
static void actor_advance(void) {
    if (G.s->actor != A_ALIVE || !G.s->actor_stopping || G.s->actor_tasks) return;
    struct worker *w = &G.s->w[G.cfg->n_workers];
    G.s->actor = A_DEAD;
    if (w->phase == W_DEAD) return;
    w->phase = W_DEAD;
    memset(w->refs, 0, sizeof w->refs);
}

/* Models task_make and sk_loop_submit. */
sk_rc own_submit(uint8_t proc, struct task *t) {
    for (uint8_t i = 0; i < t->n_ret; i++) {
        uint8_t id = (uint8_t)(t->first + i);
        SK_TRY(own_obj_new(id, proc));
        G.s->obj[id].maker = G.s->made_by[id] = tid_of(t);
        G.s->obj[id].why = t->kind == K_CALL ? SK_LOST_ACTOR
                           : !G.cfg->retries ? SK_LOST_RETRIES
                                             : SK_LOST_EVICTED;
    }
    sk_rc rc = take_args(t);
    t->state = T_WAITING;
    if (t->kind == K_CALL) {
        G.s->actor_tasks++;
        if (G.s->actor != A_ALIVE || G.s->actor_stopping) own_fail_task(t);
    }
    return rc;
}

/* Takes the stream's next value; false: the reader has to wait. */
bool own_stream_take(struct task *t, uint8_t proc, uint8_t *id) {
    *id = 0;
    if (t->n_taken < t->n_yielded) {
        *id = t->yields[t->n_taken++];
        if (proc) {
            own_fine(sk_own_ref(own_table(), *id, proc, 1, NULL), "hand over", *id);
            own_fine(sk_own_unref(own_table(), *id, 0, 1, NULL), "hand over", *id);
        }
        return true;
    }
    return t->done;
}

/* Delivers what the engine would deliver at once: wakes each process whose awaited object
 * exists. */
void own_wake(void) {
    for (bool more = true; more;) {
        more = false;
        while (G.n_lost) {
            uint8_t id = G.lost[0];
            memmove(G.lost, G.lost + 1, --G.n_lost);
            if (!BUG(OWN_PLAN_BEFORE_DRAIN)) own_drain();
            recover(id);
            more = true;
        }
        for (struct task *t = G.s->task + 1; t <= G.s->task + MT; t++) {
            const struct obj *o = t->arg ? obj_get(t->arg) : NULL;
            /* sk_ltask_look */
            if (t->state == T_READY && o && o->state == O_PENDING) t->state = T_WAITING;
            if (t->state != T_WAITING || (o && o->state == O_PENDING)) continue;
            more = true;
            if (o && o->state == O_ERROR) own_fail_task(t);
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
                sk_own_unhold(own_table(), w->ask_obj);
            } else {
                struct task *t = &G.s->task[w->ask_task];
                if (!own_stream_take(t, p, &w->rep_obj)) continue;
            }
            w->phase = W_ANSWERED;
            more = true;
        }
        own_drain();
    }
}

static struct task *reported(uint8_t proc, const struct message *m) {
    /* the task that a report counts for, or NULL */
    struct task *t = &G.s->task[m->task];
    if (t->state != T_SENT && t->state != T_RUNNING) return NULL;
    if (!BUG(OWN_NO_FENCE) && t->attempt != m->attempt) return NULL;
    if (!BUG(OWN_NO_FENCE) && t->worker != proc) return NULL;
    return t;
}

static void taken(struct task *t, const struct message *m) {
    if (m->attempt != t->attempt)
        own_wrong("task %u is in attempt %u and takes a report of attempt %u", m->task,
                  t->attempt + 1, m->attempt + 1);
    if (t->from_attempt == m->attempt + 1 && m->type == M_DONE)
        own_wrong("task %u ends twice in attempt %u", m->task, m->attempt + 1);
    if (m->type == M_DONE) t->from_attempt = (uint8_t)(m->attempt + 1);
}

static void handle_done(uint8_t proc, const struct message *m) {
    struct task *t = reported(proc, m);
    if (!t) return;
    taken(t, m);
    left_worker(t);
    t->stop = 0;
    if (t->cancelled && m->failed) {
        own_fail_task(t);
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
        own_fail_task(t);
        return;
    }
    if (BUG(OWN_ARGUMENT_IN_RESULT)) {
        let_args_go(t);
        own_drain();
    }
    bool store = G.cfg->budget != 0;
    if (t->kind != K_STREAM) {
        if (store || n_in(m->in)) t->bulky = 1;
        static const uint8_t none[MI];
        own_value_set(t->first, m->in, store);
        if (t->n_ret > 1) own_value_set((uint8_t)(t->first + 1), none, store);
    } else if (t->remake) {
        own_fail_task(t);
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
    if (m->index < t->n_yielded) { /* a retry repeats values that exist already */
        if (!(t->wanted & 1u << m->index)) {
            if (BUG(OWN_NO_FENCE)) own_wrong("task %u gives yield %u twice", m->task, m->index);
            return;
        }
        t->wanted &= (uint8_t)~(1u << m->index);
        own_value_set(t->yields[m->index], m->in, store);
        return;
    }
    if (t->remake) return;
    if (m->index != t->n_yielded)
        own_wrong("task %u gives yield %u after %u", m->task, m->index, t->n_yielded);
    uint8_t id = G.s->next_id++;
    own_fine(own_obj_new(id, 0), "yield", id);
    G.s->made_by[id] = m->task;
    G.s->obj[id].why = G.cfg->retries ? SK_LOST_EVICTED : SK_LOST_RETRIES;
    own_value_set(id, m->in, store);
    t->yields[t->n_yielded++] = id;
    if (store || n_in(m->in)) {
        t->bulky = 1;
        if (G.cfg->budget) recover_yielded(t, id);
    }
}

void own_handle(uint8_t proc, const struct message *m) {
    struct worker *w = &G.s->w[proc];
    switch (m->type) {
    case M_ADD:
        if (BUG(OWN_BORROW_IS_A_FLAG) && sk_own_borrowed(own_table(), m->obj, proc)) break;
        own_fine(sk_own_ref(own_table(), m->obj, proc, 1, NULL), "count a reference to", m->obj);
        break;
    case M_DEL:
        own_fine(sk_own_unref(own_table(), m->obj, proc, 1, NULL), "give back", m->obj);
        break;
    case M_PUT:
        own_fine(own_obj_new(m->obj, proc), "put", m->obj);
        /* the bug: the value has the references, but the table does not learn of them */
        if (BUG(OWN_PUT_LOSES_INNER)) {
            G.s->obj[m->obj].state = O_READY;
            memcpy(G.s->obj[m->obj].in, m->in, MI);
        } else {
            own_value_set(m->obj, m->in, m->index);
        }
        break;
    case M_SUBMIT:
        own_fine(own_submit(proc, &G.s->task[m->task]), "submit with", G.s->task[m->task].arg);
        break;
    case M_GET:
        if (sk_own_hold(own_table(), m->obj, NULL) != SK_OK) {
            own_wrong("a process gets object %u, which is gone", m->obj);
            return;
        }
        w->held = w->phase == W_ASKED;
        if (w->held) w->phase = W_WAITS;
        /* the process died after it had sent this message (req_free) */
        else sk_own_unhold(own_table(), m->obj);
        break;
    case M_NEXT:
        if (w->phase == W_ASKED) w->phase = W_WAITS;
        break;
    case M_CANCEL: own_cancel(&G.s->task[m->task]); break;
    case M_DROP: own_stream_drop(&G.s->task[m->task]); break;
    case M_YIELD: handle_yield(proc, m); break;
    case M_DONE: handle_done(proc, m); break;
    default: break;
    }
    own_drain();
}

/* Models sk_loop_worker_died, called behind the process's last message. */
void own_worker_died(uint8_t proc) {
    struct st *s = G.s;
    struct worker *w = &s->w[proc];
    bool is_actor = G.cfg->actor && proc == G.cfg->n_workers;
    if (w->held) sk_own_unhold(own_table(), w->ask_obj);
    sk_own_proc_dead(own_table(), proc);
    memset(w, 0, sizeof *w);
    if (is_actor && s->actor == A_DEAD) w->phase = W_GONE;
    for (struct task *t = s->task + 1; t <= s->task + MT; t++) {
        if (t->owner != proc || t->orphan) continue;
        if (t->state == T_SAID) t->state = T_NEVER;
        t->orphan = 1; /* the next process with this number is another */
        if (t->kind == K_STREAM && !t->dropped && t->state != T_NEVER &&
            !BUG(OWN_STREAM_OUTLIVES_READER)) {
            own_stream_drop(t);
            own_cancel(t);
        }
    }
    for (struct task *t = s->task + 1; t <= s->task + MT; t++) {
        if (t->worker != proc || (t->state != T_SENT && t->state != T_RUNNING)) continue;
        bool started = t->state == T_RUNNING;
        left_worker(t);
        if (t->cancelled) {
            own_fail_task(t);
        } else if (!started) {
            t->state = T_READY;
        } else if (t->retries) {
            t->retries--;
            retry(t);
        } else {
            own_fail_task(t);
        }
    }
    own_drain();
}
