/*
 * The built-in cells: their texts, printed by cellgen during the build, compiled once on first use.
 */
#include "common/cell/cell.h"

#include <assert.h>
#include <pthread.h>

#include "common/cell/builtin.inc"

enum { BUILTINS = sizeof builtin_text / sizeof *builtin_text };

static struct ecornn_cell builtin[BUILTINS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void compile_builtins(void)
{
    for (int i = 0; i < BUILTINS; i++) {
        struct eco_cell_error error;
        const bool compiled = eco_cell_compile(&builtin[i], builtin_text[i].text, &error);
        assert(compiled); /* cellgen has compiled the same text */
        (void)compiled;
        builtin[i].builtin = i;
    }
}

const struct ecornn_cell *eco_cell_builtin(int index)
{
    if (index < 0 || index >= BUILTINS)
        return NULL;
    pthread_once(&once, compile_builtins);
    return &builtin[index];
}
