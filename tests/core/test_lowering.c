/*
 * What is a cell lowered to, and is it right?  Accumulators, saved values and stages of the
 * built-in cells must be the known ones.  For these and many odd cells, the next states of the
 * stages must agree with those of the graph, and the gradients of the stages with central
 * differences of the graph, in which the values of stop() are constants.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/core/cell_step.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- what is known ---- */

/* Describes a saved value by the last function that made it and the line of its accumulator. */
static void describe_save(struct eco_text *text, int slot)
{
    for (int k = 0; k < cell.lowered.n_forward; k++) {
        const struct eco_program *program = &cell.lowered.forward[k];
        for (int i = 0; i < program->n; i++) {
            if (program->code[i].op != ECO_OP_STORE_SAVE || program->code[i].index != slot)
                continue;
            const struct eco_node *code = &program->code[program->code[i].a];
            const char *name = eco_opcode_info[code->op].name;
            while (code->op != ECO_OP_ACC && code->a >= 0)
                code = &program->code[code->a];
            const struct eco_accumulator *acc = &cell.lowered.acc[code->index];
            const int param = acc->input >= 0 ? acc->input : acc->recurrent[0];
            eco_text_add(text, " %s:%s@%d", name == NULL ? "acc" : name,
                         param < 0 ? "x" : cell.recipe.param[param].name + 2, k);
        }
    }
}

static void describe(struct eco_text *text)
{
    const struct eco_lowered *lowered = &cell.lowered;
    for (int i = 0; i < cell.recipe.n_params; i++)
        eco_text_add(text, "%s ", cell.recipe.param[i].name);
    eco_text_add(text, "| acc");
    for (int i = 0; i < lowered->n_accs; i++) {
        const struct eco_accumulator *acc = &lowered->acc[i];
        const char *separator = " ";
        int param[ECO_MAX_OPERANDS + 2] = {acc->input, acc->vector};
        for (int k = 0; k < ECO_MAX_OPERANDS; k++)
            param[k + 2] = acc->recurrent[k];
        for (int k = 0; k < ECO_MAX_OPERANDS + 2; k++)
            if (param[k] >= 0) {
                eco_text_add(text, "%s%s", separator, cell.recipe.param[param[k]].name);
                separator = "+";
            }
        if (acc->copy >= 0)
            eco_text_add(text, "%s%s", separator,
                         acc->copy == 0 ? "x" : cell.recipe.part[acc->copy - 1].name);
        eco_text_add(text, "@%d", acc->stage);
    }
    eco_text_add(text, " | save");
    for (int i = 0; i < lowered->n_saves; i++)
        describe_save(text, i);
    eco_text_add(text, " | %d operands %d slots %d extra %d+%d stages%s", lowered->n_operands,
                 lowered->n_slots, lowered->n_extra, lowered->n_forward, lowered->n_backward,
                 lowered->projectable ? " projectable" : "");
    if (lowered->linear.scans)
        eco_text_add(text, " linear:%u", lowered->linear.states);
}

