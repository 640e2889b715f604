/* own_user.c - the possible next steps in the model of ownership: calls of users, steps of workers,
 * steps of the driver.
 *
 * There are no fixed user programs. Two kinds of calls are left out because no protocol can handle
 * them: a wait for an object that the waiting task itself makes, and (unless the bounds allow it)
 * values that contain one another. Each step is one atomic act of one process; its message to the
 * driver goes to the end of the process's queue. */
#include "own_proto_int.h"

static bool room(const struct worker *w, uint32_t n) { return w->n_q + n <= NQ; }
static void say(struct worker *w, struct message m) {
    CHECK(w->n_q < NQ);
    w->q[w->n_q++] = m;
}

static bool is_actor_obj(uint8_t id) { return G.s->actor_obj == id; }

/* Gives a worker a reference as a Python object. by_call: it is an argument of the worker's
 * task. */
static void get_ref(struct worker *w, uint8_t id, bool by_call) {
    w->refs[id - 1]++;
    if (BUG(OWN_HANDLE_NO_BORROW) && is_actor_obj(id)) return;
    if (BUG(OWN_ONLY_FROM_THE_CALLER) && !by_call) return;
    say(w, (struct message){.type = M_ADD, .obj = id});
}

static uint8_t *refs_of(uint8_t proc) { return proc ? G.s->w[proc].refs : G.s->driver; }

static void set_text(char *buf, size_t cap, const uint8_t in[MI]) {
    if (!in[0]) snprintf(buf, cap, "no references");
    else if (!in[1]) snprintf(buf, cap, "a reference to %u", in[0]);
    else snprintf(buf, cap, "references to %u and %u", in[0], in[1]);
}

static const char *who(uint8_t proc) {
    static const char *name[] = {"driver", "worker 1", "worker 2", "worker 3"};
    return G.cfg->actor && proc == G.cfg->n_workers ? "actor" : name[proc];
}

/* True if a value of object `at` that contains `id` would close a circle. Circles are never freed
 * (own.h says so), so they are left out unless the bounds allow them. */
