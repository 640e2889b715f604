/* test_engine_look.c - the lock for writing stacks to the stderr that all processes of an engine
 * share. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/host.h"
#include "engine/local/driver/local_int.h"
#include "test.h"

enum { N_SPEAKERS = 3, ROUNDS = 100 };

static struct sk_ctl *ctl;

static void open_look(void) {
    ctl = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ctl != MAP_FAILED);
    sk_look_open((const uint8_t *)ctl, 4096, NULL);
}

static void close_look(void) {
    sk_look_close();
    munmap(ctl, 4096);
}

TEST(look_processes_speak_in_turn) {
    open_look();
    /* words that no other code uses in this test */
    volatile uint32_t *inside = &ctl->n_slots, *mixed = &ctl->ring_size, *late = &ctl->version;
    for (int i = 0; i < N_SPEAKERS; i++)
        if (fork() == 0) {
            sk_look_open((const uint8_t *)ctl, 4096, NULL);
            for (int k = 0; k < ROUNDS; k++) {
                int64_t begin = sk_now_ns();
                sk_look_speak(true);
                /* after a second it writes without the lock, since the machine is too busy */
                if (sk_now_ns() - begin >= SK_SEC) *late = 1;
                *mixed += (*inside)++ != 0;
                sched_yield();
                --*inside;
                sk_look_speak(false);
            }
            _exit(0);
        }
    for (int i = 0, status; i < N_SPEAKERS; i++) CHECK(wait(&status) > 0 && status == 0);
    if (*late) test_skip("somebody waited for a second");
    CHECK_EQ(*mixed, 0);
    CHECK_EQ(*inside, 0);
    CHECK_EQ(atomic_load(&ctl->speaks), 0);
    close_look();
}

TEST(look_who_dies_speaking_keeps_nobody_silent) {
    open_look();
    pid_t pid = fork();
    if (pid == 0) {
        sk_look_open((const uint8_t *)ctl, 4096, NULL);
        sk_look_speak(true);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK_EQ(atomic_load(&ctl->speaks), pid);
    sk_look_speak(true);
    CHECK_EQ(atomic_load(&ctl->speaks), getpid());
    sk_look_speak(false);
    CHECK_EQ(atomic_load(&ctl->speaks), 0);
    close_look();
    sk_look_speak(true); /* without an engine: nothing to wait for */
    sk_look_speak(false);
}
