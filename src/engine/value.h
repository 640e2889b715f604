/* value.h - types only: ids, and values on their way into and out of an engine. Values are bytes
 * with a `kind` that only the layer above understands (errors excepted). Part of the contract of
 * engine.h, which has the rules of lifetime. */
#ifndef SK_VALUE_H
#define SK_VALUE_H

#include "base/base.h"
#include "base/err.h"
#include "base/hash.h"

typedef struct {
    uint64_t v;
} sk_oid; /* object;   0 = none */
typedef struct {
    uint64_t v;
} sk_tid; /* task;     0 = none */
typedef struct {
    uint64_t v;
} sk_aid; /* actor;    0 = none */
typedef struct {
    uint64_t v;
} sk_fid; /* function: hash of its definition */

enum {
    SK_KIND_ERROR = 0xE0u,
    SK_KIND_ERROR_MAX = 0xEFu
}; /* kinds in this range: getting the object fails with SK_ETASK (value = the error) */
#define SK_KIND_IS_ERROR(k) ((k) >= SK_KIND_ERROR && (k) <= SK_KIND_ERROR_MAX)
/* Errors made by the engine itself (not by user code): value = NUL-terminated text of the message;
 * the sk_rc is in the first 4 bytes. */
enum {
    SK_KIND_ENGINE_ERROR = 0xEFu,
    SK_KIND_GROUP_READY = 0xF0u /* of a placement group: its number */,
    SK_KIND_NOTE = 0xF1u
};

/* an error value travels in a message, whole, up to this many bytes: half a pickle is none */
#define SK_ERROR_VALUE_MAX (1u << 20)
/* values up to this many bytes travel in messages and live outside the store */
#define SK_INLINE_MAX 8192u
#define SK_NOTE_MAX 1024u

/* Where an engine has no notes (sk_engine.no_notes): a value of kind SK_KIND_NOTE, this and the
 * note's bytes. Those of yields come before their values, that of the task is its last yield. Each
 * says what was yielded before it, so that a stream that was made anew is seen to be the same, and
 * a short one to be short. */
struct sk_note_value {
    uint64_t hash; /* of the notes of the values before it and, of a yield, its own */
    uint32_t n;    /* values before it */
    uint32_t end;  /* 1: of the task */
};
static inline uint64_t sk_note_hash(uint64_t before, struct sk_bytes note) {
    /* the hash with one more */
    return (before ^ sk_hash(note.p, note.n)) * UINT64_C(1099511628211);
}

struct sk_buf { /* writable store memory, private until sealed by put/return/yield or aborted */
    uint8_t *data;
    size_t len;
    uint64_t token; /* the engine's */
};

struct sk_view;
struct sk_payload { /* a value on its way in. Either `bytes` (copied) or `buf` (sealed, taken) */
    uint32_t kind;
    struct sk_bytes bytes;
    struct sk_buf *buf; /* when not NULL: the value is buf->data[0..buf_len) */
    size_t buf_len;
    const sk_oid *contains; /* references inside the value */
    uint32_t n_contains;
    /* <= SK_NOTE_MAX bytes that travel with events about this value (rows, sizes, times) */
    struct sk_bytes note;
    /* With buf, where the engine has windows; not NULL: the writer goes on reading the value, and
     * gets this view of it (to be released), also when the
     * value is not wanted. Token 0: it failed. */
    struct sk_view *keep;
    bool no_wait; /* of put: never waits for room; SK_EFULL, if there is no other way */
};

struct sk_view { /* a value on its way out; read-only */
    const uint8_t *data;
    size_t len;
    uint32_t kind;
    sk_oid oid;     /* 0 for an inline task argument */
    uint64_t token; /* the engine's */
};

#endif
