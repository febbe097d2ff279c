/*
 * Cases and trials for their parts, see whole.h.
 */
#include "tests/kit/whole.h"

#include <stdio.h>

#include "common/type.h"
#include "tests/kit/calls.h"

/* Sets an array of the host, if the case has it. */
static void load(struct trial *trial, int role, int s, const struct data *data)
{
    struct trial_array *const array = &trial->array[0][role][s];
    const struct array *from = data_find(data, trial_role(role));
    char name[32];
    snprintf(name, sizeof name, "%s%d", trial_role(role), s);
    if (from == NULL)
        from = data_find(data, name);
    if (array->host == NULL)
        return;
    if (from == NULL)
        trial->without |= 1u << role;
    for (size_t i = 0; from != NULL && i < from->count; i++)
        if (array->type != 0)
            eco_type_set(array->host, i, array->type, from->value[i]);
        else if (role == LENGTHS)
            ((int32_t *)(void *)array->host)[i] = (int32_t)from->value[i];
        else
            array->host[i] = (char)(unsigned char)from->value[i];
}

static void load_params(struct trial *trial, const struct data *inputs)
{
    const struct trial_array *const array = &trial->array[0][PARAMS][0];
    for (int k = 0; k < trial->sizes.param_count; k++) {
        ecornn_param param;
        param_at(trial->plan, k, &param);
        const struct array *const from = data_find(inputs, param.name);
        for (size_t i = 0; i < from->count; i++)
            eco_type_set(array->host, param.offset + i, array->type, from->value[i]);
    }
}

static void open_run(struct trial *trial, const struct machine *machine,
                     const struct test_case *test, int32_t T, int32_t N)
{
    ecornn_desc desc = test->desc;
    ecornn_plan *plan;
    desc.steps = T, desc.batch = N;
    check_ok(ecornn_plan_create_desc(&plan, machine->device, &desc));
    trial_open_plan(trial, machine->device, plan);
    trial->owns_plan = true;
    trial->io.seed = test->seed;
}

bool whole_open(struct trial *whole, const struct machine *machine, const struct test_case *test,
                const struct data *inputs)
{
    struct data results = {0};
    const bool ok = case_run(test, machine, inputs, &results);
    open_run(whole, machine, test, test->T, test->N);
    load_params(whole, inputs);
    for (int role = 0; role < DPARAMS; role++)
        for (int s = 0; s < TRIAL_STATES && role != PARAMS; s++)
            load(whole, role, s, role < Y ? inputs : &results);
    data_free(&results);
    return ok;
}

void whole_part(struct trial *part, const struct machine *machine, const struct test_case *test,
                int32_t T, int32_t N)
{
    struct test_case of = *test;
    of.desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    of.desc.save_every = 0;
    open_run(part, machine, &of, T, N);
}

static bool is_equal(struct part_row a, struct part_row b, void *context)
{
    bool same = true;
    (void)context;
    for (size_t i = 0; same && i < a.array->row / a.array->element; i++)
        same = eco_type_get(a.at, i, a.array->type) == eco_type_get(b.at, i, b.array->type);
    return same;
}

bool whole_same(struct part part, int role, struct part whole, int whole_role)
{
    const bool ok = part_each(part, role, whole, whole_role, is_equal, NULL);
    if (!ok)
        fprintf(stderr, "    other %s in %d steps from step %d, in rows from %d\n",
                trial_role(role), (int)part.of->T, (int)whole.step, (int)whole.row);
    return ok;
}
