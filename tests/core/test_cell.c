/*
 * The language of cells: what is refused and where, limits, constants, equal values, and the
 * printed text.  test_lowering.c tests what a cell is lowered to.
 */
#include <check.h>
#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

static struct ecornn_cell cell;

static void compile(const char *text)
{
    struct eco_cell_error error;
    ck_assert_msg(eco_cell_compile(&cell, text, &error), "%s: %d:%d: %s", text, error.line,
                  error.column, error.message);
}

static void expect_error(const char *text, const char *expected)
{
    struct eco_cell_error error;
    char message[ECO_MAX_TEXT];
    ck_assert_msg(!eco_cell_compile(&cell, text, &error), "accepted: %s", text);
    snprintf(message, sizeof message, "%d:%d: %s", error.line, error.column, error.message);
    ck_assert_msg(strcmp(message, expected) == 0, "%.200s\n is \"%s\", must be \"%s\"", text,
                  message, expected);
}

static const struct {
    const char *text, *error;
} wrong[] = {
    {"", "1:1: expected 'cell NAME(STATE, ...)', found the end of the text"},
    {"# nothing\n", "2:1: expected 'cell NAME(STATE, ...)', found the end of the text"},
    {"cel a(h)", "1:1: expected 'cell NAME(STATE, ...)', found 'cel'"},
    {"lstm", "1:1: expected 'cell NAME(STATE, ...)', found 'lstm'"},
    {"cell", "1:5: expected the cell's name, found the end of the text"},
    {"cell 3a(h)", "1:6: expected the cell's name, found '3'"},
    {"cell a", "1:7: expected '(', found the end of the text"},
    {"cell a h", "1:8: expected '(', found 'h'"},
    {"cell a()", "1:8: expected a state's name, found ')'"},
    {"cell a(h", "1:9: expected ')', found the end of the text"},
    {"cell a(h,)", "1:10: expected a state's name, found ')'"},
    {"cell a(h')", "1:8: a state's name stands here without '"},
    {"cell a(x)", "1:8: 'x' is a word of the language"},
    {"cell a(tanh)", "1:8: 'tanh' is a word of the language"},
    {"cell a(h, h)", "1:11: there is already a state 'h'"},
    {"cell a(a1, a2, a3, a4, a5)", "1:24: the cell has more than 4 states"},
    {"cell a(h;)", "1:10: expected the name of a part of x, found ')'"},
    {"cell a(h; u)", "1:12: expected '[', found ')'"},
    {"cell a(h; u[2])", "1:13: expected 1, for a number a row, or H, for one a unit, found '2'"},
    {"cell a(h; u[H)", "1:14: expected ']', found ')'"},
    {"cell a(h; u'[H])", "1:11: a part's name has no '"},
    {"cell a(h; h[H])", "1:11: there is already a state 'h'"},
    {"cell a(h) h", "1:11: expected the end of the line, found 'h'"},
    {"cell a(h) - h", "1:13: expected '>', found 'h'"},
    {"cell a(h, g) -> g", "1:17: y has the first states in their order: expected 'h', found 'g'"},
    {"cell a(h, g) -> h,",
     "1:19: y has the first states in their order: expected 'g', found the end "
     "of the text"},
    {"cell a(h, g) -> h, g'",
     "1:20: y has the first states in their order: expected 'g', found 'g''"},
    {"cell a(h) -> h, h", "1:17: y has all 1 states already, found 'h'"},
    {"cell a(h; u[H], u[1])", "1:17: there is already a part 'u'"},
    {"cell a(h; x[H])", "1:11: 'x' is a word of the language"},
    {"cell a(h; u[H]; v[H])", "1:15: expected ')', found ';'"},
    {"cell a(h; a[1],b1[1],c[1],d[1],e[1],f[1],g[1],i[1],j[1])", "1:52: x has more than 8 parts"},
    {"cell a(h; u[H])\nh' = h", "1:11: the part 'u' of x is never used"},
    {"cell a(h; u[H])\nu = h\nh' = u", "2:1: 'u' is a part of x"},
    {"cell a(h; u[H])\nh' = u'", "2:6: 'u'' has no value yet: lines above may assign one"},
    {"cell a(h; u[H])\nh' = W u", "2:8: expected x after W, found 'u'"},
    {"cell a'(h)", "1:6: expected the cell's name, found 'a''"},
    {"cell a(h) h' = h", "1:11: expected the end of the line, found 'h''"},
    {"cell a(h)", "1:8: the state 'h' has no next value: a line h' = ... is missing"},
    {"cell a(h, c)\nh' = h", "1:11: the state 'c' has no next value: a line c' = ... is missing"},
    {"cell a(h)\nh = h", "2:1: 'h' is a state: its next value is written h'"},
    {"cell a(h)\nc' = h", "2:1: there is no state 'c'"},
    {"cell a(h =)\nh' = h", "1:11: expected a number, found ')'"},
    {"cell a(h = -b)\nh' = h", "1:13: expected a number, found 'b'"},
    {"cell a(h = 1 + 1)\nh' = h", "1:14: expected ')', found '+'"},
    {"cell a(h)\nh' = h\nh' = h", "3:1: 'h'' was assigned in line 2"},
    {"cell a(h)\ng = h\ng = h", "3:1: 'g' was assigned in line 2"},
    {"cell a(h)\ntanh = h", "2:1: 'tanh' is a word of the language"},
    {"cell a(h)\nW = h", "2:1: 'W' is a word of the language"},
    {"cell a(h)\nstop = h", "2:1: 'stop' cannot be a name any more: stop(a) is now the value of a "
                            "without a gradient; choose another"},
    {"cell a(h)\n= h", "2:1: expected a line NAME = ..., found '='"},
    {"cell a(h)\n3 = h", "2:1: expected a line NAME = ..., found '3'"},
    {"cell a(h)\nh' h", "2:4: expected '=', found 'h'"},
    {"cell a(h)\nh' =", "2:5: expected a value, found the end of the text"},
    {"cell a(h)\nh' = h h", "2:8: expected the end of the line, found 'h'"},
    {"cell a(h)\nh' = h +", "2:9: expected a value, found the end of the text"},
    {"cell a(h)\nh' = * h", "2:6: expected a value, found '*'"},
    {"cell a(h)\nh' = (h", "2:8: expected ')' for the '(' at 2:6, found the end of the text"},
    {"cell a(h)\nh' = (h\nc = 1", "3:1: expected ')' for the '(' at 2:6, found 'c'"},
    {"cell a(h)\nh' = h)", "2:7: expected the end of the line, found ')'"},
    {"cell a(h)\nh' = W h", "2:8: expected x after W, found 'h'"},
    {"cell a(h)\nh' = W", "2:7: expected x after W, found the end of the text"},
    {"cell a(h)\nh' = R", "2:7: expected a name or '(' after R, found the end of the text"},
    {"cell a(h)\nh' = R x", "2:8: expected a name or '(' after R, found 'x'"},
    {"cell a(h)\nh' = R 3", "2:8: expected a name or '(' after R, found '3'"},
    {"cell a(h)\nh' = W x + W x", "2:12: line 'h' already has a W; give it a line of its own"},
    {"cell a(h)\nh' = R h + R h", "2:12: line 'h' already has a R; give it a line of its own"},
    {"cell a(h)\nh' = b + b", "2:10: line 'h' already has a b; give it a line of its own"},
    {"cell a(h)\nh' = p * h + p", "2:14: line 'h' already has a p; give it a line of its own"},
    {"cell a(h)\nh' = tanh h", "2:11: expected '(', found 'h'"},
    {"cell a(h)\nh' = tanh()", "2:11: expected a value, found ')'"},
    {"cell a(h)\nh' = tanh(h, h)", "2:12: tanh takes 1 argument"},
    {"cell a(h)\nh' = max(h)", "2:11: max takes 2 arguments"},
    {"cell a(h)\nh' = select(h, h)", "2:17: select takes 3 arguments"},
    {"cell a(h)\nh' = g", "2:6: 'g' has no value yet: lines above may assign one"},
    {"cell a(h)\nh' = h'", "2:6: 'h'' has no value yet: lines above may assign one"},
    {"cell a(h)\ng = g'\nh' = g", "2:5: 'g'' has no value yet: lines above may assign one"},
    {"cell a(h)\nh' = cell", "2:6: expected a value, found 'cell'"},
    {"cell a(h)\nh' = bernoulli(h)", "2:6: the probability of bernoulli must be a number"},
    {"cell a(h)\nh' = bernoulli(1.5)", "2:6: the probability of bernoulli is 1.5, must be 0 to 1"},
    {"cell a(h)\nh' = bernoulli(0 - 1)", "2:6: the probability of bernoulli is -1, must be 0 to 1"},
    {"cell a(h)\nh' = bernoulli(0.5, twice)", "2:21: expected 'once', found 'twice'"},
    {"cell a(h)\nh' = bernoulli(0.5, once, once)",
     "2:25: expected ')' for the '(' at 2:15, found ','"},
    {"cell a(h)\nh' = mean(h, rows)", "2:14: expected 'head', found 'rows'"},
    {"cell a(h)\nh' = mean(h) + mean(h, head)",
     "2:16: means are over rows or over heads, not both in a cell"},
    {"cell a(h)\nh' = hardsigmoid(h)",
     "2:6: there is no function 'hardsigmoid': write min(max(a / 6 "
     "+ 0.5, 0), 1), in ONNX 0.2 * a + 0.5"},
    {"cell a(h)\nh' = Leaky_ReLU(h)",
     "2:6: there is no function 'Leaky_ReLU': write max(a, 0.01 * a)"},
    {"cell a(h)\nh' = 1 + Tanh (h)", "2:10: there is no function 'Tanh', but tanh"},
    {"cell a(h)\nh' = sin(h)", "2:6: there is no function 'sin', but bernoulli mean min max select "
                               "abs exp log sqrt tanh sigmoid relu stop"},
    {"cell a(h)\nh' = R sin(h)",
     "2:8: there is no function 'sin', but bernoulli mean min max select "
     "abs exp log sqrt tanh sigmoid relu stop"},
    {"cell a(h)\nh' = h(h)", "2:7: expected the end of the line, found '('"},
    {"cell a(h)\nh' = h @ h", "2:8: expected the end of the line, found '@'"},
    {"cell a(h)\nh' = h \200", "2:8: expected the end of the line, found byte 0x80"},
    {"cell a(h)\nh' = 1e99", "2:6: the number is larger than a float can be"},
    {"cell a(h)\nh' = 3.4028236e38", "2:6: the number is larger than a float can be"},
    {"cell a(h)\nh' = 1e99999999999999999999", "2:6: the number is larger than a float can be"},
    {"cell a(h)\nh' = 1e39 ", "2:6: the number is larger than a float can be"},
    {"cell a(h)\nh' = .", "2:6: expected a value, found '.'"},
    {"cell a(h)\nh' = 2h", "2:7: expected the end of the line, found 'h'"},
    {"cell a(h)\ng = h\nh' = h", "2:1: 'g' is never used"},
    {"cell abcdefghijklmnopqrstuvwxyz(h)", "1:6: the name has 26 characters, at most 23"},
    {"cell a(h)\nabcdefghijklmnopqrstuvwxyz = h", "2:1: the name has 26 characters, at most 23"},
    {"cell a(h)\nh' = tanh'(h)", "2:6: expected a value, found 'tanh''"},
    {"cell a(h)\nh' = W' x", "2:6: expected a value, found 'W''"},
    {"cell a(h)\nh' = W x'", "2:8: expected x after W, found 'x''"},
    {"cell a(h)\r\nh' = h\r\ng = 1 +\r\n", "3:9: expected a value, found the end of the line"},
};

