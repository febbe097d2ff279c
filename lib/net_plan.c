/*
 * Plans of nets: makes a plan for each layer, on the whole device or a partition of it. The layer's
 * problem string is made from the net's text.
 */
#include <inttypes.h>
#include <string.h>

#include "common/caller.h"
#include "common/compose/models.h"
#include "common/compose/net.h"
#include "lib/check.h"
#include "lib/tune.h"

/* ---- layers ---------------------------------------------------------------------------------- */

/* A layer while its plan is made. */
struct making {
    const struct eco_net_text *text;
    const ecornn_cell *const *cells;
    int32_t T, input;
    bool shared; /* layers read what models share, if they share x */
    struct eco_models_share
        share; /* how the layers of the piece share the device; algo NULL: each has all of it */
};

static const ecornn_cell *find_cell(const ecornn_cell *const *cells, const char *name,
                                    size_t length)
{
    for (; cells != NULL && *cells != NULL; cells++)
        if (strncmp((*cells)->recipe.name, name, length) == 0 &&
            (*cells)->recipe.name[length] == '\0')
            return *cells;
    return NULL;
}

/* Makes a problem string of "lstm", the items that all layers share, T and I, and "/H320", and
 * parses it. */
static ecornn_status parse_layer(ecornn_desc *desc, const struct making *making, const char *layer)
{
    char problem[2 * ECO_NET_TEXT + 32];
    const size_t length = strcspn(layer, "/");
    struct eco_text text = {problem, sizeof problem, 0};
    eco_text_add(&text, "%.*s%s/T%d/I%d%s", (int)length, layer, making->text->common, making->T,
                 making->input, layer + length);
    desc->size = sizeof *desc;
    const ecornn_status status =
        ecornn_desc_parse(desc, problem, find_cell(making->cells, layer, length));
    if (status == ECORNN_OK && (desc->flags & (ECORNN_TANGENT | ECORNN_STREAMS)) != 0)
        return eco_fail(ECORNN_UNSUPPORTED, "nets have no %s",
                        (desc->flags & ECORNN_TANGENT) != 0 ? "tangents" : "streams");
    if (status == ECORNN_OK && desc->cell->recipe.matrix)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "nets do not support cells with a matrix state, as %s is",
                        desc->cell->recipe.name);
    if (status == ECORNN_OK && !making->shared)
        desc->flags &= ~(uint32_t)ECORNN_SHARED_INPUT;
    return status;
}

/* Refuses items that all layers must share, or that a layer of a net cannot have. */
static ecornn_status check_layer(const struct eco_problem *problem, const struct eco_problem *first)
{
    for (int i = 0; i < eco_problem_grammar.options; i++) {
        const struct eco_option *const option = &eco_problem_grammar.option[i];
        if (!option->alike || eco_option_get(option, problem) == eco_option_get(option, first))
            continue;
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "its %s is %" PRId32 ", but that of layer 0 %" PRId32
                        ": the first piece says it for all",
                        option->name != NULL ? option->name : option->word[0].word,
                        eco_option_get(option, problem), eco_option_get(option, first));
    }
    return ECORNN_OK;
}

static ecornn_status parse_problem(struct eco_problem *problem, uint32_t *flags,
                                   const struct making *making, int k)
{
    ecornn_desc desc;
    struct eco_caller caller;
    ecornn_status status = parse_layer(&desc, making, making->text->layer[k]);
    if (status != ECORNN_OK)
        return status;
    eco_caller_begin(&caller);
    status = eco_problem_build(problem, &desc);
    eco_caller_end(&caller);
    *flags = desc.flags;
    return status;
}

static ecornn_status plan_in_part(struct eco_net_plan *plan, const struct making *making, int k)
{
    struct eco_problem problem;
    struct eco_caller caller;
    uint32_t flags;
    ecornn_status status = parse_problem(&problem, &flags, making, k);
    if (status != ECORNN_OK)
        return status;
    eco_caller_begin(&caller);
    status = eco_models_plan_in_part(&plan->layer[k].plan, plan->device, &problem, &making->share);
    eco_caller_end(&caller);
    if (status != ECORNN_OK)
        return status;
    eco_cell_hold(problem.cell);
    struct ecornn_plan *made = plan->layer[k].plan;
    if ((flags & ECORNN_MEASURE) != 0) /* says why not */
        eco_measure(made, 0, &(struct eco_text){made->note, sizeof made->note, 0});
    return ECORNN_OK;
}

static ecornn_status plan_alone(struct eco_net_plan *plan, const struct making *making, int k)
{
    ecornn_desc desc;
    const ecornn_status status = parse_layer(&desc, making, making->text->layer[k]);
    return status == ECORNN_OK ? eco_layers_create(&plan->layer[k].plan, plan->device, &desc)
                               : status;
}

static ecornn_status make_layer(struct eco_net_plan *plan, const struct making *making)
{
    const int k = plan->layers;
    struct eco_net_layer *const layer = &plan->layer[k];
    ecornn_status status =
        (making->share.algo != NULL ? plan_in_part : plan_alone)(plan, making, k);
    if (status != ECORNN_OK)
        return eco_net_fail(status, k);
    plan->layers++;
    const struct eco_problem *const problem = &layer->plan->problem;
    layer->width = problem->D * problem->Y;
    layer->plan->net = plan;
    status = check_layer(problem, eco_net_problem(plan));
    return status == ECORNN_OK ? status : eco_net_fail(status, k);
}

