/**
 * @file
 * Wisdom: choices of plans that were measured to be the fastest, kept as text that people share;
 * and the tuning that measures them.  Included by ecornn.h, whose words on errors and threads hold
 * here too.
 */
#ifndef ECORNN_WISDOM_H
#define ECORNN_WISDOM_H

#include "ecornn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_wisdom Wisdom
 * A plan that is made looks once whether the process's wisdom has its problem, on this very device,
 * for this version of the library; if so, it takes what is written there instead of the planner's
 * estimate.  Results stay within the same bounds.
 *
 * A problem is found by its string.  Without a line for its T and N, one whose T and N are in the
 * same buckets does: up to 16 each number is a bucket, then they end at 24, 32, 48, 64, 96 and so
 * on.  What is known of other devices or versions is kept and never used; ecornn_plan_print says
 * so. A choice that cannot be any more is left out, and the print says why.
 *
 * The first plan of a process reads three files, where they are: of the system,
 * SYSCONFDIR/ecornn/wisdom, of the user, $XDG_CONFIG_HOME/ecornn/wisdom or ~/.config/ecornn/wisdom,
 * and ECORNN_WISDOM; what is read later counts.  ECORNN_WISDOM=0 reads none of them.  A file that
 * is wrong is left out, and plans say so.  ECORNN_FORCE and the variables like it take choices from
 * wisdom, too.
 * @{ */

/** Adds what a file says; the later line for a problem counts.  BAD_ARGUMENT: the file is none of
 * wisdom, and the detail has FILE:LINE: reason; FAILED: it cannot be read.  Then nothing changes.
 * NULL: the user's file. */
ECORNN_API ecornn_status ecornn_wisdom_load(const char *path);
/** Writes all that is known to a file, in one step: others find all of the old one or of the new
 * one.  A link to a file stays one.  NULL: the user's file, with its folders.  FAILED: that is not
 * possible, and why: also where something is there that is no regular file. */
ECORNN_API ecornn_status ecornn_wisdom_save(const char *path);
/** Forgets all, and reads no file by itself any more. */
ECORNN_API void ecornn_wisdom_forget(void);
/** As ecornn_wisdom_load, of a text in memory. */
ECORNN_API ecornn_status ecornn_wisdom_from_text(const char *text);
/** All that is known, as snprintf writes it; returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_wisdom_to_text(char *text, size_t size);

/** @} */

/** @defgroup ecornn_tuning Tuning
 * @{ */

/** Choices of a plan that were tried. */
typedef struct {
    const char *choices; /**< as ECORNN_FORCE takes them */
    const char *refusal; /**< why they were not timed; NULL: they were */
    double seconds;      /**< the median of a run: forward, in training backward too */
    double low, high;    /**< its quartiles */
    double estimate;     /**< seconds of a run as the planner predicted them */
} ecornn_candidate;

/** How to tune. */
typedef struct {
    size_t size; /**< sizeof(ecornn_tuning) */
    /** To take for candidates, about; 0: 2 to 30, by a run.  Each algorithm is measured, and three
     * candidates if there are so many, even if that takes longer. */
    double seconds;
    int32_t forget; /**< nonzero: what is found does not become wisdom */
    /** 0: begins with the planner's own plan, whatever wisdom says.  Nonzero: with the plan that
     * ecornn_plan_create gives, by wisdom where that has the problem; then the planner's own is the
     * first candidate. */
    int32_t wisdom;
    /** Called with each candidate, which is gone after that; the planned choices and the best
     * come last, once more.  NULL: nobody wants to know. */
    void (*report)(void *own, const ecornn_candidate *candidate);
    void *own; /**< the first argument of report */
} ecornn_tuning;

/** What was found. */
typedef struct {
    char planned[256], best[256];         /**< choices: of the plan it began with, the fastest */
    double planned_seconds, best_seconds; /**< medians of runs that took turns */
    double best_low, best_high;           /**< quartiles */
    double seconds;                       /**< that tuning took */
    double regret;      /**< time of the plan it began with over the best one's, less 1: the median
                             of rounds that followed each other; 0: none was faster */
    int32_t candidates; /**< plans that were made, beside that plan */
    int32_t refused;    /**< choices that no plan has */
    int32_t wrong;      /**< plans whose results were others: a fault of ours */
    int32_t by_wisdom;  /**< nonzero: wisdom chose the plan it began with */
    int32_t complete;   /**< nonzero: no candidate was left out for want of time or memory */
    int32_t measured;   /**< nonzero: at least three candidates were measured, or all there are and
                             at least one; else regret says nothing */
    uint32_t reserved[2]; /**< for later versions */
} ecornn_tuned;

/**
 * Measures which choices make the fastest plan of a problem, on random data, and tells the
 * process's wisdom: plans made later take them, and ecornn_wisdom_save keeps them.  Candidates take
 * turns and their results are compared.  It needs the memory of some plans and of x several times
 * over.  Best where nothing else runs.  tuning: NULL: the usual.  BAD_ARGUMENT where a variable
 * such as ECORNN_FORCE is set, which would choose instead.  UNSUPPORTED with a memory_limit, whose
 * plans take no wisdom either.
 */
ECORNN_API ecornn_status ecornn_tune(ecornn_device *device, const ecornn_desc *desc,
                                     const ecornn_tuning *tuning, ecornn_tuned *tuned);

/**
 * Measures the device itself, in less than a minute: on a CPU rates of products, memory and
 * barriers, on a GPU launches, copies, matrix units and steps.  The process's wisdom learns it as a
 * line of the device; estimates of plans are scaled by that.  A device takes what is known when it
 * is opened, or when its first plan is made; what is measured later counts for devices opened
 * later.  Best where nothing else runs. UNSUPPORTED: nothing of this device can be measured.
 * BAD_ARGUMENT where a variable such as ECORNN_FORCE is set.
 */
ECORNN_API ecornn_status ecornn_tune_machine(ecornn_device *device);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ECORNN_WISDOM_H */
