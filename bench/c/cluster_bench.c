/* cluster_bench.c - the engine `cluster` on this machine: nodes that are processes with a local
 * engine of one CPU each, over TCP on loopback.
 *
 *     cluster_bench [NODES] [TASKS]
 *
 * Prints: no-op tasks a second, submitted at once; the CPU time of the driver for each; the latency
 * of one task (median, 95th of 100); and MB/s of values of 8 MB that are made on one node and read
 * by a task on another. Peers and the same figures of Ray: docs/design/cluster.md. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/node.h"
#include "engine/conf.h"
#include "engine/host.h"

enum { MAX_NODES = 16, FN = 5, KIND = 3 };
#define BIG (8u << 20)
static const uint8_t secret[32] = "the secret of a benchmark .....";

static void must(sk_rc rc, const struct sk_err *err) {
    if (rc == SK_OK) return;
    fprintf(stderr, "cluster_bench: %s\n", err->msg);
    exit(1);
}

/* ---- in workers: a task returns as many bytes as its first argument says */

static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    (void)ctx, (void)fn, (void)name, (void)def, (void)err;
    return SK_OK;
}
static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err) {
    uint64_t n = 0;
    struct sk_buf b;
    (void)ctx;
    if (t->n_args && t->args[0].len == 8) memcpy(&n, t->args[0].data, 8);
    if (!n) return sk_task_return(t, 0, &(struct sk_payload){.kind = KIND}, err);
    SK_TRY(t->engine->ops->buf_alloc(t->engine, n, &b, err));
    memset(b.data, 1, n);
    return sk_task_return(t, 0, &(struct sk_payload){.kind = KIND, .buf = &b, .buf_len = n}, err);
}

/* ---- nodes and the driver */

static void be_node(int to, char *self) {
    struct sk_engine *e;
    struct sk_cluster_node *n;
    struct sk_err err = {0};
    uint16_t port;
    char *argv[] = {self, NULL};
    struct sk_engine_conf c = {.total.amount = {SK_RES_UNIT},
                               .store_bytes = UINT64_C(1) << 30,
                               .spin_ns = -1,
                               .spawn_argv = argv};
    must(sk_engine_find("local")->open(&c, &e, &err), &err);
    struct sk_node_conf k = {.engine = e,
                             .secret = {secret, sizeof secret},
                             .listen_on = "127.0.0.1",
                             .store_bytes = c.store_bytes};
    must(sk_node_open(&k, &n, &port, &err), &err);
    if (write(to, &port, sizeof port) != sizeof port) _exit(1);
    (void)!sk_node_wait(n, INT64_MAX, &err);
    sk_node_close(n);
    sk_engine_close(&e);
    _exit(0);
}

static sk_oid submit(struct sk_engine *e, const struct sk_arg *a, uint32_t node) {
    struct sk_err err = {0};
    sk_oid o;
    struct sk_task_spec s = {.fn = {FN},
                             .args = a,
                             .n_args = a != NULL,
                             .n_returns = 1,
                             .max_retries = 3,
                             .node = node,
                             .node_only = node != 0};
    must(e->ops->submit(e, &s, &o, NULL, &err), &err);
    return o;
}

static void wait_for(struct sk_engine *e, const sk_oid *o, size_t n) {
    struct sk_err err = {0};
    bool *ready = calloc(n, 1);
    must(e->ops->wait(e, o, n, n, INT64_MAX, ready, &err), &err);
    free(ready);
}

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    struct sk_runner runner = {.define = define, .run = run};
    struct sk_worker_hooks hooks = {0};
    struct sk_err err = {0};
    bool was_worker = false;
    must(sk_worker_serve(&runner, &hooks, &was_worker, &err), &err);
    if (was_worker) return 0;
    uint32_t n_nodes = argc > 1 ? (uint32_t)atoi(argv[1]) : 2,
             n_tasks = argc > 2 ? (uint32_t)atoi(argv[2]) : 20000;
    n_nodes = SK_MAX(SK_MIN(n_nodes, (uint32_t)MAX_NODES), 2u);
    char addresses[MAX_NODES][40], self[300] = {0};
    const char *at[MAX_NODES];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    for (uint32_t i = 0; i < n_nodes; i++) {
        int fd[2];
        uint16_t port = 0;
        if (pipe(fd)) return 1;
        if (!fork()) be_node(fd[1], self);
        if (read(fd[0], &port, sizeof port) != sizeof port) return 1;
        snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", port);
        at[i] = addresses[i];
    }
    struct sk_cluster_conf k = {
        .addresses = at, .n_addresses = n_nodes, .secret = {secret, sizeof secret}};
    struct sk_engine_conf c = {.task_retries = 3, .cluster = &k};
    struct sk_engine *e;
    must(sk_engine_find("cluster")->open(&c, &e, &err), &err);
    must(e->ops->define(e, (sk_fid){FN}, "f", (struct sk_bytes){"f", 1}, &err), &err);

    sk_oid *o = calloc(n_tasks, sizeof *o);
    for (int round = 0; round < 2; round++) { /* the first one warms up */
        double cpu = cpu_s();
        int64_t t = sk_now_ns();
        for (uint32_t i = 0; i < n_tasks; i++) o[i] = submit(e, NULL, 0);
        wait_for(e, o, n_tasks);
        double s = (double)(sk_now_ns() - t) / 1e9;
        for (uint32_t i = 0; i < n_tasks; i++) e->ops->release(e, o[i]);
        if (round)
            printf("%u nodes: %.0f no-op tasks/s, %.1f us of the driver's CPU each\n", n_nodes,
                   n_tasks / s, (cpu_s() - cpu) * 1e6 / n_tasks);
    }
    double ms[100];
    for (int i = 0; i < 100; i++) {
        int64_t t = sk_now_ns();
        sk_oid x = submit(e, NULL, 0);
        wait_for(e, &x, 1);
        ms[i] = (double)(sk_now_ns() - t) / 1e6;
        e->ops->release(e, x);
    }
    qsort(ms, 100, sizeof *ms, by_size);
    printf("latency of one task: %.2f ms, 95 %%: %.2f ms\n", ms[50], ms[95]);

    uint64_t size = BIG;
    enum { N = 40 };
    sk_oid big[N], len[N];
    struct sk_arg a = {.kind = KIND, .bytes = {&size, 8}};
    for (int i = 0; i < N; i++) big[i] = submit(e, &a, 1);
    wait_for(e, big, N);
    for (int round = 0; round < 2; round++) {
        int64_t t = sk_now_ns();
        for (int i = 0; i < N / 2; i++) {
            struct sk_arg ref = {.ref = big[round * N / 2 + i]};
            len[i] = submit(e, &ref, 2);
        }
        wait_for(e, len, N / 2);
        double s = (double)(sk_now_ns() - t) / 1e9;
        for (int i = 0; i < N / 2; i++) e->ops->release(e, len[i]);
        if (round) printf("from node to node: %.0f MB/s\n", (double)BIG * (N / 2) / 1e6 / s);
    }
    for (int i = 0; i < N; i++) e->ops->release(e, big[i]);
    free(o);
    sk_engine_close(&e);
    while (wait(NULL) > 0) {}
    return 0;
}
