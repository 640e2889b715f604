/* exec_bench.c - what the scheduler itself costs: the pure step, with an engine that answers at
 * once.
 *
 * Three stages, one block a task: per source task 3 launches, 3 yields, 3 ends, 1 take. Prints ns a
 * step (event + decisions + launches), ns a source task, and the whole for 2,000 blocks. Command:
 * build/release/bin/exec_bench */
#include <stdio.h>

#include "base/clock.h"
#include "exec/exec_int.h"

static const struct sk_op READ = {.name = "read", .props = SK_OP_SOURCE};
static const struct sk_op MAPB = {.name = "map_batches", .props = SK_OP_NO_FUSE};

static uint64_t queue[1 << 16];

static int run(uint32_t n_units, uint32_t n_stages, uint32_t cpus, const char *name) {
    struct sk_err err = {0};
    struct sk_plan *plan;
    struct sk_stages st;
    struct sk_step *x;
    uint32_t id = 0;
    struct sk_unit *u = sk_calloc(SK_TAG_TEST, n_units * sizeof *u);
    if (!u || sk_plan_create(&plan, &err) != SK_OK) return 1;
    for (uint32_t i = 0; i < n_units; i++) u[i] = (struct sk_unit){{"", 0}, -1, 1000};
    struct sk_node_desc d = {.op = &READ, .cpu_e4 = 10000, .units = u, .n_units = n_units};
    for (uint32_t i = 0; i < n_stages; i++) {
        if (sk_plan_add(plan, &d, &id, &err) != SK_OK) return 1;
        d = (struct sk_node_desc){.op = &MAPB, .cpu_e4 = 10000, .inputs = &id, .n_inputs = 1};
    }
    struct sk_step_conf c = {.memory_bytes = 1u << 30,
                             .target_min_bytes = 100,
                             .target_max_bytes = 10000,
                             .preserve_order = true,
                             .cpu_e4 = (int64_t)cpus * 10000,
                             .policy = sk_policy_find("downstream")};
    if (sk_plan_stages(plan, id, &st, &err) != SK_OK ||
        sk_step_create(plan, &st, &c, &x, &err) != SK_OK)
        return 1;
    int64_t t0 = sk_now_ns(), now = 0;
    uint64_t head = 0, tail = 0, steps = 1, taken = 0, oid = 0;
    struct sk_bref b;
    if (sk_step_start(x, 0, &err) != SK_OK) return 1;
    for (;;) {
        for (uint32_t i = 0; i < x->acts.n; i++)
            if (x->acts.p[i].kind == SK_ACT_LAUNCH)
                queue[tail++ % SK_COUNT(queue)] = x->acts.p[i].id;
        x->acts.n = 0;
        while (sk_step_take(x, now, &b, &err) == SK_OK) taken++, steps++;
        if (x->acts.n) continue;
        if (head == tail) break;
        uint64_t task = queue[head++ % SK_COUNT(queue)];
        struct sk_step_ev ev = {.kind = SK_SEV_YIELDED,
                                .task = task,
                                .block = {.oid = ++oid, .n_rows = 100, .bytes = 1000},
                                .cost = 1064};
        now += 500;
        if (sk_step_event(x, &ev, now, &err) != SK_OK) return 1;
        ev = (struct sk_step_ev){.kind = SK_SEV_DONE, .task = task, .run_ns = 20000};
        now += 500;
        if (sk_step_event(x, &ev, now, &err) != SK_OK) return 1;
        steps += 2;
    }
    int64_t ns = sk_now_ns() - t0;
    printf("%-28s %8u blocks %9.2f ms %7.0f ns/step %8.0f ns/source task  taken %llu done %d\n",
           name, n_units, (double)ns / 1e6, (double)ns / (double)steps, (double)ns / n_units,
           (unsigned long long)taken, x->done);
    sk_step_destroy(x);
    sk_stages_free(&st);
    sk_plan_destroy(plan, NULL, NULL);
    sk_free(u);
    return taken == n_units ? 0 : 1;
}

int main(void) {
    int bad = 0;
    for (int i = 0; i < 2; i++) { /* the first round warms up */
        bad |= run(2000, 1, 2, "1 stage, 2 CPU");
        bad |= run(2000, 3, 2, "3 stages, 2 CPU");
        bad |= run(100000, 3, 16, "3 stages, 16 CPU");
        bad |= run(20000, 8, 64, "8 stages, 64 CPU");
    }
    return bad;
}
