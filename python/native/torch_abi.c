/*
 * Finds torch's stable C interface in this process.
 */
#include "python/native/torch_abi.h"

#include <dlfcn.h>
#include <string.h>

struct torch_abi torch;

static const char *const names[] = {
#define TORCH_NAME(name, arguments) #name,
    TORCH_FUNCTIONS(TORCH_NAME)
#undef TORCH_NAME
};

struct torch_numbers torch_number;

static const char *const numbers[] = {"aoti_torch_dtype_float32",   "aoti_torch_dtype_float64",
                                      "aoti_torch_dtype_bfloat16",  "aoti_torch_dtype_float16",
                                      "aoti_torch_dtype_uint8",     "aoti_torch_dtype_int32",
                                      "aoti_torch_device_type_cpu", "aoti_torch_device_type_cuda"};

static bool find_numbers(void *library)
{
    int32_t found[sizeof numbers / sizeof *numbers];
    _Static_assert(sizeof found == sizeof torch_number, "one number a name");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int32_t (*number)(void);
        void *const function = dlsym(library, numbers[i]);
        if (!function)
            return false;
        memcpy(&number, &function, sizeof number);
        found[i] = number();
    }
    memcpy(&torch_number, found, sizeof torch_number);
    return true;
}

/* From a library of its own, which torch for CPUs lacks. */
static int32_t (*current_stream)(int32_t device, void **stream);

static void find_stream(void)
{
    void *const library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    void *const function = library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : NULL;
    memcpy(&current_stream, &function, sizeof current_stream);
    if (library)
        dlclose(library);
}

bool torch_stream(int32_t device, void **stream)
{
    return current_stream && current_stream(device, stream) == TORCH_OK;
}

bool torch_abi_find(void)
{
    void *found[sizeof names / sizeof *names];
    void *const library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    bool all = library != NULL && find_numbers(library);
    _Static_assert(sizeof found == sizeof torch, "one pointer a name");
    for (size_t i = 0; all && i < sizeof names / sizeof *names; i++)
        all = (found[i] = dlsym(library, names[i])) != NULL;
    if (all)
        memcpy(&torch, found, sizeof torch);
    if (library)
        dlclose(library); /* torch keeps it loaded */
    find_stream();
    return all;
}

/* Functions of C++ behind the interface, by their names for the linker. */
static void *cxx(const char *library, const char *name)
{
    void *const from = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *const found = from ? dlsym(from, name) : NULL;
    if (from)
        dlclose(from);
    return found;
}

bool torch_take(torch_value optional, torch_value *value)
{
    void (*delete)(void *);
    void *const function = cxx("libstdc++.so.6", "_ZdlPv"), *const held =
                                                                (void *)(uintptr_t)optional;
    if (!held)
        return false;
    memcpy(value, held, sizeof *value);
    memcpy(&delete, &function, sizeof delete);
    if (delete)
        delete (held);
    return true;
}

void torch_raise(const char *text)
{
    void (*check_failed)(const char *function, const char *file, uint32_t line, const char *text);
    void *const function = cxx("libc10.so", "_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
    memcpy(&check_failed, &function, sizeof check_failed);
    if (check_failed)
        check_failed("ecornn::layer", __FILE__, __LINE__, text);
}
