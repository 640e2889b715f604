/* test_base_vec.c - vec, list and heap against plain arrays. */
#include "base/containers/heap.h"
#include "base/containers/list.h"
#include "base/containers/vec.h"
#include "test.h"

struct holder {
    SK_VEC(uint16_t) v;
};

TEST(vec_push_pop_model) {
    struct holder h = {0};
    static uint16_t model[5000];
    uint32_t n = 0;
    for (int i = 0; i < 20000; i++) {
        if (n < 5000 && test_below(10) < 6) {
            uint16_t x = (uint16_t)test_rand();
            model[n++] = x;
            CHECK(sk_vec_push(&h.v, SK_TAG_TEST, x));
        } else if (n) {
            CHECK_EQ(sk_vec_pop(&h.v), model[--n]);
        }
        CHECK_EQ(h.v.n, n);
        CHECK(h.v.cap >= n);
    }
    CHECK_MEM_EQ(h.v.p, model, n * sizeof(*model));
    sk_vec_free(&h.v);
    CHECK(h.v.p == NULL && h.v.n == 0 && h.v.cap == 0);
    CHECK(sk_vec_push(&h.v, SK_TAG_TEST, 3)); /* usable after free */
    sk_vec_free(&h.v);
}

struct pair {
    int a, b;
};

TEST(vec_of_structs_and_one_evaluation) {
    SK_VEC(struct pair) v[2] = {{0}, {0}};
    int at = 0;
    CHECK(sk_vec_push(&v[at++], SK_TAG_TEST, (struct pair){1, 2}));
    CHECK_EQ(at, 1);
    CHECK(sk_vec_reserve(&v[at], SK_TAG_TEST, 100));
    CHECK(v[1].cap >= 100 && v[1].n == 0);
    CHECK_EQ(v[0].p[0].b, 2);
    sk_vec_free(&v[0]);
    sk_vec_free(&v[1]);
}

TEST(vec_refused_memory_changes_nothing) {
    SK_VEC(int) v = {0};
    for (int i = 0; i < 8; i++) CHECK(sk_vec_push(&v, SK_TAG_TEST, i));
    CHECK_EQ(v.cap, 8);
    sk_mem_fail_at(1);
    CHECK(!sk_vec_push(&v, SK_TAG_TEST, 8));
    sk_mem_fail_at(1);
    CHECK(!sk_vec_reserve(&v, SK_TAG_TEST, 9));
    sk_mem_fail_at(0);
    CHECK(v.n == 8 && v.cap == 8 && v.p[7] == 7);
    /* more than the count can say */
    CHECK(!sk_vec_reserve(&v, SK_TAG_TEST, (uint64_t)UINT32_MAX + 1));
    CHECK(sk_vec_push(&v, SK_TAG_TEST, 8));
    sk_vec_free(&v);
}

/* ---- list ------------------------------------------------------------------------------------ */

struct item {
    struct sk_list node;
    int id;
};

static void list_is(struct sk_list *l, const int *want, int n) {
    int i = 0;
    SK_LIST_EACH (it, l) {
        CHECK_LT(i, n);
        CHECK_EQ(sk_container_of(it, struct item, node)->id, want[i++]);
        CHECK(it->next->prev == it && it->prev->next == it);
    }
    CHECK_EQ(i, n);
    CHECK_EQ(sk_list_empty(l), n == 0);
    CHECK_EQ(sk_list_first(l) == NULL, n == 0);
    CHECK_EQ(sk_list_last(l) == NULL, n == 0);
}

