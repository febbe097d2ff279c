/*
 * Writing of packed weights. The code of every instruction set is compared with the element values
 * and positions that lanes.h defines, for all counts of lanes and k, with NaN and infinities among
 * the numbers.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { MOST_K = 80, MOST_UNITS = 140, UNTOUCHED = 0x5A, EXTRA = 64 };
enum { VECTORS = 4, BLOCKS = 3, MOST_LANES = ECO_TILE_LANES * VECTORS };

static const struct form {
    ecornn_type from, to;
    bool rounded;
} form[] = {{ECORNN_F32, ECORNN_F32, false},   {ECORNN_BF16, ECORNN_F32, false},
            {ECORNN_F16, ECORNN_F32, false},   {ECORNN_F32, ECORNN_F32, true},
            {ECORNN_F16, ECORNN_F32, true},    {ECORNN_F32, ECORNN_BF16, false},
            {ECORNN_BF16, ECORNN_BF16, false}, {ECORNN_F16, ECORNN_BF16, false}};
enum { FORMS = sizeof form / sizeof *form };

static double number(void)
{
    const int kind = rand() % 40, exponent = rand() % 40 - 20;
    return kind == 0 ? NAN : kind == 1 ? -INFINITY : ldexp(rand() % 20001 - 10000, exponent);
}

static void fill(char *data, size_t n, ecornn_type type)
{
    for (size_t i = 0; i < n; i++)
        eco_type_set(data, i, type, number());
}

/* Packed weights of a matrix [units, all k]. */
struct packed {
    struct eco_lanes lanes;
    size_t width; /* lanes in a vector */
    char *room;
    size_t bytes;
    char *seen; /* [bytes]: does the byte belong to an element? */
};

/* The address of element k of a unit. */
static char *element(const struct packed *packed, size_t unit, size_t k)
{
    const struct eco_lanes *lanes = &packed->lanes;
    const size_t of_block = lanes->vectors * packed->width, lane = unit % packed->width;
    const size_t vector = unit % of_block / packed->width;
    char *block = lanes->to + unit / of_block * lanes->block;
    if (lanes->type == ECORNN_F32)
        return block + k * lanes->stride + (vector * packed->width + lane) * sizeof(float);
    const size_t group = ECO_LANES_GROUP, inside = k % group;
    const size_t pairs = vector * group / 2 * packed->width + inside / 2 * packed->width + lane;
    return block + k / group * lanes->stride + (2 * pairs + inside % 2) * sizeof(uint16_t);
}

/* The packed value of an element of the parameter. */
static double expected(const struct form *f, const char *data, size_t at)
{
    const double value = eco_type_get(data, at, f->from);
    return f->rounded || f->to == ECORNN_BF16 ? eco_type_round(value, ECORNN_BF16) : value;
}

/* Compares an element, and marks its bytes as seen. */
static bool holds(const struct packed *packed, size_t unit, size_t k, double value)
{
    const ecornn_type type = packed->lanes.type;
    const char *at = element(packed, unit, k);
    const double got = eco_type_get(at, 0, type);
    memset(packed->seen + (at - packed->room), 1, eco_type_bytes(type));
    return got == value || (isnan(got) && isnan(value));
}

static bool rest_is_untouched(const struct packed *packed)
{
    for (size_t i = 0; i < packed->bytes; i++)
        if (!packed->seen[i] && packed->room[i] != UNTOUCHED)
            return false;
    return true;
}

/* Makes memory like that of panels, with gaps between one k and the next, and between blocks. */
static struct packed packed_new(const struct form *f, size_t width, size_t k, size_t blocks)
{
    static char room[BLOCKS * (2 * MOST_K * (MOST_LANES * sizeof(float) + EXTRA) + EXTRA) + EXTRA];
    static char seen[sizeof room];
    const size_t group = f->to == ECORNN_F32 ? 1 : ECO_LANES_GROUP;
    struct packed packed = {.width = width, .room = room, .seen = seen};
    struct eco_lanes *lanes = &packed.lanes;
    *lanes = (struct eco_lanes){
        .to = room, .vectors = 1 + k % VECTORS, .blocks = blocks, .k = k, .type = f->to};
    lanes->stride = lanes->vectors * width * group * eco_type_bytes(f->to) + EXTRA;
    lanes->block = (k + group - 1) / group * lanes->stride + EXTRA;
    lanes->rounded = f->rounded;
    packed.bytes = blocks * lanes->block + EXTRA;
    ck_assert(packed.bytes <= sizeof room);
    memset(room, UNTOUCHED, packed.bytes);
    memset(seen, 0, packed.bytes);
    return packed;
}

