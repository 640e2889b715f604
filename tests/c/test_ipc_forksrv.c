/* test_ipc_forksrv.c - the fork server: spawning, endings, notes, inheritance, stopping. Violent
 * deaths: crash/forksrv_crash.c. */
#include "ipc_forksrv.h"

#include <pthread.h>

TEST(forksrv_empty_is_harmless) {
    struct sk_forksrv f = SK_FORKSRV_EMPTY, z;
    struct sk_fork_report r;
    memset(&z, 0, sizeof z);
    CHECK(sk_forksrv_check(&f) && sk_forksrv_check(&z));
    sk_forksrv_stop(&f);
    sk_forksrv_stop(&z);
    CHECK_RC(sk_forksrv_spawn(&f, 1, NULL), SK_ECLOSED);
    CHECK_RC(sk_forksrv_kill(&z, 1, SIGKILL, NULL), SK_ECLOSED);
    CHECK_RC(sk_forksrv_note(&z, "x", 1, NULL), SK_ECLOSED);
    CHECK_RC(sk_forksrv_next(&f, &r, NULL), SK_ECLOSED);
    CHECK(fcntl(0, F_GETFD) >= 0); /* a zeroed struct must not close descriptor 0 */
}

TEST(forksrv_check_finds_what_is_amiss) {
    struct driver v = driver_with(ACT_PAUSE, 0);
    struct sk_forksrv whole = v.f;
    v.f.sock = -1; /* marks one of its descriptors as closed */
    CHECK(!sk_forksrv_check(&v.f));
    v.f = whole;
    v.f.pid = 0; /* the struct is abandoned, and the server not stopped */
    CHECK(!sk_forksrv_check(&v.f));
    v.f = whole;
    v.f.out = NULL;
    CHECK(!sk_forksrv_check(&v.f));
    v.f = whole;
    driver_end(&v);
}

TEST(forksrv_spawns_and_stops) {
    int fds = count_fds();
    struct driver v = driver_with(ACT_PAUSE, 0);
    spawn_n(&v, 1, 3);
    for (uint32_t i = 1; i <= 3; i++) {
        struct sk_fork_report r = expect_report(&v, SK_FORK_STARTED);
        CHECK_EQ(r.worker, i);
        CHECK_GT(r.pid, 0);
    }
    wait_word(&v.d->running, 3);
    CHECK_EQ(atomic_load(&v.d->env_left), 0);
    pid_t server = v.f.pid;
    struct sk_fork_report r;
    CHECK_RC(sk_forksrv_next(&v.f, &r, NULL), SK_EAGAIN);
    int pidfd[3];
    for (int i = 0; i < 3; i++)
        CHECK((pidfd[i] = (int)syscall(SYS_pidfd_open, (pid_t)v.d->pid[i + 1], 0)) >= 0);
    sk_forksrv_stop(&v.f);
    CHECK_EQ(v.f.pid, 0);
    CHECK_EQ(v.f.sock, -1);
    CHECK_EQ(waitpid(server, NULL, WNOHANG), -1); /* reaped */
    CHECK_EQ(errno, ECHILD);
    for (int i = 0; i < 3; i++) {
        /* its descriptors are closed already: waits for the rest of its exit */
        CHECK(ready_by(pidfd[i], test_patience()));
        close(pidfd[i]);
    }
    driver_end(&v);
    CHECK_EQ(count_fds(), fds);
}

