/* test_block_bits.c - bitmap copies and counts against a bit-by-bit model. */
#include "block/block_int.h"
#include "test.h"

TEST(bits_append_matches_model) {
    uint8_t src[40], want[80], got[80];
    for (int round = 0; round < test_rounds(20000); round++) {
        for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)test_rand();
        memset(want, 0, sizeof want);
        memset(got, 0xCC, sizeof got);
        int64_t at = 0;
        for (uint64_t k = 1 + test_below(4); k; k--) { /* ranges one behind the other */
            int64_t from = (int64_t)test_below(100), n = (int64_t)test_below(100);
            sk_block_bits_append(got, at, src, from, n);
            for (int64_t i = 0; i < n; i++)
                if (sk_block_bit(src, from + i))
                    want[(at + i) >> 3] = (uint8_t)(want[(at + i) >> 3] | 1u << ((at + i) & 7));
            at += n;
        }
        CHECK_MEM_EQ(got, want, (at + 7) / 8);
        CHECK_EQ(got[(at + 7) / 8], 0xCC); /* not a byte too many */
    }
}

TEST(bits_count_matches_model) {
    uint8_t src[64];
    for (int round = 0; round < test_rounds(20000); round++) {
        for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)test_rand();
        int64_t from = (int64_t)test_below(200), n = (int64_t)test_below(300), want = 0;
        for (int64_t i = 0; i < n; i++) want += sk_block_bit(src, from + i);
        CHECK_EQ(sk_block_bits_count(src, from, n), want);
    }
}

TEST(bits_read_no_byte_too_many) { /* for ASan: the source ends with its last bit */
    for (int64_t n = 0; n <= 80; n++)
        for (int64_t from = 0; from < 16; from++) {
            size_t bytes = (size_t)(from + n + 7) / 8;
            uint8_t *src = malloc(bytes), *dst = malloc((size_t)(n + 7) / 8);
            CHECK(bytes == 0 || src != NULL);
            if (bytes) memset(src, 0xFF, bytes);
            sk_block_bits_append(dst, 0, src, from, n);
            CHECK_EQ(sk_block_bits_count(src, from, n), n);
            CHECK_EQ(sk_block_bits_count(dst, 0, n), n);
            free(src);
            free(dst);
        }
}
