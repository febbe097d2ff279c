/*
 * What was measured of a device itself, for its estimates.
 */
#ifndef ECO_LIB_MACHINE_H
#define ECO_LIB_MACHINE_H

#include "common/backend.h"

/* Tells a device what wisdom knows of it, once: where something is known when it is opened, else
 * (last) when its first plan is made. */
void eco_machine_set_rates(struct ecornn_device *device, bool last);
/* Measures it, in some seconds, and tells wisdom. */
ecornn_status eco_machine_measure(struct ecornn_device *device);

#endif /* ECO_LIB_MACHINE_H */
