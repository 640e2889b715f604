/* test_base_pool.c - no node of a pool is given out twice, before and after slabs were freed. */
#include "base/pool.h"
#include "test.h"

struct node {
    uint64_t id, pad[6];
};

TEST(pool_gives_slabs_back) {
    enum { MOST = 100000 };
    static struct node *v[MOST];
    struct sk_pool p;
    sk_pool_init(&p, SK_TAG_TEST, sizeof(struct node));
    sk_pool_trim(&p); /* empty */
    CHECK(!sk_pool_roomy(&p));
    for (uint64_t i = 0; i < MOST; i++) {
        CHECK((v[i] = sk_pool_get(&p)) != NULL);
        v[i]->id = i;
    }
    for (uint64_t i = MOST; i-- > 1;) { /* in any order */
        uint64_t k = test_below(i + 1);
        struct node *x = v[i];
        v[i] = v[k];
        v[k] = x;
    }
    uint64_t most = p.n_cap, n = MOST;
    sk_pool_trim(&p); /* nothing is free but the rest of the last slab */
    CHECK_LE(most, p.n_cap + 4096);
    p.n_trimmed = 0;
    for (; n > 1000; n--) sk_pool_put(&p, v[n - 1]);
    CHECK(sk_pool_roomy(&p));
    /* the remaining nodes are spread over all slabs: none can be freed, and a second trim does not
     * search again */
    sk_pool_trim(&p);
    CHECK(!sk_pool_roomy(&p));
    for (; n > 10; n--) sk_pool_put(&p, v[n - 1]);
    sk_pool_trim(&p);
    CHECK_LE(p.n_cap, 11 * 4096);
    CHECK_EQ(p.n_used, 10);
    for (uint64_t i = 0; i < 10; i++) CHECK(v[i]->id < MOST);
    uint64_t marks[10];
    for (uint64_t i = 0; i < 10; i++) marks[i] = v[i]->id;
    for (; n < MOST; n++) {
        CHECK((v[n] = sk_pool_get(&p)) != NULL);
        v[n]->id = MOST + n;
    }
    for (uint64_t i = 0; i < MOST; i++) CHECK_EQ(v[i]->id, i < 10 ? marks[i] : MOST + i);
    while (n) sk_pool_put(&p, v[--n]);
    sk_pool_trim(&p);
    CHECK_EQ(p.n_cap, 0);
    CHECK((v[0] = sk_pool_get(&p)) != NULL);
    sk_pool_put(&p, v[0]);
    sk_pool_deinit(&p);
}
