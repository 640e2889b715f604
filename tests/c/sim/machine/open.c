/* open.c - the local engine on a simulated machine: the same driver and worker code, with
 * processes, time, sleeping, network and faults that come from a seed. It finds a failure that
 * happens in one schedule of a million, and replays that schedule.
 *
 * Not here: any rule of the engine (engine/local and the pure parts), nor of the machine (this
 * folder). This file opens the one on the other.
 *
 *     own  place  lineage  evict  loop  actor  recover       the engine, unchanged
 *     pool  worker  ring  store
 *     ──────────────────────────────────────────────────
 *     bell_wait  forksrv  segment  clock                     struct sk_machine and three hooks
 *     fault points  heap ledger
 *     ──────────────────────────────────────────────────
 *     world (schedule, faults)  fibers  links (network)      this folder
 *
 * It is linked into tests only (sk_sim of CMakeLists.txt). One thread, one simulation at a time;
 * tasks are C. */
#include "base/mem.h"
#include "engine/conf.h"
#include "sim/machine/sim_int.h"

extern const struct sk_engine_class sk_engine_by_local;

struct sk_sim *sk_sim_of(const struct sk_engine *e) {
    return sk_container_of((void *)(uintptr_t)e->cls, struct sk_sim, cls);
}

static void s_close(struct sk_engine *e) {
    struct sk_sim *s = sk_sim_of(e);
    s->closing = true;
    sk_engine_by_local.close(e);
    sk_world_close(s);
    sk_free(s);
}

static struct sk_sim *S(struct sk_engine *e) { return sk_sim_of(e); }

sk_rc sk_sim_open(const struct sk_engine_conf *conf, const struct sk_sim_conf *sim,
                  struct sk_engine **out, struct sk_err *err) {
    static char *const argv[] = {(char *)(uintptr_t)"sim", NULL};
    static char *const env[] = {NULL};
    struct sk_engine_conf c = *conf;
    if (!conf->runner)
        return SK_ERR(err, SK_EINVAL, "the sim engine needs a runner: the functions of the tasks");
    if (sim->n_nodes > SK_SIM_NODES)
        return SK_ERR(err, SK_EINVAL, "the sim engine has at most %d nodes", SK_SIM_NODES);
    struct sk_sim *s = sk_calloc(SK_TAG_ENGINE, sizeof *s);
    if (!s) return SK_ERR(err, SK_ENOMEM, "no memory for a simulation");
    s->conf = *sim;
    s->runner = conf->runner;
    c.spawn_argv = argv;
    c.spawn_env = env;
    c.spin_ns = 0;
    c.max_workers = SK_MIN(conf->max_workers ? conf->max_workers : 8, SK_SIM_PROCS / 2);
    sk_world_open(s);
    struct sk_engine *e = NULL;
    sk_rc rc = sk_world_rings(c.max_workers) ? sk_engine_by_local.open(&c, &e, err)
                                             : SK_ERR(err, SK_ENOMEM, "no memory for a simulation");
    if (rc != SK_OK) {
        sk_world_close(s);
        sk_free(s);
        return rc;
    }
    s->l = sk_container_of(e, struct sk_local, base);
    s->cls = (struct sk_engine_class){.name = "sim", .close = s_close};
    e->cls = &s->cls;
    s->closing = false;
    *out = e;
    return SK_OK;
}

void sk_sim_get_stats(const struct sk_engine *e, struct sk_sim_stats *out) {
    *out = sk_sim_of(e)->st;
    out->now_ns = sk_sim_now(sk_sim_of(e));
}
void sk_sim_calm(struct sk_engine *e, bool calm) { S(e)->calm = calm; }
bool sk_sim_check(struct sk_engine *e) {
    struct sk_sim *s = S(e);
    return sk_local_check(s->l) && sk_own_check(s->l->own) && sk_lineage_check(s->l->lin) &&
           sk_place_check(&s->l->place) && sk_store_check(s->l->store);
}
uint64_t sk_sim_objects(const struct sk_engine *e) { return sk_own_n(sk_sim_of(e)->l->own); }
uint64_t sk_sim_tasks(const struct sk_engine *e) {
    uint64_t n = 0, id;
    void *t;
    for (uint32_t i = 0; sk_map_next(&sk_sim_of(e)->l->tasks, &i, &id, &t);) n += !sk_ltask_over(t);
    return n;
}
bool sk_sim_object(const struct sk_engine *e, sk_oid o, uint64_t *count) {
    *count = sk_own_count(sk_sim_of(e)->l->own, o.v);
    return sk_own_has(sk_sim_of(e)->l->own, o.v);
}
bool sk_sim_each(const struct sk_engine *e, uint32_t *cursor, sk_oid *o) {
    void *data;
    return sk_own_each(sk_sim_of(e)->l->own, cursor, &o->v, &data);
}
