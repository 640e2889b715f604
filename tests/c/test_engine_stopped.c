/* test_engine_stopped.c - worker processes that are stopped (SIGSTOP): tasks that they have begun
 * wait for them, all others go on in other workers. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/local/driver/calls/calls.h"
#include "engine_help.h"
#include "ipc_help.h"

#define OPEN(...) eng_open(&(struct eng_opt){__VA_ARGS__})
#define JOB(...) eng_job(&(struct job){__VA_ARGS__})

TASK(st_pid) { return ret_i64(t, 0, getpid(), err); }
/* Sets word 0, and word 4 to its pid, and waits for word 1. */
TASK(st_hold) {
    gate_add(4, (uint32_t)getpid());
    gate_add(0, 1);
    return ret_i64(t, 0, gate_wait(1, 1) ? getpid() : 0, err);
}
/* Waits for word 1 at its first attempt, as st_hold does. */
TASK(st_hold_once) {
    if (t->attempt) return ret_i64(t, 0, t->attempt, err);
    gate_add(4, (uint32_t)getpid());
    gate_add(0, 1);
    return ret_i64(t, 0, gate_wait(1, 1) ? 0 : -1, err);
}
TASK(st_new) { return ret_i64(t, 0, (int64_t)gate_add(2, 1), err); }

static char state_of(pid_t pid) {
    char path[40], buf[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, buf, sizeof buf - 1) : 0;
    if (fd >= 0) close(fd);
    if (n <= 0) return 'X';
    buf[n] = 0;
    return strrchr(buf, ')')[2];
}
static void reach(pid_t pid, char state) {
    int64_t until = test_patience();
    while (state_of(pid) != state) CHECK(sk_now_ns() < until && sched_yield() == 0);
}
static void stop(pid_t pid) {
    CHECK_EQ(kill(pid, SIGSTOP), 0);
    reach(pid, 'T');
}
static pid_t idle_worker(void) { return (pid_t)eng_take(JOB(.fn = "st_pid")); }

TEST(stopped_idle_worker_gets_nothing) {
    OPEN(.cpus = 1, .idle_reap_ns = 3600 * SK_SEC);
    pid_t p = idle_worker();
    stop(p);
    sk_oid o[20];
    for (int i = 0; i < 20; i++) o[i] = JOB(.fn = "st_pid");
    for (int i = 0; i < 20; i++) CHECK_NE(eng_take(o[i]), p);
    eng_check();
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    CHECK_EQ(eng_stat(eng, "retries"), 0);
    CHECK_EQ(kill(p, SIGCONT), 0);
    eng_wait_stat("workers_idle", eng_stat(eng, "workers"));
    CHECK_EQ(idle_worker(), p); /* the worker that became idle last is used first */
    eng_check();
    eng_close();
}

TEST(stopped_task_waits_others_go_on) {
    OPEN(.cpus = 2);
    sk_oid h = JOB(.fn = "st_hold"), o[20];
    CHECK(gate_wait(0, 1));
    pid_t p = (pid_t)atomic_load(&gate->w[4]);
    stop(p);
    for (int i = 0; i < 20; i++) o[i] = JOB(.fn = "st_pid"); /* some may be queued behind it */
    for (int i = 0; i < 20; i++) CHECK_NE(eng_take(o[i]), p);
    gate_add(1, 1);
    bool ready = true;
    CHECK_RC(eng->ops->wait(eng, &h, 1, 1, sk_now_ns() + 200 * SK_MS, &ready, NULL), SK_ETIMEOUT);
    CHECK(!ready);
    CHECK_EQ(kill(p, SIGCONT), 0);
    CHECK_EQ(eng_take(h), p);
    CHECK_EQ(atomic_load(&gate->w[0]), 1); /* it began once */
    eng_close();
}

TEST(stopped_worker_is_given_an_actor) {
    /* its constructor has not begun in that process: it runs elsewhere, and that costs no
     * restart */
    struct sk_err err;
    sk_aid a;
    sk_oid ready;
    OPEN(.cpus = 1);
    pid_t p = idle_worker();
    stop(p);
    struct job init = {.fn = "st_new"};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    sk_oid call = JOB(.fn = "st_pid", .actor = a);
    CHECK_EQ(eng_i64(ready), 1);
    CHECK_NE(eng_take(call), p);
    eng_release(ready);
    sk_actor_release(eng, a);
    eng_close();
}

