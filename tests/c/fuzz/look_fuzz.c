/* look_fuzz.c - control segments that lie: `skate stack` reads the segment of another process,
 * which may contain anything.
 *
 *     look_fuzz [ROUNDS] [FILE...]  own driver: random heads and slots; seed in SK_TEST_SEED.
 *                                   Prints "tried N refused N read N".
 *
 * An input is the beginning of the head, and behind it the beginnings of the slots, each of
 * EACH bytes. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/host.h"
#include "engine/local/wire/wire.h"
#include "fuzz.h"

enum { EACH = 192, SLOTS = 4 };

static int fuzz_one(const uint8_t *data, size_t n) { /* 1: refused */
    static uint8_t *segment;
    static char path[64];
    static size_t size;
    if (!segment) { /* one segment for all inputs */
        size = 4096 + SLOTS * sk_slot_stride();
        int fd = memfd_create("look_fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)) abort();
        segment = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (segment == MAP_FAILED) abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    size_t head = SK_MIN(n, sizeof(struct sk_ctl));
    memset(segment, 0, 4096);
    memcpy(segment, data, head);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint8_t *slot = segment + 4096 + i * sk_slot_stride();
        size_t from = SK_MIN(n, head + i * EACH), k = SK_MIN(n - from, EACH);
        memset(slot, 0, sizeof(struct sk_slot));
        memcpy(slot, data + from, SK_MIN(k, sizeof(struct sk_slot)));
    }
    struct sk_look out;
    struct sk_look_worker *rows = calloc(SLOTS, sizeof *rows);
    struct sk_err err;
    size_t got = 0;
    if (!rows) abort();
    sk_rc rc = sk_look_at(path, &out, rows, SLOTS, &got, &err);
    if (rc == SK_OK) {
        if (got > SLOTS || strnlen(out.waits, sizeof out.waits) == sizeof out.waits) abort();
        for (size_t i = 0; i < got; i++)
            if (strnlen(rows[i].name, sizeof rows[i].name) == sizeof rows[i].name) abort();
    }
    free(rows);
    return rc != SK_OK;
}

#ifndef SK_LIBFUZZER
int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 20000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[sizeof(struct sk_ctl) + SLOTS * EACH];
        for (size_t k = 0; k + 8 <= sizeof buf; k += 8) {
            uint64_t w = next() % 4 ? word() : next();
            memcpy(buf + k, &w, 8);
        }
        struct sk_ctl *ctl = (struct sk_ctl *)(void *)buf;
        if (next() % 8) ctl->magic = SK_CTL_MAGIC;
        if (next() % 8) ctl->version = SK_CTL_VERSION;
        if (next() % 8) ctl->slot_stride = sk_slot_stride();
        fuzz_save(buf, sizeof buf, i);
        refused += (uint64_t)fuzz_one(buf, sizeof buf);
    }
    return fuzz_end(rounds, refused);
}
#endif