static bool reaches(const struct st *s, uint8_t id, uint8_t at, uint32_t *seen) {
    if (id == at) return true;
    if (!id || *seen & 1u << id) return false;
    *seen |= 1u << id;
    for (uint8_t i = 0; i < MI; i++)
        if (s->obj[id].in[i] && reaches(s, s->obj[id].in[i], at, seen)) return true;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) { /* values that are being sent to it */
        const struct worker *w = &s->w[p];
        for (uint8_t i = 0; i < MI && w->phase == W_RETURNING && s->task[w->task].first == id; i++)
            if (w->rep_in[i] && reaches(s, w->rep_in[i], at, seen)) return true;
        for (uint8_t k = 0; k < w->n_q; k++)
            for (uint8_t i = 0; i < MI; i++) {
                const struct message *m = &w->q[k];
                bool to = (m->type == M_PUT && m->obj == id) ||
                          (m->type == M_DONE && s->task[m->task].first == id);
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

/* Calls fn for every set of at most cfg->inner references that `proc` has. */
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
    own_begin(&s);
    uint8_t id = s.next_id++;
    s.n_puts++;
    bool store = G.cfg->budget && n_in(in); /* small values stay in the driver's heap */
    if (proc) {
        say(&s.w[proc],
            (struct message){.type = M_PUT, .obj = id, .index = store, .in = {in[0], in[1]}});
    } else {
        own_fine(own_obj_new(id, 0), "put", id);
        s.obj[id].why = SK_LOST_PUT;
        own_value_set(id, in, store);
    }
    refs_of(proc)[id - 1]++;
    char what[60];
    set_text(what, sizeof what, in);
    EMIT("%s: put() makes object %u with %s inside", who(proc), id, what);
}

/* True if the worker's result contains the object. The process holds the references in its result
 * until the report is sent (wtask.held); its other references may be dropped meanwhile. */
static bool held_in_result(const struct worker *w, uint8_t id) {
    bool was_arg = false;
    for (uint32_t k = 0; k < NV; k++) was_arg |= w->args[k] == id;
    return id && !BUG(OWN_RESULT_GIVEN_BACK_EARLY) && !(BUG(OWN_ARGUMENT_IN_RESULT) && was_arg);
}

static void task_left(struct worker *w) {
    w->phase = W_IDLE;
    w->task = w->attempt = w->index = w->from = w->wanted = w->in_window = 0;
    memset(w->args, 0, sizeof w->args);
    memset(w->rep_in, 0, MI);
}

static void do_report(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    struct st s = *from;
    own_begin(&s);
    struct worker *w = &s.w[proc];
    const struct task *t = &s.task[w->task];
    uint8_t tid = w->task, attempt = w->attempt;
    say(w, (struct message){.type = M_DONE, .task = tid, .attempt = attempt, .in = {in[0], in[1]}});
    for (uint32_t i = 0; i < MI; i++)
        if (held_in_result(w, in[i])) say(w, (struct message){.type = M_DEL, .obj = in[i]});
    char what[60];
    set_text(what, sizeof what, in);
    task_left(w);
    if (t->kind == K_STREAM)
        EMIT("%s: stream task %u (attempt %u) ends", who(proc), tid, attempt + 1);
    else
        EMIT("%s: reports task %u (attempt %u): object %u with %s inside", who(proc), tid,
             attempt + 1, t->first, what);
}

static void do_return(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    if (circle(from, in, from->task[from->w[proc].task].first)) return;
    if (!in[0]) {
        do_report(from, proc, in);
        return;
    }
    struct st s = *from;
    own_begin(&s);
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
    own_begin(&s);
    struct worker *w = &s.w[proc];
    uint8_t tid = w->task;
    say(w, (struct message){.type = M_DONE, .task = tid, .attempt = w->attempt, .failed = 1});
    task_left(w);
    EMIT("%s: task %u %s", who(proc), tid, why);
}

static void do_yield(const struct st *from, uint8_t proc, const uint8_t in[MI]) {
    struct st s = *from;
    own_begin(&s);
    struct worker *w = &s.w[proc];
    uint8_t index = w->index++;
    w->wanted &= (uint8_t)~(1u << index);
    w->in_window = G.cfg->window != 0;
    say(w, (struct message){.type = M_YIELD,
                            .task = w->task,
                            .attempt = w->attempt,
                            .index = index,
                            .in = {in[0], in[1]}});
    char what[60];
    set_text(what, sizeof what, in);
    EMIT("%s: stream task %u (attempt %u) yields number %u with %s inside", who(proc), w->task,
         w->attempt + 1, index, what);
}

static void do_submit(const struct st *from, uint8_t proc, uint8_t kind, uint8_t arg, uint8_t con) {
    struct st s = *from;
    own_begin(&s);
    uint8_t tid = ++s.n_tasks;
    struct task *t = &s.task[tid];
    *t = (struct task){.state = T_SAID,
                       .kind = kind,
                       .owner = proc,
                       .arg = arg,
                       .con = con,
                       .retries = G.cfg->retries};
    if (kind != K_STREAM) {
        t->first = s.next_id;
        t->n_ret = kind == K_TASK && G.cfg->pairs ? 2 : 1;
        for (uint8_t i = 0; i < t->n_ret; i++) refs_of(proc)[s.next_id++ - 1]++;
    }
    if (proc) say(&s.w[proc], (struct message){.type = M_SUBMIT, .task = tid});
    else own_fine(own_submit(0, t), "submit with", arg);
    char a[40] = "", c[40] = "";
    if (arg) snprintf(a, sizeof a, " with the value of object %u", arg);
    if (con) snprintf(c, sizeof c, " with a reference to %u", con);
    if (kind == K_STREAM) EMIT("%s: submits stream task %u%s%s", who(proc), tid, a, c);
    else
        EMIT("%s: %s %u%s%s, which will make object %u", who(proc),
             kind == K_CALL ? "calls the actor, task" : "submits task", tid, a, c, t->first);
}

static void submits(const struct st *from, uint8_t proc) {
    const uint8_t *r = proc ? from->w[proc].refs : from->driver;
    for (uint8_t con = 0; con <= MO; con++) {
        if (con && !r[con - 1]) continue;
        for (uint8_t arg = 0; arg <= (G.cfg->by_value ? MO : 0); arg++) {
            if (arg && (!r[arg - 1] || arg == from->actor_obj || (con && arg == con))) continue;
            bool id_left = from->next_id <= G.cfg->n_objs;
            if (from->next_id + G.cfg->pairs <= G.cfg->n_objs)
                do_submit(from, proc, K_TASK, arg, con);
            if (G.cfg->yields) do_submit(from, proc, K_STREAM, arg, con);
            if (id_left && from->actor_obj && r[from->actor_obj - 1])
                do_submit(from, proc, K_CALL, arg, con);
        }
    }
}

/* True if a process that waits for object `id` (or for stream task `tid`) would wait for what task
 * `me` makes. A program that waits for itself hangs under any protocol, so such calls are left out.
 * A running task has its argument already, but needs it again if its result is lost later. */
static bool waits_for(const struct st *s, uint8_t id, uint8_t tid, uint8_t me, uint32_t *seen) {
    for (uint8_t t = 1; id && !tid && t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        if (x->first && id >= x->first && id < x->first + x->n_ret) tid = t;
        for (uint8_t i = 0; i < x->n_yielded; i++)
            if (x->yields[i] == id) tid = t;
    }
    if (!tid || *seen & 1u << tid) return false;
    *seen |= 1u << tid;
    if (tid == me) return true;
    const struct task *t = &s->task[tid];
    if (t->arg && (t->state != T_RUNNING || G.cfg->losses) && waits_for(s, t->arg, 0, me, seen))
        return true;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        /* a call of an actor waits for the one before */
        bool on = w->task == tid || (t->kind == K_CALL && p == G.cfg->n_workers && w->task);
        if (on && w->task == me) return true;
        if (on && (w->phase == W_ASKED || w->phase == W_WAITS) &&
            waits_for(s, w->ask_obj, w->ask_task, me, seen))
            return true;
    }
    return false;
}

