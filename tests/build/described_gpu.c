/*
 * A described GPU: a driver (DRIVER defined: libcuda.so.1), which keeps descriptors open as
 * NVIDIA's does, and a module whose device "cuda" says that it is an H100 but computes as the
 * reference does.  tests/build/machines.sh runs tests with both, and no result may change.
 */
#ifdef DRIVER
#include <fcntl.h>

__attribute__((constructor)) static void begin(void)
{
    for (int i = 0; i < 13; i++)
        (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
}
#else
#include "config.h"
#include "common/module.h"

static const struct eco_services *library;

static ecornn_status open_device(struct ecornn_device *device, int argument)
{
    if (argument > 0)
        return library->fail(ECORNN_NO_DEVICE, "no device cuda:%d: this machine has 1", argument);
    const ecornn_status status = eco_backend_reference.open(device, -1);
    if (status != ECORNN_OK)
        return status;
    device->info = (ecornn_device_info){.name = "NVIDIA H100 80GB HBM3",
                                        .variant = "sm_90",
                                        .threads = 132,
                                        .memory_bytes = (size_t)80 << 30};
    device->caps.gpu.version = 90;
    device->caps.own_memory = true;
    return ECORNN_OK;
}

static void about(struct eco_text *text)
{
    eco_text_add(text, "CUDA: described\n");
}

__attribute__((visibility("default"))) const struct eco_module *
eco_module_open(const struct eco_services *services);

const struct eco_module *eco_module_open(const struct eco_services *services)
{
    static struct eco_backend backend;
    static struct eco_module module;
    library = services;
    backend = eco_backend_reference;
    backend.name = "cuda";
    backend.open = open_device;
    backend.about = about;
    module = (struct eco_module){ECO_BUILD, &backend};
    return &module;
}
#endif
