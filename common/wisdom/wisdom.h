/*
 * Wisdom: which choices were measured to be the fastest, by problem and device.  One text form,
 * read as if an enemy had written it; one store in the process, behind a lock, which plans ask once
 * when they are made.  Files are lib's.
 */
#ifndef ECO_WISDOM_H
#define ECO_WISDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/force.h"
#include "common/problem.h"

/* ---- a text, wisdom/text.c ------------------------------------------------------------------- */

#define ECO_WISDOM_HEAD    "ecornn-wisdom 1"
#define ECO_WISDOM_DEVICE  "device "
#define ECO_WISDOM_MACHINE "machine "
enum { ECO_MAX_VALUES = 256 };

/* What a line was measured on. */
struct eco_wisdom_device {
    uint64_t id; /* hash of the words */
    const char *words;
    uint32_t order; /* of the line */
};

/* What was found for a problem. */
struct eco_wisdom_line {
    const char *problem, *choices, *date;
    uint64_t cell; /* eco_cell_identity: 0: built in */
    uint64_t nanoseconds, spread;
    int32_t device; /* place in the list */
    uint32_t order; /* of two for the same, the later counts */
};

/* What was measured of a device itself: "launch-ps=2100000,copy-mbps=4300000". */
struct eco_wisdom_machine {
    const char *values, *date;
    int32_t device;
    uint32_t order; /* of the line */
};

/* A line for people. */
struct eco_wisdom_remark {
    const char *text; /* with its '#' */
    uint32_t order;   /* what follows it has a later one */
};

/* Of lines that are for the same problems. */
struct eco_wisdom_place {
    uint64_t key; /* eco_wisdom_key */
    uint32_t line;
};

/* A text that was read; all of it is in one block. */
struct eco_wisdom {
    char *text; /* what the strings are in */
    struct eco_wisdom_device *device;
    struct eco_wisdom_line *line;       /* the later last */
    struct eco_wisdom_place *place;     /* by key */
    struct eco_wisdom_remark *remark;   /* none twice */
    struct eco_wisdom_machine *machine; /* of each device at most one, by order */
    int32_t devices, machines;
    uint32_t lines, remarks;
};

/* Reads a text; name: of it, in errors.  BAD_ARGUMENT: it is none, the detail has NAME:LINE:
 * reason. The wisdom is the caller's to free, also where it is {0}. */
ecornn_status eco_wisdom_read(struct eco_wisdom *wisdom, const char *text, size_t bytes,
                              const char *name);
void eco_wisdom_free(struct eco_wisdom *wisdom);
/* order.c, for that: of what is for the same only the latest stays; lines are found by key. */
void eco_wisdom_arrange(struct eco_wisdom *wisdom);

/* ---- a text again, wisdom/write.c ------------------------------------------------------------ */

/* All of it, as snprintf in pieces; head: with the first line. */
void eco_wisdom_write(struct eco_text *text, const struct eco_wisdom *wisdom, bool head);

/* One line, of whatever length. */
void eco_wisdom_write_line(struct eco_text *text, const struct eco_wisdom_line *line,
                           const struct eco_wisdom_device *device);
void eco_wisdom_write_machine(struct eco_text *text, const struct eco_wisdom_machine *machine,
                              const struct eco_wisdom_device *device);
void eco_wisdom_write_device(struct eco_text *text, const struct eco_wisdom_device *device);

/* ---- problems, wisdom/key.c ------------------------------------------------------------------ */

/* T and N in buckets: themselves up to 16, then the next of 24, 32, 48, 64, 96 ... */
int32_t eco_wisdom_bucket(int32_t count);
/* The same for problems that take each other's wisdom: all alike but T and N of a bucket. */
uint64_t eco_wisdom_key(const char *problem, uint64_t cell);
/* A number for what a cell from text computes; 0: built in. */
uint64_t eco_cell_identity(const struct ecornn_cell *cell);
/* NULL: the text is a problem's, as plans print it.  Else why not, until the next call that fails;
 * built_in: of such a cell. */
const char *eco_wisdom_problem_refuses(const char *problem, bool built_in);

/* ---- devices, wisdom/identity.c -------------------------------------------------------------- */

enum { ECO_MAX_IDENTITY = 320 };
/* What times depend on: "cpu avx512 threads=2 ... version=0.1.0 choices=HASH name=...". */
void eco_device_identify(struct ecornn_device *device);
/* Are the words of this version of the library?  Others may know other problems. */
bool eco_identity_of_this_version(const char *words);
/* The first word in which others differ, such as "threads=4 is threads=2 here". */
void eco_identity_difference(struct eco_text *text, const char *other, const char *here);

/* ---- the store, wisdom/store.c --------------------------------------------------------------- */

/* Takes over what a text says; the later wins.  On failure nothing is changed. */
ecornn_status eco_wisdom_add(const char *text, size_t bytes, const char *name);
/* One line more, of this device. */
ecornn_status eco_wisdom_learn(const struct ecornn_device *device,
                               const struct eco_wisdom_line *line);
/* What was measured of it. */
ecornn_status eco_wisdom_learn_machine(const struct ecornn_device *device, const char *values,
                                       const char *date);
void eco_wisdom_forget(void);
/* As snprintf; SIZE_MAX: no memory. */
size_t eco_wisdom_print(char *text, size_t size);
/* A file that could not be read: what plans say of it, until all is forgotten. */
void eco_wisdom_complain(const char *about);
void eco_wisdom_complaint(struct eco_text *text); /* adds all of that */

/* What the store knows of a problem on a device. */
struct eco_wisdom_found {
    char choices[ECO_MAX_FORCE]; /* "": nothing */
    char note[ECO_MAX_IDENTITY]; /* for people, lines: what it is, or why nothing; or "" */
};
void eco_wisdom_find(const struct eco_problem *problem, const struct ecornn_device *device,
                     struct eco_wisdom_found *found);

/* What it knows of a device itself; "": nothing. */
void eco_wisdom_find_machine(const struct ecornn_device *device, char values[ECO_MAX_VALUES]);

/* ---- values of a machine, wisdom/machine.c --------------------------------------------------- */

struct eco_measure;
/* Is it "key=number,key=number"? */
bool eco_values_are(const char *values);
/* Numbers by the places of a table: 0 where there is none, or one that cannot be. */
void eco_values_read(const struct eco_measure *measures, const char *values, double *value);
void eco_values_write(struct eco_text *text, const struct eco_measure *measures,
                      const double *value);

#endif /* ECO_WISDOM_H */
