/*
 * Which problems take each other's wisdom.  Knows the form of a problem string, not what is in it,
 * but for T and N.
 */
#include "common/wisdom/wisdom.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

int32_t eco_wisdom_bucket(int32_t count)
{
    int64_t power = 16;
    if (count <= power)
        return count;
    while (2 * power < count)
        power *= 2;
    return (int32_t)(count <= 3 * power / 2 ? 3 * power / 2 : 2 * power);
}

/* Does "T100" or "N32" begin here?  Then its number. */
static bool is_count(const char *part, size_t length, int32_t *count)
{
    if (length < 2 || (part[0] != 'T' && part[0] != 'N') ||
        strspn(part + 1, "0123456789") != length - 1)
        return false;
    *count = (int32_t)strtol(part + 1, NULL, 10);
    return true;
}

uint64_t eco_wisdom_key(const char *problem, uint64_t cell)
{
    uint64_t hash = eco_hash(ECO_HASH, &cell, sizeof cell);
    for (const char *part = problem; *part != '\0';) {
        const size_t length = strcspn(part, "/");
        int32_t count;
        if (is_count(part, length, &count)) {
            const int32_t bucket = eco_wisdom_bucket(count);
            hash = eco_hash(hash, part, 1);
            hash = eco_hash(hash, &bucket, sizeof bucket);
        } else {
            hash = eco_hash(hash, part, length);
        }
        hash = eco_hash(hash, "/", 1);
        part += length + (part[length] == '/');
    }
    return hash;
}

uint64_t eco_cell_identity(const struct ecornn_cell *cell)
{
    const struct eco_recipe *recipe = &cell->recipe;
    uint64_t hash = ECO_HASH;
    if (cell->builtin >= 0)
        return 0;
    for (int i = 0; i < recipe->n_nodes; i++) {
        const struct eco_node *node = &recipe->node[i];
        const int16_t words[] = {node->op, node->a, node->b, node->c, node->index};
        hash = eco_hash(hash, words, sizeof words);
        hash = eco_hash(hash, &node->value, sizeof node->value);
    }
    for (int s = 0; s < recipe->n_states; s++)
        hash = eco_hash(hash, &recipe->next[s], sizeof recipe->next[s]);
    for (int k = 0; k < recipe->n_params; k++)
        hash = eco_hash(hash, &recipe->param[k].node, sizeof recipe->param[k].node);
    return hash != 0 ? hash : 1;
}

/* Any cell does for the rest of a string; this one allows all of it. */
static const struct ecornn_cell *any_cell(void)
{
    int index = 0;
    while (strcmp(eco_cell_builtin(index)->recipe.name, "lstm") != 0)
        index++;
    return eco_cell_builtin(index);
}

const char *eco_wisdom_problem_refuses(const char *problem, bool built_in)
{
    ecornn_desc desc;
    struct eco_problem made;
    if (eco_problem_parse(&desc, problem, built_in ? NULL : any_cell()) != ECORNN_OK ||
        eco_problem_build(&made, &desc) != ECORNN_OK)
        return eco_fail_detail();
    const char *rest = problem + (built_in ? 0 : strcspn(problem, "/"));
    const char *same = made.text + (built_in ? 0 : strcspn(made.text, "/"));
    return strcmp(rest, same) == 0 ? NULL : "the problem is not as a plan prints it";
}
