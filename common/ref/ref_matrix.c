/*
 * The reference's values of cells with a matrix state: which numbers of two values meet, and what
 * sums or multiplies across a head.  Heads follow each other in a value, [heads,K] and so on; each
 * matrix is there in full, so this checks the form that common/cell/matrix.c finds.
 */
#include "common/ref/ref.h"

int32_t eco_reference_size(const struct eco_reference *run, int node)
{
    return eco_problem_kind(run->problem, run->problem->cell->recipe.kind[node]);
}

/* Numbers of a head in a value of this kind. */
static int32_t of_head(const struct eco_reference *run, int kind)
{
    return eco_problem_kind(run->problem, kind) / run->problem->heads;
}

/* A number meets all numbers of its head, and number i of a key row i of a matrix. */
int32_t eco_reference_place(const struct eco_reference *run, int argument, int node, int32_t j)
{
    const uint8_t *const kind = run->problem->cell->recipe.kind;
    if (kind[argument] == kind[node])
        return j;
    return kind[argument] == ECO_KIND_NUMBER ? j / of_head(run, kind[node])
                                             : j / of_head(run, ECO_KIND_VALUE);
}

bool eco_reference_is_across(const struct eco_recipe *recipe, const struct eco_node *node)
{
    return recipe->matrix && (node->op == ECO_OP_MEAN || node->op == ECO_OP_DOT ||
                              node->op == ECO_OP_OUTER || node->op == ECO_OP_READ);
}

/* The arrays of one head of a node that has them, and of its arguments. */
struct head {
    struct eco_reference *run;
    const struct eco_node *node;
    double *a, *b, *to, *da, *db, *dto;
    int32_t width, columns; /* of argument a; of a matrix */
};

static double *head_of(const struct eco_reference *run, double *array, int node, int32_t h)
{
    return node < 0 ? NULL
                    : array + (size_t)node * (size_t)run->width +
                          (size_t)h * (size_t)of_head(run, run->problem->cell->recipe.kind[node]);
}

static struct head begin_head(struct eco_reference *run, int i, int32_t h)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_node *node = &recipe->node[i];
    const int32_t V = of_head(run, ECO_KIND_VALUE), width = of_head(run, recipe->kind[node->a]);
    return (struct head){.run = run,
                         .node = node,
                         .a = head_of(run, run->value, node->a, h),
                         .b = head_of(run, run->value, node->b, h),
                         .to = head_of(run, run->value, i, h),
                         .da = head_of(run, run->dvalue, node->a, h),
                         .db = head_of(run, run->dvalue, node->b, h),
                         .dto = head_of(run, run->dvalue, i, h),
                         .width = node->op == ECO_OP_READ ? width / V : width,
                         .columns = V};
}

static void add(const struct head *head, double *sum, double term)
{
    eco_round_add(&head->run->arithmetic, sum, term);
}

static double rounded(const struct head *head, double value)
{
    return eco_round(&head->run->arithmetic, value);
}

static void evaluate(const struct head *head)
{
    const bool dot = head->node->op == ECO_OP_DOT, mean = head->node->op == ECO_OP_MEAN;
    for (int32_t j = 0; j < (dot || mean                     ? 1
                             : head->node->op == ECO_OP_READ ? head->columns
                                                             : 0);
         j++)
        head->to[j] = 0;
    for (int32_t i = 0; i < head->width; i++) {
        if (dot || mean)
            add(head, head->to, dot ? head->a[i] * head->b[i] : head->a[i]);
        for (int32_t j = 0; !dot && !mean && j < head->columns; j++)
            if (head->node->op == ECO_OP_READ)
                add(head, &head->to[j], head->a[i * head->columns + j] * head->b[i]);
            else
                head->to[i * head->columns + j] = rounded(head, head->a[i] * head->b[j]);
    }
    if (mean)
        *head->to = rounded(head, *head->to / head->width);
}

static void sweep(const struct head *head)
{
    const bool dot = head->node->op == ECO_OP_DOT, mean = head->node->op == ECO_OP_MEAN;
    for (int32_t i = 0; i < head->width; i++) {
        if (mean)
            add(head, &head->da[i], *head->dto / head->width);
        if (dot) {
            add(head, &head->da[i], *head->dto * head->b[i]);
            add(head, &head->db[i], *head->dto * head->a[i]);
        }
        for (int32_t j = 0; !dot && !mean && j < head->columns; j++) {
            const int32_t at = i * head->columns + j;
            const bool reads = head->node->op == ECO_OP_READ;
            const double d = head->dto[reads ? j : at];
            add(head, &head->da[reads ? at : i], d * head->b[reads ? i : j]);
            add(head, &head->db[reads ? i : j], d * head->a[reads ? at : i]);
        }
    }
}

void eco_reference_across(struct eco_reference *run, int node)
{
    for (int32_t h = 0; h < run->problem->heads; h++) {
        const struct head head = begin_head(run, node, h);
        evaluate(&head);
    }
}

void eco_reference_sweep_across(struct eco_reference *run, int node)
{
    for (int32_t h = 0; h < run->problem->heads; h++) {
        const struct head head = begin_head(run, node, h);
        sweep(&head);
    }
}
