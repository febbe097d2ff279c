/*
 * What a plan prints of its choices, forced, makes the same plan again.
 */
#ifndef ECO_TESTS_CHOICES_H
#define ECO_TESTS_CHOICES_H

#include "ecornn.h"

/* Fails the test where another plan comes out. */
void force_choices(ecornn_device *device, const char *problem);

#endif /* ECO_TESTS_CHOICES_H */