/* ---- layers side by side --------------------------------------------------------------------- */

/* Decides whether layers side by side get a partition of the device each. Errors in their texts are
 * reported later, when the layers are made. */
static ecornn_status share_device(const struct eco_net_plan *plan, struct making *making,
                                  const struct eco_net_piece_text *text)
{
    const struct eco_problem *layer[ECO_NET_LAYERS];
    ecornn_status status = ECORNN_OK;
    making->share = (struct eco_models_share){.concurrent = 1};
    if (text->layers < 2 || plan->device->backend->share == NULL)
        return ECORNN_OK;
    struct eco_problem *const problems = eco_alloc((size_t)text->layers * sizeof *problems);
    if (problems == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %d layers of %zu bytes", text->layers,
                        sizeof *problems);
    uint32_t flags;
    for (int i = 0; status == ECORNN_OK && i < text->layers; i++) {
        status = parse_problem(&problems[i], &flags, making, text->first + i);
        if (status == ECORNN_OK && problems[i].models > 1)
            status = ECORNN_UNSUPPORTED;
        if (status == ECORNN_OK)
            status = eco_plan_force(&problems[i], plan->device->backend);
        layer[i] = &problems[i];
    }
    if (status == ECORNN_OK) {
        struct eco_caller caller;
        eco_caller_begin(&caller);
        plan->device->backend->share(plan->device, layer, text->layers, 1, &making->share);
        eco_caller_end(&caller);
    }
    eco_free(problems);
    return ECORNN_OK;
}

static ecornn_status make_layers(struct eco_net_plan *plan, const struct making *making, int layers)
{
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < layers; i++)
        status = make_layer(plan, making);
    return status;
}

/* If one layer does not fit a partition, all have the whole device. */
static ecornn_status make_beside(struct eco_net_plan *plan, struct making *making,
                                 const struct eco_net_piece_text *text)
{
    char before[ECO_MAX_DETAIL];
    eco_fail_keep(before);
    ecornn_status status = share_device(plan, making, text);
    if (status == ECORNN_OK)
        status = make_layers(plan, making, text->layers);
    if (status != ECORNN_UNSUPPORTED || making->share.algo == NULL)
        return status;
    for (; plan->layers > text->first; plan->layers--) {
        eco_layers_free(plan->layer[plan->layers - 1].plan);
        plan->layer[plan->layers - 1].plan = NULL;
    }
    making->share.algo = NULL;
    status = make_layers(plan, making, text->layers);
    if (status == ECORNN_OK)
        eco_fail_restore(before);
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static ecornn_status check_width(int64_t width)
{
    enum { MOST = 1 << 24 };
    return width <= MOST
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT,
                          "a piece of a net gives %" PRId64 " columns, at most %d", width, MOST);
}

static ecornn_status make_piece(struct eco_net_plan *plan, struct making *making,
                                const struct eco_net_piece_text *text)
{
    struct eco_net_piece *const piece = &plan->piece[plan->pieces++];
    int64_t width = text->layers > 0 ? 0 : (int64_t)text->join * making->input;
    ecornn_status status = make_beside(plan, making, text);
    making->shared = making->shared && text->layers == 0;
    *piece = (struct eco_net_piece){.join = text->join,
                                    .dropout = (double)text->dropout,
                                    .first = text->first,
                                    .layers = text->layers,
                                    .at_once = making->share.algo != NULL,
                                    .before = plan->sizes.joined,
                                    .input = making->input};
    for (int i = 0; status == ECORNN_OK && i < text->layers; i++) {
        plan->layer[text->first + i].column = (int32_t)width;
        width += plan->layer[text->first + i].width;
        status = check_width(width);
    }
    if (status == ECORNN_OK)
        status = check_width(width);
    if (status != ECORNN_OK)
        return status;
    piece->output = making->input = (int32_t)width;
    making->T = eco_joined(making->T, text->join);
    /* limited, because a join of more than all steps gives one step */
    const int64_t joined = (int64_t)plan->sizes.joined * text->join;
    plan->sizes.joined = joined < INT32_MAX ? (int32_t)joined : INT32_MAX;
    return ECORNN_OK;
}

/* ---- a net ----------------------------------------------------------------------------------- */

ecornn_status eco_net_create(struct eco_net_plan *plan, const char *text,
                             const ecornn_cell *const *cells)
{
    struct eco_net_text *const parsed = eco_alloc(sizeof *parsed);
    if (parsed == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a text", sizeof *parsed);
    ecornn_status status = eco_net_parse(parsed, text);
    struct making making = {
        .text = parsed, .cells = cells, .T = parsed->T, .input = parsed->I, .shared = true};
    plan->sizes.steps = parsed->T;
    plan->sizes.input = parsed->I;
    plan->sizes.joined = 1;
    for (int p = 0; status == ECORNN_OK && p < parsed->pieces; p++)
        status = make_piece(plan, &making, &parsed->piece[p]);
    plan->sizes.layers = plan->layers;
    plan->sizes.output = making.input;
    if (status == ECORNN_OK)
        status = eco_net_place(plan);
    if (status == ECORNN_OK)
        strcpy(plan->text, text);
    eco_free(parsed);
    return status;
}