static const char *const known[] = {
    "rnn-tanh: W.h R.h b.h | acc W.h+b.h+R.h@0 | save | 1 operands 0 slots 0 extra 1+1 stages "
    "projectable",
    "rnn-relu: W.h R.h b.h | acc W.h+b.h+R.h@0 | save | 1 operands 0 slots 0 extra 1+1 stages "
    "projectable",
    "lstm: W.i W.f W.g W.o R.i R.f R.g R.o b.i b.f b.g b.o "
    "| acc W.i+b.i+R.i@0 W.f+b.f+R.f@0 W.g+b.g+R.g@0 W.o+b.o+R.o@0 "
    "| save sigmoid:i@0 sigmoid:f@0 tanh:g@0 sigmoid:o@0 "
    "| 1 operands 0 slots 0 extra 1+1 stages projectable",
    "lstm-peephole: W.i W.f W.g W.o R.i R.f R.g R.o b.i p.i b.f p.f b.g b.o p.o "
    "| acc W.i+b.i+R.i@0 W.f+b.f+R.f@0 W.g+b.g+R.g@0 W.o+b.o+R.o@0 "
    "| save sigmoid:i@0 sigmoid:f@0 tanh:g@0 sigmoid:o@0 "
    "| 1 operands 0 slots 3 extra 1+1 stages projectable",
    "lstm-coupled: W.i W.g W.o R.i R.g R.o b.i b.g b.o "
    "| acc W.i+b.i+R.i@0 W.g+b.g+R.g@0 W.o+b.o+R.o@0 "
    "| save sigmoid:i@0 tanh:g@0 sigmoid:o@0 "
    "| 1 operands 0 slots 0 extra 1+1 stages projectable",
    "gru: W.r W.z W.n R.r R.z R.q b.r b.z b.q b.n "
    "| acc W.n+b.n@0 W.r+b.r+R.r@0 W.z+b.z+R.z@0 b.q+R.q@0 "
    "| save sigmoid:r@0 sigmoid:z@0 acc:q@0 tanh:n@0 "
    "| 1 operands 0 slots 0 extra 1+1 stages",
    "gru-reset-first: W.r W.z W.n R.r R.z R.n b.r b.z b.n "
    "| acc W.r+b.r+R.r@0 W.z+b.z+R.z@1 W.n+b.n+R.n@1 "
    "| save sigmoid:r@0 sigmoid:z@1 tanh:n@1 "
    "| 2 operands 1 slots 0 extra 2+2 stages",
    "mgu: W.f W.n R.f R.n b.f b.n | acc W.f+b.f+R.f@0 W.n+b.n+R.n@1 "
    "| save sigmoid:f@0 tanh:n@1 | 2 operands 1 slots 0 extra 2+2 stages",
    "min-gru: W.z W.n b.z b.n | acc W.z+b.z@0 W.n+b.n@0 | save sigmoid:z@0 acc:n@0 "
    "| 0 operands 0 slots 0 extra 1+1 stages linear:1",
    "min-lstm: W.f W.i W.n b.f b.i b.n | acc W.f+b.f@0 W.i+b.i@0 W.n+b.n@0 "
    "| save acc:f@0 acc:i@0 acc:n@0 "
    "| 0 operands 0 slots 0 extra 1+1 stages linear:1",
    "sru: W.u W.f W.r b.f b.r | acc W.u@0 W.f+b.f@0 W.r+b.r@0 x@0 "
    "| save acc:u@0 sigmoid:f@0 sigmoid:r@0 acc:x@0 "
    "| 0 operands 0 slots 0 extra 1+1 stages projectable linear:2",
    "qrnn: W.z W.f W.o b.z b.f b.o | acc W.z+b.z@0 W.f+b.f@0 W.o+b.o@0 "
    "| save tanh:z@0 sigmoid:f@0 sigmoid:o@0 "
    "| 0 operands 0 slots 0 extra 1+1 stages projectable linear:2",
    "slstm: W.z W.o W.i W.f R.z R.o R.i R.f b.z b.o b.i b.f "
    "| acc W.z+b.z+R.z@0 W.o+b.o+R.o@0 W.i+b.i+R.i@0 W.f+b.f+R.f@0 "
    "| save tanh:z@0 sigmoid:o@0 acc:f@0 sub:f@0 "
    "| 1 operands 0 slots 0 extra 1+1 stages projectable",
};

START_TEST(builtins)
{
    char data[1000];
    struct eco_text text = {data, sizeof data, 0};
    ck_assert_ptr_nonnull(eco_cell_builtin(_i));
    cell = *eco_cell_builtin(_i);
    ck_assert_int_eq(cell.builtin, _i);
    eco_text_add(&text, "%s: ", cell.recipe.name);
    describe(&text);
    ck_assert_str_eq(data, known[_i]);
}
END_TEST

/* Parts of x join a product, but not its W or bias; a part that is read twice, or by itself, is an
 * accumulator of its own. */