static size_t filled_up(const struct packed *packed, size_t k)
{
    const size_t group = packed->lanes.type == ECORNN_F32 ? 1 : ECO_LANES_GROUP;
    return (k + group - 1) / group * group;
}

static void check_rows(const struct eco_isa *isa, const struct form *f, size_t k, size_t count)
{
    static char data[MOST_K * MOST_UNITS * sizeof(double)];
    const struct packed packed = packed_new(f, (size_t)isa->tile->lanes, k, 1);
    const size_t room = packed.lanes.vectors * packed.width;
    const size_t units = count < room ? count : room;
    const struct eco_lanes_source source = {
        .data = data, .rows = units, .cols = k, .type = f->from};
    fill(data, units * k, f->from);
    isa->lanes->put_rows(&packed.lanes, &source);
    bool right = true;
    for (size_t u = 0; u < room; u++)
        for (size_t i = 0; i < filled_up(&packed, k); i++)
            right &= holds(&packed, u, i, u < units && i < k ? expected(f, data, u * k + i) : 0);
    ck_assert_msg(right, "%s: %zu of %zu lanes, %zu k", isa->name, units, room, k);
    ck_assert_msg(rest_is_untouched(&packed), "%s: %zu of %zu lanes, %zu k: others written",
                  isa->name, units, room, k);
}

/* Packs and checks some columns k, beginning with `first`. */
static void check_columns(const struct eco_isa *isa, const struct form *f, size_t first, size_t k,
                          size_t all)
{
    static char data[MOST_K * MOST_UNITS * sizeof(double)];
    const struct packed packed = packed_new(f, (size_t)isa->tile->lanes, all, BLOCKS);
    const size_t room = BLOCKS * packed.lanes.vectors * packed.width;
    const size_t units = (room < MOST_UNITS ? room : MOST_UNITS) - all % 19 % packed.width;
    const struct eco_lanes_source source = {
        .data = data, .rows = k, .cols = units, .type = f->from};
    const size_t end = first + k == all ? filled_up(&packed, all) : first + k;
    fill(data, units * k, f->from);
    isa->lanes->put_columns(&packed.lanes, &source, first);
    bool right = true;
    for (size_t u = 0; u < room; u++)
        for (size_t i = first; i < end; i++)
            right &= holds(&packed, u, i,
                           u < units && i < all ? expected(f, data, (i - first) * units + u) : 0);
    ck_assert_msg(right, "%s: %zu of %zu lanes, k %zu to %zu of %zu", isa->name, units, room, first,
                  first + k, all);
    ck_assert_msg(rest_is_untouched(&packed),
                  "%s: %zu of %zu lanes, k %zu to %zu of %zu: others written", isa->name, units,
                  room, first, first + k, all);
}

START_TEST(puts_what_it_says)
{
    const struct eco_isa *isa;
    const size_t next = tests_all() ? 1 : 5;
    srand(1);
    for (int s = 0; (isa = eco_isa_supported(s)) != NULL; s++)
        for (size_t k = 1; k <= MOST_K; k += k < 9 ? 1 : k < 36 ? next : 11) {
            for (size_t count = 0; count <= MOST_LANES; count += count < 17 ? 1 : 23)
                check_rows(isa, &form[_i], k, count);
            for (size_t first = 0; first < k; first += 1 + first / 3)
                for (size_t n = 1; first + n <= k; n += 1 + n / 2)
                    check_columns(isa, &form[_i], first, n, k);
        }
}
END_TEST

TEST_MAIN("lanes", {puts_what_it_says, FORMS})