/* True if the worker waits in a yield because the window is full (w_yield). It goes on when the
 * reader takes a value, or when the task is stopped. Meanwhile other threads of its process may
 * drop their references, even the generator of this stream. */
static bool window_is_full(const struct st *s, const struct worker *w) {
    const struct task *t = &s->task[w->task];
    if (!G.cfg->window || w->phase != W_RUNNING || !w->in_window || t->kind != K_STREAM ||
        t->remake || t->attempt != w->attempt)
        return false;
    return !t->stop && !t->dropped && w->index >= t->n_taken + G.cfg->window;
}

void own_calls_of_user(const struct st *from, uint8_t proc) {
    struct st s;
    const struct worker *fw = &from->w[proc];
    const uint8_t *r = proc ? fw->refs : from->driver;
    bool is_actor = G.cfg->actor && proc == G.cfg->n_workers,
         runs = !proc || (fw->phase == W_RUNNING && !window_is_full(from, fw));
    for (uint8_t k = 0; k < MO; k++) {
        if (!r[k] || (proc && !room(fw, 1))) continue;
        if (is_actor && G.cfg->actor_keeps && fw->phase == W_IDLE) continue;
        s = *from;
        own_begin(&s);
        refs_of(proc)[k]--;
        if (proc) {
            bool counted = !(BUG(OWN_HANDLE_NO_BORROW) && is_actor_obj((uint8_t)(k + 1)));
            if (counted) say(&s.w[proc], (struct message){.type = M_DEL, .obj = (uint8_t)(k + 1)});
        } else {
            own_fine(sk_own_unref(own_table(), k + 1u, 0, 1, NULL), "give back", (uint8_t)(k + 1));
            own_drain();
        }
        EMIT("%s: drops a reference to %u", who(proc), k + 1);
    }
    for (uint8_t tid = 1; tid <= from->n_tasks; tid++) { /* streams that it reads */
        const struct task *t = &from->task[tid];
        if (t->kind != K_STREAM || t->owner != proc || t->orphan || t->dropped) continue;
        bool dropping = false; /* said already */
        for (uint8_t i = 0; proc && i < fw->n_q; i++)
            dropping |= fw->q[i].type == M_DROP && fw->q[i].task == tid;
        if (dropping || (proc && !room(fw, 1))) continue;
        s = *from;
        own_begin(&s);
        if (proc) say(&s.w[proc], (struct message){.type = M_DROP, .task = tid});
        else own_stream_drop(&s.task[tid]);
        own_drain();
        EMIT("%s: drops the generator of task %u", who(proc), tid);
        if (!runs || (!proc && t->n_taken >= t->n_yielded)) continue;
        uint32_t seen = 0;
        if (proc && (t->n_taken == NY || waits_for(from, 0, tid, fw->task, &seen))) continue;
        s = *from;
        own_begin(&s);
        if (proc) {
            s.w[proc].phase = W_ASKED;
            s.w[proc].ask_task = tid;
            say(&s.w[proc], (struct message){.type = M_NEXT, .task = tid});
            EMIT("%s: asks for the next of stream task %u", who(proc), tid);
        } else {
            uint8_t id;
            (void)own_stream_take(&s.task[tid], 0, &id);
            s.driver[id - 1]++;
            EMIT("driver: takes object %u from stream task %u", id, tid);
        }
    }
    for (uint8_t tid = 1; tid <= from->n_tasks && from->n_cancels < G.cfg->cancels; tid++) {
        const struct task *t = &from->task[tid];
        bool names_it = t->kind == K_STREAM ? t->owner == proc && !t->orphan && !t->dropped
                                            : r[t->first - 1] != 0 || (t->n_ret > 1 && r[t->first]);
        if (!names_it || t->state >= T_FINISHED || !runs || (proc && !room(fw, 1))) continue;
        s = *from;
        own_begin(&s);
        s.n_cancels++;
        if (proc) say(&s.w[proc], (struct message){.type = M_CANCEL, .task = tid});
        else own_cancel(&s.task[tid]);
        own_drain();
        EMIT("%s: cancels task %u", who(proc), tid);
    }
    if (!runs) return;
    if (from->n_puts < G.cfg->puts && from->next_id <= G.cfg->n_objs && (!proc || room(fw, 1)))
        each_choice(from, proc, do_put);
    if (from->n_tasks < G.cfg->n_tasks && (!proc || (G.cfg->nested_submit && room(fw, 1))))
        submits(from, proc);
    if (from->n_gets < G.cfg->gets) {
        for (uint8_t k = 0; k < MO; k++) {
            const struct obj *o = &from->obj[k + 1];
            if (!r[k] || from->actor_obj == k + 1) continue;
            /* an object that is an error or pending gives no references */
            if (!proc && o->state != O_READY) continue;
            uint32_t seen = 0;
            if (proc && (!room(fw, 1) || waits_for(from, (uint8_t)(k + 1), 0, fw->task, &seen)))
                continue;
            s = *from;
            own_begin(&s);
            s.n_gets++;
            if (proc) {
                s.w[proc].phase = W_ASKED;
                s.w[proc].ask_obj = (uint8_t)(k + 1);
                say(&s.w[proc], (struct message){.type = M_GET, .obj = (uint8_t)(k + 1)});
                EMIT("%s: get(%u)", who(proc), k + 1);
            } else {
                for (uint32_t i = 0; i < n_in(o->in); i++) {
                    s.driver[o->in[i] - 1]++;
                    own_fine(sk_own_ref(own_table(), o->in[i], 0, 1, NULL), "count", o->in[i]);
                }
                char what[60];
                set_text(what, sizeof what, o->in);
                EMIT("driver: get(%u) gives %s", k + 1, what);
            }
        }
    }
}