static const struct {
    const char *text, *accs;
} part_of_sum[] = {
    {"cell a(h; u[H])\nh' = tanh(u + R h)", "R.h | acc R.h+u@0 | save"},
    {"cell a(h; u[H])\nh' = tanh(R h + u + b)", "R.h b.h | acc R.h+u@0 | save"},
    {"cell a(h; u[1])\nh' = tanh(W x + u + R h + b)", "W.h R.h b.h | acc u@0 W.h+b.h+R.h@0 | save"},
    {"cell a(h; u[H], v[1])\nh' = tanh(u + R h + v)", "R.h | acc v@0 R.h+u@0 | save"},
    {"cell a(h; u[H])\nh' = tanh(u - R h) * u", "R.h | acc u@0 R.h@0 | save"},
    {"cell a(h; u[H])\nh' = h * u", "| acc u@0 | save"},
};

START_TEST(parts_of_sums)
{
    char data[1000];
    struct eco_text text = {data, sizeof data, 0};
    compile(part_of_sum[_i].text);
    describe(&text);
    ck_assert_msg(strncmp(data, part_of_sum[_i].accs, strlen(part_of_sum[_i].accs)) == 0, "%s: %s",
                  part_of_sum[_i].text, data);
}
END_TEST

/* A text, and what its cell is. */
struct property {
    const char *text;
    int is;
};

/* The states that a scan computes; -1: the cell has no scan. */
static const struct property scanned[] = {
    {"cell a(h)\nh' = W x + p * h + b", 1},
    {"cell a(h)\nh' = tanh(W x) * (h + 1) - h", 1},
    {"cell a(h, c)\nc' = x * c + b\nh' = tanh(c' * c)", 2},
    {"cell a(h, c)\nc' = b - c\nh' = h / x - c * 0 + c * 0", 3},
    {"cell a(h, c)\nc' = b - h\nh' = x * c - h", 3},
    {"cell a(h, c)\nc' = b * h + c\nh' = W x - c' / x", 3},
    {"cell a(h, c)\nc' = h\nh' = select(c, x, h)", -1},
    {"cell a(h, c)\nc' = p * c\nh' = tanh(c) * h", -1},
    {"cell a(h, c, d)\nc' = p * d\nd' = x * c\nh' = tanh(c * d)", 6},
    {"cell a(h, c)\nc' = b - c\nh' = h / x", 3},
    {"cell a(h)\nh' = x / h", -1},
    {"cell a(h)\nh' = h * h", -1},
    {"cell a(h)\nh' = select(h, x, h)", -1},
    {"cell a(h)\nh' = W x + R h", -1},
    {"cell a(h)\nh' = h * R (x)", -1},
    {"cell a(h)\nh' = h + mean(x)", -1},
    {"cell a(h)\nh' = tanh(W x + p * h)", -1},
    {"cell a(h, c)\nc' = c * h\nh' = h + x", -1},
    {"cell a(h)\nh' = x", -1},
    {"cell a(h)\nh' = (0 - h) * -x", -1}, /* backward has -x, and the factor of dh is x */
    {"cell a(h, c)\nc' = (0 - c) * -(W x + b)\nh' = W x * c - h", -1},
    {"cell a(h)\nh' = stop(h) * p + 0.5 * h + stop(W x)", 1},
};

START_TEST(linear_states)
{
    compile(scanned[_i].text);
    ck_assert_int_eq(cell.lowered.linear.scans ? (int)cell.lowered.linear.states : -1,
                     scanned[_i].is);
}
END_TEST

START_TEST(builtins_end)
{
    ck_assert_ptr_null(eco_cell_builtin((int)(sizeof known / sizeof *known)));
    ck_assert_ptr_null(eco_cell_builtin(-1));
}
END_TEST

