/* The printed choices of a plan, when forced, make the same plan again. */
#ifndef ECO_TESTS_CHOICES_H
#define ECO_TESTS_CHOICES_H

#include "ecornn.h"

/* Fails the test if the second plan differs. */
void force_choices(ecornn_device *device, const char *problem);

#endif /* ECO_TESTS_CHOICES_H */