START_TEST(wrong_texts)
{
    expect_error(wrong[_i].text, wrong[_i].error);
}
END_TEST

/* ---- limits ---- */

/* Writes a text: begin; then `each` n times with @ replaced by 1, 2 ... n; then h' = h plus each
 * name; then end. */
static const char *repeat(const char *begin, const char *each, const char *name, int n)
{
    static char data[1 << 18];
    struct eco_text text = {data, sizeof data, 0};
    eco_text_add(&text, "%s", begin);
    for (int part = 0; part < 2; part++) {
        if (part == 1)
            eco_text_add(&text, "h' = h");
        for (int i = 1; i <= n; i++)
            for (const char *at = part == 0 ? each : name; *at != 0; at++)
                if (*at == '@')
                    eco_text_add(&text, "%d", i);
                else
                    eco_text_add(&text, "%c", *at);
    }
    ck_assert_uint_lt(text.length, sizeof data);
    return data;
}

static const struct {
    const char *each, *name;
    int most;
    const char *error; /* the error if there is one more */
} limit[] = {
    {"", " + @", 95, "2:474: the cell has more than 192 values here"},
    {"l@ = h\n", "", 0, "2:1: 'l1' is never used"},
    {"l@ = h\n", " - l@", 191, "194:1: the cell has more than 192 lines"},
    {"l@ = p\n", " * l@", 32, "34:7: the cell has more than 32 parameters here"},
    {"l@ = tanh(W x)\n", " + l@", 16, "1:1: the cell has 17 sums of products, at most 16"},
    {"l@ = R (h + @)\n", " + l@", 8, "10:6: R has more than 8 different operands"},
    {"l@ = mean(h * @)\n", " + l@", 24, "26:7: the cell has more than 24 means here"},
    {"u@ = W x\nl@ = tanh(u@) * exp(u@) * sigmoid(u@)\n", " + l@", 8,
     "1:1: the gradient keeps more than 24 values per unit"},
    {"", " * mean(h", 0, "2:16: expected ')' for the '(' at 2:14, found the end of the text"},
};

