/*
 * The command ecornn.  Each subcommand is a constant in a file of its own and a line in the table
 * of main.c; all options are in the table of options.c.
 */
#ifndef ECORNN_COMMAND_H
#define ECORNN_COMMAND_H

#include <stdbool.h>

#include "ecornn.h"
#include "json.h"

/* The options that a subcommand takes, as bits. */
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
    TAKES_CSV = 1 << 11,
    TAKES_VERSUS = 1 << 12,
    TAKES_AGAIN = 1 << 13,
    TAKES_TIME = 1 << 14,
    TAKES_THREADS = 1 << 15,
    TAKES_LIST = 1 << 16
};

struct options {
    bool json, measure, regret, time, list, help;
    const char *device, *cell, *shapes, *output, *recorded, *csv; /* NULL: not given */
    const char *versus, *threads;                                 /* likewise */
    double seconds;                                               /* 0: not given */
    int random, seed, again;
    int n;        /* operands */
    char **words; /* [n] */
};

enum { MANY_OPERANDS = 1 << 20 };
struct command {
    const char *name, *operands, *about;
    const char *more; /* printed by --help after the options; or NULL */
    int takes;
    int least, most;                           /* operands; MANY_OPERANDS: any number */
    int (*run)(const struct options *options); /* returns the exit status */
};
extern const struct command command_info, command_plan, command_bench, command_tune, command_wisdom,
    command_cell, command_check;

/* Sorts words into options and operands.  On failure an error is printed. */
bool options_read(struct options *options, const struct command *command, int count, char **words);
/* Prints the options of a command, for --help. */
void options_print(const struct command *command);

/* ---- problems, problems.c -------------------------------------------------------------------- */

/* Problem strings from operands (PROBLEM or @LIST), a recorded file, or at random; none twice. */
struct problems {
    struct one_problem {
        char text[256];
        char *cell; /* the text of its cell, from a recorded file, or NULL */
    } * list;
    int n, room;
};
bool problems_read(struct problems *problems, const struct options *options);
void problems_free(struct problems *problems);

/* ---- a plan, plan.c -------------------------------------------------------------------------- */

struct session;
/* The printed plan, which the caller frees.  On failure NULL, and an error is printed. */
char *plan_text(const struct session *session, const char *problem, ecornn_sizes *sizes);
/* False for a net or attention, which no command measures; then an error is printed. */
bool is_one_plan(const char *problem);
/* Is it a net, a text with ";" (doc/guide/nets.md)? */
bool is_net(const char *problem);
/* Finds the choices in a printed plan; "" if there are none. */
void choices_of(const char *text, char choices[256]);

/* ---- tuning, candidates.c -------------------------------------------------------------------- */

/* The candidates of one problem. */
struct candidates {
    struct candidate {
        char choices[256], refusal[160];
        double seconds, low, high, estimate;
    } * list; /* fastest first, then those refused */
    int n, room;
    ecornn_tuning tuned;
};
/* Tunes, and lists the candidates in keep unless that is NULL.  With --measure or --regret the
 * result does not become wisdom. */
bool tune_problem(const struct session *session, const char *problem, ecornn_tuning *tuned,
                  struct candidates *keep);
void candidates_free(struct candidates *candidates);

/* ---- regrets.c ------------------------------------------------------------------------------- */

/* The mean regret and the worst problems.  Problems that could not be measured are only counted. */
enum { REGRETS_KEPT = 32 };
struct regrets {
    int n, by_wisdom;          /* measured problems; plans that wisdom chose */
    int alone, missed, failed; /* no other plan; too few candidates measured; errors */
    int least;                 /* the smallest number of candidates of a measured problem */
    double sum;
    int n_worst;
    struct {
        double regret;
        char problem[256];
    } worst[REGRETS_KEPT]; /* largest first */
};
void regrets_add(struct regrets *regrets, const char *problem, const ecornn_tuning *tuned);
/* Writes one line, as snprintf does. */
int regrets_print(const struct regrets *regrets, char *text, size_t size);

/* ---- one problem after the other, session.c -------------------------------------------------- */

struct session {
    const struct options *options;
    ecornn_device *device;
    ecornn_cell *cell; /* the problem's cell; NULL: a built-in one */
    struct json json;  /* in an array */
    struct regrets regrets;
    void *own; /* the command's data */
};
typedef bool session_call(struct session *session, const char *problem);
/* Calls for each problem of the options, with progress and time left on standard error if that
 * is a terminal; then prints the regrets, and measures the worst problems --again.  measures: warns
 * if the machine is busy.  Returns the exit status: not 0 if a call returned false or too few
 * candidates of a problem were measured. */
int session_run(const struct options *options, bool measures, session_call *call, void *own);
/* The steps of all layers and directions. */
double layer_steps(const ecornn_desc *desc);
/* Prints a warning if other programs run, which disturb measurements. */
void warn_if_busy(void);
/* Opens the device of the options.  On failure NULL, and an error is printed. */
ecornn_device *open_device(const struct options *options);

/* ---- attention.c ----------------------------------------------------------------------------- */

bool is_attention(const char *problem);
/* Times a problem, and prints a line. */
bool attention_bench(struct session *session, const char *problem);

/* ---- wisdom, wisdom.c and wisdom_file.c ------------------------------------------------------ */

/* All known wisdom as text, which the caller frees.  On failure NULL, and an error is printed. */
char *wisdom_text(void);

/* Finds the file that results are added to, and checks that it can be read: `output`, or, if that
 * is NULL, the user's file, which is created if missing.  On failure an error is printed. */
enum { WISDOM_PATH = 4096 };
bool wisdom_file_open(char path[WISDOM_PATH], const char *output);
/* Adds all known wisdom to the file.  Other commands may add to it at the same time. */
bool wisdom_file_add_known(const char *path);

#endif /* ECORNN_COMMAND_H */
