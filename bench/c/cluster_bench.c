/* cluster_bench.c - the engine `cluster` on this machine: nodes that are processes with a local
 * engine of one CPU each, over TCP on loopback.
 *
 *     cluster_bench [NODES] [TASKS]
 *
 * Prints: no-op tasks a second, submitted at once; the CPU time of the driver for each; the latency
 * of one task (median, 95th of 100); MB/s of values of 8 MB that are made on one node and read by a
 * task on another, once into memory that has not been touched before, once into memory that is in
 * use; and MB/s of an exchange between all nodes. Beside them, in turns, the MB/s that threads of
 * the same processes move by plain send and recv: median of five rounds, lowest, highest. Peers and
 * the same figures of Ray: docs/design/cluster.md. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/node.h"
#include "engine/conf.h"
#include "engine/foreign.h"
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

/* ---- plain sockets: each node sends to each other one on a thread, and receives on one */

enum { N = 10, ROUNDS = 5 };
struct order { /* bytes from node i to node k */
    bool fresh;
    uint64_t bytes[MAX_NODES][MAX_NODES];
};
struct plain {
    uint32_t n, self;
    int listener[MAX_NODES], order[MAX_NODES][2], answer[2];
    uint16_t port[MAX_NODES];
};
struct flow { /* a transfer over one connection */
    int fd;
    uint8_t *p;
    size_t n;
    pthread_t thread;
};

static void need(bool good) {
    if (good) return;
    perror("cluster_bench");
    exit(1);
}

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
}