static const struct property projection[] = {
    {"cell a(h)\nh' = tanh(R h)", true},
    {"cell a(h)\nh' = tanh(R (h))", true},
    {"cell a(h, c)\nc' = R h + c\nh' = tanh(c')", true},
    {"cell a(h, c)\nc' = R h\nh' = c", true},
    {"cell a(h)\nh' = 1", true},
    {"cell a(h)\nh' = h", false},
    {"cell a(h)\nh' = tanh(R (h * h))", false},
    {"cell a(h)\nh' = R h + h", false},
    {"cell a(h)\nh' = R h + mean(h)", false},
    {"cell a(h, c)\nc' = h\nh' = c", false},
    {"cell a(h, c)\nh' = tanh(R h)\nc' = h'", false},
    {"cell a(h, c)\nh' = tanh(R h)\nc' = h' + c", false},
    {"cell a(h, c)\nh' = tanh(R h)\nc' = R h'", false},
};

START_TEST(projectable)
{
    compile(projection[_i].text);
    ck_assert_int_eq(cell.lowered.projectable, projection[_i].is);
}
END_TEST

static const struct property bound[] = {
    {"cell a(h)\nh' = tanh(R h)", true},
    {"cell a(h)\nh' = R h", false},
    {"cell a(h)\nh' = relu(R h)", false},
    {"cell a(h)\nh' = min(max(R h, -1), 1)", true},
    {"cell a(h)\nh' = min(max(R h, -1), 2)", false},
    {"cell a(h)\nh' = abs(h) * sqrt(sigmoid(R h))", true},
    {"cell a(h)\nh' = tanh(R h) / (1 + exp(h))", true},
    {"cell a(h)\nh' = tanh(R h) / h", false},
    {"cell a(h)\nz = sigmoid(R h)\nh' = z * h + (1 - z) * tanh(R h)", true},
    {"cell a(h)\nz = sigmoid(R h)\nh' = tanh(R h) * (1 - z) + h * z", true},
    {"cell a(h)\nz = sigmoid(R h)\nh' = z * h + (2 - z) * tanh(R h)", false},
    {"cell a(h)\nz = tanh(R h)\nh' = z * h + (1 - z) * tanh(R h)", false},
    {"cell a(h)\nz = bernoulli(0.5, once)\nh' = z * h + (1 - z) * mean(tanh(R h))", true},
    {"cell a(h)\nh' = h + tanh(R h)", false},
    {"cell a(h, c)\nc' = tanh(R h) * c\nh' = c' * c", false}, /* overflows from a large c */
    {"cell a(h, c)\nc' = tanh(R h) * c\nh' = c' * sigmoid(R h)", false},
    {"cell a(h, c)\nc' = tanh(R h) * c\nh' = tanh(c') * sigmoid(R h)", true},
    {"cell a(h)\nh' = min(max(h * h * h * tanh(R h), -50), 50)", false}, /* overflows from h = 3 */
    {"cell a(h)\nr = sigmoid(R h)\nh' = tanh(R (r * h))", true},
    {"cell a(h)\ne = 2 * tanh(R h)\nh' = tanh(R e)", false},
    {"cell a(h, c)\nc' = tanh(R h) + c\nh' = 0.5 * c", false}, /* overflows in a second step */
    {"cell a(h, c)\nc' = exp(1000) * c\nh' = tanh(c - c' + R h)", true},
    {"cell a(h, c)\nc' = log(h)\nh' = select(R h, 0.5, c)", false},
    {"cell a(h, c)\nc' = log(h)\nh' = select(c, 0.5, sigmoid(R h))", true},
    {"cell a(h, c)\nc' = R h + c\nh' = select(c', 1, 0) + stop(p) * (c' - stop(c'))", true},
    {"cell a(h, c)\nc' = R h + c\nh' = select(c', 1, 0) + stop(p) * (c - stop(c'))", false},
};

START_TEST(bounded)
{
    compile(bound[_i].text);
    ck_assert_msg(eco_cell_is_bounded(&cell) == bound[_i].is, "%s", bound[_i].text);
}
END_TEST

/* ---- what is computed ---- */

