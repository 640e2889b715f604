/* nodes_fuzz.c - damages messages of the nodes of a cluster, decodes them, and gives what can be
 * decoded to the driver's book, which has tasks of each kind under way.
 *
 *     nodes_fuzz [ROUNDS] [FILE...]  own driver: messages, damaged; seed in SK_TEST_SEED.
 *                                    Prints "tried N refused N read N".
 *
 * An input is a list of messages: type, length of the body in units of 8 bytes, body. */
#include "base/mem.h"
#include "engine/books/history.h"
#include "engine/cluster/book.h"
#include "engine/cluster/which/where.h"
#include "engine/usage.h"
#include "fuzz.h"

static const uint32_t asks[] = {SK_STATE_TASKS,   SK_STATE_ACTORS, SK_STATE_OBJECTS,
                                SK_STATE_WORKERS, SK_ASK_STATUS,   SK_ASK_MEMORY};

enum { STREAM = 1, PLAIN, INIT, CALL, FN = 4, NODE = 1, N_OURS = 4, N_THEIRS = 4 };
#define OURS UINT64_C(100)         /* objects of the host, N_OURS of them */
#define THEIRS (SK_ID_RANGE + 100) /* objects of the node that the host holds */

/* What the host does about news: it tells values of what is held, and lets go of what it holds. */
static void answer(struct sk_book *b, const struct sk_guest_event *ev) {
    const struct sk_guest_news *n = ev->news;
    if (n->kind == SK_NEWS_THERE && n->value.handle) sk_book_drop(b, n->value.handle);
    if (n->kind == SK_NEWS_YIELDED && n->of % 2) sk_book_unhold(b, n->of);
    if (n->kind == SK_NEWS_CALLED && n->spec->n_returns == SK_STREAMING) {
        static uint64_t made = OURS + 1000;
        sk_book_yield(b, NODE, n->id, made++);
        sk_book_took(b, THEIRS + 50, OURS + 50, 3);
    }
    if (n->kind == SK_NEWS_NAME && n->asked->name.n > SK_NAME_MAX) abort();
    if (n->kind == SK_NEWS_NAME) sk_book_named(b, NODE, n->id, SK_OK, OURS, n->asked->meta);
    if (n->kind == SK_NEWS_CALLED)
        for (uint32_t i = 0; i < n->spec->n_args; i++)
            if (n->spec->args[i].bytes.n > SK_INLINE_MAX) abort();
    if (n->kind == SK_NEWS_CALLED && !n->need != (n->spec->actor.v != 0)) abort();
    if (n->kind == SK_NEWS_CALLED && n->need && n->need->where.n && !sk_where_n(n->need->where))
        abort();
    if (n->kind == SK_NEWS_CALLED && n->spec->name && strlen(n->spec->name) > (1u << 20)) abort();
    if (n->kind == SK_NEWS_CALLED && n->actor) {
        const struct sk_actor_opts *o = n->actor->opts;
        if (o->n_groups > SK_GROUPS_MAX || (o->name && strlen(o->name) > SK_NAME_MAX) || !n->need)
            abort();
        sk_book_named(b, NODE, n->id, SK_OK, OURS, (struct sk_bytes){0});
    }
}

static void tell(void *host, const struct sk_guest_event *ev) {
    struct sk_book *b = host;
    if (ev->news) answer(b, ev);
    for (uint32_t i = 0; i < ev->n_values; i++)
        if (!ev->values[i].handle && ev->values[i].bytes.n > (1u << 30)) abort();
}

