/* test_api_record.c - the public C interface: records of fixed width, without an engine. Their
 * behaviour in detail: test_kernel_record.c. */
#include "skate.h"
#include "test.h"

TEST(api_records) {
    const struct skate_records f = {4, 2};
    const char in[] = "dd_1aa_2cc_3aa_4bb_5";
    char out[20], cut[20], bounds[4];
    size_t start[4], n[2] = {2, 3};
    CHECK_EQ(skate_records_sort(f, in, 5, out, NULL), 0);
    CHECK_MEM_EQ(out, "aa_2aa_4bb_5cc_3dd_1", 20);
    CHECK_EQ(skate_records_partition(f, in, 5, "bbdd", 2, cut, start), 0);
    CHECK_MEM_EQ(cut, "aa_2aa_4cc_3bb_5dd_1", 20);
    CHECK_EQ(start[0] * 1000 + start[1] * 100 + start[2] * 10 + start[3], 245);
    skate_records_cut(f, out, 5, "bbdd", 2, start);
    CHECK_EQ(start[0] * 1000 + start[1] * 100 + start[2] * 10 + start[3], 245);
    CHECK_EQ(skate_records_quantiles(f, in, 5, bounds, 2), 0);
    CHECK_MEM_EQ(bounds, "aacc", 4);
    struct skate_records_merge *m;
    const void *run[] = {"aa_1cc_2", "aa_3bb_4dd_5"};
    CHECK_EQ(skate_records_merge_create(f, run, n, 2, &m), 0);
    CHECK_EQ(skate_records_merge_next(m, out, 3), 3);
    CHECK_EQ(skate_records_merge_next(m, out + 12, 3), 2);
    CHECK_MEM_EQ(out, "aa_1aa_3bb_4cc_2dd_5", 20);
    skate_records_merge_destroy(m);
    skate_records_merge_destroy(NULL);
    CHECK_EQ(skate_records_sort((struct skate_records){4, 5}, in, 5, out, NULL), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "key of 5");
    CHECK_EQ(skate_records_partition(f, in, 5, "ddbb", 2, cut, start), SKATE_EINVAL);
}
