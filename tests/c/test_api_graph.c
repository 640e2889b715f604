/* test_api_graph.c - compiled graphs by skate_graph.h. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "skate_graph.h"
#include "test.h"

#define OK(call) CHECK_EQ(call, 0)

static int64_t state;
SKATE_TASK(holder) { return SKATE_OK; }
SKATE_TASK(sum_of_all) { /* the sum of its arguments, and counts calls */
    int64_t sum = 0, x;
    for (size_t i = 0; i < skate_n_args(t); i++) {
        int rc = skate_arg_copy(t, i, &x, sizeof x);
        if (rc) return rc;
        sum += x;
    }
    state++;
    return skate_return(t, 0, &sum, sizeof sum);
}
SKATE_TASK(calls_so_far) { return skate_return(t, 0, &state, sizeof state); }
SKATE_TASK(fails_on_odd) {
    int64_t x;
    int rc = skate_arg_copy(t, 0, &x, sizeof x);
    if (rc) return rc;
    return x % 2 ? skate_fail(t, "%lld is odd", (long long)x) : skate_return(t, 0, &x, sizeof x);
}
SKATE_TASK(says_nothing) { return SKATE_OK; }
SKATE_TASK(returns_two) {
    return skate_return(t, 0, "x", 1) || skate_return(t, 1, "y", 1) ? SKATE_EINVAL : SKATE_OK;
}
SKATE_TASK(repeats) { /* its input, 100 times, by way of a buffer of the store */
    size_t n;
    const char *p = skate_arg_data(t, 0, &n);
    struct skate_buf b;
    int rc = skate_buf_alloc(100 * n, &b);
    for (size_t i = 0; !rc && i < 100; i++) memcpy((char *)b.data + i * n, p, n);
    return rc ? rc : skate_return_buf(t, 0, &b, 100 * n);
}
SKATE_TASK(dies_on_7) {
    int64_t x;
    int rc = skate_arg_copy(t, 0, &x, sizeof x);
    if (!rc && x == 7) kill(getpid(), SIGKILL);
    return rc ? rc : skate_return(t, 0, &x, sizeof x);
}

static int meet(const char *folder, const char *pipe, int flags) { /* at a named pipe */
    char path[60];
    snprintf(path, sizeof path, "%s/%s", folder, pipe);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd < 0 ? SKATE_EIO : SKATE_OK;
}
SKATE_TASK(waits_to_go) {
    const char *folder = skate_arg_data(t, 0, NULL);
    if (meet(folder, "begun", O_WRONLY) || meet(folder, "go", O_RDONLY))
        return skate_fail(t, "no pipes");
    return skate_return(t, 0, NULL, 0);
}
SKATE_TASK(compiles) { /* in a worker, which may not */
    uint32_t in[] = {SKATE_INPUT}, output = 0;
    struct skate_node node = {{1, 1}, "compiles", in, 1};
    skate_graph *g;
    int rc = skate_graph_compile(&node, 1, &output, 1, NULL, &g);
    return skate_return(t, 0, &rc, sizeof rc);
}

static void open_engine(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)));
}
static skate_actor actor(int32_t max_restarts) {
    skate_actor a;
    struct skate_call_opts o = SKATE_OPTS(struct skate_call_opts);
    o.max_restarts = max_restarts;
    OK(skate_actor_create("holder", NULL, 0, &o, &a));
    return a;
}
static int64_t result(skate_graph *g) {
    struct skate_arg out;
    int64_t x;
    OK(skate_graph_get(g, 20000, &out));
    CHECK_EQ(out.size, sizeof x);
    memcpy(&x, out.data, sizeof x);
    return x;
}
static void execute(skate_graph *g, int64_t x) { OK(skate_graph_execute(g, &x, sizeof x, 20000)); }

