/* bloom.c - a Bloom filter in blocks of 256 bits: a key sets one bit in each of the eight words of
 * one block.
 *
 * Putze, Sanders and Singler ("Cache-, Hash- and Space-Efficient Bloom Filters", 2007); the blocks
 * and multipliers are those of Parquet. One key touches one cache line. Hashes are mixed again
 * before use, since the hashes of one partition have some bits in common. False positives: about 1
 * % at 10 bits a key, 2 % at
 * 8. Cost: 3 to 6 ns a key in cache. */
#include "kernel/kernel_int.h"

enum { BLOCK = 32, AHEAD = 16 };

size_t sk_bloom_bytes(uint64_t keys, uint32_t bits) {
    return (size_t)((SK_MAX(keys, 1) * bits + 8 * BLOCK - 1) / (8 * BLOCK) * BLOCK);
}

static size_t block_of(uint64_t h, size_t bytes) {
    return (size_t)(((unsigned __int128)(h >> 32 << 32) * (bytes / BLOCK)) >> 64) * BLOCK;
}

SK_INLINE void words_of(uint64_t h, uint32_t out[8]) {
    static const uint32_t odd[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                    0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
    for (int i = 0; i < 8; i++) out[i] = UINT32_C(1) << ((uint32_t)h * odd[i] >> 27);
}

void sk_bloom_add(uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t h = sk_rand_mix(hash[i]);
        uint32_t set[8], have[8];
        uint8_t *b = filter + block_of(h, bytes);
        words_of(h, set);
        memcpy(have, b, BLOCK);
        for (int w = 0; w < 8; w++) have[w] |= set[w];
        memcpy(b, have, BLOCK);
    }
}

void sk_bloom_merge(uint8_t *filter, const uint8_t *other, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) filter[i] |= other[i];
}

uint64_t sk_bloom_select(const uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n,
                         uint32_t *index) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(filter + block_of(sk_rand_mix(hash[i + AHEAD]), bytes));
        uint64_t h = sk_rand_mix(hash[i]);
        uint32_t set[8], have[8], missing = 0;
        words_of(h, set);
        memcpy(have, filter + block_of(h, bytes), BLOCK);
        for (int w = 0; w < 8; w++) missing |= set[w] & ~have[w];
        index[found] = (uint32_t)i;
        found += !missing;
    }
    return found;
}
