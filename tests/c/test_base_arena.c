/* test_base_arena.c - arenas against a list of all allocations. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "test.h"

struct piece {
    unsigned char *p;
    size_t n;
    unsigned char fill;
};

static void whole(const struct piece *x) {
    for (size_t i = 0; i < x->n; i++) CHECK_EQ(x->p[i], x->fill);
}

/* Random allocations, marks and returns to marks: living allocations keep their bytes and never
 * overlap. */
TEST(arena_model) {
    enum { MAX = 400, MARKS = 12 };
    struct sk_arena a;
    sk_arena_init(&a, SK_TAG_TEST, 1024);
    struct piece live[MAX];
    int n = 0;
    struct {
        struct sk_arena_mark mark;
        int n;
    } marks[MARKS];
    int n_marks = 0;
    for (int round = 0; round < test_rounds(4000); round++) {
        uint64_t what = test_below(100);
        if (what < 80 && n < MAX) {
            size_t size = test_below(20) ? (size_t)test_below(200) : (size_t)test_below(4000);
            struct piece x = {sk_arena_alloc(&a, size), size, (unsigned char)test_rand()};
            CHECK(x.p && (uintptr_t)x.p % 16 == 0);
            for (int i = 0; i < n; i++)
                CHECK(x.p + x.n <= live[i].p || live[i].p + live[i].n <= x.p || !x.n || !live[i].n);
            memset(x.p, x.fill, size);
            live[n++] = x;
        } else if (what < 88 && n_marks < MARKS) {
            marks[n_marks].mark = sk_arena_save(&a);
            marks[n_marks++].n = n;
        } else if (what < 97 && n_marks) {
            /* returns to any older mark, not only the last one */
            n_marks = (int)test_below((uint64_t)n_marks);
            sk_arena_restore(&a, marks[n_marks].mark);
            n = marks[n_marks].n;
        } else if (what == 99) {
            sk_arena_reset(&a);
            n = n_marks = 0;
            CHECK_EQ(a.bytes, 0);
        }
        size_t sum = 0;
        for (int i = 0; i < n; i++) sum += (size_t)SK_ALIGN(SK_MAX(live[i].n, 1), 16);
        CHECK_EQ(a.bytes, sum);
        if (n && round % 8 == 0) whole(&live[test_below((uint64_t)n)]);
    }
    for (int i = 0; i < n; i++) whole(&live[i]);
    sk_arena_deinit(&a);
    CHECK_EQ(sk_mem_blocks(SK_TAG_TEST), 0);
}

TEST(arena_settles_without_malloc) {
    struct sk_arena a;
    sk_arena_init(&a, SK_TAG_TEST, 0);
    for (int step = 0; step < 100; step++) {
        if (step == 1) sk_mem_fail_at(1);
        for (int i = 0; i < 100; i++) CHECK(sk_arena_alloc(&a, 100));
        sk_arena_reset(&a);
    }
    CHECK(!sk_mem_failed());
    sk_mem_fail_at(0);
    CHECK(sk_arena_alloc(&a, 1 << 20)); /* a very large chunk is not kept */
    sk_arena_reset(&a);
    CHECK_LT(sk_mem_bytes(SK_TAG_TEST), 20000);
    sk_arena_deinit(&a);
}

TEST(arena_helpers) {
    struct sk_arena a;
    sk_arena_init(&a, SK_TAG_TEST, 64);
    char *s = sk_arena_strdup(&a, "word");
    int *v = sk_arena_memdup(&a, &(int){9}, sizeof(int));
    unsigned char *z = sk_arena_calloc(&a, 500);
    CHECK_STR_EQ(s, "word");
    CHECK_EQ(*v, 9);
    for (int i = 0; i < 500; i++) CHECK_EQ(z[i], 0);
    CHECK(sk_arena_alloc(&a, 0) != sk_arena_alloc(&a, 0));
    CHECK(!sk_arena_alloc(&a, SIZE_MAX) && !sk_arena_alloc(&a, SIZE_MAX / 2));
    sk_arena_deinit(&a);
    sk_arena_deinit(&a);
    CHECK(sk_arena_alloc(&a, 5)); /* usable after deinit */
    sk_arena_deinit(&a);
}

TEST(arena_refused_memory) {
    for (int64_t nth = 1;; nth++) {
        struct sk_arena a;
        sk_arena_init(&a, SK_TAG_TEST, 256);
        sk_mem_fail_at(nth);
        int refused = 0;
        for (int i = 0; i < 20; i++) {
            size_t before = a.bytes;
            char *p = sk_arena_alloc(&a, 100);
            if (!p) {
                refused++;
                CHECK_EQ(a.bytes, before);
            } else {
                memset(p, 1, 100);
            }
        }
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(refused, hit);
        sk_arena_deinit(&a);
        if (!hit) break;
    }
}

TEST(arena_use_after_reset_shows) {
    struct sk_arena a;
    sk_arena_init(&a, SK_TAG_TEST, 0);
    volatile unsigned char *p = sk_arena_alloc(&a, 64);
    memset((void *)(uintptr_t)p, 7, 64);
    sk_arena_reset(&a);
#if defined(__SANITIZE_ADDRESS__)
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        _exit(p[3] == 7 ? 0 : 0); /* ASan ends us here */
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
#elif !defined(NDEBUG)
    CHECK_EQ(p[3], 0xa5);
#endif
    sk_arena_deinit(&a);
}
