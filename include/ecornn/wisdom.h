/**
 * @file
 * Wisdom: a set of measured choices for plans, kept as text that people can share, and the tuning
 * that measures them.  Included by ecornn.h, whose rules on errors and threads apply.
 */
#ifndef ECORNN_WISDOM_H
#define ECORNN_WISDOM_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_wisdom Wisdom
 * When a plan is created, its problem is looked up in the process's wisdom, among the entries of
 * this very device and this version of the library.  If there is an entry, the plan uses its
 * choices instead of the planner's estimate.  Results stay within the same bounds.
 *
 * Entries are looked up by problem string.  If there is none for this T and N, the entry of the
 * same size bucket is used: up to 16 each number is its own bucket; above, buckets end at 24, 32,
 * 48, 64, 96 and so on.  Entries for other devices or versions are kept but never used;
 * ecornn_plan_print mentions them.  A choice that is no longer possible is ignored, and
 * ecornn_plan_print says why.
 *
 * The first plan of a process reads up to three files: SYSCONFDIR/ecornn/wisdom of the system;
 * $XDG_CONFIG_HOME/ecornn/wisdom or ~/.config/ecornn/wisdom of the user; and the file that
 * ECORNN_WISDOM names.  Later entries win.  ECORNN_WISDOM=0 reads none.  A file with an error is
 * ignored, and ecornn_plan_print says so.  ECORNN_FORCE and similar variables override wisdom.
 * @{ */

/** Adds the entries of a file; the later entry for a problem wins.  NULL: the user's file.
 * BAD_ARGUMENT: the file is not wisdom, and the detail has FILE:LINE: reason.  FAILED: it cannot
 * be read.  On failure nothing changes. */
ECORNN_API ecornn_status ecornn_wisdom_load(const char *path);
/** Writes all entries to a file atomically: other processes see either the old file or the new one.
 * A symbolic link stays one.  NULL: the user's file; its folders are created.  FAILED: the file
 * cannot be written, or the path is not a regular file; the detail says why. */
ECORNN_API ecornn_status ecornn_wisdom_save(const char *path);
/** Forgets all entries, and stops reading files automatically. */
ECORNN_API void ecornn_wisdom_forget(void);
/** ecornn_wisdom_load for a text in memory. */
ECORNN_API ecornn_status ecornn_wisdom_from_text(const char *text);
/** Prints all entries as snprintf does.  Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_wisdom_to_text(char *text, size_t size);

/** @} */

/** @defgroup ecornn_measuring Measuring
 * A plan with ECORNN_MEASURE (in a problem string "measure", or "measure:0.2" for 0.2 seconds) that
 * finds no entry is raced on random data against up to four others that are estimated to be the
 * fastest.  The winner is added to the process's wisdom, and this plan and later ones of the bucket
 * are made by it; ecornn_wisdom_save keeps it.  Each layer of a net has a race of its own.
 *
 * A race takes up to 50 ms, or desc.measure_seconds: whatever would take longer, by what the same
 * took before, is left out.  The library allocates and frees what the plans and two copies of x
 * need.  Races of several threads follow each other.  ECORNN_ROW_INVARIANT plans keep their bits;
 * others may change last bits, as with any wisdom.  On a GPU the runs are on their own stream and
 * never part of a capture; while a stream is captured that waits for the default stream, there are
 * none.
 *
 * A plan that cannot be measured is made as without the flag, and ecornn_plan_print says why: runs
 * are too long for the limit, there is no memory, choices are forced or limited, layers share a
 * GPU, or candidates would have to be compiled.
 */

/** @defgroup ecornn_tuning Tuning
 * @{ */

/** Options of ecornn_tune, then its results, whose texts are NUL-terminated. */
typedef struct {
    size_t size; /**< sizeof(ecornn_tuning) */
    /** Approximate time for candidates; 0: 2 to 30 seconds, depending on the run.  Each algorithm
     * and at least three candidates, if there are three, are measured even if that takes more. */
    double limit_seconds;
    /** Called, in the thread of ecornn_tune, with each set of choices that tuning tried, as
     * ECORNN_FORCE takes them; refusal says why it was not timed, NULL: it was.  seconds: median
     * and quartiles of a run (forward, in training also backward), and the planner's estimate.  All
     * are valid during the call.  The planned choices and the best ones come last, once more.  May
     * be NULL. */
    void (*report)(void *own, const char *choices, const char *refusal, const double seconds[4]);
    void *own;      /**< passed to report as its first argument */
    int32_t forget; /**< nonzero: do not store the result as wisdom */
    /** 0: start from the planner's own plan, whatever wisdom says.  Nonzero: from what
     * ecornn_plan_create returns; if that is wisdom, the planner's own is the first candidate. */
    int32_t wisdom;
    char planned[256];      /**< result: choices of the plan tuning started from, */
    char best[256];         /**< and of the fastest */
    double planned_seconds; /**< median of interleaved runs of the first, */
    double best_seconds;    /**< and of the fastest, */
    double best_low;        /**< with its lower */
    double best_high;       /**< and upper quartile */
    double seconds;         /**< duration of tuning */
    double regret;      /**< time of the starting plan over the best plan's, less 1: the median of
                           consecutive rounds; 0: none was faster */
    int32_t candidates; /**< plans that were created, not counting the starting plan */
    int32_t refused;    /**< choices that no plan can have */
    int32_t wrong;      /**< plans with wrong results: a bug in ecornn */
    int32_t by_wisdom;  /**< nonzero: the starting plan came from wisdom */
    int32_t complete;   /**< nonzero: no candidate was skipped for lack of time or memory */
    int32_t measured;   /**< nonzero: at least three candidates, or all there are and at least one,
                           were measured; otherwise regret means nothing */
} ecornn_tuning;

/**
 * Measures which choices make the fastest plan for a problem, on random data, and adds them to the
 * process's wisdom: later plans use them, and ecornn_wisdom_save stores them.  Candidates are timed
 * in turn and their results compared.  Needs memory for several plans and several copies of x, and
 * a machine with no other load.  tuning NULL: defaults, and no results.  BAD_ARGUMENT if a variable
 * such as ECORNN_FORCE is set, because it would override the choices.  UNSUPPORTED with a
 * memory_limit: such plans use no wisdom.
 */
ECORNN_API ecornn_status ecornn_tune(ecornn_device *device, const ecornn_desc *desc,
                                     ecornn_tuning *tuning);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ECORNN_WISDOM_H */