static double any_number(void)
{
    static uint64_t seed = 88172645463325252u;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / (1 << 24) * 2 - 1;
}

static void fill_random(void *data, size_t bytes)
{
    double *value = data;
    for (size_t i = 0; i < bytes / sizeof *value; i++)
        value[i] = any_number();
}

/* The fourth-order central difference. */
static double numeric_gradient(double *value)
{
    static plane next[ECO_MAX_STATES];
    static const int factor[] = {1, -8, 0, 8, -1};
    const double step = 1e-5, middle = *value;
    double sum = 0;
    for (int k = -2; k <= 2; k++) {
        *value = middle + k * step;
        sum += factor[k + 2] * evaluate_graph(next, true);
    }
    *value = middle;
    return sum / (12 * step);
}

static void expect_close(double got, double expected, const char *what, int at)
{
    ck_assert_msg(fabs(got - expected) <= 2e-8 * (1 + fabs(expected)),
                  "cell %s: %s[%d] is %.12g, must be %.12g", cell.recipe.name, what, at, got,
                  expected);
}

static void check_forward(void)
{
    static plane next[ECO_MAX_STATES];
    evaluate_graph(next, false);
    for (int in_place = 0; in_place < 2; in_place++) {
        run_forward(in_place);
        for (int s = 0; s < cell.recipe.n_states; s++)
            for (int e = 0; e < PLANE; e++)
                expect_close(memory.next[s][e], next[s][e], cell.recipe.state[s], e);
    }
}

/* Checks the factor and the term of each state that a scan reads, forward and backward. */
static void check_linear(bool back)
{
    const struct eco_linear *linear = &cell.lowered.linear;
    if (!linear->scans)
        return;
    run_stage(&linear->program[back], false);
    for (int s = 0; s < cell.recipe.n_states; s++)
        for (int e = 0; (linear->states >> s & 1) && e < PLANE; e++) {
            const plane *from = back ? in.dnext : in.state;
            double sum = memory.term[s][e];
            for (int v = 0; v < cell.recipe.n_states; v++)
                if (linear->group[s] >> v & 1)
                    sum += memory.factor[s * ECO_MAX_STATES + v][e] * from[v][e];
            expect_close(sum, back ? memory.dstate[s][e] : memory.next[s][e], "linear", e);
        }
}

/* The gradient of element `at` of a parameter, from the column of dacc that belongs to it. */
static void check_param(int param, const double *dacc, const double *argument, int columns)
{
    const int elements = columns > 0 ? H * columns : H;
    for (int at = 0; at < elements; at++) {
        const int j = columns > 0 ? at / columns : at, k = columns > 0 ? at % columns : 0;
        double sum = 0;
        for (int n = 0; n < N; n++)
            sum += dacc[n * H + j] * (columns > 0 ? argument[n * columns + k] : 1);
        expect_close(sum, numeric_gradient(&in.weights[param][at]), cell.recipe.param[param].name,
                     at);
    }
}

/* The gradient of one of the first H elements of x that the products with W give. */
static double input_gradient(int e)
{
    double sum = 0;
    for (int i = 0; i < cell.lowered.n_accs; i++)
        for (int j = 0; cell.lowered.acc[i].input >= 0 && j < H; j++)
            sum += in.weights[cell.lowered.acc[i].input][j * I + e % H] *
                   memory.dacc[i][e / H * H + j];
    return sum;
}

/* The gradient of a part of x: of its accumulator, which a single number sums up. */
static void check_part(int acc, int copy)
{
    const int units = copy > 0 && cell.recipe.part[copy - 1].kind == ECO_KIND_NUMBER ? H : 1;
    for (int e = 0; copy > 0 && e < PLANE; e += units) {
        double sum = 0;
        for (int j = 0; j < units; j++)
            sum += memory.dacc[acc][e + j];
        expect_close(sum, numeric_gradient(x_at(copy, e)), cell.recipe.part[copy - 1].name, e);
    }
}

