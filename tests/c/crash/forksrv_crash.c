/* forksrv_crash.c - driver or fork server SIGKILLed, at fault points and at random moments: no
 * process of theirs is left, usually within half a second.
 *
 * How "nothing is left" is known: a pipe ("leash") whose write end is handed down to driver, server
 * and workers; its end of file means that all have gone. The test is a subreaper, so in the end
 * waitpid reports that it has no descendants. How long it took: each test makes several tries, most
 * of which must be in time; a try may be late because other processes use the CPUs. */
#include "../ipc_forksrv.h"

#define GONE_NS (500 * SK_MS)
enum { TIMES = 5 };

static int leash[2], n_gone, n_late;

static void leash_make(void) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) test_skip("no subreaper here (qemu)");
    CHECK_EQ(pipe2(leash, O_CLOEXEC), 0);
}

static void gone_after(int64_t ns) {
    n_gone++;
    n_late += ns >= GONE_NS;
}

static void mostly_in_time(void) {
    CHECK_MSG(2 * n_late < n_gone, "%d of %d times processes were left after %lld ms", n_late,
              n_gone, (long long)(GONE_NS / SK_MS));
}

/* The test closes its own write end first, since the pipe's end of file needs all write ends
 * closed. */
static void expect_all_gone(int64_t since_ns, const char *what) {
    close(leash[1]);
    CHECK_MSG(ready_by(leash[0], test_patience()), "%s: processes are left", what);
    gone_after(sk_now_ns() - since_ns);
    close(leash[0]);
    while (waitpid(-1, NULL, 0) > 0) continue;
    CHECK_EQ(errno, ECHILD);
}

/* Runs a driver in a process of its own. It spawns n workers that pause and, if `busy`, goes on
 * spawning and reaping workers that exit at once. */
static pid_t play_driver(struct driver *v, uint32_t n, const char *note, bool busy) {
    pid_t pid = fork();
    if (pid) return pid;
    driver_start(v, leash[1]);
    close(leash[0]);
    spawn_n(v, 1, n);
    if (note) CHECK_OK(sk_forksrv_note(&v->f, note, strlen(note), NULL));
    if (busy) {
        uint32_t in_flight = 0;
        for (;;) {
            for (; in_flight < 8; in_flight++) spawn_n(v, 200, 1);
            struct sk_fork_report r;
            if (next_report(v, &r) != SK_OK) _exit(5);
            in_flight -= r.kind == SK_FORK_ENDED;
        }
    }
    for (;;) pause();
}

static struct driver desk_for(enum act act) {
    struct driver v;
    driver_begin(&v);
    v.d->act = act;
    v.d->acts[200] = ACT_EXIT;
    return v;
}

static void done_with(struct driver *v) {
    munmap(v->d, sizeof *v->d);
    close(v->desk_fd);
}

static int64_t kill_driver(pid_t pid) {
    int64_t t = sk_now_ns();
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(wait_exit(pid) & 127, SIGKILL);
    return t;
}

static void quiet(void) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    pid_t pid = play_driver(&v, 8, NULL, false);
    wait_word(&v.d->running, 8);
    expect_all_gone(kill_driver(pid), "quiet");
    done_with(&v);
}

static void importing(void) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    pid_t pid = play_driver(&v, 5, "hang", false);
    wait_word(&v.d->in_note, 1);
    wait_word(&v.d->running, 5);
    expect_all_gone(kill_driver(pid), "in a note");
    done_with(&v);
}

static void starting_up(void) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    v.d->slow_start = 1;
    pid_t pid = play_driver(&v, 5, NULL, false);
    wait_word(&v.d->started_exec, 1);
    expect_all_gone(kill_driver(pid), "in start-up");
    done_with(&v);
}

static void stopped(void) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    pid_t pid = play_driver(&v, 3, NULL, false);
    wait_word(&v.d->running, 3);
    pid_t worker = (pid_t)v.d->pid[1];
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)worker);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK_GT(n, 0);
    text[n] = 0;
    close(fd);
    int server = 0;
    CHECK_EQ(sscanf(strrchr(text, ')') + 2, "%*c %d", &server), 1);
    CHECK_EQ(kill(server, SIGSTOP), 0);
    CHECK_EQ(kill(worker, SIGSTOP), 0);
    expect_all_gone(kill_driver(pid), "stopped");
    done_with(&v);
}

