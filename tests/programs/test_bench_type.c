/* The bench and the command ecornn read and write elements as the library does. */
#include <check.h>
#include <math.h>
#include <stdint.h>

#include "bench/core/type.h"
#include "common/type.h"
#include "tests/kit/suite.h"

static const ecornn_type narrow[] = {ECORNN_BF16, ECORNN_F16};

START_TEST(reads_every_number)
{
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        const uint16_t element = (uint16_t)bits;
        const double mine = type_get(&element, 0, narrow[_i]),
                     other = eco_type_get(&element, 0, narrow[_i]);
        ck_assert_msg(mine == other || (isnan(mine) && isnan(other)), "%x: %g, %g", bits, mine,
                      other);
    }
}
END_TEST

/* Converts each number, the floats next to it, and the midpoint to the next number. */
START_TEST(writes_every_number)
{
    for (uint32_t bits = 0; bits < UINT16_MAX; bits++) {
        const uint16_t element = (uint16_t)bits, after = (uint16_t)(bits + 1);
        const double value = eco_type_get(&element, 0, narrow[_i]),
                     next = eco_type_get(&after, 0, narrow[_i]);
        const double tried[] = {value, (value + next) / 2, value * (1 + 1e-6), value * (1 - 1e-6)};
        for (size_t k = 0; k < sizeof tried / sizeof *tried && isfinite(tried[k]); k++) {
            uint16_t mine, other;
            type_set(&mine, 0, narrow[_i], tried[k]);
            eco_type_set(&other, 0, narrow[_i], tried[k]);
            ck_assert_msg(mine == other, "%.17g: %x, %x", tried[k], mine, other);
        }
    }
}
END_TEST

TEST_MAIN("bench-type", {reads_every_number, 2}, {writes_every_number, 2})
