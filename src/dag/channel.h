/* channel.h - a channel from one writer to n readers: every reader gets every message, in memory
 * that all their processes map.
 *
 * Messages have versions 0, 1, 2, ... . A message is bytes in a *buffer* and a *cell* that says
 * where they are. A reader
 * - reads: gets the next message, in place (no copy);
 * - passes: declares that no successor has to read the messages again that it has read, which
 *   returns their cells to the writer. The successor of a dead reader begins with the first message
 *   that was not passed;
 * - releases: declares that it does not use the bytes of a passed message any more, which returns
 *   the buffer to the writer. Messages may be released in any order and much later. Buffers come
 *   from a pool when they are needed, and are exchanged for larger ones.
 *
 * Lifetimes: the memory of the channel and of its buffers belongs to the caller and stays when a
 * process dies. An end (the writer, or reader r) belongs to one process and to one thread at a
 * time, which has a private handle, struct sk_chan_end. The process of an end may be killed between
 * any two instructions: its published messages are whole; a successor can attach to the same end;
 * and the other ends do not hang, once the code that watches the process calls sk_chan_stir or
 * sk_chan_bury. Waits have a deadline.
 *
 * Thread-safety: sk_chan_close, sk_chan_bury, sk_chan_stir and sk_chan_check may be called from
 * anywhere; the rest belongs to the end's thread. */
#ifndef SK_CHANNEL_H
#define SK_CHANNEL_H

#include "base/base.h"
#include "base/err.h"
#include "dag/spin.h"

#define SK_CHAN_READERS 64u /* most readers of a channel */
#define SK_CHAN_CELLS 1024u
#define SK_CHAN_BUFS 1024u
#define SK_CHAN_WRITER UINT32_MAX /* the number of the writer's end; readers are 0, 1, ... */

struct sk_chan_shape {
    uint32_t n_readers;
    uint32_t n_cells; /* most messages that a reader may be behind the writer */
    /* Most buffers; more than n_cells if readers use messages that they have passed. */
    uint32_t n_bufs;
};

struct sk_chan_shm;
/* Bytes of shared memory for a channel, without its buffers; 0: a number is out of range. */
size_t sk_chan_bytes(const struct sk_chan_shape *s);
/* Formats mem, which is aligned to 64 bytes. SK_EINVAL: the shape is not possible. */
sk_rc sk_chan_create(void *mem, const struct sk_chan_shape *s, struct sk_err *err) SK_MUST_USE;

struct sk_chan_pool { /* the source of the writer's buffers */
    void *ctx;
    /* Allocates at least len bytes (len > 0), aligned to 64: *off is the place in the memory that
     * all ends map, *cap the number of bytes. The writer returns its errors unchanged. */
    sk_rc (*alloc)(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err);
    /* frees a buffer that no reader uses any more */
    void (*free)(void *ctx, sk_off off, uint64_t cap);
};

struct sk_chan_end {
    struct sk_chan_shm *shm;
    /* start and size, in this process, of the memory to which the offsets of buffers refer */
    uint8_t *base;
    uint64_t size;
    const struct sk_chan_pool *pool; /* the writer's source of buffers; NULL for readers */
    uint32_t end;
    uint32_t buf;  /* writer: the reserved buffer; UINT32_MAX: none */
    uint32_t last; /* writer: the buffer of the last message */
    uint64_t next; /* version of the message that this end writes or reads next */
    /* For a reader, set by the caller after attaching: the reader may still read messages that were
     * published before the channel was closed. */
    bool drains;
    uint64_t room; /* writer: versions below this number were found to have a cell */
    struct sk_spin spin;
};

struct sk_chan_msg {
    const uint8_t *p;
    uint64_t len, version;
    uint32_t kind; /* kind of the value, chosen by the writer */
    uint32_t buf;
};

/* Attaches this process to an end, possibly as the successor of a dead process: a writer continues
 * behind the published messages, a reader with the first message that was not passed. pool: NULL
 * for readers. SK_ECORRUPT: mem is not a channel of this layout; SK_EINVAL: the channel has no such
 * end; SK_EDEAD: the end is buried. */
sk_rc sk_chan_attach(struct sk_chan_end *e, void *mem, uint32_t end, uint8_t *base, uint64_t size,
                     const struct sk_chan_pool *pool, struct sk_err *err) SK_MUST_USE;

/* Reserves len bytes at *out for the next message, until publish; a second call replaces the bytes.
 * Waits for a cell and a buffer. SK_ETIMEOUT: the message says which reader is behind; SK_EDEAD: a
 * reader is buried; SK_ECLOSED; SK_ECORRUPT: a reader's data are invalid; or an error of the
 * pool. */
sk_rc sk_chan_reserve(struct sk_chan_end *e, uint64_t len, int64_t deadline_ns, void **out,
                      struct sk_err *err) SK_MUST_USE;
/* Publishes the message; len is at most what was reserved. */
void sk_chan_publish(struct sk_chan_end *e, uint64_t len, uint32_t kind);

/* Reads the next message; waits for it until the deadline. SK_ETIMEOUT; SK_EDEAD: the writer is
 * buried, and all messages that it published were read; SK_ECLOSED; SK_ECORRUPT: the writer's data
 * are invalid. */
sk_rc sk_chan_read(struct sk_chan_end *e, int64_t deadline_ns, struct sk_chan_msg *out,
                   struct sk_err *err) SK_MUST_USE;
void sk_chan_pass(struct sk_chan_end *e); /* passes all messages that were read */
/* Makes the message read last, which is not passed, the next one to be read again. */
void sk_chan_again(struct sk_chan_end *e);
/* Releases a message that was passed; to be called once for each message. */
void sk_chan_release(struct sk_chan_end *e, const struct sk_chan_msg *msg);

void sk_chan_close(void *mem); /* every wait, now and later, ends with SK_ECLOSED */
/* Marks an end whose process is dead and will have no successor. */
void sk_chan_bury(void *mem, uint32_t end);
/* Wakes all waiting ends, which then check the channel again. Call it when the process of an end
 * has died, before a successor attaches: the process may have published or passed a message and
 * died before it woke anybody. */
void sk_chan_stir(void *mem);
/* Like sk_chan_stir, for a reader: also releases all messages that the dead reader has passed. */
void sk_chan_lost(void *mem, uint32_t reader);
/* number of messages that the reader has passed */
uint64_t sk_chan_passed(const void *mem, uint32_t reader);
uint64_t sk_chan_written(const void *mem); /* number of messages published so far */
/* True if a reader still uses a message that it has passed. except: bit r means that reader r is
 * dead and uses none. */
bool sk_chan_shown(const void *mem, uint64_t except);
/* Frees the buffers; no end may be used any more. */
void sk_chan_free_bufs(void *mem, const struct sk_chan_pool *pool);
/* True if the channel is consistent, which it is at every moment of every end's life; for kill
 * tests. */
bool sk_chan_check(const void *mem);

#endif
