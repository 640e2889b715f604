/* jpeg62.h - the used parts of the interface 6.2 of libjpeg (the IJG's of 1998, which libjpeg-turbo
 * keeps; soname libjpeg.so.62), on machines with 64-bit pointers.
 *
 * These are declarations of skate's own, so a build needs no header of a library that is only
 * looked up at run time. jpeg_CreateDecompress checks version and size of the struct and refuses
 * others; tests/c/test_image_read.c compares every offset with jpeglib.h where the machine has
 * it. */
#ifndef SK_JPEG62_H
#define SK_JPEG62_H

#include "base/base.h"

struct jpeg62;

struct jpeg62_err { /* the head of struct jpeg_error_mgr; jpeg_std_error writes the whole struct */
    void (*error_exit)(struct jpeg62 *d);
    void (*emit_message)(struct jpeg62 *d, int level); /* level < 0: the data are damaged */
    void (*output_message)(struct jpeg62 *d);
    uint8_t rest[144];
};

struct jpeg62 { /* struct jpeg_decompress_struct */
    struct jpeg62_err *err;
    void *mem, *progress, *client_data;
    int32_t is_decompressor, global_state;
    void *src;
    uint32_t image_width, image_height;
    int32_t num_components, jpeg_color_space, out_color_space;
    uint32_t scale_num, scale_denom;
    double output_gamma;
    uint8_t rest1[48];
    uint32_t output_width, output_height;
    int32_t out_color_components, output_components, rec_outbuf_height;
    uint8_t rest2[12];
    uint32_t output_scanline;
    uint8_t rest3[124];
    int32_t data_precision;
    uint8_t rest4[332];
};

enum { JPEG62_VERSION = 62, JPEG62_GREY = 1, JPEG62_RGB = 2, JPEG62_RGBX = 7 };

_Static_assert(sizeof(struct jpeg62_err) == 168, "struct jpeg_error_mgr");
_Static_assert(sizeof(struct jpeg62) == 632, "struct jpeg_decompress_struct");

#endif