START_TEST(limits)
{
    const char *begin = "cell a(h)\n";
    if (limit[_i].most > 0)
        compile(repeat(begin, limit[_i].each, limit[_i].name, limit[_i].most));
    expect_error(repeat(begin, limit[_i].each, limit[_i].name, limit[_i].most + 1),
                 limit[_i].error);
}
END_TEST

/* Writes `open` n times, h, and `close` n times. */
static const char *nest(const char *open, const char *close, int n)
{
    static char data[1 << 18];
    struct eco_text text = {data, sizeof data, 0};
    eco_text_add(&text, "cell a(h)\nh' = ");
    for (int i = 0; i < n; i++)
        eco_text_add(&text, "%s", open);
    eco_text_add(&text, "h");
    for (int i = 0; i < n; i++)
        eco_text_add(&text, "%s", close);
    return data;
}

START_TEST(nesting)
{
    compile(nest("(", ")", 63));
    expect_error(nest("(", ")", 64), "2:70: nested more than 64 deep");
    expect_error(nest("(", "", 16000), "2:70: nested more than 64 deep");
    expect_error(nest("-", "", 16000), "2:70: nested more than 64 deep");
    expect_error(nest("-", "", 17000), "1:1: the text has more than 16384 bytes");
    expect_error(repeat("cell a(h)\n", "l@ = bernoulli(0.5)\n", "", 129),
                 "130:8: the cell has more than 128 draws");
    compile(nest("h * mean(", ")", 7));
    ck_assert_int_eq(cell.lowered.n_forward, 8);
    ck_assert_int_eq(cell.lowered.n_backward, 8);
    expect_error(nest("h * mean(", ")", 8),
                 "1:1: a step of the cell or its gradient has 9 stages, at most 8");
    expect_error(nest("max(h, abs(h + ", "))", 31),
                 "1:1: a stage of the cell has more than 256 instructions");
}
END_TEST

