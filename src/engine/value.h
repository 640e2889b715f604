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

/* Kinds of error values. Getting an object of such a kind fails with SK_ETASK; its value is the
 * error. */
enum { SK_KIND_ERROR = 0xE0u, SK_KIND_ERROR_MAX = 0xEFu };
#define SK_KIND_IS_ERROR(k) ((k) >= SK_KIND_ERROR && (k) <= SK_KIND_ERROR_MAX)
/* Values that the engine itself makes. An error that is not of user code: the sk_rc in the first
 * 4 bytes, then the message, ended by NUL. */
enum {
    SK_KIND_ENGINE_ERROR = 0xEFu,
    /* value: the number of a placement group */
    SK_KIND_GROUP_READY = 0xF0u,
    SK_KIND_NOTE = 0xF1u
};

/* An error value travels in a message, whole; a longer one is replaced, since half a pickle is
 * of no use. */
#define SK_ERROR_VALUE_MAX (1u << 20)
/* Values of up to this many bytes are inline: they travel in messages and do not lie in the
 * store. */
#define SK_INLINE_MAX 8192u
#define SK_NOTE_MAX 1024u

/* Where an engine has no notes (sk_engine.no_notes), a note is a value of kind SK_KIND_NOTE:
 * this head, then the note's bytes. The note of a yield is yielded before its value; the note of
 * the task is its last yield. Count and hash say what was yielded before, so that the reader finds
 * out whether a repeated stream is the same, and whether a stream ends too early. */
struct sk_note_value {
    /* hash of the notes of all earlier values; in the note of a yield, also of this note itself */
    uint64_t hash;
    uint32_t n;   /* number of values yielded before this note */
    uint32_t end; /* 1: this is the note of the task */
};
static inline uint64_t sk_note_hash(uint64_t before, struct sk_bytes note) {
    /* the hash `before`, extended by one more note */
    return (before ^ sk_hash(note.p, note.n)) * UINT64_C(1099511628211);
}

struct sk_buf { /* writable store memory, private until sealed by put/return/yield or aborted */
    uint8_t *data;
    size_t len;
    uint64_t token; /* private to the engine */
};

struct sk_view;
/* A value on its way into the engine: either `bytes`, which are copied, or `buf`, which is
 * sealed and taken over. */
struct sk_payload {
    uint32_t kind;
    struct sk_bytes bytes;
    struct sk_buf *buf; /* when not NULL: the value is buf->data[0..buf_len) */
    size_t buf_len;
    const sk_oid *contains; /* references inside the value */
    uint32_t n_contains;
    /* <= SK_NOTE_MAX bytes that travel with events about this value (rows, sizes, times) */
    struct sk_bytes note;
    /* With buf, where the engine has windows. Not NULL: the writer goes on reading the value,
     * and gets this view of it, which it has to release; the writer gets the view even if no
     * reference to the value is left. Token 0: the view could not be made. */
    struct sk_view *keep;
    /* for put: do not wait for room; SK_EFULL when the value can be placed nowhere without a
     * wait */
    bool no_wait;
};

struct sk_view { /* a value on its way out of the engine; read-only */
    const uint8_t *data;
    size_t len;
    uint32_t kind;
    sk_oid oid;     /* 0 for an inline task argument */
    uint64_t token; /* private to the engine */
};

#endif
