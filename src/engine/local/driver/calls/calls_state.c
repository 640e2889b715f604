/* calls_state.c - the calls that give information about the local engine: nodes, lists of state,
 * counters, memory by process, references. */
#include <stdio.h>

#include "base/mem.h"
#include "engine/local/driver/calls/calls.h"

sk_rc sk_driver_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                      struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_local_of(e)->closing ? sk_driver_closed(err) : SK_OK;
    if (rc == SK_OK) *n = sk_local_nodes(sk_local_of(e), out, cap);
    sk_driver_unlock(e);
    return rc;
}

static size_t l_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing && !l->driving) {
        sk_loop_pump(l); /* lists tasks that have just ended as ended */
        sk_loop_dispatch(l);
    }
    size_t n = l->closing ? 0 : sk_state_write(l, what, buf, cap);
    sk_driver_unlock(e);
    return n;
}

static size_t l_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct sk_local *l = sk_local_of(e);
    size_t n = 0;
    sk_driver_lock(e);
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w) continue;
        if (n < cap)
            out[n] = (struct sk_worker_info){w->pid, i, sk_pool_worker_state(w), w->n_done};
        n++;
    }
    sk_driver_unlock(e);
    return n;
}

static size_t l_status(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_local *l = sk_local_of(e);
    struct sk_store_stats s;
    struct sk_spill_stats d = {0};
    sk_driver_lock(e);
    sk_store_get_stats(l->store, &s);
    if (l->space.spill) sk_spill_get_stats(l->space.spill, &d);
    int n = snprintf(
        buf, cap,
        "workers %u\nworkers_idle %u\ntasks_known %u\ntasks_ready %u\ntasks_done %llu\nretries "
        "%llu\nworker_deaths %llu\n"
        "fork_server_restarts %llu\nobjects %llu\n"
        "objects_lost %llu\nreruns %llu\nlineage_tasks %llu\nlineage_bytes %llu\n"
        "store_size_bytes %llu\nstore_sealed_bytes %llu\nstore_leased_bytes %llu\nstore_warm_bytes "
        "%llu\nstore_peak_bytes %llu\nstore_pins "
        "%llu\nheap_bytes %lld\nspilled_objects %llu\nspilled_bytes %llu\nrestored_objects "
        "%llu\nrestored_bytes %llu\nspill_io_read_bytes "
        "%llu\n"
        "spill_objects_on_disk %llu\nspill_object_bytes_on_disk %llu\nspill_disk_bytes "
        "%llu\nspill_quota_bytes %llu\nspill_failures %llu\n"
        "overflow_objects %llu\noverflow_bytes %llu\noverflow_bytes_on_disk %llu\n"
        "spill_objects_damaged %llu\nmemory_limit_bytes %llu\nmemory_used_bytes "
        "%llu\nmemory_heap_bytes %llu\nmemory_stops %llu\n"
        "memory_kernel_kills %llu\nmemory_alone %u\n",
        l->pool.n_live, l->place.n_idle, l->tasks.n, l->place.n_ready,
        (unsigned long long)l->stats.n_tasks_done, (unsigned long long)l->stats.n_retries,
        (unsigned long long)l->stats.n_worker_deaths, (unsigned long long)(l->pool.n_servers - 1),
        (unsigned long long)sk_own_n(l->own), (unsigned long long)l->n_lost,
        (unsigned long long)l->stats.n_reruns, (unsigned long long)sk_lineage_n(l->lin),
        (unsigned long long)sk_lineage_bytes(l->lin), (unsigned long long)s.size_bytes,
        (unsigned long long)s.sealed_bytes, (unsigned long long)s.leased_bytes,
        (unsigned long long)s.warm_bytes, (unsigned long long)s.peak_bytes,
        (unsigned long long)s.n_pins, (long long)sk_mem_bytes(SK_TAG_ENGINE),
        (unsigned long long)d.n_written, (unsigned long long)d.written_bytes,
        (unsigned long long)d.n_read, (unsigned long long)d.read_bytes,
        (unsigned long long)d.io_read_bytes, (unsigned long long)l->stored.n_disk,
        (unsigned long long)l->stored.disk_object_bytes, (unsigned long long)d.disk_bytes,
        (unsigned long long)d.quota_bytes, (unsigned long long)d.n_failed,
        (unsigned long long)l->space.n_overflow, (unsigned long long)l->space.overflow_bytes,
        (unsigned long long)sk_store_overflow_used(l->store),
        (unsigned long long)l->space.n_spoiled, (unsigned long long)l->mem.limit_bytes,
        (unsigned long long)l->mem.used_bytes, (unsigned long long)l->mem.heap_bytes,
        (unsigned long long)l->mem.n_stopped, (unsigned long long)l->mem.n_kernel_killed,
        l->n_alone);
    sk_driver_unlock(e);
    return (size_t)n + 1;
}

