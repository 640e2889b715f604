/* image_fuzz.c - damages pictures and decodes them, as if a disk or an attacker had changed them.
 * Build it with ASan+UBSan.
 *
 *     image_fuzz [ROUNDS] [FILE...] own driver: files of image_bytes.h, damaged; seed in
 *                                   SK_TEST_SEED. Prints "tried N refused N read N".
 *
 * Each file and each picture lies in an allocation of its exact size. Half of the damaged PNG files
 * get correct checksums, so that the code behind the check is reached. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "fuzz.h"
#include "image_lib.h"

static struct sk_image_want want;

static void choose_want(void) {
    want = (struct sk_image_want){.channels = (uint8_t)(next() % 2   ? 0
                                                        : next() % 2 ? 3
                                                                     : 1),
                                  .scaled = next() % 2,
                                  .order = next() % 2};
    if (next() % 2) {
        want.h = (uint32_t)(1 + next() % 50);
        want.w = (uint32_t)(1 + next() % 50);
        want.middle = next() % 2;
    }
    if (!want.middle && next() % 3 == 0) {
        want.top = (uint32_t)(next() % 8);
        want.left = (uint32_t)(next() % 8);
        want.crop_h = (uint32_t)(1 + next() % 8);
        want.crop_w = (uint32_t)(1 + next() % 8);
    }
}

static int fuzz_one(const uint8_t *data, size_t n) { /* 1: refused */
    struct sk_image *im = NULL;
    struct sk_image_shape s;
    uint8_t *out = NULL;
#ifdef SK_LIBFUZZER
    static int found = -1;
    if (found < 0 && !(found = image_have_both())) abort();
    state = sk_crc32c(0, data, n) | 1ull << 32;
    choose_want();
#endif
    const char *why = sk_image_open((struct sk_bytes){data, n}, &want, &im, &s);
    size_t size = why ? 0 : (size_t)s.h * s.w * s.channels;
    if (!why && size > 1 << 20) why = "large";
    if (!why) {
        if (!size || !(out = malloc(size))) abort();
        why = sk_image_read(im, out);
    }
    sk_image_close(im);
    free(out);
    return why != NULL;
}

#ifndef SK_LIBFUZZER
#include "image_bytes.h"

/* Returns the CRC of PNG (ISO 3309). */
static uint32_t crc_of(const uint8_t *p, size_t n) {
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
}

static uint32_t big(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void make_checksums_good(uint8_t *p, size_t n) {
    for (size_t at = 8; at + 12 <= n;) {
        uint32_t len = big(p + at);
        if (len > n - at - 12) return;
        uint32_t crc = crc_of(p + at + 4, len + 4);
        for (int k = 0; k < 4; k++) p[at + 8 + len + (size_t)k] = (uint8_t)(crc >> (24 - 8 * k));
        at += 12 + len;
    }
}

int main(int argc, char **argv) {
    if (!image_have_both())
        return puts("there is no libjpeg or no libpng here: nothing was tried") < 0;
    uint64_t rounds = fuzz_begin(argc, argv, 20000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[1024];
        const struct image_file *f = &image_files[next() % SK_COUNT(image_files)];
        size_t n = f->n;
        memcpy(buf, f->p, n);
        for (uint64_t k = next() % 4; k > 0; k--) {
            size_t at = next() % n;
            uint64_t w = word();
            switch (next() % 5) {
            case 0: buf[at] ^= (uint8_t)(1u << next() % 8); break;
            case 1: memcpy(buf + at, &w, SK_MIN(4, n - at)); break;
            case 2: buf[at] = (uint8_t)next(); break;
            case 3: memmove(buf + at / 2, buf + at, n - at); break;
            default: n = at + 1;
            }
        }
        if (next() % 2) make_checksums_good(buf, n);
        choose_want();
        refused += (uint64_t)fuzz_exact(buf, n, i);
    }
    return fuzz_end(rounds, refused);
}
#endif
