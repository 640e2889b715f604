/* sortrec.h - the records of the public sort benchmark (sortbenchmark.org; C. Nyberg's gensort
 * 1.5): 100 bytes, the first 10 of them the key.
 *
 * Record n depends on n alone, so that a file can be made in parts: it is made from x(n + 1), where
 * x(0) = 0 and x(i + 1) = a x(i) + c mod 2^128 (L'Ecuyer's multiplier). Keys are ordered as
 * unsigned bytes. The checksum of a file is the sum of its records' CRC-32 (as in zlib), 128 bits
 * wide, and does not depend on the order of the records. Not here: the skewed keys of gensort -s,
 * which a table in that program defines. */
#ifndef SORTREC_H
#define SORTREC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned __int128 sortrec_u128;

enum { SORTREC_SIZE = 100, SORTREC_KEY = 10, SORTREC_DEC = 40, SORTREC_HEX = 33 };

/* sortrec_seek returns x(n + 1), from which record n is made; sortrec_next returns the successor of
 * x. */
sortrec_u128 sortrec_seek(sortrec_u128 n);
sortrec_u128 sortrec_next(sortrec_u128 x);
/* Writes the 100 bytes of record n, from x = x(n + 1), to out. */
void sortrec_make(uint8_t *out, sortrec_u128 x, sortrec_u128 n, bool ascii);
uint32_t sortrec_crc(const uint8_t *record);

/* These calls write a number as text without leading zeros and return buf. sortrec_parse reads
 * decimal digits; false: the text has other characters. */
char *sortrec_dec(sortrec_u128 v, char buf[SORTREC_DEC]);
char *sortrec_hex(sortrec_u128 v, char buf[SORTREC_HEX]);
bool sortrec_parse(const char *text, sortrec_u128 *out);

/* valsort's summary of a part of the output, in the layout of its summary files: each number is two
 * native 64-bit words, the high one first. */
struct sortrec_number {
    uint64_t high, low;
};
struct sortrec_summary {
    /* index in the part of the first record that is not in order; 0: all are */
    struct sortrec_number first_unordered;
    struct sortrec_number unordered, records, duplicates, checksum;
    uint8_t first[SORTREC_SIZE], last[SORTREC_SIZE];
};
_Static_assert(sizeof(struct sortrec_summary) == 280, "as in files");

/* Compares the keys of two records; returns < 0, 0 or > 0. */
int sortrec_compare(const uint8_t *a, const uint8_t *b, bool ignore_case);
/* Summarises n > 0 records. */
void sortrec_summarize(const uint8_t *records, size_t n, bool ignore_case,
                       struct sortrec_summary *out);
/* Makes *a the summary of a followed by b. A summary without records adds nothing. */
void sortrec_join(struct sortrec_summary *a, const struct sortrec_summary *b, bool ignore_case);
static inline sortrec_u128 sortrec_value(struct sortrec_number n) {
    return (sortrec_u128)n.high << 64 | n.low;
}
static inline struct sortrec_number sortrec_number(sortrec_u128 v) {
    return (struct sortrec_number){(uint64_t)(v >> 64), (uint64_t)v};
}

#endif
