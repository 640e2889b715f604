/* crc32c.c - CRC-32C by table and by instruction.
 *
 * The crc32 instruction takes 8 bytes in 3 cycles, one a cycle when three streams are interleaved:
 * three neighbouring blocks are summed at once and their sums joined. Joining needs the value of a
 * CRC register after LANE zero bytes, a linear map of 32 bits, kept as four tables of 256 entries.
 * The tables are made at first use (20 us). The portable version uses eight tables and takes 8
 * bytes a step. */
#include "base/crc32c.h"

#include <pthread.h>

#define POLY 0x82f63b78u /* the polynomial, bits reflected */
#define LANE 1024u

static uint32_t table[8][256]; /* table[k][b]: byte b followed by k zero bytes */
static uint32_t skip[4][256];  /* skip[k][b]: register b << 8k after LANE zero bytes */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++) c = c & 1 ? c >> 1 ^ POLY : c >> 1;
        table[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
    uint32_t bit[32];
    for (int i = 0; i < 32; i++) {
        uint32_t c = UINT32_C(1) << i;
        for (uint32_t k = 0; k < LANE; k++) c = c >> 8 ^ table[0][c & 255];
        bit[i] = c;
    }
    for (int k = 0; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++) {
            skip[k][b] = 0;
            for (int i = 0; i < 8; i++)
                if (b >> i & 1) skip[k][b] ^= bit[8 * k + i];
        }
}

static uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

uint32_t sk_crc32c_portable(uint32_t crc, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    pthread_once(&once, make_tables);
    uint32_t c = ~crc;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = load64(p) ^ c;
        c = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^
            table[4][v >> 24 & 255] ^ table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^
            table[1][v >> 48 & 255] ^ table[0][v >> 56];
    }
#endif
    for (; n; n--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return ~c;
}

#if defined(__x86_64__)
static uint32_t skip_lane(uint32_t c) {
    return skip[0][c & 255] ^ skip[1][c >> 8 & 255] ^ skip[2][c >> 16 & 255] ^ skip[3][c >> 24];
}

__attribute__((target("sse4.2,crc32"))) static uint32_t by_instruction(uint32_t crc,
                                                                       const uint8_t *p, size_t n) {
    uint64_t c = (uint32_t)~crc;
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
        uint64_t c1 = 0, c2 = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            c = __builtin_ia32_crc32di(c, load64(p + i));
            c1 = __builtin_ia32_crc32di(c1, load64(p + LANE + i));
            c2 = __builtin_ia32_crc32di(c2, load64(p + 2 * LANE + i));
        }
        c = skip_lane(skip_lane((uint32_t)c) ^ (uint32_t)c1) ^ (uint32_t)c2;
    }
    for (; n >= 8; n -= 8, p += 8) c = __builtin_ia32_crc32di(c, load64(p));
    for (; n; n--) c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return ~(uint32_t)c;
}
#endif

uint32_t sk_crc32c(uint32_t crc, const void *p, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        pthread_once(&once, make_tables);
        return by_instruction(crc, p, n);
    }
#endif
    return sk_crc32c_portable(crc, p, n);
}
