/* test_base_crc32c.c - the checksum against known values and a bit-by-bit model, and its two
 * implementations against each other. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "test.h"

static uint32_t naive(uint32_t crc, const uint8_t *p, size_t n) {
    uint32_t c = ~crc;
    for (; n; n--) {
        c ^= *p++;
        for (int i = 0; i < 8; i++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    }
    return ~c;
}

TEST(crc32c_known_values) { /* RFC 3720, B.4 */
    uint8_t b[32];
    CHECK_EQ(sk_crc32c(0, "123456789", 9), 0xe3069283u);
    CHECK_EQ(sk_crc32c(0, "", 0), 0);
    memset(b, 0, sizeof b);
    CHECK_EQ(sk_crc32c(0, b, 32), 0x8a9136aau);
    memset(b, 0xff, sizeof b);
    CHECK_EQ(sk_crc32c(0, b, 32), 0x62a8ab43u);
    for (uint8_t i = 0; i < 32; i++) b[i] = i;
    CHECK_EQ(sk_crc32c(0, b, 32), 0x46dd794eu);
}

TEST(crc32c_ways_agree) {
    static uint8_t b[70000];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)test_rand();
    for (int r = 0; r < test_rounds(400); r++) {
        size_t n = r < 200 ? (size_t)test_below(300) : (size_t)test_below(60000),
               at = (size_t)test_below(64), cut = n ? (size_t)test_below(n) : 0;
        uint32_t start = (uint32_t)test_rand(), want = sk_crc32c(start, b + at, n);
        CHECK_EQ(want, sk_crc32c_portable(start, b + at, n));
        if (n < 4000) CHECK_EQ(want, naive(start, b + at, n));
        CHECK_EQ(want, sk_crc32c(sk_crc32c(start, b + at, cut), b + at + cut, n - cut));
    }
}

TEST(crc32c_sees_every_bit) {
    static uint8_t b[5000];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)test_rand();
    uint32_t was = sk_crc32c(0, b, sizeof b);
    for (int r = 0; r < 2000; r++) {
        size_t i = (size_t)test_below(sizeof b);
        uint8_t bit = (uint8_t)(1u << test_below(8));
        b[i] ^= bit;
        CHECK_NE(sk_crc32c(0, b, sizeof b), was);
        b[i] ^= bit;
    }
    CHECK_EQ(sk_crc32c(0, b, sizeof b), was);
}