void own_worker_steps(const struct st *from, uint8_t proc) {
    const struct worker *fw = &from->w[proc];
    struct st s;
    if (fw->phase == W_DEAD || fw->phase == W_GONE) return;
    if (from->n_deaths < G.cfg->deaths) {
        s = *from;
        own_begin(&s);
        s.n_deaths++;
        struct worker *w = &s.w[proc];
        w->phase = W_DEAD;
        memset(w->refs, 0, sizeof w->refs);
        w->ask_obj = w->held ? w->ask_obj : 0;
        w->ask_task = w->rep_obj = 0;
        memset(w->rep_in, 0, MI);
        memset(w->args, 0, sizeof w->args);
        w->in_window = 0;
        EMIT("%s: dies", who(proc));
    }
    if (fw->phase == W_IDLE) {
        for (uint8_t tid = 1; tid <= from->n_tasks; tid++) {
            const struct task *ft = &from->task[tid];
            if (ft->state != T_SENT || ft->worker != proc || !room(fw, NV)) continue;
            s = *from;
            own_begin(&s);
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
        own_begin(&s);
        struct worker *w = &s.w[proc];
        for (uint32_t i = 0; i < n_in(w->rep_in); i++) get_ref(w, w->rep_in[i], false);
        if (w->rep_obj) w->refs[w->rep_obj - 1]++; /* counted for it already */
        if (G.cfg->budget && w->ask_obj)
            say(w, (struct message){.type = M_UNPIN, .obj = w->ask_obj});
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
    if (fw->phase == W_IDLE || fw->phase == W_RUNNING || fw->phase == W_RETURNING)
        own_calls_of_user(from, proc);
    if (fw->phase == W_RETURNING && room(fw, 1 + MI)) do_report(from, proc, fw->rep_in);
    if (fw->phase != W_RUNNING || window_is_full(from, fw)) return;
    const struct task *t = &from->task[fw->task];
    bool stopped = t->kind == K_STREAM &&
                   ((t->stop && t->attempt == fw->attempt) || (t->remake && !fw->wanted));
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
                    own_begin(&s);
                    s.w[proc].index++;
                    EMIT("%s: stream task %u gives number %u again, which is there", who(proc),
                         fw->task, fw->index);
                }
            }
            do_return(from, proc, none);
        }
    } else if (room(fw, 1 + MI)) {
        each_choice(from, proc, do_return);
    }
}

