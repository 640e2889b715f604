/* local.c - the local engine: worker processes and a shared-memory store on this machine, with
 * its loop in the user's process. This file opens and closes it; its calls are in
 * engine/local/driver/calls/, and in a worker in engine/local/worker/engine.c. */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/conf.h"
#include "engine/local/driver/calls/calls.h"
#include "engine/place/res.h"

#define SPIN_NS 50000
#define LINEAGE_BYTES (UINT64_C(64) << 20)

extern const struct sk_engine_class sk_engine_by_local;

static void free_all(struct sk_local *l) {
    sk_space_close(l);
    sk_moves_close(l);
    sk_lmem_close(l);
    sk_objs_free(l);
    sk_recover_close(l);
    sk_ltasks_free(l);
    sk_fns_free(l);
    sk_actors_free(l);
    sk_reqs_free(l);
    sk_pool_close(l);
    sk_lgroups_free(l);
    sk_history_free(&l->past);
    sk_place_deinit(&l->place);
    if (l->own) sk_own_destroy(l->own);
    struct sk_store_stats st = {0};
    /* the workers are gone; what is left are this process's own messages */
    bool in_graphs = sk_lgraphs_end(l, "the engine is shut down");
    sk_lgraphs_free(l);
    sk_promises_free(l);
    sk_vec_free(&l->foreign.met);
    sk_abroad_free(l);
    sk_named_free(l);
    if (l->store) {
        sk_store_get_stats(l->store, &st);
        sk_store_destroy(l->store);
    }
    sk_show_close(l);
    sk_seg_close(&l->ctl_seg);
    if (st.n_pins || in_graphs) {
        /* Views of values or of messages are still out: their pages stay mapped (rule 7 of
         * engine.h), and only the descriptor is closed. */
        sk_seg_close_fd(&l->data_seg);
    } else {
        sk_seg_close(&l->data_seg);
    }
    sk_res_names_deinit(&l->names);
    pthread_cond_destroy(&l->turn);
    pthread_cond_destroy(&l->server_up);
    pthread_mutex_destroy(&l->mu);
    sk_free(l);
}

static void l_close(struct sk_engine *e) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    l->closing = true;
    pthread_cond_broadcast(&l->turn);
    sk_bell_ring(&l->ctl->bell[0]);
    while (l->driving || l->n_callers) { /* callers on other threads leave first */
        pthread_cond_broadcast(&l->turn);
        sk_driver_unlock(e);
        sched_yield();
        sk_driver_lock(e);
    }
    (void)sk_lgraphs_end(l, "the engine is shut down");
    sk_req_fire_all(l);
    sk_ltasks_abandon(l);
    sk_show_last(l);
    sk_driver_unlock(e);
    sk_look_close();
    sk_host_stop(l);
    free_all(l);
}

static const struct sk_engine_ops ops = {
    .define = sk_driver_define,
    .shape = sk_driver_shape,
    .submit = sk_driver_submit,
    .cancel = sk_driver_cancel,
    .actor_create = sk_driver_actor_create,
    .actor_end = sk_driver_actor_end,
    .put = sk_driver_put,
    .get = sk_driver_get,
    .wait = sk_driver_wait_for,
    .retain = sk_driver_retain,
    .release = sk_driver_release,
    .buf_alloc = sk_driver_buf_alloc,
    .buf_abort = sk_driver_buf_abort,
    .view_release = sk_driver_view_release,
    .drive = sk_driver_drive,
    .nodes = sk_driver_nodes,
};

