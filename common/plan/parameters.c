/*
 * The list of a problem's parameters: names, shapes, and positions in the block.
 */
#include "common/problem.h"

#include <stdio.h>

#include "common/util.h"

int eco_problem_params(const struct eco_problem *problem)
{
    return problem->L * problem->D *
           (problem->cell->recipe.n_params + (problem->projected ? 1 : 0));
}

static int32_t blocks_of(const struct eco_problem *problem, int index)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const int kind = index < recipe->n_params ? recipe->param[index].kind : ECO_PARAM_VECTOR;
    const bool blocks = kind == ECO_PARAM_R || (kind == ECO_PARAM_W && problem->grouped);
    return blocks ? problem->heads : 1;
}

static void param_shape(const struct eco_problem *problem, int layer, int index, int32_t *rows,
                        int32_t *cols)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    *rows = problem->H;
    *cols = 1;
    if (index == recipe->n_params) {
        *rows = problem->P;
        *cols = problem->H;
    } else if (recipe->param[index].kind == ECO_PARAM_W) {
        *cols = eco_problem_rest(problem, layer);
    } else if (recipe->param[index].kind == ECO_PARAM_R) {
        const struct eco_node *e = &recipe->node[recipe->node[recipe->param[index].node].a];
        *cols = e->op == ECO_OP_STATE && e->index == 0 ? problem->P : problem->H;
    }
    *cols /= blocks_of(problem, index);
}

/* Elements of the first `count` parameters of one direction of a layer. */
static struct eco_size elements_until(const struct eco_problem *problem, int layer, int count)
{
    struct eco_size sum = eco_size_of(0);
    for (int i = 0; i < count; i++) {
        int32_t rows, cols;
        param_shape(problem, layer, i, &rows, &cols);
        sum = eco_size_add(sum, eco_size_mul(eco_size_of((size_t)rows), (size_t)cols));
    }
    return sum;
}

static struct eco_size elements_before(const struct eco_problem *problem, int layer, int d)
{
    const int each = problem->cell->recipe.n_params + (problem->projected ? 1 : 0);
    struct eco_size sum = eco_size_of(0);
    if (layer > 0) {
        sum = eco_size_mul(elements_until(problem, 0, each), (size_t)problem->D);
        sum = eco_size_add(sum, eco_size_mul(elements_until(problem, 1, each),
                                             (size_t)(layer - 1) * (size_t)problem->D));
    }
    return eco_size_add(sum, eco_size_mul(elements_until(problem, layer, each), (size_t)d));
}

size_t eco_problem_param_elements(const struct eco_problem *problem)
{
    const struct eco_size all = elements_before(problem, problem->L, 0);
    return all.overflow ? SIZE_MAX : all.value;
}

void eco_problem_param_position(const struct eco_problem *problem, int index,
                                struct eco_param_position *position)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const int each = recipe->n_params + (problem->projected ? 1 : 0);
    const int inside = index % each, pair = index / each;
    const int k = inside < recipe->n_params ? inside : -1;
    *position = (struct eco_param_position){
        .layer = pair / problem->D,
        .direction = pair % problem->D,
        .recipe_param = k,
        .vector = k >= 0 && recipe->param[k].kind == ECO_PARAM_VECTOR,
    };
    param_shape(problem, position->layer, inside, &position->rows, &position->cols);
    position->blocks = blocks_of(problem, inside);
    position->elements = (size_t)position->rows * (size_t)position->cols;
}

void eco_problem_param(const struct eco_problem *problem, int index, ecornn_param *param)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    struct eco_param_position position;
    eco_problem_param_position(problem, index, &position);
    const int k = position.recipe_param;
    *param = (ecornn_param){.rows = position.rows, .cols = position.cols};
    snprintf(param->name, sizeof param->name, "%d.%s.%s", position.layer,
             eco_problem_reversed(problem, position.direction) ? "rev" : "fwd",
             k >= 0 ? recipe->param[k].name : "proj");
    param->offset =
        eco_size_add(elements_before(problem, position.layer, position.direction),
                     elements_until(problem, position.layer, k >= 0 ? k : recipe->n_params))
            .value;
}