static void plain_open(struct plain *p, uint32_t n) {
    p->n = n;
    need(pipe(p->answer) == 0);
    for (uint32_t i = 0; i < n; i++) {
        struct sockaddr_in at = loopback(0);
        socklen_t len = sizeof at;
        p->listener[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        need(p->listener[i] >= 0 && bind(p->listener[i], (struct sockaddr *)&at, len) == 0 &&
             listen(p->listener[i], MAX_NODES) == 0 &&
             getsockname(p->listener[i], (struct sockaddr *)&at, &len) == 0 &&
             pipe(p->order[i]) == 0);
        p->port[i] = ntohs(at.sin_port);
    }
}

static void *plain_send(void *arg) {
    const struct flow *f = arg;
    for (size_t at = 0; at < f->n;) {
        ssize_t n = send(f->fd, f->p + at, f->n - at, MSG_NOSIGNAL);
        if (n <= 0) return NULL;
        at += (size_t)n;
    }
    return NULL;
}

static void *plain_recv(void *arg) {
    const struct flow *f = arg;
    for (size_t got = 0; got < f->n;) {
        ssize_t n = recv(f->fd, f->p + got, f->n - got, 0);
        if (n <= 0) return NULL;
        got += (size_t)n;
    }
    return NULL;
}

static void *plain_node(void *arg) {
    const struct plain *p = arg;
    struct flow in[MAX_NODES] = {0}, out[MAX_NODES] = {0};
    struct order o;
    size_t most = (size_t)N * BIG;
    for (uint32_t i = 0; i < p->n; i++) {
        struct sockaddr_in to = loopback(p->port[i]);
        uint32_t self = p->self;
        if (i == self) continue;
        in[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        need(in[i].fd >= 0 && connect(in[i].fd, (struct sockaddr *)&to, sizeof to) == 0 &&
             send(in[i].fd, &self, sizeof self, 0) == sizeof self);
    }
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t who = 0;
        int fd = accept(p->listener[p->self], NULL, NULL);
        need(fd >= 0 && recv(fd, &who, sizeof who, MSG_WAITALL) == sizeof who);
        out[who].fd = fd;
    }
    uint8_t *from = malloc(most), *warm = malloc(most);
    if (!from || !warm) abort();
    memset(from, 1, most);
    memset(warm, 0, most);
    while (read(p->order[p->self][0], &o, sizeof o) == sizeof o) {
        /* as the store's memory: shared, and not there before it is touched */
        uint8_t *fresh = o.fresh ? mmap(NULL, most, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                                 : warm,
                *at = fresh;
        need(fresh != MAP_FAILED);
        for (uint32_t i = 0; i < p->n; i++) {
            in[i].n = o.bytes[i][p->self];
            out[i].n = o.bytes[p->self][i];
            in[i].p = at;
            out[i].p = from;
            at += in[i].n;
            if (in[i].n) need(!pthread_create(&in[i].thread, NULL, plain_recv, &in[i]));
            if (out[i].n) need(!pthread_create(&out[i].thread, NULL, plain_send, &out[i]));
        }
        for (uint32_t i = 0; i < p->n; i++) {
            if (in[i].n) pthread_join(in[i].thread, NULL);
            if (out[i].n) pthread_join(out[i].thread, NULL);
        }
        need(write(p->answer[1], &p->self, 1) == 1);
        if (o.fresh) munmap(fresh, most);
    }
    free(from);
    free(warm);
    return NULL;
}

/* MB/s, from the orders to the last answer. */
static double plain_run(const struct plain *p, const struct order *o) {
    uint64_t sum = 0;
    uint8_t done;
    int64_t t = sk_now_ns();
    for (uint32_t i = 0; i < p->n; i++) need(write(p->order[i][1], o, sizeof *o) == sizeof *o);
    for (uint32_t i = 0; i < p->n; i++) need(read(p->answer[0], &done, 1) == 1);
    t = sk_now_ns() - t;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->n; k++) sum += o->bytes[i][k];
    return (double)sum * 1e3 / (double)t;
}

/* ---- nodes and the driver */

static void be_node(int to, char *self, struct plain *p, uint32_t number) {
    p->self = number;
    struct sk_engine *e;
    struct sk_cluster_node *n;
    struct sk_err err = {0};
    uint16_t port;
    char *argv[] = {self, NULL};
    struct sk_engine_conf c = {.total.amount = {SK_RES_UNIT},
                               .store_bytes = UINT64_C(1) << 30,
                               .spin_ns = -1,
                               .spawn_argv = argv,
                               .id_base = (number + 1) * SK_ID_RANGE};
    must(sk_engine_find("local")->open(&c, &e, &err), &err);
    struct sk_node_conf k = {.engine = e,
                             .secret = {secret, sizeof secret},
                             .listen_on = "127.0.0.1",
                             .store_bytes = c.store_bytes,
                             .id_base = c.id_base};
    must(sk_node_open(&k, &n, &port, &err), &err);
    pthread_t plain;
    need(pthread_create(&plain, NULL, plain_node, p) == 0);
    if (write(to, &port, sizeof port) != sizeof port) _exit(1);
    (void)!sk_node_wait(n, INT64_MAX, &err);
    sk_node_close(n);
    sk_engine_close(&e);
    _exit(0);
}

static sk_oid submit(struct sk_engine *e, const struct sk_arg *a, uint32_t n, uint32_t node) {
    struct sk_err err = {0};
    sk_oid o;
    struct sk_task_spec s = {.fn = {FN},
                             .args = a,
                             .n_args = n,
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

/* Figures of rounds, and the line about them. */
struct rounds {
    double by_engine[ROUNDS], by_plain[ROUNDS], part[ROUNDS];
};
static void note(struct rounds *x, int round, double by_engine, double by_plain) {
    if (round < 0) return; /* it warms up */
    x->by_engine[round] = by_engine;
    x->by_plain[round] = by_plain;
    x->part[round] = by_engine / by_plain;
}
static void say(struct rounds *x, const char *what) {
    qsort(x->by_engine, ROUNDS, sizeof(double), by_size);
    qsort(x->by_plain, ROUNDS, sizeof(double), by_size);
    qsort(x->part, ROUNDS, sizeof(double), by_size);
    printf("%s: %.0f MB/s (%.0f to %.0f); plain sockets %.0f (%.0f to %.0f); %.2f of them "
           "(%.2f to %.2f)\n",
           what, x->by_engine[ROUNDS / 2], x->by_engine[0], x->by_engine[ROUNDS - 1],
           x->by_plain[ROUNDS / 2], x->by_plain[0], x->by_plain[ROUNDS - 1], x->part[ROUNDS / 2],
           x->part[0], x->part[ROUNDS - 1]);
}

/* Moves N values in each round, by the engine and by plain sockets. fresh: what was moved before is
 * kept, so the memory that it comes into was not touched before; else it is released first. */
static void move(struct sk_engine *e, const struct plain *p, bool fresh) {
    uint64_t size = BIG;
    struct sk_arg a = {.kind = KIND, .bytes = {&size, 8}};
    sk_oid big[ROUNDS + 1][N], len[N];
    struct rounds x;
    struct order o = {.fresh = fresh, .bytes[0][1] = (uint64_t)N * BIG};
    for (int r = 0; r <= ROUNDS; r++) {
        for (int i = 0; i < N; i++) big[r][i] = submit(e, &a, 1, 1);
        wait_for(e, big[r], N);
        int64_t t = sk_now_ns();
        for (int i = 0; i < N; i++) {
            struct sk_arg ref = {.ref = big[r][i]};
            len[i] = submit(e, &ref, 1, 2);
        }
        wait_for(e, len, N);
        double mb = (double)BIG * N * 1e3 / (double)(sk_now_ns() - t);
        for (int i = 0; i < N; i++) e->ops->release(e, len[i]);
        for (int i = 0; i < N && !fresh; i++) e->ops->release(e, big[r][i]);
        note(&x, r - 1, mb, plain_run(p, &o));
    }
    for (int i = 0; i < (ROUNDS + 1) * N && fresh; i++) e->ops->release(e, big[i / N][i % N]);
    say(&x, fresh ? "node to node, new memory" : "node to node, used memory");
}

/* All to all: each of MAPS values of 8 MB on all nodes in turn is cut into REDUCES ranges, and each
 * of as many tasks on all nodes in turn takes one range of each. Counted are the bytes that go from
 * one node to another. */
static void exchange(struct sk_engine *e, const struct plain *p) {
    enum { MAPS = 16, REDUCES = 16 };
    uint64_t size = BIG, range = BIG / REDUCES, sum = 0;
    struct sk_arg a = {.kind = KIND, .bytes = {&size, 8}}, args[MAPS];
    sk_oid map[MAPS], reduce[REDUCES];
    struct rounds x;
    struct order o = {0};
    for (uint32_t m = 0; m < MAPS; m++)
        for (uint32_t r = 0; r < REDUCES; r++)
            if (m % p->n != r % p->n) {
                o.bytes[m % p->n][r % p->n] += range;
                sum += range;
            }
    for (int round = -1; round < ROUNDS; round++) {
        for (uint32_t m = 0; m < MAPS; m++) map[m] = submit(e, &a, 1, 1 + m % p->n);
        wait_for(e, map, MAPS);
        int64_t t = sk_now_ns();
        for (uint32_t r = 0; r < REDUCES; r++) {
            for (uint32_t m = 0; m < MAPS; m++)
                args[m] = (struct sk_arg){
                    .ref = map[m], .part = true, .offset = r * range, .length = range};
            reduce[r] = submit(e, args, MAPS, 1 + r % p->n);
        }
        wait_for(e, reduce, REDUCES);
        double mb = (double)sum * 1e3 / (double)(sk_now_ns() - t);
        for (uint32_t r = 0; r < REDUCES; r++) e->ops->release(e, reduce[r]);
        for (uint32_t m = 0; m < MAPS; m++) e->ops->release(e, map[m]);
        note(&x, round, mb, plain_run(p, &o));
    }
    char what[80];
    snprintf(what, sizeof what, "all to all, %d x %d ranges of %llu KB", MAPS, REDUCES,
             (unsigned long long)range >> 10);
    say(&x, what);
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
    struct plain plain;
    plain_open(&plain, n_nodes);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    for (uint32_t i = 0; i < n_nodes; i++) {
        int fd[2];
        uint16_t port = 0;
        if (pipe(fd)) return 1;
        if (!fork()) be_node(fd[1], self, &plain, i);
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
        for (uint32_t i = 0; i < n_tasks; i++) o[i] = submit(e, NULL, 0, 0);
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
        sk_oid x = submit(e, NULL, 0, 0);
        wait_for(e, &x, 1);
        ms[i] = (double)(sk_now_ns() - t) / 1e6;
        e->ops->release(e, x);
    }
    qsort(ms, 100, sizeof *ms, by_size);
    printf("latency of one task: %.2f ms, 95 %%: %.2f ms\n", ms[50], ms[95]);

    move(e, &plain, true);
    move(e, &plain, false);
    exchange(e, &plain);
    free(o);
    sk_engine_close(&e);
    while (wait(NULL) > 0) {}
    return 0;
}
