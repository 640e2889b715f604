/* image.h - JPEG and PNG files as rows of uint8, bit by bit as Pillow gives them, or a refusal.
 *
 * The steps come in Pillow's order: decode, cut out a box, resize (bilinear, antialiased, 8-bit
 * fixed point), change the number of channels. A file is refused if the result would differ from
 * Pillow's (CMYK, palettes, 16 bits, interlaced ...) or might differ (a file that is damaged or cut
 * off): then the caller lets Pillow read it. Only with `scaled` the result differs from Pillow's: a
 * JPEG that is at least twice as large as wanted is decoded at a half, a quarter or an eighth of
 * its size by a smaller inverse DCT. (Other eighths gain nothing: 500x375 at 5/8 takes 0.97 ms,
 * whole 0.78, at 4/8 0.62; libjpeg-turbo has SIMD code for halves only.)
 *
 * Memory of one picture: one row and, if the picture is resized, the needed rows at the wanted
 * width. The only global state is the addresses of the codecs' functions. Thread-safety: a picture
 * belongs to one thread at a time. */
#ifndef SK_IMAGE_H
#define SK_IMAGE_H

#include "base/base.h"
#include "base/err.h"

/* Which axis is resized first. BY_SHRINKING, as Pillow 13: columns first if the number of rows
 * shrinks, and by more than twice the factor of the number of columns; else rows first. ROWS_FIRST,
 * as older versions. */
enum sk_image_order { SK_IMAGE_BY_SHRINKING, SK_IMAGE_ROWS_FIRST };

struct sk_image_want {
    uint32_t h, w; /* size to resize to; both 0: not resized */
    /* the box that is cut out first; crop_h 0: the whole picture */
    uint32_t top, left, crop_h, crop_w;
    /* Instead of a given box: the largest box in the middle with the proportions of h and w, which
     * must be given. */
    bool middle;
    bool scaled; /* allows decoding at a smaller scale, see above */
    enum sk_image_order order;
    uint8_t channels; /* 1: grey, 3: RGB, 4: RGBA; 0: as in the file */
};

struct sk_image_shape {
    uint32_t h, w, channels; /* size of the output, which has h * w * channels bytes */
};

struct sk_image;

/* Loads a codec. `object`: name, for dlopen, of a shared object that is the codec or is linked to
 * it; NULL: the process itself. A codec that is loaded already stays as it is. SK_ENOENT: the
 * object cannot be opened; SK_ENOSYS: it has no codec of the known interface, or the machine is not
 * supported. */
sk_rc sk_image_use_jpeg(const char *object, struct sk_err *err) SK_MUST_USE;
sk_rc sk_image_use_png(const char *object, struct sk_err *err) SK_MUST_USE;

/* Reads the head of a file in memory; the memory must stay valid until sk_image_close. Returns NULL
 * and sets *im and *shape, or returns why the file is refused (a static text). */
const char *sk_image_open(struct sk_bytes file, const struct sk_image_want *want,
                          struct sk_image **im, struct sk_image_shape *shape) SK_MUST_USE;
/* Writes all rows to out; call it once. Returns NULL, or why the file is refused; the content of
 * out is undefined then. */
const char *sk_image_read(struct sk_image *im, uint8_t *out) SK_MUST_USE;
void sk_image_close(struct sk_image *im);

#endif