TEST(forksrv_fifty_endings) {
    enum { N = 50 };
    struct driver v;
    driver_begin(&v);
    static const int signals[] = {SIGKILL, SIGTERM, SIGUSR1, SIGABRT};
    for (uint32_t i = 0; i < N; i++) {
        int s = signals[i / 5 % 4];
        v.d->acts[i] = i % 5 == 0   ? ACT_EXIT | i << 8
                       : i % 5 == 1 ? ACT_SIGNAL | (uint32_t)s << 8
                       : i % 5 == 4 ? ACT_GATE
                                    : ACT_PAUSE;
    }
    driver_start(&v, -1);
    spawn_n(&v, 0, N);
    pid_t pid[N] = {0};
    uint32_t started = 0, ended = 0;
    while (ended < N) {
        struct sk_fork_report r;
        CHECK_OK(next_report(&v, &r));
        CHECK_LT(r.worker, N);
        uint32_t i = r.worker;
        if (r.kind == SK_FORK_STARTED) {
            CHECK_EQ(pid[i], 0);
            pid[i] = r.pid;
            if (i % 5 == 2) CHECK_OK(sk_forksrv_kill(&v.f, r.pid, SIGKILL, NULL));
            if (i % 5 == 3) CHECK_EQ(kill(r.pid, SIGTERM), 0);
            if (++started == N) atomic_store(&v.d->gate, 1), sk_futex_wake(&v.d->gate, N);
            continue;
        }
        CHECK_EQ(r.kind, SK_FORK_ENDED);
        CHECK_EQ(r.pid, pid[i]);
        int s = i % 5 == 1 ? signals[i / 5 % 4] : i % 5 == 2 ? SIGKILL : i % 5 == 3 ? SIGTERM : 0;
        if (s) CHECK(WIFSIGNALED(r.status) && WTERMSIG(r.status) == s);
        else CHECK(WIFEXITED(r.status) && WEXITSTATUS(r.status) == (i % 5 == 0 ? (int)i : 7));
        pid[i] = -1;
        ended++;
    }
    CHECK_EQ(started, N);
    driver_end(&v);
}

TEST(forksrv_reports_peak_memory) {
    struct driver v;
    driver_begin(&v);
    v.d->acts[0] = ACT_EAT | 200u << 8;
    v.d->acts[1] = ACT_EXIT;
    driver_start(&v, -1);
    spawn_n(&v, 0, 2);
    uint64_t rss[2] = {0};
    for (int ended = 0; ended < 2;) {
        struct sk_fork_report r;
        CHECK_OK(next_report(&v, &r));
        if (r.kind == SK_FORK_ENDED) rss[r.worker] = r.maxrss_bytes, ended++;
    }
    CHECK_GE(rss[0], (uint64_t)200 << 20);
    CHECK_LT(rss[1], rss[0] - ((uint64_t)150 << 20));
    driver_end(&v);
}

TEST(forksrv_kill_strangers_is_nothing) {
    struct driver v = driver_with(ACT_EXIT, 3);
    pid_t other = fork();
    if (other == 0)
        for (;;) pause();
    CHECK_RC(sk_forksrv_kill(&v.f, 0, SIGKILL, NULL), SK_EINVAL);
    CHECK_RC(sk_forksrv_kill(&v.f, -1, SIGKILL, NULL), SK_EINVAL);
    CHECK_OK(sk_forksrv_kill(&v.f, other, SIGKILL, NULL));
    CHECK_OK(sk_forksrv_kill(&v.f, getpid(), SIGKILL, NULL));
    CHECK_OK(sk_forksrv_kill(&v.f, v.f.pid, SIGKILL, NULL));
    spawn_n(&v, 1, 1); /* this command is answered after the kills */
    (void)expect_report(&v, SK_FORK_STARTED);
    CHECK_EQ(WEXITSTATUS(expect_report(&v, SK_FORK_ENDED).status), 3);
    CHECK_EQ(waitpid(other, NULL, WNOHANG), 0);
    kill(other, SIGKILL);
    wait_exit(other);
    driver_end(&v);
}

static bool gone(int pidfd, int ms) {
    return poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, ms) == 1;
}

static void strays_of(bool stop) {
    struct driver v = driver_with(ACT_STRAYS, 0);
    int fd[3];
    spawn_n(&v, 0, 1);
    pid_t worker = expect_report(&v, SK_FORK_STARTED).pid;
    wait_word(&v.d->n_strays, 3);
    for (int i = 0; i < 3; i++) {
        CHECK(v.d->strays[i]);
        fd[i] = (int)syscall(SYS_pidfd_open, v.d->strays[i], 0);
        CHECK(fd[i] >= 0 && !gone(fd[i], 0));
    }
    if (stop) {
        /* waits until the workers have closed the liveness pipe, the last thing before their end */
        sk_forksrv_stop(&v.f);
    } else {
        CHECK_OK(sk_forksrv_kill(&v.f, worker, SIGKILL, NULL));
        (void)expect_report(&v, SK_FORK_ENDED);
    }
    CHECK(gone(fd[0], 4000) && gone(fd[1], 4000));
    CHECK(!gone(fd[2], 0)); /* free */
    CHECK_EQ(syscall(SYS_pidfd_send_signal, fd[2], SIGKILL, NULL, 0), 0);
    for (int i = 0; i < 3; i++) close(fd[i]);
    driver_end(&v);
}

