/*
 * Opens the device that its argument names (none: the fastest) and says in a line what it is, or
 * why it is not: for tests/build/test_module.sh.
 */
#include <stdio.h>

#include "ecornn.h"
#include "tests/kit/calls.h"

int main(int argc, char **argv)
{
    ecornn_device *device = NULL;
    const ecornn_status status = ecornn_device_open(&device, argc > 1 ? argv[1] : NULL);
    if (status != ECORNN_OK) {
        printf("%s: %s\n", ecornn_status_name(status), ecornn_error_detail());
        return 1;
    }
    ecornn_device_info info;
    query_device(device, &info);
    printf("%s %s: %s\n", info.backend, info.variant, info.name);
    ecornn_device_close(device);
    return 0;
}
