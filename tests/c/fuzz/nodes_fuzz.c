/* nodes_fuzz.c - damages messages of the nodes of a cluster, decodes them, and gives what can be
 * decoded to the driver's book, which has tasks of each kind under way.
 *
 *     nodes_fuzz [ROUNDS] [FILE...]  own driver: messages, damaged; seed in SK_TEST_SEED.
 *                                    Prints "tried N refused N read N".
 *
 * An input is a list of messages: type, length of the body in units of 8 bytes, body. */
#include "base/mem.h"
#include "engine/cluster/book.h"
#include "fuzz.h"

enum { STREAM = 1, PLAIN, INIT, CALL, FN = 4, NODE = 1 };

static void tell(void *host, const struct sk_guest_event *ev) {
    struct sk_book *b = host;
    (void)b;
    for (uint32_t i = 0; i < ev->n_values; i++)
        if (!ev->values[i].handle && ev->values[i].bytes.n > (1u << 30)) abort();
}

static void submit(struct sk_book *b, uint64_t task) {
    static struct sk_need need = {.res.amount = {SK_RES_UNIT / 10}};
    struct sk_guest_task t = {.task = task,
                              .fn = {FN},
                              .name = "f",
                              .actor = task >= INIT ? 99 : 0,
                              .is_init = task == INIT,
                              .n_returns = task == STREAM  ? SK_STREAMING
                                           : task == PLAIN ? 2
                                                           : 1,
                              .need = task == CALL ? NULL : &need,
                              .max_retries = 1};
    if (sk_book_submit(b, &t, NULL) != SK_OK) abort();
}

static struct sk_book *book(void) {
    struct sk_book *b;
    struct sk_cmsg w = {.type = SK_CMSG_WELCOME,
                        .welcome = {.incarnation = 5, .total.amount = {4 * SK_RES_UNIT}}};
    uint32_t number;
    if (sk_book_create(&b, 0, NULL) != SK_OK ||
        sk_book_define(b, (sk_fid){FN}, "f", (struct sk_bytes){"f", 1}, NULL) != SK_OK ||
        sk_book_joined(b, &w, (struct sk_bytes){"a", 1}, &number, NULL) != SK_OK)
        abort();
    for (uint64_t t = STREAM; t <= CALL; t++) submit(b, t);
    sk_book_launch(b);
    return b;
}

static int fuzz_one(const uint8_t *data, size_t n) { /* 1: nothing of it was taken */
    struct sk_book *b = book();
    struct sk_err err;
    size_t at = 0;
    int refused = 1;
    while (n - at >= 2) {
        uint32_t type = data[at];
        size_t body = SK_MIN((size_t)data[at + 1] * 8, n - at - 2);
        void *copy = malloc(body + !body); /* of its exact size, at a multiple of 8 */
        struct sk_cmsg m;
        if (!copy) abort();
        memcpy(copy, data + at + 2, body);
        if (sk_cmsg_read(type, (struct sk_bytes){copy, body}, &m, &err) == SK_OK &&
            sk_book_message(b, NODE, &m, &err) == SK_OK)
            refused = 0;
        sk_book_launch(b);
        if (!sk_book_check(b)) abort();
        free(copy);
        at += 2 + body;
    }
    sk_book_tell(b, tell, b);
    sk_book_lost(b, NODE, "the end");
    if (!sk_book_check(b)) abort();
    sk_book_destroy(b);
    return refused;
}

#ifndef SK_LIBFUZZER
static size_t make(uint8_t *p, size_t cap) {
    size_t at = 0;
    for (uint64_t k = 1 + next() % 4; k; k--) {
        struct sk_outbox o = {0};
        uint8_t values[256];
        struct sk_wr w = sk_wr_init(values, sizeof values);
        uint64_t task = 1 + next() % 5, kind = SK_EV_STARTED + next() % 4;
        uint32_t index = (uint32_t)(next() % 2),
                 n = kind == SK_EV_DONE ? (uint32_t)(next() % 3) : 1;
        for (uint32_t i = 0; i < n; i++) {
            struct sk_cmsg_value v = {.id = sk_value_id(task, index + i),
                                      .size = word(),
                                      .here = next() % 2,
                                      .kind = kind == SK_EV_FAILED ? SK_KIND_ERROR : 7,
                                      .bytes = {"0123456789", next() % 11}};
            sk_cmsg_value_put(&w, &v);
        }
        struct sk_cmsg m = {.type = SK_CMSG_EVENT,
                            .event = {.task = task,
                                      .kind = (uint32_t)kind,
                                      .index = index,
                                      .n_values = n,
                                      .note = {"note", next() % 5},
                                      .values = {values, w.n}}};
        uint64_t other = next() % 8;
        if (other == 0)
            m = (struct sk_cmsg){.type = SK_CMSG_MISSING,
                                 .missing = {.task = task, .id = word(), .node = NODE}};
        if (other == 1)
            m = (struct sk_cmsg){.type = SK_CMSG_VALUE,
                                 .value = {.ask = word(), .bytes = {"abc", 3}}};
        if (other == 2) m = (struct sk_cmsg){.type = SK_CMSG_STATE};
        if (other == 4)
            m = (struct sk_cmsg){
                .type = SK_CMSG_BROUGHT,
                .brought = {next() % 3, sk_value_id(task, index), next() % 2 ? SK_OK : SK_ENOENT}};
        if (other == 3) { /* only decoded: it is not for a driver */
            static const uint32_t groups[SK_GROUPS_MAX] = {1, 2};
            w = sk_wr_init(values, sizeof values);
            n = (uint32_t)(next() % 3);
            for (uint32_t i = 0; i < n; i++)
                sk_cmsg_arg_put(&w, &(struct sk_cmsg_arg){.id = next() % 2 ? word() : 0,
                                                          .node = NODE,
                                                          .part = next() % 2,
                                                          .bytes = {"0123456789", next() % 11}});
            m = (struct sk_cmsg){.type = SK_CMSG_RUN,
                                 .run = {.task = task,
                                         .flags = (uint32_t)(next() % 256),
                                         .n_returns = index,
                                         .groups = {groups, 4 * (next() % 4)},
                                         .name = {"f", 1},
                                         .n_args = n,
                                         .args = {values, w.n}}};
        }
        if (sk_cmsg_put(&o, &m, NULL) != SK_OK) abort();
        size_t body = o.n - SK_CMSG_HEAD;
        if (at + 2 + body <= cap && body / 8 < 256) {
            p[at] = (uint8_t)m.type;
            p[at + 1] = (uint8_t)(body / 8);
            memcpy(p + at + 2, o.p + SK_CMSG_HEAD, body);
            at += 2 + body;
        }
        sk_free(o.p);
    }
    return at;
}

int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 30000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[4096];
        size_t n = make(buf, sizeof buf);
        if (n > 2 && next() % 4) n = fuzz_damage(buf, n, 2);
        refused += (uint64_t)fuzz_exact(buf, n, i);
    }
    return fuzz_end(rounds, refused);
}
#endif
