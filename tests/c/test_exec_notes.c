/* Notes that are separate yields (no_notes): whole streams, streams that a retry repeats, and
 * incomplete ones. */
#include "exec/exec_int.h"
#include "test.h"

enum { TASK = 9, BLOCK = 100 };

static struct {
    struct sk_engine e;
    struct sk_notes k;
    struct sk_err err;
    uint8_t value[sizeof(struct sk_note_value) + 8];
    size_t len;
    uint32_t kind, n_released;
    uint64_t hash;
    uint32_t n;
} f;

static sk_rc get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                 struct sk_view *out, struct sk_err *err) {
    (void)err;
    CHECK(e == &f.e && n == 1 && deadline_ns == 0);
    *out = (struct sk_view){.data = f.value,
                            .len = ids->v == BLOCK ? 3 : f.len,
                            .kind = ids->v == BLOCK ? 1 : f.kind,
                            .oid = *ids};
    return SK_OK;
}
static void view_release(struct sk_engine *e, struct sk_view *v) { (void)e, (void)v; }
static void release(struct sk_engine *e, sk_oid o) {
    CHECK(e == &f.e && o.v);
    f.n_released++;
}
static const struct sk_engine_ops OPS = {
    .get = get, .view_release = view_release, .release = release};

static void begin(void) {
    memset(&f, 0, sizeof f);
    f.e.ops = &OPS;
    f.e.no_notes = true;
    sk_map_init(&f.k.by_task, SK_TAG_TEST);
}

static bool take(enum sk_event_kind kind, uint64_t oid, struct sk_event *ev) {
    *ev = (struct sk_event){.kind = kind, .task = {TASK}, .tag = 4, .oid = {oid}};
    return sk_notes_take(&f.k, &f.e, ev, &f.err);
}

/* Plays a worker that yields a note. */
static bool say(const char *note, bool end, struct sk_event *ev) {
    struct sk_bytes b = {note, strlen(note)};
    if (!end) f.hash = sk_note_hash(f.hash, b);
    struct sk_note_value head = {.hash = f.hash, .n = f.n, .end = end};
    f.n += !end;
    memcpy(f.value, &head, sizeof head);
    memcpy(f.value + sizeof head, note, b.n);
    f.len = sizeof head + b.n;
    f.kind = SK_KIND_NOTE;
    return take(SK_EV_YIELDED, 50, ev);
}

static void check_note(const struct sk_event *ev, const char *note) {
    CHECK_EQ(ev->note.n, strlen(note));
    CHECK(!memcmp(ev->note.p, note, ev->note.n));
}

static void block(const char *note) {
    struct sk_event ev;
    CHECK(!say(note, false, &ev));
    CHECK(take(SK_EV_YIELDED, BLOCK, &ev));
    CHECK_EQ(ev.kind, SK_EV_YIELDED);
    CHECK_EQ(ev.oid.v, BLOCK);
    check_note(&ev, note);
}

TEST(events_get_the_notes_before_them) {
    struct sk_event ev;
    begin();
    CHECK(take(SK_EV_STARTED, 0, &ev));
    block("one");
    block("two");
    CHECK(!say("the end", true, &ev));
    CHECK(take(SK_EV_DONE, 0, &ev));
    CHECK_EQ(ev.kind, SK_EV_DONE);
    check_note(&ev, "the end");
    CHECK_EQ(f.n_released, 3);
    CHECK_EQ(f.k.by_task.n, 0);
    sk_notes_deinit(&f.k);
}

TEST(a_stream_that_ends_early_is_a_failure) {
    struct sk_event ev;
    begin();
    block("one");
    CHECK(take(SK_EV_DONE, 0, &ev));
    CHECK_EQ(ev.kind, SK_EV_FAILED);
    CHECK_RC(ev.err->code, SK_ECORRUPT);
    CHECK_STR_HAS(ev.err->msg, "ended after 1 values");
    CHECK(take(SK_EV_DONE, 0, &ev)); /* another task, which yielded nothing */
    CHECK_EQ(ev.kind, SK_EV_FAILED);
    sk_notes_deinit(&f.k);
}

TEST(a_retry_that_makes_other_values_is_a_failure) {
    struct sk_event ev;
    begin();
    block("one");
    block("two");
    f.hash =
        /* the note of the retry, which was not delivered */
        sk_note_hash(sk_note_hash(0, (struct sk_bytes){"one", 3}), (struct sk_bytes){"TWO", 3});
    CHECK(say("three", false, &ev));
    CHECK_EQ(ev.kind, SK_EV_FAILED);
    CHECK_EQ(ev.tag, 4);
    CHECK_EQ(ev.oid.v, 0);
    CHECK_RC(ev.err->code, SK_ECORRUPT);
    CHECK_EQ(f.n_released, 3);
    sk_notes_deinit(&f.k);
}

TEST(a_value_without_a_note_comes_through) {
    struct sk_event ev;
    begin();
    CHECK(take(SK_EV_YIELDED, BLOCK, &ev));
    CHECK_EQ(ev.kind, SK_EV_YIELDED);
    CHECK_EQ(ev.note.n, 0);
    CHECK(take(SK_EV_FAILED, 7, &ev));
    CHECK_EQ(ev.oid.v, 7);
    CHECK_EQ(f.n_released, 0);
    sk_notes_deinit(&f.k);
}
