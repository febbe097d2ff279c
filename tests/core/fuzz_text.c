/*
 * Parses hostile texts. A text that begins with '/' is a problem string, one with ';' is a net,
 * anything else is a cell. An accepted cell must print, and an accepted problem must print a string
 * that describes it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/attention_calls.h"
#include "common/attention/attention.h"
#include "common/cell/cell.h"
#include "common/net_text.h"
#include "common/problem.h"

static void fuzz_attention(const char *text)
{
    struct eco_attention_desc desc;
    struct eco_attention problem, again;
    if (eco_attention_parse(&desc, text) != ECORNN_OK ||
        eco_attention_build(&problem, &desc) != ECORNN_OK)
        return;
    if (eco_attention_parse(&desc, problem.text) != ECORNN_OK ||
        eco_attention_build(&again, &desc) != ECORNN_OK || strcmp(problem.text, again.text) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_cell(const char *text)
{
    static struct ecornn_cell cell;
    struct eco_cell_error error;
    if (eco_cell_compile(&cell, text, &error)) {
        static char printed[1 << 20];
        if (eco_cell_emit(&cell, printed, sizeof printed) >= sizeof printed)
            abort();
    } else if (error.line < 1 || error.column < 1 || error.message[0] == 0) {
        abort();
    }
}

static void fuzz_problem(const char *text)
{
    ecornn_desc desc;
    struct eco_problem problem;
    if (eco_problem_parse(&desc, text, NULL) != ECORNN_OK)
        return;
    if (eco_problem_build(&problem, &desc) != ECORNN_OK)
        return;
    /* the printed string must describe the same problem */
    struct eco_problem again;
    if (eco_problem_parse(&desc, problem.text, NULL) != ECORNN_OK ||
        eco_problem_build(&again, &desc) != ECORNN_OK || strcmp(problem.text, again.text) != 0)
        abort();
}

/* Layers are numbered without gaps, and the name of each is a word of the text. */
static void fuzz_net(const char *net)
{
    static struct eco_net_text text;
    int layers = 0;
    if (eco_net_parse(&text, net) != ECORNN_OK)
        return;
    for (int p = 0; p < text.pieces; p++) {
        const struct eco_net_piece_text *piece = &text.piece[p];
        const int kinds = (piece->layers > 0) + (piece->join > 1) + (piece->dropout > 0);
        if (kinds != 1 || (piece->layers > 0 && piece->first != layers))
            abort();
        layers += piece->layers;
    }
    for (int k = 0; k < text.layers; k++)
        if (strstr(net, text.layer[k]) == NULL || text.layer[k][0] == '\0')
            abort();
    if (layers != text.layers || text.T < 1 || text.I < 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool problem = size > 0 && *data == '/';
    char *text = malloc(size + 1); /* of exact size, so that sanitizers see reading past the end */
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    if (problem && strncmp(text + 1, "attention", 9) == 0)
        fuzz_attention(text + 1);
    else if (problem)
        fuzz_problem(text + 1);
    else if (*text == ';')
        fuzz_net(text + 1);
    else
        fuzz_cell(text);
    free(text);
    return 0;
}