static int64_t l_began(struct sk_engine *e, sk_tid t) {
    sk_driver_lock(e);
    int64_t ns = sk_local_of(e)->closing ? 0 : sk_state_began(sk_local_of(e), t.v);
    sk_driver_unlock(e);
    return ns;
}
const struct sk_progress_ops sk_driver_progress = {.began = l_began};

static void l_about(struct sk_engine *e, sk_oid o, sk_tid t, char *buf, size_t cap) {
    sk_driver_lock(e);
    if (sk_local_of(e)->closing) snprintf(buf, cap, "%s", "");
    else sk_state_about(sk_local_of(e), o.v, t.v, buf, cap);
    sk_driver_unlock(e);
}
const struct sk_state_ops sk_driver_state = {
    .rows = l_state, .workers = l_workers, .status = l_status, .about = l_about};

static sk_rc l_memory(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w,
                      size_t cap, size_t *n, struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_local_of(e)->closing ? sk_driver_closed(err)
                                       : sk_lmem_info(sk_local_of(e), out, w, cap, n, err);
    sk_driver_unlock(e);
    return rc;
}

static size_t l_references(struct sk_engine *e, struct sk_reference *out, size_t cap) {
    struct sk_local *l = sk_local_of(e);
    size_t n = 0;
    uint64_t id;
    void *o;
    sk_driver_lock(e);
    for (uint32_t c = 0; !l->closing && sk_own_each(l->own, &c, &id, &o);) {
        const struct sk_obj *x = o, *next = sk_obj_get(l, id + 1);
        /* the object is an actor, or the `ready` object of one */
        if (x->state == SK_O_ACTOR || (next && next->state == SK_O_ACTOR)) continue;
        if (n < cap)
            out[n] = (struct sk_reference){
                {id}, sk_own_borrowed(l->own, id, SK_PROC_DRIVER), sk_own_count(l->own, id)};
        n++;
    }
    sk_driver_unlock(e);
    return n;
}

static uint64_t l_inner(struct sk_engine *e, const sk_oid *ids, size_t n) {
    uint64_t sum = 0;
    sk_driver_lock(e);
    for (size_t i = 0; !sk_local_of(e)->closing && i < n; i++)
        sum += sk_own_n_inner(sk_local_of(e)->own, ids[i].v);
    sk_driver_unlock(e);
    return sum;
}
const struct sk_inner_ops sk_driver_inner = {.count = l_inner};

/* ---- view.h ---- */

static void l_view_begin(struct sk_engine *e, struct sk_viewed *v) {
    sk_driver_lock(e);
    sk_shown_begin(&sk_local_of(e)->show.s, v);
    sk_driver_unlock(e);
}

static void l_view_publish(struct sk_engine *e, struct sk_viewed *v, struct sk_view_run *run) {
    sk_driver_lock(e);
    sk_shown_run(&sk_local_of(e)->show.s, v, run);
    sk_driver_unlock(e);
}

static void l_view_end(struct sk_engine *e, struct sk_viewed *v) {
    sk_driver_lock(e);
    sk_show_end(sk_local_of(e), v);
    sk_driver_unlock(e);
}

static void l_view_error(struct sk_engine *e, struct sk_view_error *error) {
    sk_driver_lock(e);
    sk_shown_error(&sk_local_of(e)->show.s, error);
    sk_driver_unlock(e);
}

static void l_view_flow(struct sk_engine *e, uint64_t block, uint64_t task, int64_t ns) {
    sk_viewer_flow(&sk_local_of(e)->show.s.w, &(struct sk_view_flow){block, task, ns});
}

const struct sk_view_ops sk_driver_view = {.begin = l_view_begin,
                                           .publish = l_view_publish,
                                           .end = l_view_end,
                                           .error = l_view_error,
                                           .flow = l_view_flow};

const struct sk_usage_ops sk_driver_usage = {.memory = l_memory, .references = l_references};