static sk_rc l_open(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err) {
    if (!conf->spawn_argv || !conf->spawn_argv[0])
        return SK_ERR(err, SK_EINVAL,
                      "the local engine needs spawn_argv: the command of its fork server");
    struct sk_local *l = sk_calloc(SK_TAG_ENGINE, sizeof *l);
    if (!l) return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    l->base = (struct sk_engine){.cls = &sk_engine_by_local,
                                 .ops = &ops,
                                 .actors = &sk_driver_actors,
                                 .streams = &sk_driver_streams,
                                 .custom = &sk_driver_custom,
                                 .groups = &sk_driver_groups,
                                 .envs = &sk_driver_envs,
                                 .state = &sk_driver_state,
                                 .progress = &sk_driver_progress,
                                 .usage = &sk_driver_usage,
                                 .watch = &sk_driver_watch,
                                 .windows = &sk_driver_windows,
                                 .moves = &sk_driver_moves,
                                 .inner = &sk_driver_inner,
                                 .foreign = &sk_driver_foreign,
                                 .channels = &sk_driver_channels,
                                 .host = &sk_driver_host,
                                 .view = &sk_driver_view};
    l->ctl_seg = l->data_seg = SK_SEG_EMPTY;
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&l->mu, &ma);
    pthread_mutexattr_destroy(&ma);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&l->turn, &ca);
    pthread_cond_init(&l->server_up, &ca);
    pthread_condattr_destroy(&ca);
    l->upcalls = &sk_upcalls;
    sk_ltasks_init(l, conf->task_retries);
    sk_fns_init(l);
    sk_actors_init(l);
    sk_lgroups_init(l);
    sk_reqs_init(l);
    sk_lgraphs_init(l, conf->graphs);
    sk_promises_init(l);
    sk_abroad_init(l);
    sk_named_init(l);
    sk_stored_init(l);
    sk_space_init(l);
    sk_moves_init(l);
    sk_show_init(l);
    l->id_base = conf->id_base;
    l->n_cpu = conf->total.amount[SK_RES_CPU] / SK_RES_UNIT;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    l->spin_ns = conf->spin_ns >= 0 ? conf->spin_ns : cores > 1 ? SPIN_NS : 0;
    sk_rc rc = sk_place_init(&l->place, &conf->total, err);
    if (rc != SK_OK) goto out;
    SK_GO(sk_pool_open(l, conf, err));
    sk_place_nested_first(&l->place,
                          SK_MIN(16 + 4 * (uint32_t)SK_MAX(l->n_cpu, 0), l->pool.n_slots / 2));
    SK_GO(sk_res_names_init(&l->names, conf->custom_names, conf->n_custom, err));
    if (sk_res_devices(&l->names)) sk_place_devices(&l->place, sk_res_devices(&l->names));
    SK_GO(sk_place_more_init(&l->place, conf->more, sk_res_n_more(&l->names), err));
    SK_GO(sk_own_create(&l->own, err));
    l->hooks.interrupted = conf->interrupted;
    l->hooks.interrupted_ctx = conf->interrupted_ctx;
    l->hooks.named = conf->named;
    l->hooks.named_ctx = conf->named_ctx;
    SK_GO(sk_recover_open(l, conf->lineage_bytes ? conf->lineage_bytes : LINEAGE_BYTES, err));
    SK_GO(sk_seg_create(&l->ctl_seg, "skate-ctl", 4096 + l->pool.n_slots * sk_slot_stride(), false,
                        err));
    SK_GO(sk_seg_create(&l->data_seg, "skate-data",
                        SK_ALIGN(SK_MAX(conf->store_bytes, 1u << 20), 4096), true, err));
    SK_GO(sk_store_create(&l->store, l->data_seg.size, err));
    SK_GO(sk_space_open(l, conf, err));
    l->ctl = (struct sk_ctl *)(void *)l->ctl_seg.base;
    l->ctl->magic = SK_CTL_MAGIC;
    l->ctl->version = SK_CTL_VERSION;
    l->ctl->n_slots = l->pool.n_slots;
    /* a simulation opens one engine after another in the same memory */
    atomic_store(&l->ctl->n_used, 0);
    l->ctl->driver_pid = getpid();
    l->ctl->id_base = l->id_base;
    l->ctl->ring_size = SK_RING_SIZE;
    l->ctl->data_size = l->data_seg.size;
    l->ctl->slot_stride = sk_slot_stride();
    atomic_store(&l->ctl->who, 1);
    if (conf->prints) SK_GO(sk_prints_attach(conf->prints, &l->ctl_seg, err));
    l->prints = conf->prints;
    SK_GO(sk_lmem_open(l, conf, err));
    SK_GO(sk_show_open(l, conf, err));
    SK_GO(sk_host_start(l, err));
    sk_look_open(l->ctl_seg.base, l->ctl_seg.size, NULL);
    *out = &l->base;
    return SK_OK;
out:
    sk_host_stop(l);
    free_all(l);
    return rc;
}

const struct sk_engine_class sk_engine_by_local = {
    .name = "local", .prints = true, .open = l_open, .close = l_close};
