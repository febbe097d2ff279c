/* The printed choices of a plan, when forced, make the same plan again. */
#ifndef ECO_TESTS_CHOICES_H
#define ECO_TESTS_CHOICES_H

#include <stdbool.h>

#include "ecornn.h"

/* Fails the test if the second plan differs. */
void force_choices(ecornn_device *device, const char *problem);
/* Forces every value of every choice of the device's backend that is a word, and numbers at both
 * ends: right ones make a plan or are refused for another reason, wrong ones are refused. */
void force_rows(ecornn_device *device, const char *problem);
/* Forces the printed choices of a plan on the plans that follow, until ECORNN_FORCE is unset.
 * False: it prints none. */
bool choices_take(const ecornn_plan *plan);

#endif /* ECO_TESTS_CHOICES_H */
