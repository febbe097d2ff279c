/*
 * How algorithm resident divides a layer into blocks: whatever the sizes, every unit and batch row
 * belongs to one block, blocks fit the device, and a smaller run never exchanges more than it was
 * given room for.  Needs no device.
 */
#include <check.h>

#include "gpu/resident.h"
#include "tests/suite.h"

enum { BLOCKS = 132, CLUSTERED = 120, BLOCK_BYTES = 226 << 10, ACCS = 4, STATES = 2, FIELDS = 9 };

static struct eco_resident_need need_of(bool backward, int32_t hidden, int32_t rows, int32_t jobs,
                                        int32_t recurrent)
{
    return (struct eco_resident_need){.backward = backward,
                                      .hidden = hidden,
                                      .rows = rows,
                                      .steps = 10,
                                      .width = (backward ? recurrent : 1) * hidden,
                                      .jobs = jobs,
                                      .recurrent = recurrent,
                                      .accs = ACCS,
                                      .states = STATES,
                                      .fields = FIELDS,
                                      .operand = recurrent % 2 == 0 ? 2 : 4,
                                      .blocks = {BLOCKS, BLOCKS, CLUSTERED},
                                      .block_bytes = BLOCK_BYTES};
}

static void check_shape(const struct eco_resident_need *need)
{
    struct eco_resident_shape shape;
    if (!(eco_resident_shape(need, &shape) > 0))
        return;
    const int32_t units = 1 << shape.unit_shift, cluster = 1 << shape.spread;
    const int32_t tiles = (need->backward ? 1 : need->recurrent) * units * cluster;
    ck_assert(ECO_RESIDENT_MADE(need->backward, shape.unit_shift, shape.spread));
    ck_assert_int_eq(shape.members % cluster, 0);
    ck_assert_int_ge(shape.members * units, need->hidden);
    /* Each cluster has a unit to wait for. */
    ck_assert_int_lt((shape.members - cluster) * units, need->hidden);
    ck_assert_int_ge(shape.groups * shape.group_rows, need->rows);
    ck_assert_int_lt((shape.groups - 1) * shape.group_rows, need->rows);
    ck_assert_int_le(shape.groups * shape.members * need->jobs, need->blocks[shape.spread]);
    ck_assert_int_ge(shape.k, need->width);
    ck_assert_int_ge(shape.tiles * ECO_RESIDENT_M, tiles);
    ck_assert_int_ge(shape.down * 2, shape.tiles);
    ck_assert_int_le(shape.down * shape.across, ECO_RESIDENT_WARPS);
    ck_assert_int_ge(shape.across * shape.items, shape.slice);
    ck_assert_int_ge((shape.slice << shape.spread) * (ECO_RESIDENT_BYTES / need->operand), shape.k);
    ck_assert_int_ge(shape.chunk * ECO_RESIDENT_N, shape.spread > 0 ? 1 : shape.group_rows);
    ck_assert_int_ge(shape.kept + (need->split ? ECO_RESIDENT_SPLIT_ITEMS : ECO_RESIDENT_ITEMS),
                     shape.items);
    ck_assert_uint_le(shape.shared_bytes, BLOCK_BYTES);
}

START_TEST(covers_everything)
{
    const bool backward = _i;
    for (int32_t hidden = 1; hidden < 2600; hidden += hidden < 80 ? 1 : 37)
        for (int32_t rows = 1; rows < 200; rows += rows < 20 ? 1 : 13)
            for (int32_t jobs = 1; jobs <= ECO_RESIDENT_JOBS; jobs++)
                for (int32_t recurrent = 1; recurrent <= ACCS; recurrent++) {
                    const struct eco_resident_need need =
                        need_of(backward, hidden, rows, jobs, recurrent);
                    check_shape(&need);
                }
}
END_TEST

/* Sizes that this algorithm is for. */
START_TEST(fits_what_it_is_for)
{
    static const struct {
        int32_t hidden, rows;
    } size[] = {{64, 64}, {256, 32}, {512, 64}, {1024, 64}, {1024, 1}, {2048, 16}, {650, 32}};
    struct eco_resident_shape shape;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const struct eco_resident_need need = need_of(false, size[i].hidden, size[i].rows, 1, ACCS);
        ck_assert_msg(eco_resident_shape(&need, &shape) > 0, "H=%d N=%d", size[i].hidden,
                      size[i].rows);
    }
    const struct eco_resident_need large = need_of(false, 4096, 64, 1, ACCS);
    ck_assert(!(eco_resident_shape(&large, &shape) > 0)); /* 128 MiB of R */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resident");
    TCase *tcase = tcase_create("division");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, covers_everything, 0, 2);
    tcase_add_test(tcase, fits_what_it_is_for);
    suite_add_tcase(suite, tcase);
    return suite_run(suite, true);
}
