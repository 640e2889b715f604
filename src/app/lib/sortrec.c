/* sortrec.c - the records of the public sort benchmark: making, checksum, summaries of sorted
 * parts. Pure. */
#include "sortrec.h"

#include <ctype.h>
#include <string.h>

static const sortrec_u128 A = (sortrec_u128)0x2360ED051FC65DA4 << 64 | 0x4385DF649FCCF645;
/* these bytes spell "JimGrayRIP"; the constant has to be odd */
static const sortrec_u128 C = (sortrec_u128)0x4A696D4772617952 << 64 | 0x4950202020202001;

sortrec_u128 sortrec_next(sortrec_u128 x) { return A * x + C; }

/* Makes n + 1 steps of the generator in O(log n). A step maps x to a x + c, and a sequence of steps
 * has the same form. */
sortrec_u128 sortrec_seek(sortrec_u128 n) {
    sortrec_u128 a = A, c = C, x = C; /* x is one step from 0; n more steps follow */
    for (; n; n >>= 1) {
        if (n & 1) x = a * x + c;
        c = a * c + c;
        a *= a;
    }
    return x;
}

/* Writes the low 4 * digits bits of v as hexadecimal digits; returns the end of the text. */
static uint8_t *hex(uint8_t *out, uint64_t v, unsigned digits) {
    while (digits--) *out++ = (uint8_t)"0123456789ABCDEF"[v >> (4 * digits) & 0xF];
    return out;
}

static uint8_t *bytes(uint8_t *out, const char *from, size_t n) {
    memcpy(out, from, n);
    return out + n;
}

static uint8_t *filler(uint8_t *out, uint64_t x, unsigned groups) {
    /* repeats each of the low `groups` digits of x four times */
    for (; groups--; out += 4) memset(out, "0123456789ABCDEF"[x >> (4 * groups) & 0xF], 4);
    return out;
}

static uint8_t *number_of(uint8_t *out, sortrec_u128 n) {
    return hex(hex(out, (uint64_t)(n >> 64), 16), (uint64_t)n, 16);
}

void sortrec_make(uint8_t *out, sortrec_u128 x, sortrec_u128 n, bool ascii) {
    uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;
    if (ascii) {
        /* the key consists of digits of base 95, as printable characters, the least significant
         * first: eight of the high half, two of the low half */
        for (uint64_t v = high, i = 0; i < SORTREC_KEY; i++, v = i == 8 ? low : v / 95)
            *out++ = (uint8_t)(' ' + v % 95);
        out = number_of(bytes(out, "  ", 2), n);
        bytes(filler(bytes(out, "  ", 2), low, 13), "\r\n", 2);
        return;
    }
    uint64_t first = __builtin_bswap64(high), then = __builtin_bswap64(low);
    memcpy(out, &first, 8);
    memcpy(out + 8, &then, 2);
    out = number_of(bytes(out + SORTREC_KEY, "\x00\x11", 2), n);
    bytes(filler(bytes(out, "\x88\x99\xAA\xBB", 4), low, 12), "\xCC\xDD\xEE\xFF", 4);
}

/* Tables for the CRC of eight bytes at a time: the byte that is k places before the end of the
 * eight is looked up in table[k]. */
static uint32_t table[8][256];
__attribute__((constructor)) static void make_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xFF];
}

uint32_t sortrec_crc(const uint8_t *p) {
    uint32_t crc = UINT32_MAX;
    int at = 0;
    for (; at + 8 <= SORTREC_SIZE; at += 8) {
        uint64_t w;
        memcpy(&w, p + at, 8);
        w ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= table[7 - k][w >> (8 * k) & 0xFF];
    }
    for (; at < SORTREC_SIZE; at++) crc = crc >> 8 ^ table[0][(crc ^ p[at]) & 0xFF];
    return ~crc;
}

char *sortrec_dec(sortrec_u128 v, char buf[SORTREC_DEC]) {
    char *p = buf + SORTREC_DEC;
    *--p = 0;
    do {
        *--p = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v);
    return memmove(buf, p, (size_t)(buf + SORTREC_DEC - p));
}

char *sortrec_hex(sortrec_u128 v, char buf[SORTREC_HEX]) {
    int digits = 1;
    while (digits < 32 && v >> (4 * digits)) digits++;
    for (int i = digits; i-- > 0; v >>= 4) buf[i] = "0123456789abcdef"[v & 0xF];
    buf[digits] = 0;
    return buf;
}

bool sortrec_parse(const char *text, sortrec_u128 *out) {
    sortrec_u128 v = 0;
    if (!*text || strlen(text) > 38) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        v = v * 10 + (unsigned)(*text - '0');
    }
    *out = v;
    return true;
}

int sortrec_compare(const uint8_t *a, const uint8_t *b, bool ignore_case) {
    if (!ignore_case) return memcmp(a, b, SORTREC_KEY);
    for (int i = 0; i < SORTREC_KEY; i++) {
        int d = tolower(a[i]) - tolower(b[i]);
        if (d) return d;
    }
    return 0;
}

void sortrec_summarize(const uint8_t *r, size_t n, bool ignore_case, struct sortrec_summary *out) {
    sortrec_u128 sum = 0;
    uint64_t first = 0, unordered = 0, duplicates = 0;
    for (size_t i = 0; i < n; i++) {
        sum += sortrec_crc(r + i * SORTREC_SIZE);
        int d =
            i ? sortrec_compare(r + (i - 1) * SORTREC_SIZE, r + i * SORTREC_SIZE, ignore_case) : -1;
        duplicates += d == 0;
        if (d > 0 && !unordered++) first = i;
    }
    *out = (struct sortrec_summary){
        {0, first}, {0, unordered}, {0, n}, {0, duplicates}, sortrec_number(sum), {0}, {0}};
    memcpy(out->first, r, SORTREC_SIZE);
    memcpy(out->last, r + (n - 1) * SORTREC_SIZE, SORTREC_SIZE);
}

static void add(struct sortrec_number *a, sortrec_u128 b) {
    *a = sortrec_number(sortrec_value(*a) + b);
}

void sortrec_join(struct sortrec_summary *a, const struct sortrec_summary *b, bool ignore_case) {
    if (!sortrec_value(b->records)) return;
    if (!sortrec_value(a->records)) {
        *a = *b;
        return;
    }
    int d = sortrec_compare(a->last, b->first, ignore_case);
    if (!sortrec_value(a->unordered)) {
        if (d > 0) a->first_unordered = a->records;
        else if (sortrec_value(b->unordered))
            a->first_unordered =
                sortrec_number(sortrec_value(a->records) + sortrec_value(b->first_unordered));
    }
    add(&a->duplicates, sortrec_value(b->duplicates) + (d == 0));
    add(&a->unordered, sortrec_value(b->unordered) + (d > 0));
    add(&a->records, sortrec_value(b->records));
    add(&a->checksum, sortrec_value(b->checksum));
    memcpy(a->last, b->last, SORTREC_SIZE);
}
