/* ring.c - single-producer single-consumer ring of variable-length messages in shared memory.
 *
 * Not here: waking (futex.c), the meaning of messages. For many producers, give each a ring of its
 * own.
 *
 *   line 0: magic version size      constant after create
 *   line 1: tail                    written by the producer
 *   line 2: head                    written by the consumer
 *   data  : [hdr body pad][hdr body pad] ... [wrap marker ......]
 *
 * A header is one 64-bit word: the length in its low half, and in its high half a mark that mixes
 * the kind (message or wrap) with the message's position. A stale header of an earlier lap, a stray
 * write or a position that is off by some bytes has another mark, so the consumer detects the
 * corruption instead of believing the length.
 *
 * Invariant: [head, tail) is a sequence of whole messages and at most one wrap marker, which is
 * always followed by a message; every header in it is valid. Only commit moves tail, by one release
 * store after the body and the header (and the marker before it) are written; only pop moves head.
 * So a producer killed anywhere leaves exactly the committed messages, and a consumer killed
 * anywhere leaves the messages that it had not popped.
 *
 * Trust: positions and headers written by the peer are checked before use. Each side masks only its
 * own position, so a corrupt peer can spoil messages but cannot make this side touch memory outside
 * the ring.
 *
 * Cost: reserve+commit and peek+pop are about 10 ns a pair while both sides have room (bench:
 * ipc_bench ring); each side keeps a private copy of the other's position and reads the shared one
 * only when that copy says full or empty, so the cache lines do not bounce for each message. */
#include "ipc/ipc.h"

#include "base/atomic.h"
#include "base/fault.h"

#define RING_MAGIC 0x474E4952454B4154ull /* "TAKERING" */
#define RING_VERSION 1u
#define RING_MIN 4096u
#define RING_HDR 8u
#define MARK_MSG 0x5A170000u
#define MARK_WRAP 0xA5E80000u

/* field  | writer   | reader   | order                              | after a crash
 * magic, | creator  | both     | before any peer attaches           | attach refuses the ring
 * version, size
 * tail   | producer | consumer | release in commit, acquire in peek | messages before it are whole
 * head   | consumer | producer | release in pop, acquire in reserve | later messages are read again
 */
struct sk_ring_shm {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t size;
    uint8_t pad0[40];
    _Atomic uint64_t tail;
    uint8_t pad1[56];
    _Atomic uint64_t head;
    uint8_t pad2[56];
};
_Static_assert(sizeof(struct sk_ring_shm) == 192, "three cache lines");
_Static_assert(offsetof(struct sk_ring_shm, tail) == 64 &&
                   offsetof(struct sk_ring_shm, head) == 128,
               "a line each");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "positions are shared between processes");

static inline uint64_t need_of(uint64_t len) { return RING_HDR + SK_ALIGN(len, 8); }
static inline uint32_t mark_at(uint32_t kind, uint64_t pos) { return kind ^ (uint32_t)(pos >> 3); }

static inline void put_header(struct sk_ring *r, uint64_t pos, uint32_t kind, uint32_t len) {
    uint64_t w = (uint64_t)mark_at(kind, pos) << 32 | len;
    memcpy(r->data + (pos & (r->size - 1)), &w, sizeof w);
}

size_t sk_ring_bytes(size_t size) { return sizeof(struct sk_ring_shm) + size; }

static bool size_ok(size_t size) {
    return size >= RING_MIN && size <= UINT32_MAX && (size & (size - 1)) == 0;
}

static struct sk_ring handle(void *mem, size_t size) {
    struct sk_ring_shm *shm = mem;
    return (struct sk_ring){.shm = shm,
                            .data = (uint8_t *)mem + sizeof *shm,
                            .size = size,
                            .head = sk_load_acq(&shm->head),
                            .tail = sk_load_acq(&shm->tail)};
}

void sk_ring_create(struct sk_ring *r, void *mem, size_t size) {
    SK_ASSERT(size_ok(size) && ((uintptr_t)mem & 63) == 0);
    struct sk_ring_shm *shm = mem;
    memset(shm, 0, sizeof *shm);
    shm->version = RING_VERSION;
    shm->size = size;
    sk_store_relaxed(&shm->tail, 0);
    sk_store_relaxed(&shm->head, 0);
    shm->magic = RING_MAGIC;
    *r = handle(mem, size);
}

static bool positions_ok(const struct sk_ring *r, uint64_t head, uint64_t tail) {
    return ((head | tail) & 7) == 0 && head <= tail && tail - head <= r->size;
}

sk_rc sk_ring_attach(struct sk_ring *r, void *mem, size_t size, struct sk_err *err) {
    const struct sk_ring_shm *shm = mem;
    if (!size_ok(size) || ((uintptr_t)mem & 63))
        return SK_ERR(err, SK_EINVAL, "attach ring: size %zu at %p", size, mem);
    if (shm->magic != RING_MAGIC || shm->version != RING_VERSION || shm->size != size)
        return SK_ERR(err, SK_ECORRUPT,
                      "attach ring: magic %llx version %u size %llu, expected version %u size %zu",
                      (unsigned long long)shm->magic, shm->version, (unsigned long long)shm->size,
                      RING_VERSION, size);
    struct sk_ring h = handle(mem, size);
    if (!positions_ok(&h, h.head, h.tail))
        return SK_ERR(err, SK_ECORRUPT, "attach ring: head %llu and tail %llu cannot be",
                      (unsigned long long)h.head, (unsigned long long)h.tail);
    *r = h;
    return SK_OK;
}

