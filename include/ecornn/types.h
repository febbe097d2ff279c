/**
 * @file
 * The types that every other header builds on: statuses, number types and handles.  Included by
 * ecornn.h.
 */
#ifndef ECORNN_TYPES_H
#define ECORNN_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <ecornn/version.h>

/** What a call that can fail returns. */
typedef enum {
    ECORNN_OK,           /**< done, or queued on the stream */
    ECORNN_BAD_ARGUMENT, /**< the call is wrong: see ecornn_error_detail */
    ECORNN_BAD_CELL,     /**< the cell's text is wrong: the detail has line:column */
    ECORNN_NO_MEMORY,    /**< an allocation failed; nothing was changed */
    ECORNN_NO_DEVICE,    /**< this machine has no such device, or no driver for it */
    ECORNN_UNSUPPORTED,  /**< legal, but no algorithm of this device supports it */
    ECORNN_FAILED        /**< the device or the system reported an error */
} ecornn_status;

/** Number types.  0 is the default of the field that has the type.  S8 is for packed matrices only:
 * integers of 8 bits with a scale for each row. */
typedef enum { ECORNN_F32 = 1, ECORNN_F64, ECORNN_BF16, ECORNN_F16, ECORNN_S8 } ecornn_type;

/** One CPU, one GPU, or the reference. */
typedef struct ecornn_device ecornn_device;
/** What a layer computes in a step.  Immutable; plans share it. */
typedef struct ecornn_cell ecornn_cell;
/** All choices for one problem on one device.  Immutable. */
typedef struct ecornn_plan ecornn_plan;

/** Maximum number of states of a cell.  It will not change. */
#define ECORNN_MAX_STATES 4

#endif /* ECORNN_TYPES_H */