/* ---- values ---- */

static const struct {
    const char *expression;
    double value;
} constant[] = {
    {"1 - 2 - 3", -4},
    {"2 + 3 * 4", 14},
    {"(2 + 3) * 4", 20},
    {"8 / 4 / 2", 1},
    {"-2 * -3", 6},
    {"2 - -3", 5},
    {"- - 2", 2},
    {"1.5e1 + .5 + 1.", 16.5},
    {"25E-2", 0.25},
    {"0.1", 0.1},
    {"1e-5", 1e-5},
    {"1e-30", 1e-30},
    {"1e-5 - 0.00001", 0},
    {"3.14159265358979323846264338327950288419716939937510582097494459", 3.14159265358979323846},
    {"0.1000000000000000055511151231257827021181583404541015625", 0.1},
    {"0.1000000000000000055511151231257827021181583404541015626", 0.1},
    {"9007199254740993", 9007199254740992},                             /* a tie to even, */
    {"9007199254740995", 9007199254740996},                             /* the other way, */
    {"9007199254740993.000000000000000000000000001", 9007199254740994}, /* and none */
    {"1.7976931348623157e-300", 1.7976931348623157e-300},
    {"2.2250738585072011e-308", 2.2250738585072011e-308}, /* denormal */
    {"4.9e-324 + 2.4e-324", 4.9e-324},
    {"1e-99999999999999999999", 0},
    {"000000000000000000000000000000000000000000000000000000000000000000001e0", 1},
    {"3.4028235e38 - 3.40282346638528859811704183484516925440e38", 3.4028235e38 - (double)FLT_MAX},
    {"9.5367431640625E-07", 0x1p-20},
    {".5", 0.5},
    {"5.", 5},
    {"max(1, 2) * min(3, 4)", 6},
    {"select(0, 1, 2) + select(0.5, 10, 20)", 12},
    {"abs(-3) + sqrt(16) + relu(-1) + relu(2)", 9},
    {"exp(0) + log(1) + tanh(0) + sigmoid(0) + mean(2)", 3.5},
    {"(1 # a comment does not end the line here\n + 2)", 3},
};