/* Reads all of what a node tells, which the book has found to be well formed. */
static void told(void *ctx, const struct sk_guest_told *t) {
    uint32_t what = *(const uint32_t *)ctx;
    struct sk_rd r = sk_rd_init(t->bytes.p, t->bytes.n);
    struct sk_state_head head;
    struct sk_row row;
    if (t->silent || !t->bytes.n || what > SK_STATE_WORKERS) return;
    if (!sk_rows_head(&r, &head)) abort();
    for (uint64_t i = 0; i < head.n; i++) {
        if (!sk_rows_next(&r, (enum sk_state_what)what, &row)) abort();
        if ((what == SK_STATE_TASKS && row.task.state > SK_TS_FAILED) ||
            (what == SK_STATE_WORKERS && row.worker.end > SK_WE_MEMORY))
            abort();
        static volatile uint8_t last; /* a sanitizer looks at the end of each text */
        for (uint32_t k = 0; k < row.n_texts; k++)
            if (row.texts[k].n) last ^= ((const uint8_t *)row.texts[k].p)[row.texts[k].n - 1];
    }
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
    struct sk_cmsg w = {
        .type = SK_CMSG_WELCOME,
        .welcome = {.incarnation = 5, .id_base = SK_ID_RANGE, .total.amount = {4 * SK_RES_UNIT}}};
    uint32_t number;
    if (sk_book_create(&b, 0, NULL) != SK_OK ||
        sk_book_define(b, (sk_fid){FN}, "f", (struct sk_bytes){"f", 1}, NULL) != SK_OK ||
        sk_book_joined(b, &w, (struct sk_bytes){"a", 1}, &number, NULL) != SK_OK)
        abort();
    for (uint64_t t = STREAM; t <= CALL; t++) submit(b, t);
    sk_book_launch(b);
    for (uint64_t i = 0; i < N_THEIRS; i++) sk_book_hold(b, THEIRS + i);
    struct sk_task_spec call = {.fn = {FN}, .name = "f", .actor = {THEIRS + 50}, .n_returns = 2};
    if (sk_book_call(b, &call, OURS + 50, NULL) != SK_OK) abort();
    for (uint32_t i = 0; i < SK_COUNT(asks); i++) (void)sk_book_ask(b, asks[i]);
    return b;
}

/* Tells values of objects that the node may hold. */
static void tell_values(struct sk_book *b) {
    struct sk_bblob *blob = sk_bblob_new(7, (struct sk_bytes){NULL, 2 * SK_INLINE_MAX});
    struct sk_bval *v;
    if (!blob || sk_book_put(b, blob, &v, NULL) != SK_OK) abort();
    struct sk_guest_value by_handle = {.handle = v}, small = {.kind = 7, .bytes = {"abc", 3}};
    for (uint64_t i = 0; i < N_OURS; i++)
        sk_book_there(b, NODE, OURS + i, i % 2 ? &by_handle : &small);
    sk_book_drop(b, v);
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
        if (at % 3 == 0) tell_values(b);
        free(copy);
        at += 2 + body;
    }
    for (uint32_t i = 0; i < SK_COUNT(asks); i++)
        sk_book_answers(b, i + 1, told, (void *)(uintptr_t)&asks[i]);
    sk_book_tell(b, tell, b);
    for (uint64_t i = 0; i < N_THEIRS; i++) sk_book_unhold(b, THEIRS + i);
    if (!sk_book_check(b)) abort();
    sk_book_lost(b, NODE, "the end");
    sk_book_tell(b, tell, b);
    if (!sk_book_check(b)) abort();
    sk_book_destroy(b);
    return refused;
}