TEST(forksrv_what_a_worker_forks_ends_with_it) { strays_of(false); }
TEST(forksrv_what_a_worker_forks_ends_with_the_server) { strays_of(true); }

/* A worker, or the server, that could not make sure that the children of its tasks end with it runs
 * no task: it ends with a message that says why. */
static void no_leash(const char *fault, bool server, const char *says) {
    struct driver v;
    char text[600];
    int keep = dup(2), told = memfd_create("stderr", MFD_CLOEXEC);
    CHECK(keep >= 0 && told >= 0);
    driver_begin(&v);
    strcpy(v.d->fault, fault);
    CHECK_EQ(dup2(told, 2), 2);
    driver_start(&v, -1);
    CHECK_EQ(dup2(keep, 2), 2);
    if (server) {
        struct sk_fork_report r;
        CHECK_RC(next_report(&v, &r), SK_EDEAD);
    }
    for (uint32_t i = 0; i < 2 && !server; i++) { /* and the server goes on */
        spawn_n(&v, i, 1);
        (void)expect_report(&v, SK_FORK_STARTED);
        struct sk_fork_report r = expect_report(&v, SK_FORK_ENDED);
        CHECK(r.worker == i && WIFEXITED(r.status) && WEXITSTATUS(r.status) == 1);
    }
    CHECK_EQ(atomic_load(&v.d->running), 0);
    ssize_t n = pread(told, text, sizeof text - 1, 0);
    CHECK_GT(n, 0);
    text[n] = 0;
    CHECK_STR_HAS(text, says);
    driver_end(&v);
    close(keep);
    close(told);
}

TEST(forksrv_no_pipe_for_what_a_worker_forks) {
    no_leash("stray.pipe:fail:2", false,
             "skate worker: a pipe for what tasks fork (check ulimit -n): Too many open files\n");
    no_leash(
        "stray.pipe:fail:1", true,
        "skate fork server: a pipe for what tasks fork (check ulimit -n): Too many open files\n");
}

TEST(forksrv_says_that_there_is_no_witness) {
    struct driver v;
    char text[600];
    int keep = dup(2), told = memfd_create("stderr", MFD_CLOEXEC);
    CHECK(keep >= 0 && told >= 0);
    driver_begin(&v);
    v.d->act = ACT_PAUSE;
    strcpy(v.d->fault, "witness.fork:fail");
    CHECK_EQ(dup2(told, 2), 2);
    driver_start(&v, -1);
    CHECK_EQ(dup2(keep, 2), 2);
    spawn_n(&v, 0, 1); /* the server goes on */
    (void)expect_report(&v, SK_FORK_STARTED);
    ssize_t n = pread(told, text, sizeof text - 1, 0);
    CHECK_GT(n, 0);
    text[n] = 0;
    CHECK_STR_HAS(text, "skate: there will be no record if this program is killed: "
                        "Resource temporarily unavailable\n");
    driver_end(&v);
    close(keep);
    close(told);
}

TEST(forksrv_notes_of_any_size) {
    struct driver v = driver_with(ACT_EXIT, 0);
    const size_t sizes[] = {0, 1, 5, 4096, 300000, (size_t)4 << 20};
    uint8_t *bytes = malloc((size_t)4 << 20);
    CHECK(bytes != NULL);
    for (uint32_t i = 0; i < SK_COUNT(sizes); i++) {
        for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (uint8_t)mix(k + i);
        struct sk_err err;
        CHECK_OK_ERR(sk_forksrv_note(&v.f, bytes, sizes[i], &err), &err);
        wait_word(&v.d->notes, i + 1);
        CHECK_EQ(v.d->note_len, sizes[i]);
        CHECK_EQ(v.d->note_sum, sum_of(bytes, sizes[i]));
    }
    CHECK_RC(sk_forksrv_note(&v.f, bytes, ((size_t)4 << 20) + 1, NULL), SK_EINVAL);
    free(bytes);
    driver_end(&v);
}

