/* test_image_resize.c - the resizer against a twin in plain loops, with rows that are given and
 * taken one by one. The comparison with Pillow is in tests/py/data/test_images.py. */
#include <math.h>

#include "image/image_int.h"
#include "test.h"

/* Resizes one axis: n pixels of c bytes at p, `step` bytes apart, become m pixels at q. */
static void twin_axis(const uint8_t *p, uint32_t n, size_t step, uint8_t *q, uint32_t m,
                      size_t to_step) {
    double scale = (double)n / m, s = scale > 1 ? scale : 1;
    for (uint32_t i = 0; i < m; i++) {
        double center = (i + 0.5) * scale, sum = 0;
        int64_t lo = SK_MAX((int64_t)(center - s + 0.5), 0),
                hi = SK_MIN((int64_t)(center + s + 0.5), (int64_t)n), total = 1 << 21;
        for (int64_t k = lo; k < hi; k++)
            sum += fmax(0, 1 - fabs(((double)k - center + 0.5) * (1.0 / s)));
        for (int64_t k = lo; k < hi; k++) {
            double w = fmax(0, 1 - fabs(((double)k - center + 0.5) * (1.0 / s))) / sum;
            total += (int64_t)(0.5 + w * (1 << 22)) * p[(size_t)k * step];
        }
        q[i * to_step] = (uint8_t)(total >> 22);
    }
}

static void twin(const uint8_t *in, uint32_t h, uint32_t w, uint8_t *out, uint32_t oh, uint32_t ow,
                 uint32_t c, bool columns_first) {
    uint32_t mh = columns_first ? oh : h, mw = columns_first ? w : ow;
    uint8_t *mid = sk_alloc(SK_TAG_TEST, (size_t)mh * mw * c);
    CHECK(mid);
    for (uint32_t k = 0; k < c; k++) {
        for (uint32_t x = 0; columns_first && x < w; x++)
            twin_axis(in + x * c + k, h, (size_t)w * c, mid + x * c + k, oh, (size_t)w * c);
        for (uint32_t y = 0; !columns_first && y < h; y++)
            twin_axis(in + (size_t)y * w * c + k, w, c, mid + (size_t)y * ow * c + k, ow, c);
        for (uint32_t y = 0; columns_first && y < oh; y++)
            twin_axis(mid + (size_t)y * w * c + k, w, c, out + (size_t)y * ow * c + k, ow, c);
        for (uint32_t x = 0; !columns_first && x < ow; x++)
            twin_axis(mid + x * c + k, h, (size_t)ow * c, out + x * c + k, oh, (size_t)ow * c);
    }
    sk_free(mid);
}

static void check_one(uint32_t h, uint32_t w, uint32_t oh, uint32_t ow, uint32_t c,
                      enum sk_image_order order) {
    bool columns_first =
        order == SK_IMAGE_BY_SHRINKING && h > oh && (int64_t)h - oh > 2 * ((int64_t)w - ow);
    uint32_t px = c == 3 ? 4 : 1, at = 0;
    uint8_t *in = sk_alloc(SK_TAG_TEST, (size_t)h * w * c),
            *want = sk_alloc(SK_TAG_TEST, (size_t)oh * ow * c);
    uint8_t *got = sk_alloc(SK_TAG_TEST, (size_t)oh * ow * c),
            *row = sk_calloc(SK_TAG_TEST, (size_t)w * px + SK_RESIZE_PAD);
    struct sk_resize *r = sk_resize_create(&(struct sk_resize_side){h, oh, 0, h},
                                           &(struct sk_resize_side){w, ow, 0, w}, c, order);
    CHECK(in && want && got && row && r);
    bool extreme = test_below(4) == 0;
    for (size_t i = 0; i < (size_t)h * w * c; i++) in[i] = extreme ? 255 : (uint8_t)test_rand();
    twin(in, h, w, want, oh, ow, c, columns_first);
    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) memcpy(row + x * px, in + ((size_t)y * w + x) * c, c);
        for (sk_resize_push(r, row); at < oh && sk_resize_pull(r, got + (size_t)at * ow * c);) at++;
    }
    CHECK_EQ(at, oh);
    CHECK(!sk_resize_pull(r, got));
    for (size_t i = 0; i < (size_t)oh * ow * c; i++)
        CHECK_MSG(got[i] == want[i], "%ux%u to %ux%u of %u, order %d: byte %zu is %d, not %d", h, w,
                  oh, ow, c, order, i, got[i], want[i]);
    sk_resize_destroy(r);
    sk_free(in);
    sk_free(want);
    sk_free(got);
    sk_free(row);
}

static void check_many(int rounds) {
    for (int i = 0; i < rounds; i++) {
        uint32_t most = test_below(4) ? 40 : 130;
        check_one(1 + (uint32_t)test_below(most), 1 + (uint32_t)test_below(most),
                  1 + (uint32_t)test_below(most), 1 + (uint32_t)test_below(most),
                  test_below(3) ? 3 : 1,
                  test_below(2) ? SK_IMAGE_BY_SHRINKING : SK_IMAGE_ROWS_FIRST);
    }
}

TEST(resize_as_its_twin) {
    check_one(1, 1, 1, 1, 3, SK_IMAGE_BY_SHRINKING);
    check_one(100, 1, 1, 70, 3, SK_IMAGE_BY_SHRINKING);
    check_one(1, 100, 70, 1, 1, SK_IMAGE_BY_SHRINKING);
    check_many(test_rounds(300));
}

TEST(resize_without_avx2_as_its_twin) {
    sk_image_plain = true;
    check_many(test_rounds(150));
}

TEST(resize_without_memory) {
    for (int64_t n = 1;; n++) {
        sk_mem_fail_at(n);
        struct sk_resize *r =
            sk_resize_create(&(struct sk_resize_side){20, 10, 0, 20},
                             &(struct sk_resize_side){30, 10, 0, 30}, 3, SK_IMAGE_BY_SHRINKING);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK(!r == hit);
        sk_resize_destroy(r);
        if (!hit) break;
    }
}