TEST(a_chain_a_diamond_and_a_loop_back_to_the_first_actor) {
    open_engine();
    skate_actor a = actor(0), b = actor(0), c = actor(0);
    uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, both[] = {1, 2, 2, SKATE_INPUT}, three[] = {3};
    struct skate_node nodes[] = {{a, "sum_of_all", in, 1},
                                 {b, "sum_of_all", zero, 1},
                                 {c, "sum_of_all", zero, 1},
                                 {a, "sum_of_all", both, 4},
                                 {a, "sum_of_all", three, 1}};
    uint32_t outputs[] = {4, 1};
    skate_graph *g;
    struct skate_arg out[2];
    OK(skate_graph_compile(nodes, 5, outputs, 2, NULL, &g));
    for (int64_t i = 0; i < 2000; i++) {
        execute(g, i);
        OK(skate_graph_get(g, 20000, out));
        CHECK_EQ(*(const int64_t *)out[0].data, 4 * i);
        CHECK_EQ(*(const int64_t *)out[1].data, i);
    }
    skate_ref r;
    struct skate_value v;
    OK(skate_actor_call(a, "calls_so_far", NULL, 0, 1, NULL, &r)); /* a call beside the graph */
    OK(skate_get(r, 20000, &v));
    CHECK_EQ(*(const int64_t *)v.data, 6000);
    skate_value_release(&v);
    skate_graph_release(g);
    OK(skate_graph_compile(nodes, 5, outputs, 2, NULL, &g)); /* the actors are free again */
    execute(g, 5);
    OK(skate_graph_get(g, 20000, out));
    CHECK_EQ(*(const int64_t *)out[0].data, 20);
    skate_graph_release(g);
    skate_shutdown();
}

TEST(executions_overlap_up_to_the_limit) {
    open_engine();
    skate_actor a = actor(0), b = actor(0);
    uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, output = 1;
    struct skate_node nodes[] = {{a, "sum_of_all", in, 1}, {b, "sum_of_all", zero, 1}};
    struct skate_graph_opts o = {sizeof o, 4};
    skate_graph *g;
    struct skate_arg out;
    OK(skate_graph_compile(nodes, 2, &output, 1, &o, &g));
    skate_actor_release(a);
    skate_actor_release(b);
    for (int round = 0; round < 100; round++) {
        for (int64_t i = 0; i < 4; i++) execute(g, i);
        CHECK_EQ(skate_graph_execute(g, "", 0, 0), SKATE_EFULL);
        CHECK_STR_HAS(skate_error(), "4 executions of the graph are under way");
        for (int64_t i = 0; i < 4; i++) CHECK_EQ(result(g), i);
        CHECK_EQ(skate_graph_get(g, -1, &out), SKATE_EINVAL);
        CHECK_STR_EQ(skate_error(), "no execution of the graph is under way");
    }
    skate_graph_release(g);
    skate_shutdown();
}

TEST(a_failure_of_a_function_fails_one_execution) {
    open_engine();
    skate_actor a = actor(0), b = actor(0);
    uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, outputs[] = {1, 2};
    struct skate_node nodes[] = {
        {a, "fails_on_odd", in, 1}, {b, "sum_of_all", zero, 1}, {b, "sum_of_all", in, 1}};
    skate_graph *g;
    struct skate_arg out[2];
    OK(skate_graph_compile(nodes, 3, outputs, 2, NULL, &g));
    for (int64_t i = 0; i < 100; i++) {
        execute(g, i);
        int rc = skate_graph_get(g, 20000, out);
        CHECK_EQ(rc, i % 2 ? SKATE_ETASK : 0);
        if (rc) CHECK_STR_HAS(skate_error(), " is odd");
    }
    OK(skate_graph_execute(g, "short", 5, -1));
    CHECK_EQ(skate_graph_get(g, 20000, out), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(), "task fails_on_odd failed: argument 0 has 5 bytes, not 8");
    skate_graph_release(g);
    nodes[0].name = "says_nothing";
    OK(skate_graph_compile(nodes, 3, outputs, 2, NULL, &g));
    execute(g, 1);
    CHECK_EQ(skate_graph_get(g, 20000, out), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(), "task says_nothing failed: it returned no result");
    skate_graph_release(g);
    nodes[0].name = "returns_two";
    OK(skate_graph_compile(nodes, 3, outputs, 2, NULL, &g));
    execute(g, 1);
    CHECK_EQ(skate_graph_get(g, 20000, out), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(),
                 "task returns_two failed: result 1: a function of a graph has one result");
    skate_graph_release(g);
    skate_shutdown();
}