TEST(list_model) {
    enum { ITEMS = 20 };
    struct item item[ITEMS];
    int model[ITEMS], n = 0;
    struct sk_list l;
    sk_list_init(&l);
    for (int i = 0; i < ITEMS; i++) {
        sk_list_init(&item[i].node);
        item[i].id = i;
    }
    for (int round = 0; round < 3000; round++) {
        int i = (int)test_below(ITEMS), at = 0;
        while (at < n && model[at] != i) at++;
        if (at < n) {
            memmove(&model[at], &model[at + 1], (size_t)(--n - at) * sizeof(int));
            sk_list_del(&item[i].node);
            CHECK(sk_list_empty(&item[i].node));
            sk_list_del(&item[i].node); /* harmless */
        } else if (test_below(2)) {
            model[n++] = i;
            sk_list_push_back(&l, &item[i].node);
        } else {
            memmove(&model[1], &model[0], (size_t)n++ * sizeof(int));
            model[0] = i;
            sk_list_push_front(&l, &item[i].node);
        }
        list_is(&l, model, n);
    }
}

TEST(list_safe_removal_and_splice) {
    struct item item[6];
    struct sk_list a, b;
    sk_list_init(&a);
    sk_list_init(&b);
    for (int i = 0; i < 6; i++) {
        item[i].id = i;
        sk_list_push_back(i < 4 ? &a : &b, &item[i].node);
    }
    SK_LIST_EACH_SAFE (it, tmp, &a)
        if (sk_container_of(it, struct item, node)->id % 2) sk_list_del(it);
    list_is(&a, (int[]){0, 2}, 2);
    sk_list_splice(&a, &b);
    list_is(&a, (int[]){0, 2, 4, 5}, 4);
    list_is(&b, NULL, 0);
    sk_list_splice(&a, &b);
    list_is(&a, (int[]){0, 2, 4, 5}, 4);
}

/* ---- heap ------------------------------------------------------------------------------------ */

struct job {
    uint32_t rank, id;
};
static inline bool sooner(const struct job *a, const struct job *b) { return a->rank < b->rank; }
SK_HEAP(job_heap, struct job, sooner)

TEST(heap_model) {
    enum { JOBS = 300 };
    struct job_heap h = {0};
    bool in[JOBS] = {0};
    uint32_t rank[JOBS], n = 0;
    for (int round = 0; round < 6000; round++) {
        uint32_t id = (uint32_t)test_below(JOBS), best = UINT32_MAX, what = (uint32_t)test_below(4);
        for (uint32_t i = 0; i < JOBS; i++)
            if (in[i]) best = SK_MIN(best, rank[i]);
        if (!in[id] && what < 3) {
            rank[id] = (uint32_t)test_below(100); /* many equal ones */
            CHECK(job_heap_push(&h, SK_TAG_TEST, (struct job){rank[id], id}));
            in[id] = true;
            n++;
        } else if (n) {
            uint32_t at = what == 0 ? 0 : (uint32_t)test_below(n);
            if (what == 1) { /* change of rank in place */
                h.p[at].rank = rank[h.p[at].id] = (uint32_t)test_below(100);
                job_heap_fix(&h, at);
            } else {
                struct job j = at ? job_heap_remove(&h, at) : job_heap_pop(&h);
                CHECK(in[j.id] && j.rank == rank[j.id]);
                if (at == 0) CHECK_EQ(j.rank, best);
                in[j.id] = false;
                n--;
            }
        }
        CHECK_EQ(h.n, n);
        CHECK(job_heap_check(&h));
    }
    for (uint32_t last = 0; h.n;) {
        struct job j = job_heap_pop(&h);
        CHECK_GE(j.rank, last);
        last = j.rank;
        CHECK(in[j.id]);
        in[j.id] = false;
    }
    job_heap_free(&h);
}

TEST(heap_refused_memory_changes_nothing) {
    struct job_heap h = {0};
    for (uint32_t i = 0; i < 8; i++) CHECK(job_heap_push(&h, SK_TAG_TEST, (struct job){8 - i, i}));
    sk_mem_fail_at(1);
    CHECK(!job_heap_push(&h, SK_TAG_TEST, (struct job){0, 9}));
    sk_mem_fail_at(0);
    CHECK(h.n == 8 && job_heap_check(&h) && h.p[0].rank == 1);
    job_heap_free(&h);
}
