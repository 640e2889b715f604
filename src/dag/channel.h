/* channel.h - a channel: one writer, n readers, every reader gets every message, in memory that all
 * of them map.
 *
 * Messages have versions 0, 1, 2, ... . A message is bytes in a *buffer*, and a *cell* that says
 * where they are. A reader
 *   reads      looks at the next message, in place (no copy);
 *   passes     needs no replay of what it has read: the cells are the writer's again. A successor
 *              of a dead reader begins with what was not passed;
 *   releases   does not look at the bytes of a message any more, which was passed, in any order,
 *              maybe much later: the buffer is the writer's again.
 * Buffers come from a pool when they are needed, and are exchanged for larger ones.
 *
 * Lifetimes: the memory of the channel and of its buffers is the caller's, and stays when a process
 * dies. One process, and one thread at a time, is an end (the writer, or reader r); it has a
 * private handle, struct sk_chan_end. An end may be killed between any two instructions: what it
 * published is whole, the others do not hang once it is stirred or buried (who watches its process
 * does that), and a successor attaches to the same end. Waits have a deadline.
 *
 * Thread-safety: sk_chan_close, sk_chan_bury, sk_chan_stir and sk_chan_check from anywhere; the
 * rest belongs to the end's thread. */
#ifndef SK_CHANNEL_H
#define SK_CHANNEL_H

#include "base/base.h"
#include "base/err.h"
#include "dag/spin.h"

#define SK_CHAN_READERS 64u /* at most */
#define SK_CHAN_CELLS 1024u
#define SK_CHAN_BUFS 1024u
#define SK_CHAN_WRITER UINT32_MAX /* the number of the writer's end; readers are 0, 1, ... */

struct sk_chan_shape {
    uint32_t n_readers;
    uint32_t n_cells; /* messages that a reader may be behind */
    /* most buffers: more than n_cells where readers keep messages that they have passed */
    uint32_t n_bufs;
};

struct sk_chan_shm;
/* shared memory for a channel, without its buffers; 0: a number is out of range */
size_t sk_chan_bytes(const struct sk_chan_shape *s);
/* Formats mem, which is aligned to 64 bytes. SK_EINVAL: the shape. */
sk_rc sk_chan_create(void *mem, const struct sk_chan_shape *s, struct sk_err *err) SK_MUST_USE;

struct sk_chan_pool { /* where the writer's buffers come from */
    void *ctx;
    /* At least len bytes (len > 0), aligned to 64: *off within the memory that all ends map, *cap
     * how many they are. Its errors go through. */
    sk_rc (*alloc)(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err);
    void (*free)(void *ctx, sk_off off, uint64_t cap); /* nobody looks at it any more */
};

struct sk_chan_end {
    struct sk_chan_shm *shm;
    uint8_t *base; /* what offsets of buffers count from, here; and how many bytes are mapped */
    uint64_t size;
    const struct sk_chan_pool *pool; /* the writer's */
    uint32_t end;
    uint32_t buf;  /* writer: reserved, UINT32_MAX: none; */
    uint32_t last; /* the one before */
    uint64_t next; /* version to be written, or read */
    /* reader, set by who attached: what was published before the channel was closed is read */
    bool drains;
    uint64_t room; /* writer: versions below it have a cell, at the last look */
    struct sk_spin spin;
};

struct sk_chan_msg {
    const uint8_t *p;
    uint64_t len, version;
    uint32_t kind; /* the writer's word */
    uint32_t buf;
};

/* Becomes an end, or the successor of a dead one: the writer goes on after what was published, a
 * reader with what was not passed. pool: NULL for readers.
 * SK_ECORRUPT: mem is no channel of that layout; SK_EINVAL: there is no such end; SK_EDEAD: it was
 * buried. */
sk_rc sk_chan_attach(struct sk_chan_end *e, void *mem, uint32_t end, uint8_t *base, uint64_t size,
                     const struct sk_chan_pool *pool, struct sk_err *err) SK_MUST_USE;

/* Room for the next message: *out has len bytes until publish; reserving again gives room anew.
 * Waits for a cell and a buffer. SK_ETIMEOUT: says who is behind;
 * SK_EDEAD: a reader was buried; SK_ECLOSED; SK_ECORRUPT: a reader went mad; or what the pool
 * says. */
sk_rc sk_chan_reserve(struct sk_chan_end *e, uint64_t len, int64_t deadline_ns, void **out,
                      struct sk_err *err) SK_MUST_USE;
/* len: at most what was reserved */
void sk_chan_publish(struct sk_chan_end *e, uint64_t len, uint32_t kind);

/* The next message. SK_ETIMEOUT; SK_EDEAD: the writer was buried, and all that it published is
 * read; SK_ECLOSED; SK_ECORRUPT: the writer went mad. */
sk_rc sk_chan_read(struct sk_chan_end *e, int64_t deadline_ns, struct sk_chan_msg *out,
                   struct sk_err *err) SK_MUST_USE;
void sk_chan_pass(struct sk_chan_end *e); /* all that was read */
/* the message read last, not passed, is the next one again */
void sk_chan_again(struct sk_chan_end *e);
/* one that was passed, once */
void sk_chan_release(struct sk_chan_end *e, const struct sk_chan_msg *msg);

void sk_chan_close(void *mem);              /* every wait, now and later, ends with SK_ECLOSED */
void sk_chan_bury(void *mem, uint32_t end); /* its process is dead, and nobody takes its place */
/* Wakes all ends, which look again: to be called when the process of one has died, before a
 * successor is there. It may have published or passed, and died before it woke anybody. */
void sk_chan_stir(void *mem);
/* The same for a reader's: nobody looks any more at what it has passed. */
void sk_chan_lost(void *mem, uint32_t reader);
uint64_t sk_chan_passed(const void *mem, uint32_t reader); /* so many messages */
uint64_t sk_chan_written(const void *mem);                 /* messages published, ever */
/* Some reader still looks at a message that it has passed. except: bit r, reader r is dead, and
 * looks at none. */
bool sk_chan_shown(const void *mem, uint64_t except);
/* Gives the buffers back; no end is used any more. */
void sk_chan_free_bufs(void *mem, const struct sk_chan_pool *pool);
/* True when the structure is consistent, at every moment of every end's life; for kill tests. */
bool sk_chan_check(const void *mem);

#endif
