/* channel_crash.c - the process of a channel's end is killed, at each fault point and at random
 * moments: sk_chan_check holds, the other ends see exactly the published messages, a successor
 * continues where the dead process stopped, and a wait for an end without a successor ends with an
 * error. */
#include "../dag_help.h"

#define MOST 3000u /* bytes of a message */
#define N_READERS 2u

struct told { /* counters of the ends' processes, in shared memory */
    _Atomic uint64_t written, read[N_READERS], passed[N_READERS];
    struct sk_bell bell; /* bell of the test, which is rung after each message */
};

static struct rig *r;
static struct told *told;

static void start(uint32_t n_cells, uint32_t n_bufs) {
    r = rig(N_READERS, n_cells, n_bufs, (uint64_t)256 << 20);
    told = share(sizeof *told);
}
static void stop(void) {
    CHECK(sk_chan_check(r->mem));
    munmap(r->arena, r->size);
}

/* Writes messages, behind those published before, until the test says stop. */
static sk_rc write_on(void) {
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER);
    w.spin = sk_spin_of((int64_t)(getpid() % 2) * SK_SPIN_CAP_NS);
    for (uint64_t i = sk_chan_written(r->mem);; i++) {
        sk_rc rc = write_by(&w, msg_len(r->seed, i, MOST), i, test_patience());
        if (rc != SK_OK) return rc;
        atomic_store(&told->written, i + 1);
        sk_bell_ring(&told->bell);
    }
}

/* Reads up to version `to`, or until the test says stop. Passes each message, but releases the last
 * one later: its bytes must stay until then. */
static sk_rc read_on(uint32_t me, uint64_t to) {
    struct sk_chan_end e = end_of(r, me);
    struct sk_chan_msg m, kept;
    bool keeps = false;
    e.spin = sk_spin_of((int64_t)(getpid() % 2) * SK_SPIN_CAP_NS);
    for (uint64_t i; (i = e.next) < to; kept = m, keeps = true) {
        SK_TRY(sk_chan_read(&e, test_patience(), &m, NULL));
        is_message(&m, msg_len(r->seed, i, MOST), i);
        atomic_store(&told->read[me], i + 1);
        sk_chan_pass(&e);
        atomic_store(&told->passed[me], i + 1);
        if (keeps) {
            is_message(&kept, msg_len(r->seed, i - 1, MOST), i - 1);
            sk_chan_release(&e, &kept);
        }
        sk_bell_ring(&told->bell);
    }
    return SK_OK;
}

static pid_t child(uint32_t end, uint64_t to, const char *fault, int64_t nth) {
    pid_t pid = fork();
    if (pid) return pid;
    if (fault) CHECK_OK(sk_fault_set(fault, SK_FAULT_KILL, nth));
    _exit(-(end == SK_CHAN_WRITER ? write_on() : read_on(end, to)));
}

static void is_killed(pid_t pid) {
    int st = wait_exit(pid);
    CHECK_MSG(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "status %x", (unsigned)st);
    sk_chan_stir(r->mem); /* as the code that watches the process does */
}

static void has_ended(pid_t pid, sk_rc rc) {
    int st = wait_exit(pid);
    CHECK_MSG(WIFEXITED(st) && WEXITSTATUS(st) == -rc, "status %x, not by %s", (unsigned)st,
              sk_rc_name(rc));
}

/* Waits until *what is at least n. */
static void wait_told(_Atomic uint64_t *what, uint64_t n) {
    for (int64_t end = test_patience();;) {
        uint32_t seen = sk_bell_seq(&told->bell);
        if (atomic_load(what) >= n) return;
        CHECK_OK(sk_bell_wait(&told->bell, seen, 0, end));
    }
}

/* ---- at each fault point --------------------------------------------------------------------- */

/* passes: the least number of times that the writer passes the fault point, however it goes on. */
static void writer_dies_at(const char *fault, int lives, uint64_t passes) {
    for (int round = 0, rounds = test_rounds(25); round < rounds; round++) {
        start(1 + (uint32_t)test_below(4), 2 + (uint32_t)test_below(6));
        pid_t readers[N_READERS];
        for (uint32_t i = 0; i < N_READERS; i++) readers[i] = child(i, UINT64_MAX, NULL, 0);
        for (int life = 0; life < lives; life++) {
            is_killed(child(SK_CHAN_WRITER, 0, fault, 1 + (int64_t)test_below(passes)));
            uint64_t n = sk_chan_written(r->mem), said = atomic_load(&told->written);
            CHECK(n == said || n == said + 1); /* it may have died between publishing and telling */
            atomic_store(&told->written, n);
            for (uint32_t i = 0; i < N_READERS; i++) wait_told(&told->passed[i], n);
            CHECK(sk_chan_check(r->mem));
        }
        uint64_t goal = sk_chan_written(r->mem) + 20;
        pid_t writer = child(SK_CHAN_WRITER, 0, NULL, 0);
        for (uint32_t i = 0; i < N_READERS; i++) wait_told(&told->passed[i], goal);
        kill(writer, SIGKILL), is_killed(writer);
        for (uint32_t i = 0; i < N_READERS; i++) kill(readers[i], SIGKILL), is_killed(readers[i]);
        /* a reader that attaches later reads the remaining messages, and then SK_EDEAD */
        struct sk_chan_end e = end_of(r, 0);
        struct sk_chan_msg m;
        sk_rc rc;
        sk_chan_bury(r->mem, SK_CHAN_WRITER);
        while ((rc = sk_chan_read(&e, INT64_MAX, &m, NULL)) == SK_OK)
            is_message(&m, msg_len(r->seed, m.version, MOST), m.version), done(&e, &m);
        CHECK_EQ(rc, SK_EDEAD);
        CHECK_EQ(e.next, sk_chan_written(r->mem));
        stop();
    }
}