TEST(a_call_and_the_graph_take_turns) {
    open_engine();
    skate_actor a = actor(0), b = actor(0);
    uint32_t in[] = {SKATE_INPUT}, outputs[] = {0, 1};
    struct skate_node nodes[] = {{b, "sum_of_all", in, 1}, {a, "sum_of_all", in, 1}};
    skate_graph *g;
    struct skate_arg out[2];
    skate_ref r;
    struct skate_value v;
    char folder[] = "/tmp/skate-graph-XXXXXX", begun[60], go[60];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(begun, sizeof begun, "%s/begun", folder);
    snprintf(go, sizeof go, "%s/go", folder);
    OK(mkfifo(begun, 0600));
    OK(mkfifo(go, 0600));
    OK(skate_graph_compile(nodes, 2, outputs, 2, NULL, &g));
    OK(skate_actor_call(a, "waits_to_go", &SKATE_BYTES(folder, sizeof folder), 1, 1, NULL, &r));
    OK(meet(folder, "begun", O_RDONLY)); /* the call has the turn */
    execute(g, 5);
    CHECK_EQ(skate_graph_get(g, 0, out), SKATE_ETIMEOUT);
    OK(meet(folder, "go", O_WRONLY));
    OK(skate_graph_get(g, 20000, out));
    CHECK_EQ(*(const int64_t *)out[0].data, 5);
    CHECK_EQ(*(const int64_t *)out[1].data, 5);
    skate_graph_release(g);
    OK(skate_get(r, 20000, &v));
    skate_value_release(&v);
    unlink(begun);
    unlink(go);
    rmdir(folder);
    OK(skate_submit("compiles", NULL, 0, 1, NULL, &r));
    OK(skate_get(r, 20000, &v));
    CHECK_EQ(*(const int *)v.data, SKATE_ENOSYS);
    skate_value_release(&v);
    skate_shutdown();
}

TEST(values_of_all_sizes) {
    open_engine();
    skate_actor a = actor(0), b = actor(0);
    uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, output = 2;
    struct skate_node nodes[] = {
        {a, "repeats", in, 1}, {b, "repeats", zero, 1}, {b, "repeats", (uint32_t[]){1}, 1}};
    static char bytes[8];
    skate_graph *g;
    struct skate_arg out;
    memset(bytes, 'x', sizeof bytes);
    OK(skate_graph_compile(nodes, 3, &output, 1, NULL, &g));
    for (size_t n = 0; n <= sizeof bytes; n += 2) { /* up to 8 MB */
        OK(skate_graph_execute(g, bytes, n, -1));
        OK(skate_graph_get(g, 20000, &out));
        CHECK_EQ(out.size, 1000000 * n);
        if (n) CHECK_EQ(((const char *)out.data)[out.size - 1], 'x');
    }
    /* a value that the store has no room for is a failure of its execution */
    static char large[100];
    OK(skate_graph_execute(g, large, sizeof large, -1));
    CHECK_EQ(skate_graph_get(g, 20000, &out), SKATE_EFULL);
    OK(skate_graph_execute(g, bytes, 1, -1));
    OK(skate_graph_get(g, 20000, &out));
    CHECK_EQ(out.size, 1000000);
    skate_graph_release(g);
    skate_shutdown();
}

TEST(a_released_graph_gives_its_memory_back) {
    open_engine();
    skate_actor a = actor(0), b = actor(0);
    uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, output = 1;
    struct skate_node nodes[] = {{a, "repeats", in, 1}, {b, "repeats", zero, 1}};
    static char bytes[400];
    skate_graph *g;
    struct skate_arg out;
    for (int round = 0; round < 50; round++) { /* 4 MB each, in a store of 64 */
        OK(skate_graph_compile(nodes, 2, &output, 1, NULL, &g));
        OK(skate_graph_execute(g, bytes, sizeof bytes, -1));
        if (round % 3) OK(skate_graph_get(g, 20000, &out));
        skate_graph_release(g);
    }
    skate_shutdown();
}