/* The server is busy in a note while some hundred commands wait in the socket: no command may block
 * the driver, get lost or overtake another. */
TEST(forksrv_takes_commands_while_it_is_busy) {
    enum { N = 100, FILL = 600 };
    struct driver v = driver_with(ACT_PAUSE, 0);
    int fds = count_fds();
    CHECK_OK(sk_forksrv_note(&v.f, "gate", 4, NULL));
    wait_word(&v.d->in_note, 1);
    for (uint32_t i = 0; i < FILL; i++) CHECK_OK(sk_forksrv_note(&v.f, NULL, 0, NULL));
    for (uint32_t i = 0; i < N; i++) {
        CHECK_OK(sk_forksrv_note(&v.f, &i, sizeof i, NULL));
        spawn_n(&v, i, 1);
    }
    CHECK_GT(count_fds(), fds + 50); /* notes that wait in the driver */
    CHECK(sk_forksrv_check(&v.f));
    struct sk_fork_report r; /* no command waited for the server, whose gate is shut */
    CHECK_RC(sk_forksrv_next(&v.f, &r, NULL), SK_EAGAIN);
    CHECK_EQ(atomic_load(&v.d->running), 0);
    atomic_store(&v.d->gate, 1);
    sk_futex_wake(&v.d->gate, 1);
    pid_t pid[N];
    for (uint32_t i = 0; i < N; i++) {
        r = expect_report(&v, SK_FORK_STARTED);
        CHECK_EQ(r.worker, i);
        pid[i] = r.pid;
        /* the note of this worker was handled before */
        CHECK_GE(atomic_load(&v.d->notes), FILL + i + 2);
    }
    CHECK_EQ(count_fds(), fds);
    for (int i = 0; i < N; i++) CHECK_OK(sk_forksrv_kill(&v.f, pid[i], SIGTERM, NULL));
    for (int i = 0; i < N; i++)
        CHECK_EQ(WTERMSIG(expect_report(&v, SK_FORK_ENDED).status), SIGTERM);
    driver_end(&v);
}

TEST(forksrv_stop_with_commands_held_back) {
    int fds = count_fds();
    struct driver v = driver_with(ACT_PAUSE, 0);
    CHECK_OK(sk_forksrv_note(&v.f, "hang", 4, NULL));
    for (uint32_t i = 0; i < 500; i++) CHECK_OK(sk_forksrv_note(&v.f, "x", 1, NULL));
    driver_end(&v);
    CHECK_EQ(count_fds(), fds);
}

/* A worker that ends while the server handles a note (its SIGCHLD is not blocked then) is reaped
 * all the same. */
TEST(forksrv_reaps_after_a_note) {
    struct driver v = driver_with(ACT_PAUSE, 0);
    spawn_n(&v, 1, 1);
    struct sk_fork_report r = expect_report(&v, SK_FORK_STARTED);
    CHECK_OK(sk_forksrv_note(&v.f, "gate", 4, NULL));
    wait_word(&v.d->in_note, 1);
    CHECK_EQ(kill(r.pid, SIGTERM), 0);
    int pidfd = (int)syscall(SYS_pidfd_open, r.pid, 0);
    CHECK(pidfd >= 0 && ready_by(pidfd, test_patience()));
    atomic_store(&v.d->gate, 1);
    sk_futex_wake(&v.d->gate, 1);
    CHECK_EQ(WTERMSIG(expect_report(&v, SK_FORK_ENDED).status), SIGTERM);
    driver_end(&v);
}

static bool in(const int *list, int n, int v) {
    for (int i = 0; i < n; i++)
        if (list[i] == v) return true;
    return false;
}