static const char *message_text(const struct message *m, char *buf, size_t cap) {
    static const char *name[] = {
        "",      "add a reference to", "give back", "put",           "submit task",
        "get",   "next of task",       "drop task", "yield of task", "report of task",
        "unpin", "cancel task"};
    snprintf(buf, cap, "%s %u", name[m->type], m->obj ? m->obj : m->task);
    return buf;
}

/* True if a process reads the object: then its bytes are pinned for the process (arguments for the
 * task) until the driver handles the unpin message, which is behind the messages that count the
 * references inside. A pinned value is never spilled, so it cannot be lost. */
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

void own_driver_steps(const struct st *from) {
    struct st s;
    char text[60];
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *fw = &from->w[p];
        for (uint8_t i = 0; i < fw->n_q; i++) {
            if (i && !(BUG(OWN_OUT_OF_ORDER) && fw->q[i].type == M_DEL)) continue;
            /* the bug: this message overtakes others, but not those about the same object */
            if (i) {
                bool same = false;
                for (uint8_t k = 0; k < i; k++)
                    same |= fw->q[k].obj == fw->q[i].obj || fw->q[k].type != M_ADD;
                if (same) continue;
            }
            if (fw->q[i].type == M_YIELD && from->next_id > MO) continue;
            s = *from;
            own_begin(&s);
            struct message m = s.w[p].q[i];
            memmove(&s.w[p].q[i], &s.w[p].q[i + 1], (size_t)(s.w[p].n_q - 1 - i) * sizeof m);
            memset(&s.w[p].q[--s.w[p].n_q], 0, sizeof m);
            own_handle(p, &m);
            EMIT("driver: handles \"%s\" of %s%s", message_text(&m, text, sizeof text), who(p),
                 i ? ", before what came first" : "");
        }
        if (fw->phase == W_DEAD && (!fw->n_q || (G.cfg->late && from->n_zombie + fw->n_q <= NQ))) {
            s = *from;
            own_begin(&s);
            for (uint8_t i = 0; i < fw->n_q; i++) {
                struct message m = fw->q[i];
                /* all other messages of the dead process are dropped */
                if (m.type == M_YIELD || m.type == M_DONE) s.zombie[s.n_zombie++] = m;
            }
            own_worker_died(p);
            EMIT("driver: notices that %s is dead%s", who(p),
                 fw->n_q ? ", with messages still under way" : "");
        }
    }
    if (from->n_zombie) {
        s = *from;
        own_begin(&s);
        struct message m = s.zombie[0];
        memmove(s.zombie, s.zombie + 1, (size_t)(s.n_zombie - 1) * sizeof m);
        memset(&s.zombie[--s.n_zombie], 0, sizeof m);
        own_handle(0, &m);
        EMIT("driver: handles \"%s\" (attempt %u) of a process that is gone",
             message_text(&m, text, sizeof text), m.attempt + 1);
    }
    for (uint8_t tid = 1; tid <= from->n_tasks; tid++) {
        if (from->task[tid].state != T_READY) continue;
        bool call = from->task[tid].kind == K_CALL, sent = false;
        for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
            if (G.cfg->actor && (p == G.cfg->n_workers) != call) continue;
            bool busy = from->w[p].phase != W_IDLE;
            for (uint8_t k = 1; k <= from->n_tasks; k++)
                busy |= from->task[k].worker == p &&
                        (from->task[k].state == T_SENT || from->task[k].state == T_RUNNING);
            if (busy) continue;
            s = *from;
            own_begin(&s);
            struct task *t = &s.task[tid];
            uint8_t n = 0;
            if (t->con) t->vis[n++] = t->con;
            for (uint32_t i = 0; t->arg && i < n_in(s.obj[t->arg].in); i++)
                t->vis[n++] = s.obj[t->arg].in[i];
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
            if (!(G.cfg->actor && p == G.cfg->n_workers))
                stuck &= from->w[p].phase == W_WAITS ||
                         (window_is_full(from, &from->w[p]) && !from->w[p].n_q);
        if (stuck) {
            s = *from;
            own_begin(&s);
            (void)own_table();
            own_fail_task(&s.task[tid]);
            own_drain();
            EMIT("driver: fails task %u, as all workers wait", tid);
        }
    }
    for (uint8_t id = 1; id <= MO && from->n_losses < G.cfg->losses; id++) {
        if (from->obj[id].state != O_READY || !from->obj[id].store ||
            (being_read(from, id) && !BUG(OWN_LOST_UNDER_A_READER)))
            continue;
        s = *from;
        own_begin(&s);
        s.n_losses++;
        own_lose(id);
        EMIT("driver: the value of object %u is lost", id);
    }
    if (G.cfg->actor && !from->actor_obj && from->next_id <= G.cfg->n_objs) {
        s = *from;
        own_begin(&s);
        uint8_t id = s.next_id++;
        own_fine(own_obj_new(id, 0), "make the actor", id);
        s.obj[id].state = O_ACTOR;
        s.obj[id].why = SK_LOST_ACTOR;
        s.driver[id - 1] = 1;
        s.actor = A_ALIVE;
        s.actor_obj = id;
        EMIT("driver: makes the actor, object %u", id);
    }
}
