/* exec_rig.c - see exec_rig.h. The test plays the engine: it decides when a task yields and
 * ends. */
#include "exec_rig.h"

const struct sk_op RIG_READ = {.name = "read", .props = SK_OP_SOURCE};
const struct sk_op RIG_MAPB = {.name = "map_batches", .props = SK_OP_NO_FUSE};
const struct sk_op RIG_MAP = {.name = "map", .props = SK_OP_ONE_TO_ONE};
const struct sk_op RIG_LIMIT = {.name = "limit", .props = SK_OP_LIMIT | SK_OP_NO_MORE};
const struct sk_op RIG_UNION = {.name = "union", .props = SK_OP_UNION};
const struct sk_op RIG_ZIP = {.name = "zip_rows", .props = SK_OP_ZIP};

void rig_begin(struct rig *r) {
    *r = (struct rig){.next_oid = 100};
    r->conf = (struct sk_step_conf){.memory_bytes = 1000000,
                                    .target_min_bytes = 3,
                                    .target_max_bytes = 6,
                                    .preserve_order = true,
                                    .moves = true,
                                    .cpu_e4 = 40000,
                                    .policy = sk_policy_find("downstream")};
    CHECK_OK(sk_plan_create(&r->plan, NULL));
}

uint32_t rig_add(struct rig *r, const struct sk_op *op, struct sk_node_desc d, const uint32_t *in,
                 uint32_t n_in) {
    struct sk_err err = {0};
    uint32_t id;
    d.op = op;
    d.inputs = in;
    d.n_inputs = n_in;
    CHECK_OK_ERR(sk_plan_add(r->plan, &d, &id, &err), &err);
    return id;
}

uint32_t rig_source(struct rig *r, uint32_t n_units, int64_t est_bytes) {
    struct sk_unit u[512];
    CHECK_LE(n_units, 512);
    for (uint32_t i = 0; i < n_units; i++) u[i] = (struct sk_unit){{"", 0}, -1, est_bytes};
    return rig_add(
        r, &RIG_READ,
        (struct sk_node_desc){.label = "R", .cpu_e4 = 10000, .units = u, .n_units = n_units}, NULL,
        0);
}

uint32_t rig_map(struct rig *r, uint32_t in) {
    return rig_add(r, &RIG_MAPB, (struct sk_node_desc){.label = "M", .cpu_e4 = 10000}, &in, 1);
}

static void acts(struct rig *r) {
    for (uint32_t i = 0; i < r->x->acts.n; i++) {
        struct sk_act a = r->x->acts.p[i];
        switch (a.kind) {
        case SK_ACT_LAUNCH: CHECK(sk_vec_push(&r->launched, SK_TAG_TEST, a.id)); break;
        case SK_ACT_CANCEL: r->n_cancelled++; break;
        case SK_ACT_RELEASE:
            r->n_released++;
            r->live--;
            break;
        case SK_ACT_ADDREF: r->live++; break;
        case SK_ACT_ACTOR_CREATE: r->n_created++; break;
        case SK_ACT_ACTOR_KILL: r->n_killed++; break;
        }
    }
    r->x->acts.n = 0;
    CHECK(sk_step_check(r->x));
}

void rig_start(struct rig *r, uint32_t root) {
    struct sk_err err = {0};
    CHECK_OK_ERR(sk_plan_stages(r->plan, root, &r->st, &err), &err);
    CHECK_OK_ERR(sk_step_create(r->plan, &r->st, &r->conf, &r->x, &err), &err);
    CHECK_OK_ERR(sk_step_feasible(r->x, &err), &err);
    CHECK_OK_ERR(sk_step_start(r->x, r->now, &err), &err);
    acts(r);
}

void rig_event(struct rig *r, struct sk_step_ev ev) {
    struct sk_err err = {0};
    r->now += 1000000;
    CHECK_OK_ERR(sk_step_event(r->x, &ev, r->now, &err), &err);
    acts(r);
}

void rig_call(struct rig *r, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg) {
    struct sk_err err = {0};
    r->now += 1000000;
    CHECK_OK_ERR(sk_step_call(r->x, fn, arg, r->now, &err), &err);
    acts(r);
}

void rig_yield(struct rig *r, uint64_t task, uint64_t rows, uint64_t bytes) {
    CHECK(task);
    r->live++;
    rig_event(r,
              (struct sk_step_ev){.kind = SK_SEV_YIELDED,
                                  .task = task,
                                  .block = {.oid = ++r->next_oid, .n_rows = rows, .bytes = bytes},
                                  .cost = bytes});
}

static void forget(struct rig *r, uint64_t task) {
    for (uint32_t i = 0; i < r->launched.n; i++)
        if (r->launched.p[i] == task) r->launched.p[i] = 0;
}

void rig_done(struct rig *r, uint64_t task, int64_t run_ns) {
    CHECK(task);
    forget(r, task);
    rig_event(r, (struct sk_step_ev){.kind = SK_SEV_DONE, .task = task, .run_ns = run_ns});
}

void rig_fail(struct rig *r, uint64_t task) {
    CHECK(task);
    forget(r, task);
    rig_event(r, (struct sk_step_ev){.kind = SK_SEV_FAILED, .task = task});
}

uint64_t rig_task(struct rig *r, uint32_t stage, uint64_t seq) {
    for (uint32_t i = 0; i < r->launched.n; i++) {
        const struct sk_stask *t = r->launched.p[i] ? sk_step_task(r->x, r->launched.p[i]) : NULL;
        if (t && t->stage == stage && t->seq == seq) return t->id;
    }
    return 0;
}

uint32_t rig_flying(struct rig *r, uint32_t stage) { return r->x->s[stage].in_flight; }

bool rig_take(struct rig *r, uint64_t rows) {
    struct sk_bref b;
    struct sk_err err = {0};
    sk_rc rc = sk_step_take(r->x, r->now, &b, &err);
    if (rc == SK_EAGAIN || rc == SK_EDONE) return false;
    CHECK_OK_ERR(rc, &err);
    r->live--;
    acts(r);
    CHECK_EQ(b.n_rows, rows);
    return true;
}

static void count_object(void *ctx, uint64_t oid) {
    (void)oid;
    ((struct rig *)ctx)->live--;
}

void rig_end(struct rig *r) {
    sk_step_sweep(r->x, &(struct sk_sweep){.object = count_object, .ctx = r});
    CHECK_EQ(r->live, 0);
    CHECK_EQ(r->x->mem.used, 0);
    sk_step_destroy(r->x);
    sk_stages_free(&r->st);
    sk_plan_destroy(r->plan, NULL, NULL);
    sk_vec_free(&r->launched);
}