#ifndef SK_LIBFUZZER
static struct sk_cmsg about_refs(uint8_t *room, size_t cap) {
    static const enum sk_cmsg_type types[] = {
        SK_CMSG_HOLD, SK_CMSG_UNHOLD, SK_CMSG_WANT, SK_CMSG_ENDED, SK_CMSG_KILL,  SK_CMSG_THERE,
        SK_CMSG_CALL, SK_CMSG_DEFINE, SK_CMSG_STOP, SK_CMSG_NAME,  SK_CMSG_YIELD, SK_CMSG_TOOK};
    static const uint64_t inside[] = {OURS, THEIRS};
    uint64_t ours = OURS + next() % N_OURS, theirs = THEIRS + next() % N_THEIRS;
    if (next() % 8 == 0) ours = word();
    struct sk_cmsg m = {.type = types[next() % SK_COUNT(types)]};
    struct sk_wr w = sk_wr_init(room, cap);
    uint32_t n_args = (uint32_t)(next() % 3);
    switch (m.type) {
    case SK_CMSG_THERE:
        if (next() % 4 == 0) theirs = OURS + 50 + next() % 3;
        m.there.name = theirs;
        m.there.size = word();
        m.there.here = next() % 2;
        m.there.value = next() % 8 ? sk_foreign_value(theirs) : word();
        m.there.kind = next() % 2 ? SK_KIND_ENGINE_ERROR : 7;
        m.there.bytes = (struct sk_bytes){"0123456789", next() % 11};
        break;
    case SK_CMSG_CALL:
        for (uint32_t i = 0; i < n_args; i++)
            sk_cmsg_arg_put(&w, &(struct sk_cmsg_arg){.id = next() % 2 ? ours : 0,
                                                      .kind = 7,
                                                      .bytes = {"0123456789", next() % 11}});
        m.call.actor = next() % 2 ? ours : 0;
        if (!m.call.actor && next() % 2) {
            static const uint32_t groups[] = {1, 2, 0};
            m.call.flags = SK_RUN_INIT | (next() % 2 ? SK_RUN_DETACHED : 0);
            m.call.n_returns = 1;
            m.call.groups = (struct sk_bytes){groups, 4 * (next() % 4)};
            m.call.space = (struct sk_bytes){"space", next() % 6};
            m.call.actor_name = (struct sk_bytes){"name", next() % 5};
            m.call.meta = (struct sk_bytes){"0123456789", next() % 11};
        }
        m.call.need = (struct sk_foreign_need){.env = {"env", next() % 4},
                                               .where = {"\0|+a", next() % 2 ? 5 : next() % 5}};
        m.call.first = theirs + 1000 * (next() % 4);
        m.call.fn = FN + next() % 2;
        m.call.n_returns = next() % 8 ? (uint32_t)(next() % 4) : SK_STREAMING;
        m.call.name = (struct sk_bytes){"call", next() % 5};
        m.call.n_args = n_args;
        m.call.args = (struct sk_bytes){room, w.n};
        m.call.n_contains = (uint32_t)(next() % 3);
        m.call.contains = (struct sk_bytes){inside, 8 * (size_t)m.call.n_contains};
        break;
    case SK_CMSG_YIELD:
        m.yield.first = next() % 2 ? OURS + 50 : word() | 1;
        m.yield.id = theirs + 200 * (next() % 3);
        break;
    case SK_CMSG_TOOK: m.taken.task = theirs, m.taken.n = (uint32_t)word(); break;
    case SK_CMSG_DEFINE:
        m.define.fn = FN + next() % 3;
        m.define.name = (struct sk_bytes){"name", next() % 5};
        m.define.def = (struct sk_bytes){"def", next() % 4};
        break;
    case SK_CMSG_NAME:
        m.name.ask = next() % 3;
        m.name.name = (struct sk_foreign_name){.what = (uint32_t)(next() % 7),
                                               .actor = {next() % 8 ? theirs : ours},
                                               .space = {"space", next() % 6},
                                               .name = {"name", next() % 5},
                                               .meta = {"0123456789", next() % 11}};
        break;
    default: m.end.id = m.type == SK_CMSG_ENDED ? OURS + 50 : ours;
    }
    return m;
}

static int64_t some_ns(void) {
    return next() % 8 ? (int64_t)(next() % (1u << 30)) : (int64_t)word();
}