static void check_constant(const char *expression, double value)
{
    char text[400];
    snprintf(text, sizeof text, "cell a(h)\nh' = %s", expression);
    compile(text);
    const struct eco_node *next = &cell.recipe.node[cell.recipe.next[0]];
    ck_assert_int_eq(next->op, ECO_OP_CONST);
    ck_assert_msg(next->value == value, "%s is %a, must be %a", expression, next->value, value);
}

START_TEST(constants)
{
    check_constant(constant[_i].expression, constant[_i].value);
}
END_TEST

/* A number has the value that a C compiler gives it. One that is too long is refused. */
START_TEST(long_numbers)
{
    char digits[300], text[400];
    uint64_t state = 1;
    for (int k = 0; k < 3000; k++) {
        const int n = 1 + k % 250, point = k * 7 % (n + 1);
        for (int i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            digits[i] = (char)('0' + (state >> 60) % 10);
        }
        memmove(digits + point + 1, digits + point, (size_t)(n - point));
        digits[point] = '.';
        snprintf(digits + n + 1, 20, "e-%d", point + k * 37 % 320);
        check_constant(digits, strtod(digits, NULL));
    }
    memset(digits, '1', sizeof digits);
    snprintf(text, sizeof text, "cell a(h)\nh' = .%.255s", digits);
    compile(text);
    snprintf(text, sizeof text, "cell a(h)\nh' = .%.256s", digits);
    expect_error(text, "2:6: the number has 257 characters, at most 256");
}
END_TEST

/* Parses in a locale with a decimal comma, and in one whose only letters are ASCII. */
START_TEST(locales)
{
    static const char *const name[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "tr_TR.UTF-8"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char half[8];
        struct eco_text printed = {half, sizeof half, 0};
        setlocale(LC_ALL, name[i]); /* a locale that is missing changes nothing */
        eco_text_add(&printed, "%.1f", 0.5);
        ck_assert_str_eq(half, "0.5");
        check_constant("0.5 + 1.25e1", 13);
        expect_error("cell a(h)\nh' = SIGMOID(h)",
                     "2:6: there is no function 'SIGMOID', but sigmoid");
    }
    setlocale(LC_ALL, "C");
}
END_TEST

static int count(int op)
{
    int n = 0;
    for (int i = 0; i < cell.recipe.n_nodes; i++)
        n += cell.recipe.node[i].op == op;
    return n;
}