TEST(stopped_actor_keeps_its_calls) {
    struct sk_err err;
    sk_aid a;
    sk_oid ready, o[20];
    OPEN(.cpus = 2);
    struct job init = {.fn = "st_new"};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    pid_t p = (pid_t)eng_take(JOB(.fn = "st_pid", .actor = a));
    stop(p);
    for (int i = 0; i < 20; i++) o[i] = JOB(.fn = "st_pid", .actor = a);
    for (int i = 0; i < 20; i++) CHECK_NE(eng_take(JOB(.fn = "st_pid")), p);
    bool there[20];
    CHECK_RC(eng->ops->wait(eng, o, 20, 1, sk_now_ns() + 200 * SK_MS, there, NULL), SK_ETIMEOUT);
    CHECK_EQ(kill(p, SIGCONT), 0);
    for (int i = 0; i < 20; i++) CHECK_EQ(eng_take(o[i]), p);
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    eng_release(ready);
    sk_actor_release(eng, a);
    eng_close();
}

TEST(stopped_workers_end_with_the_engine) {
    OPEN(.cpus = 2);
    pid_t p = idle_worker();
    sk_oid h = JOB(.fn = "st_hold");
    CHECK(gate_wait(0, 1));
    stop(p);
    stop((pid_t)atomic_load(&gate->w[4]));
    eng_release(h);
    eng_close_now();
    CHECK(all_gone());
}

/* ---- held by the engine, while memory comes back (sk_lmem_hold) ------------------------------ */

/* Returns the worker with that pid; NULL: there is none. */
static struct sk_lworker *hold(pid_t pid, bool still) {
    struct sk_local *l = sk_container_of(eng, struct sk_local, base);
    struct sk_lworker *w = NULL;
    for (uint32_t i = 0; i < l->pool.n_used && !w; i++)
        if (l->pool.workers[i] && l->pool.workers[i]->pid == pid) w = l->pool.workers[i];
    if (w) sk_lmem_hold(l, w, still);
    return w;
}

TEST(held_worker_goes_on) {
    OPEN(.cpus = 1, .memory_every_ns = -1);
    sk_oid h = JOB(.fn = "st_hold");
    CHECK(gate_wait(0, 1));
    pid_t p = (pid_t)atomic_load(&gate->w[4]);
    int fds = count_fds();
    sk_driver_lock(eng);
    for (int i = 0; i < 3; i++) {
        CHECK(hold(p, true)->mem.paused);
        CHECK(hold(p, true)->mem.paused);
        reach(p, 'T');
        CHECK(!hold(p, false)->mem.paused);
        CHECK(!hold(p, false)->mem.paused);
        CHECK_NE(state_of(p), 'T');
    }
    CHECK_EQ(count_fds(), fds);
    sk_driver_unlock(eng);
    gate_add(1, 1);
    CHECK_EQ(eng_take(h), p);
    eng_close();
}

TEST(held_worker_that_somebody_has_stopped_stays_so) {
    OPEN(.cpus = 1, .memory_every_ns = -1);
    sk_oid h = JOB(.fn = "st_hold");
    CHECK(gate_wait(0, 1));
    pid_t p = (pid_t)atomic_load(&gate->w[4]);
    stop(p);
    sk_driver_lock(eng);
    CHECK(!hold(p, true)->mem.paused);
    CHECK(!hold(p, false)->mem.paused);
    sk_driver_unlock(eng);
    CHECK_EQ(state_of(p), 'T');
    gate_add(1, 1);
    CHECK_EQ(kill(p, SIGCONT), 0);
    CHECK_EQ(eng_take(h), p);
    eng_close();
}

/* The dead worker's task runs again, and nothing of the worker is left. */
TEST(held_worker_dies) {
    OPEN(.cpus = 1, .memory_every_ns = -1);
    sk_oid h = JOB(.fn = "st_hold_once", .retries = 1);
    CHECK(gate_wait(0, 1));
    pid_t p = (pid_t)atomic_load(&gate->w[4]);
    int fds = count_fds();
    sk_driver_lock(eng);
    CHECK(hold(p, true)->mem.paused);
    reach(p, 'T');
    CHECK_EQ(kill(p, SIGKILL), 0);
    sk_driver_unlock(eng);
    CHECK_EQ(eng_take(h), 1);
    sk_driver_lock(eng);
    CHECK(!hold(p, true));
    CHECK_EQ(count_fds(), fds);
    sk_driver_unlock(eng);
    eng_close();
}

TEST(held_worker_has_died_and_its_pid_is_a_strangers) {
    /* its end is not reported yet: the stranger would be stopped for ever */
    OPEN(.cpus = 1, .memory_every_ns = -1);
    pid_t p = idle_worker(), stranger = fork();
    if (stranger == 0)
        for (;;) pause();
    sk_driver_lock(eng);
    struct sk_lworker *w = hold(p, false);
    w->pid = stranger;
    CHECK(!hold(stranger, true)->mem.paused);
    for (int i = 0; i < 20; i++) CHECK_NE(state_of(stranger), 'T');
    CHECK_EQ(kill(stranger, SIGKILL), 0);
    CHECK_EQ(waitpid(stranger, NULL, 0), stranger);
    CHECK(!hold(stranger, true)->mem.paused); /* no worker's */
    w->pid = p;
    sk_driver_unlock(eng);
    eng_close();
}
