/*
 * Moves parameters between a layer and its tangent, which has every W twice as wide and every R
 * twice (common/cell/tangent.h).
 */
#include "common/compose/tangent.h"

enum { MOST = 2 * ECO_MAX_PARAMS }; /* of two directions */

/* A parameter of the tangent in one direction. */
struct param {
    int number;   /* in the parameters of the tangent's plan */
    int from;     /* in the caller's parameters */
    uint8_t role; /* enum eco_tangent_role */
    char *matrix; /* W: [H,2I] in the workspace; else NULL */
};

static int count(const struct eco_tangent_run *run)
{
    return run->plan->problem.D * run->plan->tangent->cell.recipe.n_params;
}

static struct param param_of(const struct eco_tangent_run *run, int number)
{
    const struct eco_tangent_plan *plan = run->plan;
    const struct eco_recipe *recipe = &plan->tangent->cell.recipe;
    const int d = number / recipe->n_params, k = number % recipe->n_params;
    const struct eco_tangent_param *origin = &plan->tangent->param[k];
    const size_t bytes =
        2 * (size_t)plan->problem.H * (size_t)run->kind->input * eco_type_bytes(plan->problem.type);
    int inputs = 0; /* every W precedes all other parameters */
    while (inputs < recipe->n_params && recipe->param[inputs].kind == ECO_PARAM_W)
        inputs++;
    return (struct param){number, (run->layer * plan->problem.D + d) * plan->params + origin->param,
                          origin->role,
                          k < inputs ? run->at.matrices + (size_t)(d * inputs + k) * bytes : NULL};
}

void eco_tangent_move(struct eco_tangent_run *run, const struct eco_rows_move *rows)
{
    struct eco_rows_move typed = *rows;
    typed.type = run->plan->problem.type;
    eco_sequence_move(&run->sequence, &typed);
}

/* Writes the first or the second half of a wide matrix. from NULL: zeros. */
static void put_half(struct eco_tangent_run *run, char *matrix, bool second, const void *from)
{
    const size_t I = (size_t)run->kind->input;
    const ecornn_type type = run->plan->problem.type;
    eco_tangent_move(run, &(struct eco_rows_move){.to = matrix + second * I * eco_type_bytes(type),
                                                  .from = from,
                                                  .to_row = 2 * I,
                                                  .from_row = I,
                                                  .rows = (size_t)run->plan->problem.H,
                                                  .width = I});
}

static void pack(struct eco_tangent_run *run, const struct ecornn_plan *plan,
                 const void *const *params, void *weights)
{
    const struct eco_call call = {ECO_CALL_PACK, {.pack = {plan, params, NULL, weights}}};
    if (eco_problem_params(&plan->problem) > 0)
        eco_sequence_calls(&run->sequence, &call, 1);
}

static void unpack(struct eco_tangent_run *run, const struct ecornn_plan *plan,
                   void *const *dparams, bool add)
{
    const struct eco_call call = {ECO_CALL_UNPACK,
                                  {.unpack = {plan, run->at.dweights, dparams, add}}};
    if (eco_problem_params(&plan->problem) > 0)
        eco_sequence_calls(&run->sequence, &call, 1);
}

void eco_tangent_pack(struct eco_tangent_run *run)
{
    const void *given[MOST];
    for (int i = 0; i < count(run); i++) {
        const struct param param = param_of(run, i);
        const void *value = run->args.params[param.from];
        const void *slope = run->tangent.params ? run->tangent.params[param.from] : NULL;
        const bool is_slope = param.role == ECO_TANGENT_SLOPE;
        given[i] = !is_slope ? value : slope ? slope : run->at.zeros;
        if (param.matrix == NULL)
            continue;
        put_half(run, param.matrix, false, is_slope ? slope : value);
        put_half(run, param.matrix, true, is_slope ? value : NULL);
        given[i] = param.matrix;
    }
    pack(run, run->kind->both.plan, given, run->at.both_weights);
}

void eco_tangent_pack_cell(struct eco_tangent_run *run)
{
    const struct eco_tangent_plan *plan = run->plan;
    pack(run, run->kind->cell.plan, run->args.params + run->layer * plan->problem.D * plan->params,
         run->at.cell_weights);
}

/* The caller's array for the parameter's gradient, without the contributions of its other roles;
 * NULL: not requested. */
static void *first_place(const struct eco_tangent_run *run, const struct param *param)
{
    if (param->matrix != NULL)
        return run->dparams[param->from] ? param->matrix : NULL;
    return param->role == ECO_TANGENT_VALUE ? run->dparams[param->from] : NULL;
}

/* Adds the gradients of two wide matrices to that of W. */
static void add_matrices(struct eco_tangent_run *run)
{
    const size_t I = (size_t)run->kind->input;
    for (int i = 0; i < count(run); i++) {
        const struct param param = param_of(run, i);
        void *to = run->dparams[param.from];
        const bool second = param.role == ECO_TANGENT_SLOPE;
        if (param.matrix == NULL || to == NULL)
            continue;
        eco_tangent_move(
            run, &(struct eco_rows_move){
                     .to = to,
                     .from = param.matrix + second * I * eco_type_bytes(run->plan->problem.type),
                     .to_row = I,
                     .from_row = 2 * I,
                     .rows = (size_t)run->plan->problem.H,
                     .width = I,
                     .add = second});
    }
}

void eco_tangent_unpack(struct eco_tangent_run *run)
{
    void *first[MOST], *again[MOST];
    for (int i = 0; i < count(run); i++) {
        const struct param param = param_of(run, i);
        first[i] = first_place(run, &param);
        again[i] = param.role == ECO_TANGENT_AGAIN ? run->dparams[param.from] : NULL;
    }
    unpack(run, run->kind->both.plan, first, false);
    unpack(run, run->kind->both.plan, again, true);
    add_matrices(run);
}

void eco_tangent_unpack_cell(struct eco_tangent_run *run)
{
    const struct eco_tangent_plan *plan = run->plan;
    unpack(run, run->kind->cell.plan, run->dparams + run->layer * plan->problem.D * plan->params,
           true);
}
