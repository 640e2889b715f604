/* own_check.c - the conditions that must hold after each step of the model of ownership, and at its
 * ends, where no step is possible any more.
 *
 *   - each object to which a living process, a message under way, an unfinished task or a living
 *     value refers is in the table of objects;
 *   - counts are exact: of a process, what it has = what the table says + what its messages will
 *     change; of holds likewise;
 *   - once no message is under way, the table has no object without a reference;
 *   - an object that does not exist yet is being made by an unfinished task; and at an end no
 * object, no task in lineage, no hold and no waiting process is left. Other conditions are checked
 * where they can be violated (own_engine.c: results are taken once, from the current attempt; no
 * yield is missing; no object is given up that could be made again). */
#include "own_proto_int.h"

struct marks {
    const char *why[MO + 1]; /* [id]: what refers to the object; NULL: nothing does */
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
    for (uint32_t i = 0; i < n_in(m->in); i++)
        mark(k, m->in[i], "a value under way contains it, from process", proc);
}

/* Marks every object that a process, message, task or value can still use; made: bits of the
 * objects that a task is making. */
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
                 w->phase == W_RETURNING
                     ? "a result that is about to be reported contains it, of process"
                     : "a value on its way contains it, to process",
                 p);
        for (uint8_t i = 0; i < w->n_q; i++) {
            const struct message *m = &w->q[i];
            mark_message(k, m, p);
            if (m->type == M_PUT) made |= 1u << m->obj;
            for (uint8_t j = 0; m->type == M_SUBMIT && j < s->task[m->task].n_ret; j++)
                made |= 1u << (s->task[m->task].first + j);
        }
    }
    for (uint8_t t = 1; t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        if (under_way(x)) {
            mark(k, x->arg, "it is an argument of task", t);
            mark(k, x->con, "it is an argument of task", t);
            if (x->state == T_SENT)
                for (uint8_t i = 0; i < NV; i++)
                    mark(k, x->vis[i], "it is in the message with task", t);
        }
        for (uint8_t i = x->n_taken; x->kind == K_STREAM && i < x->n_yielded; i++)
            mark(k, x->yields[i], "it can be taken from stream task", t);
    }
    for (uint8_t i = 1; i <= MO; i++)
        if (s->obj[i].awaited) mark(k, i, "a kept task waits for its maker, task", s->obj[i].maker);
    while (k->n) {
        uint8_t id = k->todo[--k->n];
        const struct obj *o = &s->obj[id];
        for (uint8_t i = 0; o->state == O_READY && i < MI; i++)
            mark(k, o->in[i], "it is inside object", id);
    }
    return made;
}

static void check_counts(void) {
    const struct st *s = G.s;
    int want[MP][MO] = {{0}}, holds[MO] = {0};
    for (uint8_t i = 0; i < MO; i++) want[0][i] = s->driver[i];
    for (uint8_t t = 1; t <= s->n_tasks; t++) {
        const struct task *x = &s->task[t];
        for (uint8_t i = x->n_taken; x->kind == K_STREAM && i < x->n_yielded; i++)
            want[0][x->yields[i] - 1]++;
        if (x->holds && x->arg) holds[x->arg - 1]++;
        if (x->holds && x->con) holds[x->con - 1]++;
        if (under_way(x) != (bool)x->holds)
            own_wrong("task %u %s its arguments", t,
                      x->holds ? "is over and holds" : "does not hold");
    }
    for (uint8_t i = 0; i < MO; i++) holds[i] += s->obj[i + 1].awaited;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) {
        const struct worker *w = &s->w[p];
        if (w->held) holds[w->ask_obj - 1]++;
        if (w->phase == W_DEAD) {
            /* goes as a whole */
            memcpy(want[p], (int[MO]){-1, -1, -1, -1, -1, -1, -1, -1}, sizeof want[p]);
            continue;
        }
        for (uint8_t i = 0; i < MO; i++) want[p][i] = w->refs[i];
        if (w->rep_obj) want[p][w->rep_obj - 1]++;
        for (uint8_t i = 0; w->phase == W_RETURNING && i < n_in(w->rep_in); i++)
            want[p][w->rep_in[i] - 1]++;
        for (uint8_t i = 0; i < w->n_q; i++) {
            const struct message *m = &w->q[i];
            if (m->type == M_ADD || m->type == M_PUT) want[p][m->obj - 1]--;
            if (m->type == M_DEL) want[p][m->obj - 1]++;
            for (uint8_t k = 0; m->type == M_SUBMIT && k < s->task[m->task].n_ret; k++)
                want[p][s->task[m->task].first + k - 1]--;
        }
    }
    for (uint8_t i = 0; i < MO; i++) {
        for (uint8_t p = 0; p <= G.cfg->n_workers; p++)
            if (!(p && s->w[p].phase == W_DEAD) && want[p][i] != s->own.refs[p][i])
                own_wrong("object %u: process %u has %d counted references, the table says %u",
                          i + 1, p, want[p][i], s->own.refs[p][i]);
        if (holds[i] != s->own.holds[i])
            own_wrong("object %u: %d holds, the table says %u", i + 1, holds[i], s->own.holds[i]);
    }
}

/* True if no message is under way. */
static bool quiet(void) {
    bool q = !G.s->n_zombie;
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++)
        q &= !G.s->w[p].n_q && G.s->w[p].phase != W_DEAD;
    return q;
}

void own_check_all(void) {
    const struct st *s = G.s;
    struct marks k;
    uint32_t made = mark_all(&k);
    for (uint8_t id = 1; id <= MO; id++) {
        bool there = s->own.alive[id - 1], known = s->obj[id].state != O_NONE;
        if (k.why[id] && !there && !(made & 1u << id))
            own_wrong("object %u was freed, and %s %u", id, k.why[id], k.who[id]);
        if (there != known) own_wrong("object %u: in one table only", id);
        if (there && !k.why[id] && quiet())
            own_wrong("object %u is kept, and nothing refers to it", id);
        if (s->obj[id].state == O_PENDING && BUG(OWN_RIGHT)) {
            const struct task *t = &s->task[s->obj[id].maker];
            if (!s->obj[id].maker || !under_way(t))
                own_wrong("object %u will never be made: task %u is over", id, s->obj[id].maker);
        }
    }
    if (BUG(OWN_RIGHT)) check_counts();
}

const char *own_end(const void *arg, const void *state) {
    struct st s = *(const struct st *)state;
    (void)arg;
    own_begin(&s);
    for (uint8_t t = 1; t <= s.n_tasks; t++)
        if (s.task[t].state != T_FINISHED && s.task[t].state != T_NEVER)
            own_wrong("nothing can happen, and task %u is not over", t);
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++)
        if (s.w[p].phase != W_IDLE && s.w[p].phase != W_GONE)
            own_wrong("nothing can happen, and process %u waits", p);
    for (uint8_t id = 1; id <= MO; id++) {
        if (s.own.alive[id - 1]) own_wrong("all is over, and object %u is kept", id);
        if (s.lin.obj[id - 1].there) own_wrong("all is over, and lineage knows object %u", id);
    }
    if (s.lin.n_aged) own_wrong("all is over, and lineage keeps task %u", s.lin.aged[0]);
    return G.wrong;
}
