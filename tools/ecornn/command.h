/*
 * The command ecornn: what its subcommands are made of.  Each is a constant in a file of its own
 * and a line in the table of main.c; options are in the table of options.c.
 */
#ifndef ECORNN_COMMAND_H
#define ECORNN_COMMAND_H

#include <stdbool.h>

#include "ecornn.h"
#include "json.h"

/* Options that a subcommand takes: bits. */
enum {
    TAKES_JSON = 1 << 0,
    TAKES_DEVICE = 1 << 1,
    TAKES_CELL = 1 << 2,
    TAKES_SHAPES = 1 << 3,
    TAKES_SECONDS = 1 << 4,
    TAKES_MEASURE = 1 << 5,
    TAKES_OUTPUT = 1 << 6,
    TAKES_RECORDED = 1 << 7,
    TAKES_RANDOM = 1 << 8,
    TAKES_SEED = 1 << 9,
    TAKES_REGRET = 1 << 10,
    TAKES_MACHINE = 1 << 11,
    TAKES_CSV = 1 << 12,
    TAKES_VERSUS = 1 << 14,
    TAKES_WISDOM = 1 << 15,
    TAKES_AGAIN = 1 << 16,
    TAKES_TIME = 1 << 17
};

struct options {
    bool json, measure, regret, wisdom, machine, versus, time, help;
    const char *device, *cell, *shapes, *output, *recorded, *csv; /* NULL: not given */
    double seconds;                                               /* 0: not given */
    int random, seed, again;
    int n;        /* operands */
    char **words; /* [n] */
};

enum { MANY_OPERANDS = 1 << 20 };
struct command {
    const char *name, *operands, *about;
    const char *more; /* of --help, after the options; or NULL */
    int takes;
    int least, most;                           /* operands; MANY_OPERANDS: any number */
    int (*run)(const struct options *options); /* the exit status: 0, 1: failed, 2: used wrongly */
};
extern const struct command command_info, command_plan, command_bench, command_tune, command_wisdom,
    command_cell, command_check;

/* Sorts words into options and operands.  False: wrong, and said so. */
bool options_read(struct options *options, const struct command *command, int count, char **words);
/* Those of a command, for --help. */
void options_print(const struct command *command);

/* ---- problems, problems.c -------------------------------------------------------------------- */

/* Problem strings, from operands (PROBLEM or @LIST), a recorded file, chance; none twice. */
struct problems {
    struct one_problem {
        char text[256];
        char *cell; /* the text of its cell, out of a recorded file; NULL: none is there */
    } * list;
    int n, room;
};
bool problems_read(struct problems *problems, const struct options *options);
void problems_free(struct problems *problems);

/* ---- a plan, plan.c -------------------------------------------------------------------------- */

struct session;
/* In words; the caller frees it.  NULL, and said so. */
char *plan_text(const struct session *session, const char *problem, ecornn_sizes *sizes);
/* False, and said so: a net or attention, which is no single plan that a command could measure. */
bool is_one_plan(const char *problem);
/* A net: a text of pieces (doc/guide/nets.md). */
bool is_net(const char *problem);
/* Its choices, out of what ecornn_plan_print wrote; "": none. */
void choices_of(const char *text, char choices[256]);
/* What it says of wisdom, likewise. */
enum { MOST_NOTE = 1024 };
void wisdom_of(const char *text, char note[MOST_NOTE]);

/* ---- tuning, candidates.c -------------------------------------------------------------------- */

/* What was measured of one problem. */
struct candidates {
    struct candidate {
        char choices[256], refusal[160];
        double seconds, low, high, estimate;
    } * list; /* fastest first, then those refused */
    int n, room;
    ecornn_tuned tuned;
};
/* Tunes, and keeps what was tried where keep is not NULL.  Of --measure and --regret no wisdom
 * comes. */
bool tune_problem(const struct session *session, const char *problem, ecornn_tuned *tuned,
                  struct candidates *keep);
void candidates_free(struct candidates *candidates);

/* ---- regrets.c ------------------------------------------------------------------------------- */

/* Mean and worst of the problems whose alternatives were measured; the others are only counted. */
enum { REGRETS_KEPT = 32 };
struct regrets {
    int n, by_wisdom;          /* measured; plans of all that wisdom chose */
    int alone, missed, failed; /* no other plan; alternatives not measured; no measurement at all */
    int least;                 /* candidates of a measured problem, at least */
    double sum;
    int n_worst;
    struct {
        double regret;
        char problem[256];
    } worst[REGRETS_KEPT]; /* largest first */
};
void regrets_add(struct regrets *regrets, const char *problem, const ecornn_tuned *tuned);
/* One line, as snprintf writes it; wisdom: says how many plans are wisdom's even if none is. */
int regrets_print(const struct regrets *regrets, bool wisdom, char *text, size_t size);

/* ---- one problem after the other, session.c -------------------------------------------------- */

struct session {
    const struct options *options;
    ecornn_device *device;
    ecornn_cell *cell; /* of the problem; NULL: built in */
    struct json json;  /* in an array */
    struct regrets regrets;
    void *own; /* of the command */
};
typedef bool session_call(struct session *session, const char *problem);
/* Calls for each problem of the options, with progress and time left on standard error, where that
 * is a terminal; then says how large regrets were, and measures the worst --again in a new process.
 * measures: says where the machine is busy.  The exit status: not 0 if a call was false, or a
 * problem's alternatives were not measured. */
int session_run(const struct options *options, bool measures, session_call *call, void *own);
/* Steps of all layers and directions. */
double layer_steps(const ecornn_desc *desc);
/* Says on standard error that other programs run, which measurements suffer from. */
void warn_if_busy(void);
/* The device of some options.  NULL, and said so. */
ecornn_device *open_device(const struct options *options);

/* bench --versus, versus.c: beside what Python has.  The exit status. */
int versus_run(const struct options *options);

/* ---- wisdom, wisdom_file.c ------------------------------------------------------------------- */

/* A file that is changed: others who change it wait until it is closed. */
enum { WISDOM_PATH = 4096 };
struct wisdom_file {
    char path[WISDOM_PATH];
    int lock; /* -1: not taken */
};
/* Where the result goes: output, or NULL: the user's file, whose folders are made. */
bool wisdom_file_find(struct wisdom_file *file, const char *output);
bool wisdom_file_lock(struct wisdom_file *file);
void wisdom_file_unlock(struct wisdom_file *file);
/* Only what the file holds is known after that; one that is not there holds nothing. */
bool wisdom_file_read(const struct wisdom_file *file);
bool wisdom_file_write(const struct wisdom_file *file);

/* All that is known, wisdom.c; the caller frees it.  NULL, and said so. */
char *wisdom_text(void);

#endif /* ECORNN_COMMAND_H */