TEST_SLOW(writer_killed_in_grow, 300) { writer_dies_at("channel.in_grow", 1, 2); }
TEST_SLOW(writer_killed_before_version, 300) { writer_dies_at("channel.before_version", 4, 60); }
TEST_SLOW(writer_killed_before_publish, 300) { writer_dies_at("channel.before_publish", 4, 60); }
TEST_SLOW(writer_killed_after_publish, 300) { writer_dies_at("channel.after_publish", 4, 60); }

static void reader_dies_at(const char *fault) {
    for (int round = 0, rounds = test_rounds(25); round < rounds; round++) {
        start(1 + (uint32_t)test_below(4), 3 + (uint32_t)test_below(6));
        pid_t writer = child(SK_CHAN_WRITER, 0, NULL, 0), other = child(1, UINT64_MAX, NULL, 0);
        for (int life = 0; life < 4; life++) {
            uint64_t before = atomic_load(&told->passed[0]);
            is_killed(child(0, UINT64_MAX, fault, 1 + (int64_t)test_below(40)));
            uint64_t read = atomic_load(&told->read[0]), passed = atomic_load(&told->passed[0]);
            /* begins with the first message that was not passed: the count that the dead reader
             * reported, or one more */
            struct sk_chan_end e = end_of(r, 0);
            CHECK(e.next == passed || (e.next == passed + 1 && read == passed + 1));
            CHECK_GE(passed, before);
            atomic_store(&told->passed[0], e.next);
        }
        pid_t last = child(0, atomic_load(&told->passed[0]) + 50, NULL, 0);
        has_ended(last, SK_OK);
        /* without a successor the writer gets an error, wherever it waits */
        sk_chan_bury(r->mem, 0);
        has_ended(writer, SK_EDEAD);
        kill(other, SIGKILL);
        is_killed(other);
        stop();
    }
}

TEST_SLOW(reader_killed_before_pass, 300) { reader_dies_at("channel.before_pass"); }
TEST_SLOW(reader_killed_after_pass, 300) { reader_dies_at("channel.after_pass"); }
TEST_SLOW(reader_killed_before_release, 300) { reader_dies_at("channel.before_release"); }
TEST_SLOW(reader_killed_after_release, 300) { reader_dies_at("channel.after_release"); }

/* ---- at random moments ----------------------------------------------------------------------- */

TEST_SLOW(ends_killed_at_random, 300) {
    start(3, 6);
    uint32_t end[] = {SK_CHAN_WRITER, 0, 1};
    pid_t pid[3];
    for (int i = 0; i < 3; i++) pid[i] = child(end[i], UINT64_MAX, NULL, 0);
    uint64_t goal = 0;
    for (int life = 0, lives = test_rounds(200); life < lives; life++) {
        goal = sk_chan_written(r->mem) + test_below(100);
        /* all three have gone on since the last kill */
        for (uint32_t k = 0; k < N_READERS; k++) wait_told(&told->passed[k], goal);
        int i = (int)test_below(3);
        kill(pid[i], SIGKILL);
        is_killed(pid[i]);
        CHECK(sk_chan_check(r->mem));
        pid[i] = child(end[i], UINT64_MAX, NULL, 0);
    }
    sk_chan_close(r->mem); /* and all end by themselves */
    for (int i = 0; i < 3; i++) has_ended(pid[i], SK_ECLOSED);
    CHECK_GT(goal, 1000);
    stop();
}

/* ---- how soon it is told --------------------------------------------------------------------- */

TEST(a_death_is_told_soon) {
    int64_t worst = 0;
    for (int i = 0, n = test_rounds(20); i < n; i++) {
        start(2, 4);
        pid_t writer = child(SK_CHAN_WRITER, 0, NULL, 0);
        struct sk_chan_end e[N_READERS] = {end_of(r, 0), end_of(r, 1)};
        wait_told(&told->written, 2); /* now the writer waits for this reader */
        kill(writer, SIGKILL);
        is_killed(writer); /* what the fork server and then the driver do: */
        int64_t from = sk_now_ns();
        sk_chan_bury(r->mem, SK_CHAN_WRITER);
        for (uint32_t k = 0; k < N_READERS; k++) {
            struct sk_chan_msg m;
            while (sk_chan_read(&e[k], INT64_MAX, &m, NULL) == SK_OK) done(&e[k], &m);
        }
        worst = SK_MAX(worst, sk_now_ns() - from);
        munmap(r->arena, r->size);
    }
    CHECK_LT(worst, 50 * SK_MS);
}