/* What a node tells of itself; sometimes it is not what it was asked. */
static struct sk_cmsg about_itself(uint8_t *room, size_t cap) {
    uint32_t i = (uint32_t)(next() % SK_COUNT(asks)), what = asks[next() % 8 ? i : next() % 6];
    struct sk_rows r = sk_rows_begin(room, cap);
    struct sk_bytes t[] = {{"first", next() % 6}, {"second", next() % 7}, {"third", next() % 6}};
    struct sk_task_row task = {.id = word(),
                               .state = (uint32_t)(next() % (SK_TS_FAILED + 2)),
                               .submit_ns = some_ns(),
                               .end_ns = some_ns(),
                               .name_n = (uint32_t)t[0].n,
                               .fn_n = (uint32_t)t[1].n,
                               .error_n = (uint32_t)t[2].n};
    struct sk_object_row object = {.id = next() % 2 ? sk_value_id(1, 0) : word(),
                                   .of = (uint32_t)(next() % 5)};
    struct sk_worker_row worker = {.text_n = (uint32_t)t[0].n,
                                   .end = (uint32_t)(next() % (SK_WE_MEMORY + 2)),
                                   .since_ns = some_ns()};
    struct sk_memory_info info = {.where = "here"};
    size_t n = 0;
    for (uint64_t k = next() % 3; k && what <= SK_STATE_WORKERS; k--) {
        if (what == SK_STATE_TASKS) sk_rows_add(&r, &task, sizeof task, t, 3);
        if (what == SK_STATE_OBJECTS) sk_rows_add(&r, &object, sizeof object, NULL, 0);
        if (what == SK_STATE_WORKERS) sk_rows_add(&r, &worker, sizeof worker, t, 1);
    }
    if (what <= SK_STATE_WORKERS) n = sk_rows_end(&r, room, cap);
    else if (what == SK_ASK_STATUS) memcpy(room, "objects 1\n", n = next() % 11);
    else memcpy(room, &info, n = sizeof info);
    return (struct sk_cmsg){
        .type = SK_CMSG_TOLD,
        .told = {.ask = i + 1, .what = what, .now_ns = some_ns(), .bytes = {room, n}}};
}

static size_t make(uint8_t *p, size_t cap) {
    size_t at = 0;
    for (uint64_t k = 1 + next() % 4; k; k--) {
        struct sk_outbox o = {0};
        uint8_t values[1024];
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
                                      .run_ns = some_ns(),
                                      .start_ns = some_ns(),
                                      .pid = (int32_t)next(),
                                      .n_values = n,
                                      .note = {"note", next() % 5},
                                      .values = {values, w.n}}};
        uint64_t other = next() % 9;
        if (other == 0)
            m = (struct sk_cmsg){.type = SK_CMSG_MISSING,
                                 .missing = {.task = task, .id = word(), .node = NODE}};
        if (other == 1)
            m = (struct sk_cmsg){.type = SK_CMSG_VALUE,
                                 .value = {.ask = word(), .bytes = {"abc", 3}}};
        if (other == 2)
            m = (struct sk_cmsg){
                .type = SK_CMSG_STATE,
                .state = {
                    .free.amount = {SK_RES_UNIT},
                    .n_spare = (uint32_t)next(),
                    .load = {.running = (uint32_t)next(), .done = word(), .objects = word()}}};
        if (other == 6)
            m = (struct sk_cmsg){.type = SK_CMSG_TAKEN, .taken = {task, (uint32_t)next()}};
        if (other == 5)
            m = (struct sk_cmsg){.type = SK_CMSG_PRINTS,
                                 .prints = {(uint32_t)(next() % 4), {"(f) a\n", next() % 7}}};
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
        if (other == 8) /* the same */
            m = (struct sk_cmsg){.type = SK_CMSG_GROUP,
                                 .group = {.id = task,
                                           .n = 2,
                                           .strategy = index,
                                           .bundles = {values, 2 * sizeof(struct sk_res)},
                                           .here = {"\1\0", 2}}};
        if (next() % 2) m = about_refs(values, sizeof values);
        if (next() % 5 == 0) m = about_itself(values, sizeof values);
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
