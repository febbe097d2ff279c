/*
 * Cells of other systems; see foreign.h.
 */
#include "lib/foreign.h"

#include <math.h>
#include <string.h>

#include "common/caller.h"
#include "common/cell/opcode.h"
#include "common/util.h"

/* First letters of our parameter names, by part. */
static const char kind[ECO_FOREIGN_PARTS + 1] = "WRbbp";

/* clang-format off */
static const struct eco_foreign_cell torch_rows[] = { /* also for cuDNN, which has the same gates in the same order */
    {"rnn-tanh", {"h",    "h",    "h",    "h"},    false},
    {"rnn-relu", {"h",    "h",    "h",    "h"},    false},
    {"lstm",     {"ifgo", "ifgo", "ifgo", "ifgo"}, true},
    {"gru",      {"rzn",  "rzq",  "rzn",  "rzq"},  false},
    {0}
};
static const struct eco_foreign_cell keras_rows[] = {
    {"rnn-tanh",        {"h",    "h",    "h"},           false}, /* SimpleRNN */
    {"rnn-relu",        {"h",    "h",    "h"},           false}, /* activation="relu" */
    {"lstm",            {"ifgo", "ifgo", "ifgo"},        false},
    {"lstm-peephole",   {"ifgo", "ifgo", "ifgo", NULL, "ifo"}, false}, /* PeepholeLSTMCell */
    {"gru",             {"zrn",  "zrq",  "zrn",  "zrq"}, false}, /* reset_after=True */
    {"gru-reset-first", {"zrn",  "zrn",  "zrn"},         false}, /* reset_after=False */
    {0}
};
static const struct eco_foreign_cell onnx_rows[] = {
    {"rnn-tanh",        {"h",    "h",    "h",    "h"},           false},
    {"rnn-relu",        {"h",    "h",    "h",    "h"},           false},
    {"lstm",            {"iofg", "iofg", "iofg", "iofg"},        false},
    {"lstm-peephole",   {"iofg", "iofg", "iofg", "iofg", "iof"}, false},
    {"lstm-coupled",    {"io-g", "io-g", "io-g", "io-g"},        false}, /* input_forget=1 */
    {"gru",             {"zrn",  "zrq",  "zrn",  "zrq"},         false}, /* linear_before_reset=1 */
    {"gru-reset-first", {"zrn",  "zrn",  "zrn",  "zrn"},         false},
    {0}
};
/* clang-format on */

static const struct eco_foreign_system systems[] = {
    {"torch", torch_rows, ECO_FOREIGN_PAIR, {"WRbdP"}, false},
    {"cudnn", torch_rows, ECO_FOREIGN_NET, {"WRP", "bd"}, false},
    {"keras", keras_rows, ECO_FOREIGN_PAIR, {"WRbdp"}, true},
    {"onnx", onnx_rows, ECO_FOREIGN_LAYER, {"W", "R", "bd", "p"}, false},
};

const struct eco_foreign_system *eco_foreign_find(const char *name)
{
    for (size_t k = 0; k < sizeof systems / sizeof *systems; k++)
        if (strcmp(systems[k].name, name) == 0)
            return &systems[k];
    eco_fail(ECORNN_BAD_ARGUMENT, "system is '%.40s', must be torch, cudnn, keras or onnx", name);
    return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int find_param(const struct eco_recipe *recipe, char first, char line)
{
    const char name[] = {first, '.', line, 0};
    int k = recipe->n_params - 1;
    while (k >= 0 && strcmp(recipe->param[k].name, name) != 0)
        k--;
    return k;
}

/* The bias decides, because W may be part of the line u. */
int eco_foreign_param(const struct eco_recipe *recipe, enum eco_foreign_part part, char line,
                      bool *negated)
{
    *negated = line == 'z' && find_param(recipe, 'b', 'z') < 0;
    return find_param(recipe, kind[part], *negated ? 'u' : line);
}

/* How the parameters of a row and of a cell differ. */
struct difference {
    int known;           /* parameters that both have */
    char missing[8];     /* the first that the cell lacks; "": none */
    const char *unknown; /* the first that the row lacks; NULL: none */
};

static void compare_row(const struct eco_foreign_cell *row, const struct eco_recipe *recipe,
                        struct difference *difference)
{
    bool found[ECO_MAX_PARAMS] = {false}, negated;
    *difference = (struct difference){0};
    for (enum eco_foreign_part part = 0; part < ECO_FOREIGN_PARTS; part++)
        for (const char *line = row->gates[part]; line && *line; line++) {
            const int k = *line == '-' ? -1 : eco_foreign_param(recipe, part, *line, &negated);
            if (k >= 0)
                found[k] = true;
            else if (*line != '-' && !difference->missing[0])
                memcpy(difference->missing, (char[]){kind[part], '.', *line, 0}, 4);
        }
    for (int k = 0; k < recipe->n_params; k++) {
        difference->known += found[k];
        if (!found[k] && !difference->unknown)
            difference->unknown = recipe->param[k].name;
    }
}

/* The system's cell with these parameters; or UNSUPPORTED, with the difference to the nearest. */
static ecornn_status find_row(const struct eco_foreign_system *system,
                              const struct eco_recipe *recipe,
                              const struct eco_foreign_cell **found)
{
    const struct eco_foreign_cell *nearest = NULL;
    struct difference least = {0};
    for (const struct eco_foreign_cell *row = system->cells; row->name; row++) {
        struct difference difference;
        compare_row(row, recipe, &difference);
        if (!difference.missing[0] && !difference.unknown) {
            *found = row;
            return ECORNN_OK;
        }
        if (difference.known > least.known ||
            (difference.known == least.known && !difference.missing[0] && least.missing[0])) {
            least = difference;
            nearest = row;
        }
    }
    if (!nearest)
        return eco_fail(ECORNN_UNSUPPORTED, "%s has no cell with the parameters of '%s'",
                        system->name, recipe->name);
    if (least.unknown)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "%s has no cell with the parameters of '%s': its %s has no %s",
                        system->name, recipe->name, nearest->name, least.unknown);
    return eco_fail(ECORNN_UNSUPPORTED,
                    "%s has no cell with the parameters of '%s': its %s also has %s", system->name,
                    recipe->name, nearest->name, least.missing);
}

