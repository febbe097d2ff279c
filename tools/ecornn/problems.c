/*
 * The problems of a command: from operands, lists, recorded files, or drawn at random.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/files.h"
#include "bench/core/say.h"
#include "bench/core/system.h"
#include "command.h"
#include "bench/core/named.h"

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_same(const char *cell, const char *other)
{
    return cell == NULL || other == NULL ? cell == other : strcmp(cell, other) == 0;
}

/* cell: the text of the problem's own cell, or NULL. */
static bool add_with(struct problems *problems, const char *problem, const char *cell)
{
    for (int k = 0; k < problems->n; k++)
        if (strcmp(problems->list[k].text, problem) == 0 && is_same(cell, problems->list[k].cell))
            return true;
    for (const char *at = problem; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            return say("%.200s: a problem has ASCII characters only", problem);
    if (strlen(problem) >= sizeof problems->list->text)
        return say("%.40s...: a problem has fewer than %zu characters", problem,
                   sizeof problems->list->text);
    if (problems->n == problems->room) {
        const int room = 2 * problems->room + 16;
        void *list = realloc(problems->list, (size_t)room * sizeof *problems->list);
        if (list == NULL)
            return say("no memory for %d problems", room);
        problems->list = list;
        problems->room = room;
    }
    struct one_problem *one = &problems->list[problems->n];
    strcpy(one->text, problem);
    one->cell = cell != NULL ? strdup(cell) : NULL;
    if (cell != NULL && one->cell == NULL)
        return say("no memory for the cell of %s", problem);
    problems->n++;
    return true;
}

static bool add(void *own, const char *problem)
{
    return add_with(own, problem, NULL);
}

/* A list of the file of shapes, and what is put into each of its problems after the cell's name. */
struct list {
    struct problems *problems;
    const char *parts; /* "/bf16/train", or "" */
};

static bool add_from_list(void *own, const char *problem)
{
    const struct list *list = own;
    const int cell = (int)strcspn(problem, "/");
    char text[sizeof list->problems->list->text];
    if (snprintf(text, sizeof text, "%.*s%s%s", cell, problem, list->parts, problem + cell) >=
        (int)sizeof text)
        return say("%.40s...: too long for a problem", problem);
    return add(list->problems, text);
}

/* words: NAME or NAME/PARTS. */
static bool add_list(struct problems *problems, const char *shapes, const char *words)
{
    struct list list = {.problems = problems, .parts = words + strcspn(words, "/")};
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(words, "/"), words);
    return list_each(shapes, name, add_from_list, &list);
}

/* ---- recorded -------------------------------------------------------------------------------- */

/* Replaces "\\n" and "\\\\" by what they stand for, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0')
            *to++ = *++text == 'n' ? '\n' : *text;
        else
            *to++ = *text;
    }
    *to = '\0';
}

/* Reads a file of ECORNN_RECORD: problems, after "#cell TEXT" if the cell is the program's own. */
static bool read_recorded(struct problems *problems, const char *path)
{
    static const char head[] = "#cell ";
    enum { HEAD = sizeof head - 1 };
    char *line = NULL, *cell = NULL;
    size_t room = 0;
    bool good = true;
    FILE *file = file_open(path);
    if (file == NULL)
        return false;
    while (system_read_line(&line, &room, file)) {
        const bool defines = strncmp(line, head, HEAD) == 0;
        line[strcspn(line, defines ? "\r\n" : " \t\r\n#")] = '\0';
        if (defines) {
            free(cell);
            cell = strdup(line + HEAD);
            if (cell != NULL)
                unescape(cell);
        } else if (line[0] != '\0') {
            good = add_with(problems, line, cell) && good;
            free(cell);
            cell = NULL;
        }
    }
    free(cell);
    free(line);
    fclose(file);
    return good;
}

/* ---- random problems
 * ---------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t draw_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int draw(uint64_t *state, int count)
{
    return (int)(draw_bits(state) % (uint64_t)count);
}

/* Small and large extents are equally likely: the logarithm is uniform. */
static int draw_extent(uint64_t *state, int least, int most)
{
    const double part = (double)(draw_bits(state) >> 11) * 0x1p-53;
    return (int)(least * pow((double)most / least, part) + 0.5);
}

static int count_cells(void)
{
    int count = 0;
    while (name_of_cell(count) != NULL)
        count++;
    return count;
}

/* Limits of random problems.  A GPU does in a fraction of a second what two threads of a CPU do in
 * minutes. */
static const struct extents {
    int most_N, most_I, most_H, layers;
    double work, bytes; /* most multiply-adds of a run, most bytes that training keeps */
} of_cpu = {4096, 1024, 1024, 5, 4e10, 1e9}, of_gpu = {4096, 4096, 4096, 5, 1e13, 8e9};

/* Half of them are LSTM or GRU, as in practice; a third have several layers. */
static bool add_random(struct problems *problems, const struct options *options, uint64_t *state)
{
    static const char *const type[] = {"f32", "f32", "f32/fast", "bf16", "bf16", "f16"},
                             *const common[] = {"lstm", "gru"};
    const bool gpu = options->device != NULL && strncmp(options->device, "cuda", 4) == 0;
    const struct extents *most = gpu ? &of_gpu : &of_cpu;
    char text[256], layers[16] = "";
    for (;;) {
        const char *cell =
            draw(state, 2) ? common[draw(state, 2)] : name_of_cell(draw(state, count_cells()));
        const char *of_type = type[gpu ? draw(state, 6) : draw(state, 4) < 3 ? 0 : 3];
        const int L = draw(state, 3) ? 1 : 2 + draw(state, most->layers - 1),
                  T = draw_extent(state, 1, 400), N = draw_extent(state, 1, most->most_N),
                  I = draw_extent(state, 8, most->most_I), H = draw_extent(state, 8, most->most_H);
        const bool bi = draw(state, 5) == 0, training = draw(state, 2) == 0;
        const double rows = (double)L * (bi ? 2 : 1) * T * N,
                     work = rows * 4 * H * ((double)I + H) * (training ? 3 : 1),
                     bytes = rows * 8 * H * 4;
        if (L > 1)
            snprintf(layers, sizeof layers, "/L%d", L);
        snprintf(text, sizeof text, "%s/%s/%s%s%s/T%d/N%d/I%d/H%d", cell, of_type,
                 training ? "train" : "infer", L > 1 ? layers : "", bi ? "/bi" : "", T, N, I, H);
        ecornn_desc desc = {.size =
                                sizeof desc}; /* cells that read x unit by unit refuse most sizes */
        if (ecornn_desc_parse(&desc, text, NULL) == ECORNN_OK && work <= most->work &&
            bytes <= most->bytes)
            return add(problems, text);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool problems_read(struct problems *problems, const struct options *options)
{
    uint64_t state = options->seed > 0 ? (uint64_t)options->seed : 1;
    bool good = true;
    *problems = (struct problems){.n = 0};
    for (int k = 0; k < options->n; k++)
        if (options->words[k][0] == '@')
            good = add_list(problems, options->shapes, options->words[k] + 1) && good;
        else
            good = add(problems, options->words[k]) && good;
    if (options->recorded != NULL)
        good = read_recorded(problems, options->recorded) && good;
    for (int k = 0; good && k < options->random; k++)
        good = add_random(problems, options, &state);
    if (good && problems->n == 0)
        return say("no problem");
    return good;
}

void problems_free(struct problems *problems)
{
    for (int k = 0; k < problems->n; k++)
        free(problems->list[k].cell);
    free(problems->list);
    *problems = (struct problems){.n = 0};
}