TEST(forksrv_inherits_exactly_what_it_should) {
    struct driver v;
    driver_begin(&v);
    v.d->act = ACT_PAUSE;
    /* leak: no close-on-exec, not in keep */
    int leak = dup2(v.desk_fd, 400), kept = fcntl(v.desk_fd, F_DUPFD_CLOEXEC, 300);
    CHECK_EQ(leak, 400);
    CHECK_GE(kept, 300);
    driver_start(&v, kept);
    wait_word(&v.d->started_exec, 1);
    int have[64], n = 0, extra = 0;
    for (uint32_t i = 0; i < v.d->n_fds; i++)
        if (v.d->fds[i] > 2) have[n++] = v.d->fds[i];
    CHECK(in(have, n, v.desk_fd));
    CHECK(in(have, n, kept));
    CHECK(!in(have, n, leak));
    for (int i = 0; i < n; i++) extra += have[i] != v.desk_fd && have[i] != kept;
    CHECK_EQ(extra, 2);                       /* control socket and liveness pipe */
    CHECK(fcntl(kept, F_GETFD) & FD_CLOEXEC); /* the flag is unchanged in the driver */
    CHECK(!(fcntl(leak, F_GETFD) & FD_CLOEXEC));
    close(leak);
    close(kept);
    driver_end(&v);
}

TEST(forksrv_uses_the_environment_given) {
    struct driver v;
    driver_begin(&v);
    v.d->act = ACT_EXIT;
    char desk[40], *argv[] = {(char *)(uintptr_t)"/proc/self/exe", NULL};
    /* ours win */
    char *envp[] = {desk, (char *)(uintptr_t)"SKATE_FORK_FD=77",
                    (char *)(uintptr_t)"SKATE_DRIVER_PID=1", NULL};
    snprintf(desk, sizeof desk, DESK_ENV "=%d", v.desk_fd);
    struct sk_err err;
    CHECK_OK_ERR(sk_forksrv_start(&v.f, argv, envp, &v.desk_fd, 1, &err), &err);
    spawn_n(&v, 5, 1);
    CHECK_EQ(expect_report(&v, SK_FORK_STARTED).worker, 5);
    driver_end(&v);
}

