/* test_image_read.c - files of each kind: pixels, boxes, channels, scales, refusals, files that are
 * cut off, lack of memory; the declarations of libjpeg against its header. */
#include "image_bytes.h"
#include "image_lib.h"
#include "test.h"

#include "image/jpeg62.h"

#if __has_include(<jpeglib.h>)
#include <jpeglib.h>

TEST(jpeg62_is_jpeglib) {
    if (JPEG_LIB_VERSION != 62) test_skip("jpeglib.h is of another interface");
#define SAME(field) \
    CHECK_EQ(offsetof(struct jpeg62, field), offsetof(struct jpeg_decompress_struct, field));
    SAME(err)
    SAME(client_data)
    SAME(image_width)
    SAME(image_height)
    SAME(num_components)
    SAME(out_color_space)
    SAME(scale_num)
    SAME(scale_denom)
    SAME(output_width)
    SAME(output_height)
    SAME(output_components)
    SAME(output_scanline)
    SAME(data_precision)
#undef SAME
    CHECK_EQ(sizeof(struct jpeg62), sizeof(struct jpeg_decompress_struct));
    CHECK_EQ(sizeof(struct jpeg62_err), sizeof(struct jpeg_error_mgr));
    CHECK_EQ(offsetof(struct jpeg62_err, emit_message),
             offsetof(struct jpeg_error_mgr, emit_message));
    CHECK(JCS_GRAYSCALE == (int)JPEG62_GREY && JCS_RGB == (int)JPEG62_RGB &&
          JCS_EXT_RGBX == (int)JPEG62_RGBX);
}
#endif

/* Not inlined, since gcc -O3 would compare the lengths of the names in the table and warn. */
static const struct image_file *__attribute__((noinline)) file_of(const char *name) {
    for (size_t i = 0; i < SK_COUNT(image_files); i++)
        if (!strcmp(image_files[i].name, name)) return &image_files[i];
    test_fail(__FILE__, __LINE__, "no file %s", name);
}

/* Returns the picture in memory of its exact size; NULL: it was refused, and *why says why. */
static uint8_t *read_it(struct sk_bytes file, struct sk_image_want want,
                        struct sk_image_shape *shape, const char **why) {
    struct sk_image *im = NULL;
    uint8_t *out = NULL;
    *why = sk_image_open(file, &want, &im, shape);
    if (!*why) {
        out = sk_alloc(SK_TAG_TEST, (size_t)shape->h * shape->w * shape->channels);
        *why = out ? sk_image_read(im, out) : "no memory for the test";
    }
    sk_image_close(im);
    if (*why) {
        sk_free(out);
        out = NULL;
    }
    return out;
}

static uint8_t *read_file(const char *name, struct sk_image_want want, struct sk_image_shape *shape,
                          const char **why) {
    const struct image_file *f = file_of(name);
    return read_it((struct sk_bytes){f->p, f->n}, want, shape, why);
}

static int expected(const char *name, uint32_t y, uint32_t x, uint32_t c) {
    /* as image_bytes.h says */
    if (!strncmp(name, "png", 3)) return (int)((9 * y + 5 * x + 70 * (c == 3 ? 0 : c)) % 256);
    return (int)(!strcmp(name, "jpeg_grey") || c == 1 ? 40 + 4 * x : c == 0 ? 20 + 3 * y : 90);
}

static void check_pixels(const char *name, const uint8_t *p, struct sk_image_shape s, uint32_t top,
                         uint32_t left) {
    int off = strncmp(name, "png", 3) ? 12 : 0;
    for (uint32_t y = 0; y < s.h; y++)
        for (uint32_t x = 0; x < s.w; x++)
            for (uint32_t c = 0; c < s.channels; c++) {
                int want = expected(name, y + top, x + left, c), got = *p++;
                CHECK_MSG(abs(got - want) <= off, "%s at %u, %u, %u: %d, not %d", name, y, x, c,
                          got, want);
            }
}

TEST(image_pixels_and_boxes) {
    if (!image_have_both()) test_skip("no libjpeg or libpng here");
    for (size_t i = 0; i < SK_COUNT(image_files); i++) {
        const struct image_file *f = &image_files[i];
        struct sk_image_shape s;
        const char *why;
        uint8_t *p = read_file(f->name, (struct sk_image_want){.h = 0}, &s, &why);
        CHECK_MSG(!p == !f->channels, "%s: %s", f->name, why ? why : "not refused");
        if (!p) continue;
        CHECK(s.h == f->h && s.w == f->w && s.channels == f->channels);
        check_pixels(f->name, p, s, 0, 0);
        sk_free(p);
        p = read_file(
            f->name,
            (struct sk_image_want){.top = 1, .left = 2, .crop_h = f->h - 1, .crop_w = f->w - 3}, &s,
            &why);
        CHECK(p && s.h == f->h - 1 && s.w == f->w - 3);
        check_pixels(f->name, p, s, 1, 2);
        sk_free(p);
        CHECK(!read_file(f->name, (struct sk_image_want){.top = 1, .crop_h = f->h, .crop_w = 1}, &s,
                         &why));
    }
}