static void check_gradients(void)
{
    const struct eco_lowered *lowered = &cell.lowered;
    for (int i = 0; i < lowered->n_accs; i++) {
        const struct eco_accumulator *acc = &lowered->acc[i];
        if (acc->input >= 0)
            check_param(acc->input, memory.dacc[i], in.x, I);
        for (int k = 0; k < lowered->n_operands; k++)
            if (acc->recurrent[k] >= 0)
                check_param(acc->recurrent[k], memory.dacc[i], operand_value(k), H);
        if (acc->vector >= 0)
            check_param(acc->vector, memory.dacc[i], NULL, 0);
    }
    for (int i = 0; i < lowered->n_extra; i++)
        check_param(lowered->extra[i], memory.dacc[lowered->n_accs + i], NULL, 0);
    for (int e = 0; lowered->raw >= 0 && e < PLANE; e++)
        expect_close(memory.dacc[lowered->raw][e] + input_gradient(e), numeric_gradient(x_at(0, e)),
                     "x", e);
    for (int i = 0; i < lowered->n_accs; i++)
        check_part(i, lowered->acc[i].copy);
    for (int s = 0; s < cell.recipe.n_states; s++)
        for (int e = 0; e < PLANE; e++)
            expect_close(memory.dstate[s][e], numeric_gradient(&in.state[s][e]),
                         cell.recipe.state[s], e);
}

static void expect_writes(int op, int n)
{
    for (int i = 0; i < ECO_MAX_ACCS + ECO_MAX_PARAMS; i++)
        ck_assert_msg(memory.writes[op][i] == (i < n), "cell %s: opcode %d writes slot %d %d times",
                      cell.recipe.name, op, i, memory.writes[op][i]);
}

/* The bits are the same if stages use values that earlier stages carry to them. */
static void check_carried(void)
{
    static struct memory computed;
    run_forward(false);
    run_backward();
    computed = memory;
    carries_values = true;
    run_forward(false);
    run_backward();
    carries_values = false;
    ck_assert_msg(memcmp(&computed, &memory, offsetof(struct memory, stage)) == 0, "%s",
                  cell.recipe.name);
}

static void check_text(const char *text)
{
    compile(text);
    fill_random(&in, sizeof in);
    for (int i = 0; i < ECO_MAX_SOURCE; i++)
        for (int e = 0; e < PLANE; e++)
            in.bernoulli[i][e] = in.bernoulli[i][e] > 0;
    check_forward();
    run_forward(false);
    check_linear(false);
    run_backward();
    expect_writes(ECO_OP_STORE_NEXT, cell.recipe.n_states);
    expect_writes(ECO_OP_STORE_SAVE, cell.lowered.n_saves);
    expect_writes(ECO_OP_STORE_OPERAND, cell.lowered.n_slots);
    expect_writes(ECO_OP_STORE_DACC, cell.lowered.n_accs + cell.lowered.n_extra);
    expect_writes(ECO_OP_STORE_DSTATE, cell.recipe.n_states);
    check_gradients();
    check_linear(true);
    check_carried();
}

static void check_file(const char *name)
{
    char text[ECO_MAX_TEXT + 1];
    ck_assert_msg(cell_read(name, text, sizeof text), "%s", name);
    check_text(text);
}

START_TEST(builtin_cells)
{
    char name[64];
    snprintf(name, sizeof name, "own-%s", eco_cell_builtin(_i)->recipe.name);
    check_file(name);
}
END_TEST

START_TEST(example_cells)
{
    char name[64];
    ck_assert(sweep_own_cell(_i, name));
    check_file(name);
}
END_TEST

