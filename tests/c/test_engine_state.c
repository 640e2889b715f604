/* test_engine_state.c - the ring of ended attempts: which it keeps, which it drops, and lack of
 * memory. */
#include <stdlib.h>

#include "engine/books/history.h"
#include "test.h"

#define TEXT(s) ((struct sk_bytes){s, sizeof(s) - 1})
#define NONE ((struct sk_bytes){"", 0})

static void add(struct sk_history *h, uint64_t id, struct sk_bytes name, struct sk_bytes error) {
    struct sk_ended e = {.p = {.id = id, .fn = 7, .submit_ns = 1000, .failed = error.n != 0},
                         .error_kind = error.n ? 0xE1 : 0,
                         .name = name,
                         .error = error,
                         .start_ns = id % 2 ? 3000 : 0,
                         .end_ns = 9000};
    sk_history_add(h, &e);
}

static struct sk_past_more nothing(void *ctx, const struct sk_past *p) {
    (void)ctx, (void)p;
    return (struct sk_past_more){.fn = TEXT("fn")};
}

/* Returns all rows; the caller frees them. */
static uint8_t *list(const struct sk_history *h, struct sk_rd *r, struct sk_state_head *head) {
    struct sk_rows m = sk_rows_begin(NULL, 0);
    sk_rows_past(&m, h, nothing, NULL);
    size_t n = sk_rows_end(&m, NULL, 0);
    uint8_t *p = sk_alloc(SK_TAG_TEST, n);
    m = sk_rows_begin(p, n);
    sk_rows_past(&m, h, nothing, NULL);
    CHECK_EQ(sk_rows_end(&m, p, n), n);
    *r = sk_rd_init(p, n);
    memcpy(head, sk_rd_raw(r, sizeof *head), sizeof *head);
    return p;
}

static struct sk_task_row next(struct sk_rd *r, char *name, char *error) {
    struct sk_task_row t;
    memcpy(&t, sk_rd_raw(r, sizeof t), sizeof t);
    const char *p = sk_rd_raw(r, t.name_n);
    memcpy(name, p, t.name_n);
    name[t.name_n] = 0;
    CHECK(!memcmp(sk_rd_raw(r, t.fn_n), "fn", 2));
    p = sk_rd_raw(r, t.error_n);
    memcpy(error, p, t.error_n);
    error[t.error_n] = 0;
    sk_rd_align(r, 8);
    return t;
}

static int name_of(uint64_t i, char *out, size_t n) {
    return i % 3 ? (*out = 0) : snprintf(out, n, "name %llu", (unsigned long long)i);
}

TEST(state_keeps_the_last) {
    struct sk_history h = {0};
    struct sk_state_head head;
    struct sk_rd r;
    char name[64], error[64], want[64];
    for (uint64_t i = 1; i <= SK_STATE_PAST + 5; i++) {
        int n = name_of(i, want, sizeof want);
        add(&h, i, (struct sk_bytes){want, (size_t)n}, i % 7 ? NONE : TEXT("bad"));
    }
    uint8_t *p = list(&h, &r, &head);
    CHECK_EQ(head.n, SK_STATE_PAST);
    CHECK_EQ(head.total, SK_STATE_PAST);
    for (uint64_t i = 6; i <= SK_STATE_PAST + 5; i++) {
        struct sk_task_row t = next(&r, name, error);
        (void)name_of(i, want, sizeof want);
        CHECK_EQ(t.id, i);
        CHECK(!strcmp(name, want));
        CHECK(!strcmp(error, i % 7 ? "" : "bad"));
        CHECK_EQ(t.state, i % 7 ? SK_TS_FINISHED : SK_TS_FAILED);
        CHECK(t.submit_ns == 1000 && llabs(t.start_ns - (i % 2 ? 3000 : 0)) <= 1 &&
              llabs(t.end_ns - 9000) <= 2);
    }
    CHECK(!r.bad && sk_rd_end(&r));
    sk_free(p);
    sk_history_free(&h);
    CHECK_EQ(sk_mem_blocks(SK_TAG_ENGINE), 0);
}

TEST(state_forgets_texts_first) { /* 10,000 errors of 16 KB would be 160 MB */
    struct sk_history h = {0};
    static char big[16000];
    memset(big, 'e', sizeof big);
    for (uint64_t i = 1; i <= 3000; i++) add(&h, i, TEXT("n"), (struct sk_bytes){big, sizeof big});
    CHECK(sk_mem_bytes(SK_TAG_ENGINE) < 11 << 20);
    struct sk_state_head head;
    struct sk_rd r;
    char name[64], error[sizeof big + 1];
    uint8_t *p = list(&h, &r, &head);
    CHECK_EQ(head.n, 3000);
    uint64_t with = 0;
    for (uint64_t i = 1; i <= 3000; i++) {
        struct sk_task_row t = next(&r, name, error);
        CHECK(t.id == i && t.state == SK_TS_FAILED && (t.error_n == 0 || t.error_n == sizeof big));
        CHECK(!with || t.error_n); /* the newest rows have their texts */
        with += t.error_n != 0;
    }
    CHECK(with > 400 && with < 600);
    sk_free(p);
    add(&h, 3001, TEXT("n"), (struct sk_bytes){big, 0});
    for (uint64_t i = 0; i < 2 * SK_STATE_PAST; i++) add(&h, i, NONE, NONE);
    CHECK(h.text_bytes < 256); /* what took the place needs none; a few bytes are reused */
    sk_history_free(&h);
    CHECK_EQ(sk_mem_blocks(SK_TAG_ENGINE), 0);
}

TEST(state_without_memory) {
    for (int64_t n = 1;; n++) {
        struct sk_history h = {0};
        sk_mem_fail_at(n);
        for (uint64_t i = 1; i <= 3; i++) {
            add(&h, i, TEXT("name"), TEXT("error"));
            sk_history_gone(&h.actors, TEXT("row"));
        }
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK(h.n <= 3 && h.n >= (hit ? 2u : 3u));
        struct sk_rows m = sk_rows_begin(NULL, 0);
        sk_rows_gone(&m, &h.actors);
        /* a refused allocation costs one row, and not the others */
        CHECK(m.head.n == 3 || (hit && m.head.n == 2));
        sk_history_free(&h);
        CHECK_EQ(sk_mem_blocks(SK_TAG_ENGINE), 0);
        if (!hit) break;
    }
}

TEST(state_dead_actors) {
    struct sk_history h = {0};
    char row[16] = "0123456789abcdef";
    for (uint64_t i = 0; i < 2345; i++) {
        memcpy(row, &i, 8);
        sk_history_gone(&h.actors, (struct sk_bytes){row, sizeof row});
    }
    static uint8_t buf[64 << 10];
    struct sk_rows m = sk_rows_begin(buf, sizeof buf);
    sk_rows_gone(&m, &h.actors);
    CHECK_EQ(m.head.n, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t got;
        memcpy(&got, buf + sizeof(struct sk_state_head) + i * sizeof row, 8);
        CHECK_EQ(got, 1345 + i);
    }
    sk_history_free(&h);
    CHECK_EQ(sk_mem_blocks(SK_TAG_ENGINE), 0);
}