#define DRIVER_KILLED(name, when)             \
    TEST(driver_killed_##name) {              \
        for (int i = 0; i < TIMES; i++) when; \
        mostly_in_time();                     \
    }
DRIVER_KILLED(while_all_is_quiet, quiet())
DRIVER_KILLED(while_the_server_imports, importing())
DRIVER_KILLED(while_the_server_starts_up, starting_up())
DRIVER_KILLED(while_the_server_is_stopped, stopped())

/* A child that user code forks from the driver (as multiprocessing does) keeps the driver's socket
 * and pipe ends open: then only the server's watch of the driver can notice the driver's end. */
static void with_a_forked_copy(const char *note, uint32_t notes) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    int copied[2];
    CHECK_EQ(pipe2(copied, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        driver_start(&v, leash[1]);
        spawn_n(&v, 1, 4);
        if (note) CHECK_OK(sk_forksrv_note(&v.f, note, strlen(note), NULL));
        pid_t copy = fork();
        if (copy == 0) {
            close(leash[0]);
            close(leash[1]);
            for (;;) pause();
        }
        CHECK_EQ(write(copied[1], &copy, sizeof copy), (ssize_t)sizeof copy);
        for (;;) pause();
    }
    pid_t copy = 0;
    CHECK_EQ(read(copied[0], &copy, sizeof copy), (ssize_t)sizeof copy);
    wait_word(&v.d->running, 4);
    wait_word(&v.d->in_note, notes);
    int64_t t = kill_driver(pid);
    close(leash[1]);
    CHECK_MSG(ready_by(leash[0], test_patience()),
              "processes are left though the driver is dead (a copy of it lives)");
    gone_after(sk_now_ns() - t);
    close(leash[0]);
    CHECK_EQ(kill(copy, SIGKILL), 0);
    while (waitpid(-1, NULL, 0) > 0) continue;
    for (int i = 0; i < 2; i++) close(copied[i]);
    done_with(&v);
}

DRIVER_KILLED(with_a_forked_copy_alive, with_a_forked_copy(NULL, 0))
DRIVER_KILLED(in_a_note_with_a_forked_copy_alive, with_a_forked_copy("hang", 1))

TEST(driver_killed_at_random_moments) {
    for (int round = 0, rounds = test_rounds(20); round < rounds; round++) {
        leash_make();
        struct driver v = desk_for(ACT_PAUSE);
        uint32_t n = (uint32_t)test_below(6);
        pid_t pid = play_driver(&v, n, NULL, true);
        /* else: in the middle of the start */
        if (test_below(4)) wait_word(&v.d->running, n + (uint32_t)test_below(30));
        int64_t until = sk_now_ns() + (int64_t)test_below(3 * (uint64_t)SK_MS);
        while (sk_now_ns() < until) continue;
        expect_all_gone(kill_driver(pid), "random");
        done_with(&v);
    }
    mostly_in_time();
}

/* ---- the server dies ------------------------------------------------------------------------- */

static void expect_dead(struct driver *v) {
    struct sk_fork_report r;
    sk_rc rc;
    /* reads the reports that were sent before */
    while ((rc = next_report(v, &r)) == SK_OK) continue;
    CHECK_RC(rc, SK_EDEAD);
    CHECK_RC(sk_forksrv_next(&v->f, &r, NULL), SK_EDEAD); /* and it stays so */
    CHECK_RC(sk_forksrv_spawn(&v->f, 1, NULL), SK_EDEAD);
}

TEST(server_killed) {
    for (int round = 0; round < 10; round++) {
        leash_make();
        struct driver v = desk_for(ACT_PAUSE);
        driver_start(&v, leash[1]);
        spawn_n(&v, 1, 10);
        if (round % 2) wait_word(&v.d->running, 10);
        else wait_word(&v.d->running, (uint32_t)test_below(10));
        int64_t t = sk_now_ns();
        CHECK_EQ(kill(v.f.pid, SIGKILL), 0);
        expect_dead(&v);
        close(leash[1]);
        /* SK_EDEAD also means that all workers have ended, so the deadline is in the past */
        CHECK(ready_by(leash[0], 0));
        gone_after(sk_now_ns() - t);
        driver_end(&v);
        close(leash[0]);
        while (waitpid(-1, NULL, 0) > 0) continue;
    }
    mostly_in_time();
}

