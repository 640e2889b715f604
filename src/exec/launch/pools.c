/* pools.c - the actors of a stage: created at once if all pools fit beside each other (a model
 * loads while its first input is read), else when there is input; more while all are busy; ended
 * when the stage is over or another stage needs their GPUs. Pure.
 *
 * An actor keeps its GPUs for its life (its model is loaded there), but takes CPUs only while a
 * call runs: stages that do not fit beside each other share the CPUs in time. Pools whose GPUs do
 * not fit beside each other take turns: an idle pool shrinks, to zero if need be, and grows again
 * when it has input and the GPUs are free (the policy says when: sk_choose_turn).
 *
 * Invariant: gpu.total is what the machine has, without what living actors keep. */
#include "exec/exec_int.h"

static uint32_t free_place(const struct sk_sstage *s) {
    uint32_t i = 0;
    while (i < s->n_actors && (s->actors[i].state != SK_ACTOR_GONE || s->actors[i].in_flight)) i++;
    return i;
}

static sk_rc make_actor(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    uint32_t i = free_place(s);
    /* places of dead actors become free soon, when the calls of these actors have ended */
    if (i >= s->pool_max) return SK_OK;
    SK_TRY(
        sk_step_act(x, (struct sk_act){.kind = SK_ACT_ACTOR_CREATE, .stage = si, .actor = i}, err));
    s->actors[i] = (struct sk_sactor){.state = SK_ACTOR_STARTING};
    s->n_actors = SK_MAX(s->n_actors, i + 1);
    s->n_live++;
    s->n_starting++;
    x->gpu.total -= s->gpu_e4;
    return SK_OK;
}

void sk_pool_lost(struct sk_step *x, uint32_t si, uint32_t i) {
    struct sk_sstage *s = &x->s[si];
    if (s->actors[i].state == SK_ACTOR_GONE) return;
    s->n_starting -= s->actors[i].state == SK_ACTOR_STARTING;
    s->actors[i].state = SK_ACTOR_GONE;
    s->n_live--;
    x->gpu.total += s->gpu_e4;
}

/* The number of places in which no actor can be created now: a dead actor keeps its place until its
 * calls have ended. */
uint32_t sk_pool_taken(const struct sk_sstage *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_actors; i++)
        n += s->actors[i].state != SK_ACTOR_GONE || s->actors[i].in_flight;
    return n;
}

static sk_rc end_actor(struct sk_step *x, uint32_t si, uint32_t i, struct sk_err *err) {
    SK_TRY(
        sk_step_act(x, (struct sk_act){.kind = SK_ACT_ACTOR_KILL, .stage = si, .actor = i}, err));
    sk_pool_lost(x, si, i);
    return SK_OK;
}

/* True if one more actor could run beside all others, and enough GPUs would be left for the largest
 * task and for pools that have not started. */
static bool room_to_grow(const struct sk_step *x, const struct sk_sstage *me) {
    int64_t gpu = sk_pools_task_gpu(x), pools_gpu = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        if (s->ended || s->cut) continue;
        if (s->kind == SK_STAGE_TASKS) {
            gpu = SK_MAX(gpu, s->gpu_e4);
        } else if (s->kind == SK_STAGE_ACTORS && s->n_live < s->pool_min) {
            pools_gpu += s->gpu_e4 * (s->pool_min - s->n_live);
        }
    }
    return (me->n_live + 1) * me->cpu_e4 <= x->conf.cpu_e4 &&
           x->gpu.total - me->gpu_e4 >= gpu + pools_gpu;
}

bool sk_pools_fit(const struct sk_step *x) {
    int64_t tasks = 0, pools = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        if (s->ended || s->cut) continue;
        if (s->kind == SK_STAGE_TASKS) tasks = SK_MAX(tasks, s->gpu_e4);
        if (s->kind == SK_STAGE_ACTORS) pools += s->gpu_e4 * SK_MAX(s->pool_min, s->n_live);
    }
    return tasks + pools <= x->conf.gpu_e4;
}

int64_t sk_pools_task_gpu(const struct sk_step *x) {
    if (x->gpu.strict) return x->gpu.used;
    int64_t most = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->s[i].kind == SK_STAGE_TASKS && x->s[i].in_flight)
            most = SK_MAX(most, x->s[i].gpu_e4);
    return most;
}

static bool gpu_left(const struct sk_step *x, const struct sk_sstage *s) {
    return !s->gpu_e4 || x->gpu.total - s->gpu_e4 >= sk_pools_task_gpu(x);
}

uint32_t sk_pool_pick(const struct sk_sstage *s) {
    uint32_t best = SK_NO_STAGE, least = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_actors; i++) {
        const struct sk_sactor *a = &s->actors[i];
        uint32_t most =
            a->state == SK_ACTOR_READY ? s->max_in_flight : a->state == SK_ACTOR_STARTING;
        uint32_t load = 2 * a->in_flight + (a->state == SK_ACTOR_STARTING);
        if (a->in_flight < most && load < least) {
            best = i;
            least = load;
        }
    }
    return best;
}

sk_rc sk_pool_scale(struct sk_step *x, uint32_t si, bool wanted, bool over, bool has_input,
                    struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (uint32_t i = 0; over && i < s->n_actors; i++)
        if (s->actors[i].state != SK_ACTOR_GONE && (!s->actors[i].in_flight || s->cut))
            SK_TRY(end_actor(x, si, i, err));
    if (over) return SK_OK;
    while (wanted && s->n_live < s->pool_min && gpu_left(x, s) && free_place(s) < s->pool_max)
        SK_TRY(make_actor(x, si, err));
    if (has_input && s->n_live >= s->pool_min && s->n_live < s->pool_max && !s->n_starting &&
        sk_pool_pick(s) == SK_NO_STAGE && room_to_grow(x, s))
        SK_TRY(make_actor(x, si, err));
    return SK_OK;
}

static bool idle(const struct sk_sactor *a) { return a->state != SK_ACTOR_GONE && !a->in_flight; }

int64_t sk_pool_idle_gpu(const struct sk_sstage *s) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_actors; i++) sum += idle(&s->actors[i]) ? s->gpu_e4 : 0;
    return sum;
}

sk_rc sk_pool_give_up(struct sk_step *x, uint32_t si, int64_t gpu_e4, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (uint32_t i = s->n_actors; s->gpu_e4 > 0 && i-- > 0 && x->gpu.total < gpu_e4;)
        if (idle(&s->actors[i])) SK_TRY(end_actor(x, si, i, err));
    return SK_OK;
}