TEST(forksrv_start_failures_leave_nothing) {
    int fds = count_fds();
    struct sk_forksrv f = SK_FORKSRV_EMPTY;
    struct sk_err err;
    char *nobody[] = {(char *)(uintptr_t)"/nonexistent/program", NULL}, *empty[] = {NULL},
         *self[] = {(char *)(uintptr_t)"/proc/self/exe", NULL};
    CHECK_RC(sk_forksrv_start(&f, nobody, NULL, NULL, 0, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "/nonexistent/program");
    CHECK_STR_HAS(err.msg, "No such file");
    CHECK_RC(sk_forksrv_start(&f, empty, NULL, NULL, 0, &err), SK_EINVAL);
    int bad = 999;
    CHECK_RC(sk_forksrv_start(&f, self, NULL, &bad, 1, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "descriptor");
    CHECK_OK(sk_fault_set("forksrv.start", SK_FAULT_FAIL, 1));
    CHECK_RC(sk_forksrv_start(&f, self, NULL, NULL, 0, &err), SK_EIO);
    sk_fault_clear();
    for (int64_t n = 1;; n++) { /* each allocation refused in turn */
        sk_mem_fail_at(n);
        sk_rc rc = sk_forksrv_start(&f, nobody, NULL, NULL, 0, &err);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit ? SK_ENOMEM : SK_EIO);
        if (!hit) break;
    }
    CHECK_EQ(f.pid, 0);
    CHECK_EQ(count_fds(), fds);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_EQ(errno, ECHILD);
}

TEST(forksrv_queue_without_memory) {
    struct driver v = driver_with(ACT_PAUSE, 0);
    CHECK_OK(sk_fault_set("forksrv.post", SK_FAULT_FAIL, 0)); /* as if the socket were full */
    int fds = count_fds();
    sk_mem_fail_at(1);
    CHECK_RC(sk_forksrv_spawn(&v.f, 1, NULL), SK_ENOMEM);
    sk_mem_fail_at(1);
    CHECK_RC(sk_forksrv_note(&v.f, "x", 1, NULL), SK_ENOMEM);
    sk_mem_fail_at(0);
    CHECK_EQ(count_fds(), fds);
    spawn_n(&v, 2, 3);
    sk_fault_clear();
    for (uint32_t i = 2; i < 5; i++) CHECK_EQ(expect_report(&v, SK_FORK_STARTED).worker, i);
    driver_end(&v);
}

TEST(forksrv_ctrl_c_is_the_drivers) {
    struct driver v = driver_with(ACT_GATE, 0);
    wait_word(&v.d->started_exec, 1);
    CHECK_EQ(kill(v.f.pid, SIGINT), 0);
    spawn_n(&v, 1, 1);
    struct sk_fork_report r = expect_report(&v, SK_FORK_STARTED);
    CHECK_EQ(kill(v.f.pid, SIGINT), 0);
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    wait_word(&v.d->running, 1);
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    atomic_store(&v.d->gate, 1);
    sk_futex_wake(&v.d->gate, 1);
    r = expect_report(&v, SK_FORK_ENDED);
    CHECK(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 7);
    driver_end(&v);
}

/* If SIGCHLD were inherited as ignored, the kernel would reap workers before the server could. */
TEST(forksrv_of_a_driver_that_ignores_sigchld) {
    signal(SIGCHLD, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL); /* all signals are blocked */
    int fds = count_fds();
    struct driver v = driver_with(ACT_SIGNAL, SIGTERM);
    spawn_n(&v, 1, 2);
    int ended = 0;
    while (ended < 2) {
        struct sk_fork_report r;
        CHECK_OK(next_report(&v, &r));
        if (r.kind != SK_FORK_ENDED) continue;
        CHECK_EQ(WTERMSIG(r.status), SIGTERM);
        ended++;
    }
    driver_end(&v);
    CHECK_EQ(count_fds(), fds);
}

TEST(forksrv_stop_though_the_driver_reaps_any_child) {
    struct driver v = driver_with(ACT_PAUSE, 0);
    spawn_n(&v, 1, 2);
    (void)expect_report(&v, SK_FORK_STARTED);
    kill(v.f.pid, SIGKILL);
    CHECK_EQ(wait_exit(-1) & 127, SIGKILL); /* the program's own waitpid(-1) reaps the server */
    driver_end(&v);
}

/* Starts the server on a thread that ends: the parent-death signal must not depend on that
 * thread. */
static void *start_it(void *arg) {
    driver_start(arg, -1);
    return NULL;
}

TEST(forksrv_outlives_the_thread_that_started_it) {
    struct driver v;
    driver_begin(&v);
    v.d->act = ACT_EXIT | 4 << 8;
    pthread_t th;
    CHECK_EQ(pthread_create(&th, NULL, start_it, &v), 0);
    CHECK_EQ(pthread_join(th, NULL), 0);
    for (uint32_t i = 0; i < 20; i++) {
        spawn_n(&v, i, 1);
        CHECK_EQ(expect_report(&v, SK_FORK_STARTED).worker, i);
        CHECK_EQ(WEXITSTATUS(expect_report(&v, SK_FORK_ENDED).status), 4);
    }
    driver_end(&v);
}

static void *life(void *arg) {
    struct desk *d = arg;
    for (int i = 0; i < 5; i++) {
        char *argv[] = {(char *)(uintptr_t)"/proc/self/exe", NULL};
        struct sk_forksrv f = SK_FORKSRV_EMPTY;
        int fd = atoi(getenv(DESK_ENV));
        CHECK_OK(sk_forksrv_start(&f, argv, NULL, &fd, 1, NULL));
        CHECK_OK(sk_forksrv_spawn(&f, 300, NULL));
        struct driver v = {.f = f, .d = d};
        CHECK_EQ(expect_report(&v, SK_FORK_STARTED).worker, 300);
        sk_forksrv_stop(&v.f);
    }
    return NULL;
}

TEST(forksrv_started_by_many_threads_at_once) {
    struct driver v;
    driver_begin(&v);
    v.d->act = ACT_PAUSE;
    char num[16];
    snprintf(num, sizeof num, "%d", v.desk_fd);
    setenv(DESK_ENV, num, 1);
    int fds = count_fds();
    pthread_t th[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&th[i], NULL, life, v.d), 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_join(th[i], NULL), 0);
    CHECK_EQ(count_fds(), fds);
    driver_end(&v);
}