/* Cells with what those above lack: odd sums, gradients that are zero, results that are leaves. */
static const char *const odd_text[] = {
    "cell a(h)\nh' = h",
    "cell a(h)\nh' = 1",
    "cell a(h, c)\nh' = c\nc' = h",
    "cell a(h, c)\nc' = tanh(W x + R h)\nh' = c'",
    "cell a(h)\nh' = b",
    "cell a(h)\nh' = W x + p * h + b",
    "cell a(h)\nh' = select(W x, 1, 2) + h",
    "cell a(h)\nu = select(R (h * h), 1, 2)\nh' = u + h",
    "cell a(h)\nh' = tanh(R (0.5))",
    "cell a(h)\nh' = tanh(R (bernoulli(0.5)))",
    "cell a(h)\nu = b\nh' = tanh(R u + u)",
    "cell a(h)\nu = W x\nv = W x\nh' = tanh(u + v + R h) * sigmoid(v + b)",
    "cell a(h)\nu = W x + R h + b + h\nh' = log(1 + u * u) + u",
    "cell a(h)\nu = W x + R h + b\nh' = u / (1 + exp(u)) - u",
    "cell a(h)\nh' = h * R h - W x",
    "cell a(h)\na = R h\nu = R (a - h)\nv = tanh(u)\ns = R v\nw = s + R (v * v)\nh' = tanh(w + h)",
    "cell a(h)\nu = W x\nm = mean(u)\nh' = tanh(R (u - m)) + m",
    "cell a(h)\nh' = mean(h * W x) + mean(h)",
    "cell a(h)\nh' = mean(mean(R h) * h) * 2",
    "cell a(h, c)\nc' = tanh(R h + b)\nu = R c'\nh' = tanh(W x + u + c)",
    "cell a(h)\nv = W x + 1\nu = W x + R h + v\nh' = u",
    "cell a(h)\nh' = 0 * h + h / 1 + 1 * h - (-h) + -(-h) + (h + 0) - 0",
    "cell a(h)\nu = R h\nv = R h\nh' = tanh(u) + tanh(v) + W x * u",
    "cell a(h)\nh' = x",
    "cell a(h)\nh' = x * x - h",
    "cell a(h)\nu = sigmoid(W x + R (x) + b + x)\nh' = u * h + (1 - u) * x",
    "cell a(h)\nh' = select(x, 1, 2) + h",
    "cell a(h, m)\nf = sigmoid(W x)\nu = W x - h / (1 + f) + b\nm' = f - m * x\nh' = select(f - "
    "0.6, u, -h)",
    "cell a(y, c, d)\nf = sigmoid(W x)\nc' = f * c + x\nd' = p * d + W x + b\ny' = tanh(c' * d' + "
    "c) * x",
    "cell a(h)\nu = tanh(h)\nh' = (u + 1) * (1 + u) + (1 - u) * (1 - u)",
    "cell a(h)\nu = W x + R h\ns = stop(stop(u) + b) * u + u\nt = R (stop(h))\nh' = t + R "
    "(stop(s))",
    "cell a(h, c)\nu = stop(x)\nq = p * h\nv = p * stop(q)\nw = p * h\nc' = stop(c)\nh' = v + w * "
    "u",
    "cell a(h)\nu = W x + b\nh' = (R h + u * (u - stop(u))) / (2 + stop(exp(u)) * exp(u))",
    "cell a(h)\nu = W x + R h\nv = (u - stop(u)) / 2 + tanh(u)\nh' = v * tanh(v) * stop(v)",
    "cell a(h)\nu = stop(mean(W x * h))\nh' = stop(R (u * h)) + u * h + mean(h * stop(h))",
};

START_TEST(odd_cells)
{
    check_text(odd_text[_i]);
}
END_TEST

TEST_MAIN("lowering", {builtins, sizeof known / sizeof *known}, {builtins_end, 1},
          {parts_of_sums, sizeof part_of_sum / sizeof *part_of_sum},
          {builtin_cells, sizeof known / sizeof *known}, {example_cells, sweep_own_cells()},
          {odd_cells, sizeof odd_text / sizeof *odd_text},
          {projectable, sizeof projection / sizeof *projection},
          {linear_states, sizeof scanned / sizeof *scanned},
          {bounded, sizeof bound / sizeof *bound})