TEST(the_death_of_an_actor_ends_the_graph) {
    for (int restarts = 0; restarts < 2; restarts++) {
        open_engine();
        skate_actor a = actor(0), b = actor(restarts);
        uint32_t in[] = {SKATE_INPUT}, zero[] = {0}, output = 1;
        struct skate_node nodes[] = {{a, "sum_of_all", in, 1}, {b, "dies_on_7", zero, 1}};
        skate_graph *g;
        struct skate_arg out;
        OK(skate_graph_compile(nodes, 2, &output, 1, NULL, &g));
        for (int64_t i = 0; i < 10; i++) (void)skate_graph_execute(g, &i, sizeof i, 20000);
        for (int64_t i = 0; i < 7; i++) CHECK_EQ(result(g), i);
        CHECK_EQ(skate_graph_get(g, 20000, &out), SKATE_EACTOR);
        CHECK_STR_HAS(skate_error(), "actor 1 of a graph (in the order of its nodes): ");
        CHECK_EQ(skate_graph_execute(g, "", 0, 0), SKATE_EACTOR);
        skate_graph_release(g);
        nodes[1].actor = a; /* the other actor goes on */
        OK(skate_graph_compile(nodes, 2, &output, 1, NULL, &g));
        execute(g, 1);
        CHECK_EQ(result(g), 1);
        execute(g, 2);
        CHECK_EQ(result(g), 2);
        OK(skate_actor_kill(a));
        CHECK_EQ(skate_graph_execute(g, "", 0, 0), SKATE_EACTOR);
        skate_graph_release(g);
        CHECK_EQ(skate_graph_compile(nodes, 2, &output, 1, NULL, &g), SKATE_EACTOR);
        skate_shutdown();
    }
}

TEST(what_is_no_graph_is_refused) {
    open_engine();
    skate_actor a = actor(0);
    uint32_t in[] = {SKATE_INPUT}, one[] = {1}, outputs[] = {0, 0};
    struct skate_node nodes[] = {{a, "sum_of_all", in, 1}, {a, "sum_of_all", in, 1}};
    struct skate_graph_opts o = {1, 0};
    skate_graph *g;
#define REFUSED(n, n_outputs, o, code, says)                                      \
    do {                                                                          \
        CHECK_EQ(skate_graph_compile(nodes, n, outputs, n_outputs, o, &g), code); \
        CHECK_STR_HAS(skate_error(), says);                                       \
    } while (0)
    REFUSED(0, 1, NULL, SKATE_EINVAL, "a graph has from 1 to");
    REFUSED(1, 2, NULL, SKATE_EINVAL, "node 0 is an output of a graph twice");
    REFUSED(2, 1, NULL, SKATE_EINVAL, "nothing takes the value of node 1 (sum_of_all)");
    REFUSED(1, 1, &o, SKATE_EINVAL, "options of a graph: of size");
    outputs[0] = 1;
    REFUSED(1, 1, NULL, SKATE_EINVAL, "output 0 of a graph is node 1 of 1");
    nodes[0].args = one;
    REFUSED(2, 1, NULL, SKATE_EINVAL, "argument 0 of node 0 (sum_of_all) of a graph is node 1");
    nodes[0].n_args = 0;
    REFUSED(2, 1, NULL, SKATE_EINVAL, "node 0 (sum_of_all) of a graph takes nothing");
    nodes[0] = (struct skate_node){a, "no_such", in, 1};
    REFUSED(2, 1, NULL, SKATE_ENOENT, "no function 'no_such' is registered");
    nodes[0] = (struct skate_node){{0, 0}, "sum_of_all", in, 1};
    REFUSED(2, 1, NULL, SKATE_EINVAL, "node 0 (sum_of_all) of a graph has no actor");
    skate_graph_release(NULL);
    skate_shutdown();
    CHECK_EQ(skate_graph_compile(nodes, 2, outputs, 1, NULL, &g), SKATE_ECLOSED);
}

TEST(a_graph_outlives_the_engine) {
    open_engine();
    skate_actor a = actor(0);
    uint32_t in[] = {SKATE_INPUT}, output = 0;
    struct skate_node node = {a, "sum_of_all", in, 1};
    skate_graph *g;
    struct skate_arg out;
    OK(skate_graph_compile(&node, 1, &output, 1, NULL, &g));
    execute(g, 3);
    CHECK_EQ(result(g), 3);
    skate_shutdown();
    CHECK_EQ(skate_graph_execute(g, "", 0, 0), SKATE_ECLOSED);
    CHECK_EQ(skate_graph_get(g, 0, &out), SKATE_ECLOSED);
    open_engine();
    CHECK_EQ(skate_graph_get(g, 0, &out), SKATE_ECLOSED);
    skate_graph_release(g);
    skate_shutdown();
}