/* The longest message is half the ring: it then fits into an empty ring at any position, together
 * with a wrap marker. */
size_t sk_ring_max_msg(const struct sk_ring *r) { return r->size / 2 - RING_HDR; }

/* ---- producer: `tail` is its own position, `head` its copy of the consumer's ---------------- */

static inline bool has_room(struct sk_ring *r, uint64_t total) {
    if (SK_LIKELY(r->tail - r->head <= r->size - total)) return true;
    r->head = sk_load_acq(&r->shm->head);
    return r->tail - r->head <= r->size - total; /* an impossible head counts as full */
}

void *sk_ring_reserve(struct sk_ring *r, size_t len) {
    if (SK_UNLIKELY(len > sk_ring_max_msg(r))) return NULL;
    uint64_t need = need_of(len), to_end = r->size - (r->tail & (r->size - 1));
    if (SK_LIKELY(need <= to_end)) {
        if (!has_room(r, need)) return NULL;
    } else {
        if (!has_room(r, to_end + need)) return NULL;
        put_header(r, r->tail, MARK_WRAP, 0);
        /* the consumer does not see this tail before the commit publishes it with the message */
        r->tail += to_end;
    }
    r->reserved = need;
    SK_DCHECK((r->tail & (r->size - 1)) + need <= r->size); /* no message wraps around the end */
    SK_FAULT_HERE("ring.reserved");
    return r->data + (r->tail & (r->size - 1)) + RING_HDR;
}

void sk_ring_commit(struct sk_ring *r, size_t len) {
    SK_ASSERT(r->reserved && need_of(len) <= r->reserved);
    put_header(r, r->tail, MARK_MSG, (uint32_t)len);
    r->tail += need_of(len);
    SK_DCHECK((r->tail & 7) == 0 && r->tail - r->head <= r->size);
    r->reserved = 0;
    SK_FAULT_HERE("ring.before_publish");
    sk_store_rel(&r->shm->tail, r->tail);
    SK_FAULT_HERE("ring.after_publish");
}

/* ---- consumer: `head` is its own position, `tail` its copy of the producer's ---------------- */

/* Reads the header at *pos and steps over a wrap marker. Returns the bytes of the message with
 * header and padding, 0 when the header is invalid. */
static uint64_t next_message(const struct sk_ring *r, uint64_t *pos, uint64_t tail, uint32_t *len) {
    uint64_t p = *pos, w;
    memcpy(&w, r->data + (p & (r->size - 1)), sizeof w);
    if (SK_UNLIKELY((uint32_t)(w >> 32) == mark_at(MARK_WRAP, p))) {
        uint64_t to_end = r->size - (p & (r->size - 1));
        if ((uint32_t)w != 0 || tail - p < to_end + RING_HDR) return 0;
        p += to_end;
        memcpy(&w, r->data, sizeof w);
    }
    uint32_t n = (uint32_t)w;
    uint64_t need = need_of(n);
    if (SK_UNLIKELY((uint32_t)(w >> 32) != mark_at(MARK_MSG, p) || n > sk_ring_max_msg(r) ||
                    need > tail - p || need > r->size - (p & (r->size - 1))))
        return 0;
    *pos = p;
    *len = n;
    return need;
}

const void *sk_ring_peek(struct sk_ring *r, size_t *len) {
    if (r->head == r->tail) {
        uint64_t tail = sk_load_acq(&r->shm->tail);
        if (r->head == tail) {
            *len = 0;
            return NULL;
        }
        if (SK_UNLIKELY(!positions_ok(r, r->head, tail))) goto nonsense;
        r->tail = tail;
    }
    uint32_t n;
    uint64_t pos = r->head, need = next_message(r, &pos, r->tail, &n);
    if (SK_UNLIKELY(need == 0)) goto nonsense;
    SK_DCHECK(pos - r->head < r->size && r->tail - pos >= need);
    r->head = pos;
    r->reserved = need;
    *len = n;
    return r->data + (pos & (r->size - 1)) + RING_HDR;
nonsense:
    *len = SIZE_MAX;
    return NULL;
}

void sk_ring_pop(struct sk_ring *r) {
    SK_ASSERT(r->reserved);
    SK_DCHECK(r->tail - r->head >= r->reserved);
    r->head += r->reserved;
    r->reserved = 0;
    SK_FAULT_HERE("ring.before_pop");
    sk_store_rel(&r->shm->head, r->head);
    SK_FAULT_HERE("ring.after_pop");
}

bool sk_ring_empty(struct sk_ring *r) {
    return r->head == r->tail && r->head == sk_load_acq(&r->shm->tail);
}

bool sk_ring_check(const struct sk_ring *r) {
    const struct sk_ring_shm *shm = r->shm;
    if (shm->magic != RING_MAGIC || shm->version != RING_VERSION || shm->size != r->size)
        return false;
    uint64_t head = sk_load_acq(&shm->head);
    uint64_t tail = sk_load_acq(&shm->tail);
    if (!positions_ok(r, head, tail)) return false;
    while (head != tail) {
        uint32_t len;
        uint64_t need = next_message(r, &head, tail, &len);
        if (need == 0) return false;
        head += need;
    }
    return true;
}
