/* notes.c - notes on an engine whose yields carry none: the worker yields each note as a separate
 * value (sk_note_value), and this file attaches it to the next event.
 *
 * Invariant: the resulting events are those of an engine with notes. If a retry gives another
 * stream, or ends earlier than the first attempt, the task fails. Cost: a get, a release and a map
 * access for each block. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

struct noted { /* a task that has not ended */
    uint64_t hash;
    uint32_t n, len; /* n: number of values so far; len: bytes of the note */
    bool there, end; /* there: a note waits for its value; end: it is the note of the task's end */
    uint8_t note[SK_NOTE_MAX];
};

void sk_notes_deinit(struct sk_notes *k) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&k->by_task, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&k->by_task);
}

static struct noted *find(struct sk_notes *k, uint64_t task) {
    struct noted *t = sk_map_get(&k->by_task, task);
    if (t) return t;
    t = sk_calloc(TAG, sizeof *t);
    if (t && sk_map_put(&k->by_task, task, t) == SK_OK) return t;
    sk_free(t);
    return NULL;
}

static sk_rc check(struct noted *t, const struct sk_note_value *head, struct sk_err *err) {
    t->end = head->end;
    if (!t->end) t->hash = sk_note_hash(t->hash, (struct sk_bytes){t->note, t->len});
    if (head->n == t->n && head->hash == t->hash) return SK_OK;
    return SK_ERR(err, SK_ECORRUPT,
                  "a retry made other values than the attempt before it: there are %u, and it has "
                  "made %u; it must give the same for the same input",
                  t->n, head->n);
}

/* Reads the yield as a note; false: the yield is no note. */
static bool read_note(struct sk_engine *e, struct noted *t, sk_oid oid, sk_rc *rc,
                      struct sk_err *err) {
    struct sk_note_value head;
    struct sk_view v;
    if (e->ops->get(e, &oid, 1, 0, &v, NULL) != SK_OK) return false;
    bool is = v.kind == SK_KIND_NOTE && v.len >= sizeof head && v.len - sizeof head <= SK_NOTE_MAX;
    if (is) {
        memcpy(&head, v.data, sizeof head);
        t->len = (uint32_t)(v.len - sizeof head);
        memcpy(t->note, v.data + sizeof head, t->len);
        t->there = true;
        *rc = check(t, &head, err);
    }
    e->ops->view_release(e, &v);
    return is;
}

static void end(struct sk_notes *k, const struct noted *t, uint64_t task, struct sk_event *ev,
                struct sk_err *err) {
    if (ev->kind == SK_EV_DONE && t && t->there && t->end) {
        SK_ASSERT(t->len <= sizeof k->last);
        memcpy(k->last, t->note, t->len);
        ev->note = (struct sk_bytes){k->last, t->len};
    } else if (ev->kind == SK_EV_DONE) {
        (void)!SK_ERR(err, SK_ECORRUPT, "its stream ended after %u values, before its end",
                      t ? t->n : 0);
        ev->kind = SK_EV_FAILED;
        ev->err = err;
    }
    sk_free(sk_map_del(&k->by_task, task));
}

bool sk_notes_take(struct sk_notes *k, struct sk_engine *e, struct sk_event *ev,
                   struct sk_err *err) {
    sk_rc rc = SK_OK;
    uint64_t task = ev->task.v;
    if (ev->kind == SK_EV_DONE || ev->kind == SK_EV_FAILED) {
        end(k, sk_map_get(&k->by_task, task), task, ev, err);
        return true;
    }
    if (ev->kind != SK_EV_YIELDED) return true;
    struct noted *t = find(k, task);
    if (!t) rc = SK_ERR(err, SK_ENOMEM, "no memory for the note of a block");
    else if (!t->there && read_note(e, t, ev->oid, &rc, err)) {
        e->ops->release(e, ev->oid);
        if (rc == SK_OK) return false;
        ev->oid.v = 0;
    } else {
        /* the note stays valid until the task's next event */
        if (t->there) ev->note = (struct sk_bytes){t->note, t->len};
        t->there = false;
        t->n++;
        return true;
    }
    if (ev->oid.v) e->ops->release(e, ev->oid);
    *ev = (struct sk_event){.kind = SK_EV_FAILED,
                            .task = ev->task,
                            .tag = ev->tag,
                            .attempt = ev->attempt,
                            .node = ev->node,
                            .err = err};
    return true;
}
