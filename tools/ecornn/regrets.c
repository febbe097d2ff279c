/*
 * The summary of "tune --regret" over many problems: the mean and the worst regret, and how many
 * problems could not be measured.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"

void regrets_add(struct regrets *regrets, const char *problem, const ecornn_tuning *tuned)
{
    const int candidates = tuned->candidates - tuned->wrong;
    regrets->by_wisdom += tuned->by_wisdom != 0;
    if (!tuned->measured) {
        regrets->alone += tuned->complete != 0;
        regrets->missed += tuned->complete == 0;
        return;
    }
    if (regrets->n == 0 || candidates < regrets->least)
        regrets->least = candidates;
    regrets->n++;
    regrets->sum += tuned->regret;
    int at = regrets->n_worst < REGRETS_KEPT ? regrets->n_worst++ : REGRETS_KEPT;
    for (; at > 0 && regrets->worst[at - 1].regret < tuned->regret; at--)
        if (at < REGRETS_KEPT)
            regrets->worst[at] = regrets->worst[at - 1];
    if (at == REGRETS_KEPT)
        return;
    regrets->worst[at].regret = tuned->regret;
    snprintf(regrets->worst[at].problem, sizeof regrets->worst[at].problem, "%s", problem);
}

int regrets_print(const struct regrets *regrets, char *text, size_t size)
{
    int n = snprintf(text, size, "regret of %d problems", regrets->n);
#define ADD(...)                                                                                   \
    n += snprintf(n < (int)size ? text + n : NULL, n < (int)size ? size - (size_t)n : 0,           \
                  __VA_ARGS__)
    if (regrets->by_wisdom > 0)
        ADD(", %d by wisdom", regrets->by_wisdom);
    if (regrets->n > 0)
        ADD(": mean %.1f %%, at worst %.1f %% (%s), at least %d candidates each",
            100 * regrets->sum / regrets->n, 100 * regrets->worst[0].regret,
            regrets->worst[0].problem, regrets->least);
    if (regrets->alone > 0)
        ADD("; %d have no other plan", regrets->alone);
    if (regrets->missed > 0)
        ADD("; %d not measured", regrets->missed);
    if (regrets->failed > 0)
        ADD("; %d failed", regrets->failed);
    ADD("\n");
#undef ADD
    return n;
}