TEST(server_killed_at_each_point) {
    static const char *const points[] = {"forksrv.before_fork:kill:", "forksrv.after_fork:kill:"};
    for (uint32_t i = 0; i < SK_COUNT(points); i++)
        for (uint32_t nth = 1; nth <= 4; nth++) {
            leash_make();
            struct driver v = desk_for(ACT_PAUSE);
            snprintf(v.d->fault, sizeof v.d->fault, "%s%u", points[i], nth);
            driver_start(&v, leash[1]);
            uint32_t started = 0, sent = 0;
            struct sk_err err;
            sk_rc rc = SK_OK;
            while (sent < 4 && (rc = sk_forksrv_spawn(&v.f, sent + 1, &err)) == SK_OK) sent++;
            CHECK_MSG(rc == SK_OK || (rc == SK_EDEAD && sent >= nth), "spawn %u: %s: %s", sent,
                      /* the server may die before the last command is sent */
                      sk_rc_name(rc), err.msg);
            struct sk_fork_report r;
            while ((rc = next_report(&v, &r)) == SK_OK) started += r.kind == SK_FORK_STARTED;
            CHECK_RC(rc, SK_EDEAD);
            CHECK_EQ(started, nth - 1);
            CHECK(ready_by(leash[0], 0) == false); /* the test's own write end is still open */
            close(leash[1]);
            CHECK(ready_by(leash[0], 0));
            driver_end(&v);
            close(leash[0]);
            while (waitpid(-1, NULL, 0) > 0) continue;
        }
}

/* A worker that dies before it runs is reported as any other worker. */
TEST(worker_killed_before_its_first_instruction) {
    leash_make();
    struct driver v = desk_for(ACT_PAUSE);
    strcpy(v.d->fault, "forksrv.child:kill");
    driver_start(&v, leash[1]);
    spawn_n(&v, 1, 20);
    uint32_t started = 0, ended = 0;
    while (ended < 20) {
        struct sk_fork_report r;
        CHECK_OK(next_report(&v, &r));
        if (r.kind == SK_FORK_STARTED) {
            started++;
            continue;
        }
        CHECK_EQ(r.kind, SK_FORK_ENDED);
        CHECK(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
        ended++;
    }
    CHECK_EQ(started, 20);
    CHECK_EQ(atomic_load(&v.d->running), 0);
    int64_t t = sk_now_ns();
    driver_end(&v);
    expect_all_gone(t, "stop");
}

TEST(server_killed_at_random_moments) {
    for (int round = 0, rounds = test_rounds(20); round < rounds; round++) {
        leash_make();
        struct driver v = desk_for(ACT_EXIT);
        driver_start(&v, leash[1]);
        spawn_n(&v, 1, 30);
        int64_t until = sk_now_ns() + (int64_t)test_below(4 * (uint64_t)SK_MS);
        while (sk_now_ns() < until) continue;
        CHECK_EQ(kill(v.f.pid, SIGKILL), 0);
        expect_dead(&v);
        int64_t t = sk_now_ns();
        driver_end(&v);
        expect_all_gone(t, "random");
    }
    mostly_in_time();
}

/* The driver stops the fork server at random moments, whatever the server is doing. */
TEST(stopped_at_random_moments) {
    for (int round = 0, rounds = test_rounds(20); round < rounds; round++) {
        leash_make();
        struct driver v = desk_for(test_below(2) ? ACT_EXIT : ACT_PAUSE);
        driver_start(&v, leash[1]);
        spawn_n(&v, 1, 30);
        int64_t until = sk_now_ns() + (int64_t)test_below(4 * (uint64_t)SK_MS);
        while (sk_now_ns() < until) continue;
        sk_forksrv_stop(&v.f);
        close(leash[1]);
        CHECK(ready_by(leash[0], 0)); /* all gone on return */
        close(leash[0]);
        done_with(&v);
        while (waitpid(-1, NULL, 0) > 0) continue;
    }
}