TEST(image_channels) {
    if (!image_have_both()) test_skip("no libjpeg or libpng here");
    struct sk_image_shape s;
    const char *why;
    uint8_t *p = read_file("png_grey", (struct sk_image_want){.channels = 3}, &s, &why);
    CHECK(p && s.channels == 3);
    for (uint32_t i = 0; i < s.h * s.w; i++)
        CHECK(p[3 * i] == p[3 * i + 1] && p[3 * i] == p[3 * i + 2]);
    sk_free(p);
    p = read_file("png_rgb", (struct sk_image_want){.channels = 1}, &s, &why);
    CHECK(p && s.channels == 1);
    for (uint32_t y = 0; y < s.h; y++)
        for (uint32_t x = 0; x < s.w; x++) {
            double grey = 0.299 * expected("png", y, x, 0) + 0.587 * expected("png", y, x, 1) +
                          0.114 * expected("png", y, x, 2);
            CHECK(p[y * s.w + x] - grey < 1 && grey - p[y * s.w + x] < 1);
        }
    sk_free(p);
    p = read_file("png_rgba", (struct sk_image_want){.channels = 3}, &s, &why);
    CHECK(p && s.channels == 3);
    check_pixels("png", p, s, 0, 0);
    sk_free(p);
    CHECK(!read_file("png_rgba", (struct sk_image_want){.channels = 1}, &s, &why));
    CHECK(!read_file("png_rgba", (struct sk_image_want){.h = 2, .w = 2}, &s, &why));
    CHECK(!read_file("png_rgb", (struct sk_image_want){.channels = 4}, &s, &why));
}

TEST(image_sizes) {
    if (!image_have_both()) test_skip("no libjpeg or libpng here");
    static const uint32_t sizes[][2] = {{3, 5}, {7, 7}, {14, 21}, {29, 43}, {60, 20}, {1, 1}};
    for (size_t i = 0; i < SK_COUNT(sizes); i++)
        for (int k = 0; k < 8; k++) {
            struct sk_image_shape s;
            const char *why;
            struct sk_image_want want = {.h = sizes[i][0],
                                         .w = sizes[i][1],
                                         .middle = k & 1,
                                         .scaled = k & 2,
                                         .channels = k & 4 ? 1 : 0};
            uint8_t *p = read_file("jpeg_rgb", want, &s, &why);
            CHECK_MSG(p && s.h == want.h && s.w == want.w && s.channels == (k & 4 ? 1 : 3), "%s",
                      why ? why : "another shape");
            if (s.channels == 3) /* red grows downwards */
                for (uint32_t y = 1; y < s.h; y++) CHECK(p[y * s.w * 3] >= p[(y - 1) * s.w * 3]);
            sk_free(p);
        }
}

TEST(image_cut_off) {
    if (!image_have_both()) test_skip("no libjpeg or libpng here");
    for (size_t i = 0; i < SK_COUNT(image_files); i++)
        for (uint32_t n = 0; n < image_files[i].n; n++) {
            struct sk_image_shape s;
            const char *why;
            uint8_t *file = sk_memdup(SK_TAG_TEST, image_files[i].p, n),
                    *p = read_it((struct sk_bytes){file, n}, (struct sk_image_want){.h = 0}, &s,
                                 &why);
            CHECK_MSG(!p, "%s, its first %u bytes", image_files[i].name, n);
            sk_free(file);
        }
}

TEST(image_without_memory) {
    if (!image_have_both()) test_skip("no libjpeg or libpng here");
    for (size_t i = 0; i < 2; i++)
        for (int64_t n = 1;; n++) {
            struct sk_image_shape s;
            const char *why;
            sk_mem_fail_at(n);
            uint8_t *p = read_file(i ? "png_rgb" : "jpeg_rgb",
                                   (struct sk_image_want){.h = 5, .w = 6, .channels = 1}, &s, &why);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK(!p == hit);
            sk_free(p);
            if (!hit) break;
        }
}

TEST(image_no_codec) {
    struct sk_err err = {.code = 0};
    CHECK_EQ(sk_image_use_jpeg("libnothing-of-this-name.so", &err), SK_ENOENT);
    CHECK_EQ(sk_image_use_png("libc.so.6", &err), SK_ENOSYS);
    struct sk_image_shape s;
    const char *why;
    CHECK(!read_file("jpeg_rgb", (struct sk_image_want){.h = 0}, &s, &why) &&
          strstr(why, "there is no libjpeg"));
    CHECK(!read_it((struct sk_bytes){"GIF89a", 6}, (struct sk_image_want){.h = 0}, &s, &why) &&
          strstr(why, "neither JPEG nor PNG"));
}