/* The next output state of a unit whose previous one is 1, with one large vector, else 0. */
static double next_state(const struct eco_recipe *recipe, int vector)
{
    double value[ECO_MAX_SOURCE];
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        const double a = node->a < 0 ? 0 : value[node->a], b = node->b < 0 ? 0 : value[node->b];
        if (node->op == ECO_OP_CONST || node->op == ECO_OP_BERNOULLI)
            value[i] = node->value;
        else if (node->op == ECO_OP_STATE)
            value[i] = node->index == 0;
        else if (node->op == ECO_OP_VECTOR)
            value[i] = node->index == vector ? 100 : 0;
        else if (node->op == ECO_OP_INPUT || node->op == ECO_OP_PRODUCT)
            value[i] = 0;
        else
            value[i] = eco_opcode_value(node->op, a, b, node->c < 0 ? 0 : value[node->c]);
    }
    return value[recipe->next[0]];
}

/* Rejects a text whose z has the papers' meaning: numbers would silently be wrong. */
static ecornn_status check_share(const struct eco_foreign_system *system,
                                 const struct eco_foreign_cell *row,
                                 const struct eco_recipe *recipe)
{
    bool negated;
    if (!strchr(row->gates[ECO_FOREIGN_BIAS], 'z'))
        return ECORNN_OK;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const double kept =
        next_state(recipe, eco_foreign_param(recipe, ECO_FOREIGN_BIAS, 'z', &negated));
    eco_caller_end(&caller);
    if (!negated && fabs(kept) < 0.01)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "z of '%s' weights the new state, but in %s the old one: name it u",
                        recipe->name, system->name);
    if (negated && fabs(kept - 1) < 0.01)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "u of '%s' weights the old state, as z does in %s: name it z", recipe->name,
                        system->name);
    return ECORNN_OK;
}

/* Does every R multiply the output state?  Only the output state has a projection. */
static bool reads_output(const struct eco_recipe *recipe)
{
    bool all = true;
    for (int k = 0; k < recipe->n_params; k++) {
        const struct eco_node *product = &recipe->node[recipe->param[k].node];
        all &= product->op != ECO_OP_PRODUCT ||
               (recipe->node[product->a].op == ECO_OP_STATE && recipe->node[product->a].index == 0);
    }
    return all;
}

ecornn_status eco_foreign_cell_find(const struct eco_foreign_system *system,
                                    const struct eco_recipe *recipe, int32_t proj,
                                    const struct eco_foreign_cell **found)
{
    const struct eco_foreign_cell *row = NULL;
    ecornn_status status = find_row(system, recipe, &row);
    if (status == ECORNN_OK)
        status = check_share(system, row, recipe);
    if (status != ECORNN_OK)
        return status;
    if (proj > 0 && !(row->projection && reads_output(recipe)))
        return eco_fail(ECORNN_UNSUPPORTED, "%s has no projection for %s, proj is %d", system->name,
                        row->name, (int)proj);
    *found = row;
    return ECORNN_OK;
}
