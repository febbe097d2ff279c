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
 */
ECORNN_API ecornn_status ecornn_wisdom_load(const char *path);
/** Writes all that is known to a file, in one step: others find all of the old one or of the new
 * one.  NULL: the user's file, with its folders.  FAILED: that is not possible, and why. */
ECORNN_API ecornn_status ecornn_wisdom_save(const char *path);
/** Forgets all, and reads no file by itself any more. */
ECORNN_API void ecornn_wisdom_forget(void);
/** As ecornn_wisdom_load, of a text in memory. */
ECORNN_API ecornn_status ecornn_wisdom_from_text(const char *text);
/** All that is known, as snprintf writes it; returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_wisdom_to_text(char *text, size_t size);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* ECORNN_WISDOM_H */
