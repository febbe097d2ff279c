/*
 * Several models in one run. Each must have the bits of its own separate run. If all read one x,
 * its dx is the sum over the models in their order. Tested with every algorithm that supports
 * models, on one thread and on two.
 */
#include <check.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/models.h"
#include "tests/kit/suite.h"

static const struct models_case list[] = {
    {"lstm/f32/train/L2/bi/T5/N3/I4/H19", 5, false, true},
    {"lstm/f32/train/L2/T5/N3/I4/H19/dropout:0.5", 3, true, false},
    {"gru/f32/train/T9/N4/I7/H33/batch-major/resets", 4, false, false},
    {"gru/f64/train/rev/T5/N3/I4/H19", 2, true, true},
    {"lstm/f32/train/L2/T5/N3/I4/H19/all-states", 3, true, true},
    {"lstm/bf16/train/T5/N3/I4/H20/P6", 3, true, false},
    {"min-gru/bf16/train/L2/bi/T9/N3/I4/H19/resets", 3, false, true},
    {"mgu/f32/train/T7/N3/I4/H17/save:every:3", 3, false, false},
    {"rnn-tanh/f32/infer/L2/T7/N3/I4/H50", 16, true, false},
};
enum { PROBLEMS = sizeof list / sizeof *list };
static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cpu:3"};
enum { DEVICES = sizeof devices / sizeof *devices };

START_TEST(bits_are_those_of_each_by_itself)
{
    models_check(&list[_i / DEVICES], devices[_i % DEVICES]);
}
END_TEST

/* Uses more threads than the machine has processors; each has its own memory. */
START_TEST(threads_share_a_plan)
{
    enum { RUNS = 17 };
    static struct trial run[RUNS];
    trial_open_on(&run[0], devices[_i], "lstm/f32/train/L2/T5/N3/I4/H19/models:4");
    for (int k = 1; k < RUNS; k++)
        trial_open_beside(&run[k], &run[0]);
    models_check_threads(run, RUNS);
    for (int k = RUNS; k-- > 0;)
        trial_close(&run[k]);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(what_is_wrong_is_said)
{
    struct trial run;
    ecornn_desc desc;
    ecornn_plan *plan = NULL;
    ecornn_param param;
    char text[4000];
    REFUSES(parse_desc(&desc, "lstm/T2/N2/I2/H2/models:0", NULL), "models is 0, must be 1 to 4096");
    REFUSES(parse_desc(&desc, "lstm/T2/N2/I2/H2/models:x", NULL),
            "\"models:x\" is not a valid part");
    REFUSES(parse_desc(&desc, "lstm/T2/N2/I2/H2/models:2/models:3", NULL),
            "\"models:3\" contradicts \"models:2\"");
    trial_open_on(&run, "cpu:2", "lstm/train/T2/N2/I2/H2/models:3/shared-x");
    REFUSES(parse_desc(&desc, "lstm/T2/N2/I2/H2/shared-x", NULL), "models is 0, must be 2 or more");
    check_refused(parse_desc(&desc, "lstm/train/T2/N2/I2/H2/models:2/memory:1M", NULL),
                  ECORNN_UNSUPPORTED, "must be 0 with models, which are 2");
    check_ok(parse_desc(&desc, "lstm/train/T2/N2/I2/H2/models:3/shared-x", NULL));
    desc.models = -1;
    REFUSES(ecornn_plan_create_desc(&plan, run.device, &desc), "models is -1, must be 0 to 4096");
    ck_assert_int_gt(ecornn_plan_print(run.plan, text, sizeof text), 100);
    ck_assert_ptr_nonnull(strstr(text, "/models:3/shared-x: 2 at once, each as\nlstm/f32/train"));
    check_ok(param_at(run.plan, 12, &param));
    ck_assert_str_eq(param.name, "1:0.fwd.W.i");
    ck_assert_int_eq(param.is_dense, 1);
    ck_assert_int_eq((int)param.offset, (int)run.sizes.param_elements / 3);
    REFUSES(param_at(run.plan, 36, &param), "must be 0 to 35");
    ecornn_io io = run.io;
    io.reserve = NULL, io.workspace_bytes = 8;
    REFUSES(forward_all(run.plan, &io), "io.workspace_bytes is 8");
    io.workspace_bytes = 0;
    io.reserve =
        run.reserve; /* of no run; the thread of the first or of the second model finds this */
    memset(run.reserve, 0, run.sizes.reserve_bytes);
    const ecornn_gradient gradient = {.size = sizeof gradient};
    REFUSES(backward_all(run.plan, &io, &gradient), "reserve");
    trial_close(&run);
}
END_TEST

TEST_MAIN("models", {bits_are_those_of_each_by_itself, PROBLEMS *DEVICES},
          {threads_share_a_plan, DEVICES}, {what_is_wrong_is_said, 1})
