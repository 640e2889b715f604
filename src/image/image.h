/* image.h - JPEG and PNG files as rows of uint8, as Pillow gives them to the last bit, or a
 * refusal.
 *
 * The order is Pillow's: decode, cut out a box, resize (bilinear, antialiased, 8-bit fixed point),
 * change the number of channels. A file is refused where that would not be what Pillow gives (CMYK,
 * palettes, 16 bits, interlaced ...) or is not certain (a file that is damaged or cut off): Pillow
 * says what becomes of it.
 * Only `scaled` leaves the bits of Pillow: a JPEG that is at least twice as large as wanted is
 * decoded at a half, a quarter or an eighth by a smaller inverse DCT. (Eighths between those are no
 * gain: 500x375 at 5/8 takes 0.97 ms, whole 0.78, at 4/8 0.62; libjpeg-turbo has SIMD code for
 * halves only.)
 *
 * Memory of one picture: a row, and where it is resized its rows at the wanted width. No global
 * state but the codecs' functions. Thread-safety: a picture belongs to one thread at a time. */
#ifndef SK_IMAGE_H
#define SK_IMAGE_H

#include "base/base.h"
#include "base/err.h"

/* Which axis is resized first. Pillow 13: columns if there are to be fewer rows, by more than twice
 * as many as there are to be fewer columns; else rows. Older ones: rows. */
enum sk_image_order { SK_IMAGE_BY_SHRINKING, SK_IMAGE_ROWS_FIRST };

struct sk_image_want {
    uint32_t h, w;                      /* resized to; both 0: not resized */
    uint32_t top, left, crop_h, crop_w; /* the box that is cut out first; crop_h 0: all of it */
    /* instead: the largest box in the middle with the proportions of h and w, which must be
     * given */
    bool middle;
    bool scaled; /* see above */
    enum sk_image_order order;
    uint8_t channels; /* 1: grey, 3: RGB, 4: RGBA; 0: those of the file */
};

struct sk_image_shape {
    uint32_t h, w, channels; /* of the output: h * w * channels bytes */
};

struct sk_image;

/* Names of shared objects for dlopen, which link the codecs or are them; NULL: without it. Takes
 * effect once a process for each codec; later calls
 * add what was missing. SK_ENOENT: the object cannot be opened; SK_ENOSYS: no codec of the known
 * interface in it, or machine. */
sk_rc sk_image_use_jpeg(const char *object, struct sk_err *err) SK_MUST_USE;
sk_rc sk_image_use_png(const char *object, struct sk_err *err) SK_MUST_USE;

/* Reads the head of a file in memory, which must stay until the close. NULL: *im and *shape are
 * set; else why it is refused, a text that stays. */
const char *sk_image_open(struct sk_bytes file, const struct sk_image_want *want,
                          struct sk_image **im, struct sk_image_shape *shape) SK_MUST_USE;
/* Once: all rows to out. NULL, or why it is refused; out holds anything then. */
const char *sk_image_read(struct sk_image *im, uint8_t *out) SK_MUST_USE;
void sk_image_close(struct sk_image *im);

#endif