START_TEST(equal_values_are_one)
{
    compile("cell a(h)\nu = (1 - h) * (1 - h)\nv = mean(h) + mean(h)\nh' = u * v + v * u");
    ck_assert_int_eq(count(ECO_OP_SUB), 1);
    ck_assert_int_eq(count(ECO_OP_MEAN), 1);
    ck_assert_int_eq(cell.recipe.n_means, 1);
    ck_assert_int_eq(count(ECO_OP_MUL), 2);
    compile(
        "cell a(h)\nk = bernoulli(0.5)\nl = bernoulli(0.5)\nu = b\nv = b\nh' = (k - l) * u * v");
    ck_assert_int_eq(count(ECO_OP_BERNOULLI), 2);
    ck_assert_int_eq(cell.recipe.n_bernoulli, 2);
    ck_assert_int_eq(count(ECO_OP_VECTOR), 2);
    compile("cell a(h)\nh' = h * 1 + 0 - 0");
    ck_assert_int_eq(cell.recipe.node[cell.recipe.next[0]].op, ECO_OP_STATE);
    compile("cell a(h)\nh' = h * 0"); /* a NaN stays a NaN */
    ck_assert_int_eq(cell.recipe.node[cell.recipe.next[0]].op, ECO_OP_MUL);
    compile("cell a(h)\nh' = 1 / 0 + log(0) + 1e38 * 10"); /* not folded, but computed by the run */
    ck_assert_int_eq(cell.recipe.node[cell.recipe.next[0]].op, ECO_OP_ADD);
    compile("cell stop(h)\nu = stop(h)\nh' = h * u + stop(stop(h)) * stop(2)"); /* not one with h */
    ck_assert_int_eq(count(ECO_OP_STOP), 1);
    ck_assert_int_eq(cell.lowered.forward[0].n, 6);
}
END_TEST

/* ---- the printed text ---- */

static const char printed[] = "CELL_FUNCTION void CELL(my_cell_forward_0)(CELL_AT at)\n"
                              "{\n"
                              "    const vec v0 = load_acc(at, 0);\n"
                              "    const vec v1 = v_bernoulli(at, 0, 0x1p-2);\n"
                              "    const vec v2 = v_mul(v0, v1);\n"
                              "    const vec v3 = v_const(-0x3p+1);\n"
                              "    const vec v4 = v_max(v2, v3);\n"
                              "    store_next(at, 0, v4);\n"
                              "    store_save(at, 0, v2);\n"
                              "}\n"
                              "\n"
                              "CELL_FUNCTION void CELL(my_cell_backward_0)(CELL_AT at)\n"
                              "{\n"
                              "    const vec v1 = load_saved(at, 0);\n"
                              "    const vec v3 = load_dnext(at, 0);\n"
                              "    const vec v0 = v_bernoulli(at, 0, 0x1p-2);\n"
                              "    const vec v2 = v_const(-0x3p+1);\n"
                              "    const vec v4 = v_sub(v1, v2);\n"
                              "    const vec v5 = v_const(0x0p+0);\n"
                              "    const vec v6 = v_select(v4, v3, v5);\n"
                              "    const vec v7 = v_mul(v6, v0);\n"
                              "    store_dacc(at, 0, v7);\n"
                              "    store_dstate(at, 0, v5);\n"
                              "}\n"
                              "\n";

START_TEST(emitted)
{
    char text[2000];
    compile("cell my-cell(h)\nh' = max(W x * bernoulli(0.25), -6)");
    ck_assert_uint_eq(eco_cell_emit(&cell, text, sizeof text), sizeof printed - 1);
    ck_assert_str_eq(text, printed);
    ck_assert_uint_eq(eco_cell_emit(&cell, NULL, 0), sizeof printed - 1);
    ck_assert_uint_eq(eco_cell_emit(&cell, text, 14), sizeof printed - 1);
    ck_assert_str_eq(text, "CELL_FUNCTION");
}
END_TEST

START_TEST(starts)
{
    static const double value[] = {0, -1e30, 0.5};
    ecornn_cell *parsed;
    check_ok(ecornn_cell_parse(&parsed, "cell a(h, m = -1e30, n = 0.5)\n"
                                        "m' = max(m, W x)\nn' = n\nh' = m' * n"));
    for (int s = 0; s < 3; s++)
        ck_assert(state_start(parsed, s) == value[s]);
    ck_assert(state_start(parsed, 3) == 0);
    ecornn_cell_free(parsed);
}
END_TEST

TEST_MAIN("cell", {wrong_texts, sizeof wrong / sizeof *wrong},
          {limits, sizeof limit / sizeof *limit}, {nesting, 1},
          {constants, sizeof constant / sizeof *constant}, {long_numbers, 1}, {locales, 1},
          {equal_values_are_one, 1}, {emitted, 1}, {starts, 1})
