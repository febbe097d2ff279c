/*
 * The CUDA backend as the library sees it: loads the module when a CUDA device is first requested,
 * and says why there is none.  Includes no CUDA header, so the library runs without CUDA.
 */
#include <pthread.h>
#include <string.h>

#include "config.h"
#include "common/module.h"
#include "common/os.h"
#include "common/util.h"
#include "common/paths.h"

#define MODULE "ecornn-cuda.so"

/* Written once, under `once`. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct eco_backend *loaded; /* NULL: the module is missing, and `why` is the reason */
static char why[512];

static void refuse(const char *what, const char *reason)
{
    struct eco_text text = {why, sizeof why, 0};
    eco_text_add(&text, "%s: %s", what, reason != NULL ? reason : "unknown error");
}

/* Loads the module of a folder.  It must be ours and from this very build. */
static bool load_from(const char *folder)
{
    char path[1024];
    struct eco_text text = {path, sizeof path, 0};
    eco_text_add(&text, "%s/" MODULE, folder);
    void *handle = text.length < sizeof path ? eco_os_module_open(path) : NULL;
    if (handle == NULL) {
        refuse("no CUDA module",
               text.length < sizeof path ? eco_os_module_error() : "its path is too long");
        return false;
    }
    eco_module_function open;
    void *symbol = eco_os_module_symbol(handle, ECO_MODULE_SYMBOL);
    static const struct eco_services services = {eco_fail, eco_call_fails};
    const struct eco_build build = ECO_BUILD;
    memcpy(&open, &symbol,
           sizeof open); /* C does not convert an object pointer to a function pointer */
    const struct eco_module *module = symbol != NULL ? open(&services) : NULL;
    if (module == NULL || memcmp(&module->build, &build, sizeof build) != 0) {
        refuse(path, symbol == NULL ? "not an ecornn module" : "of another version of ecornn");
        eco_os_module_close(handle);
        return false;
    }
    loaded = module->backend;
    return true;
}

/* DIR/ecornn next to the library itself, wherever it was moved to; "" if its path cannot be
 * trusted.  Written once, when the library is loaded. */
static char library_folder[1000];

__attribute__((constructor)) static void find_library_folder(void)
{
    char folder[sizeof library_folder];
    struct eco_text text = {library_folder, sizeof library_folder, 0};
    if (eco_os_library_folder(&once, folder, sizeof folder))
        eco_text_add(&text, "%s/ecornn", folder);
    if (text.length >= sizeof library_folder)
        library_folder[0] = '\0';
}

/* Without a driver nothing is loaded: the module takes 60 ms and 150 MB with cuBLAS. */
static void load(void)
{
    const char *folder = eco_environment("ECORNN_MODULE_DIR");
    if (eco_os_module_open("libcuda.so.1") == NULL) {
        refuse("no NVIDIA driver", eco_os_module_error());
        return;
    }
    if (folder != NULL && *folder != '\0' && !eco_os_is_absolute(folder)) {
        /* The program may have gone to another folder since it was started. */
        struct eco_text text = {why, sizeof why, 0};
        eco_text_add(&text, "no CUDA module: ECORNN_MODULE_DIR must be an absolute path, not '");
        eco_text_add_escaped(&text, folder);
        eco_text_add(&text, "'");
    } else if (folder != NULL && *folder != '\0')
        load_from(folder);
    else if (library_folder[0] == '\0' || !load_from(library_folder))
        load_from(ECO_PKGLIBDIR);
}

static int count(void)
{
    pthread_once(&once, load);
    return loaded != NULL ? loaded->count() : 0;
}

/* Replaces this backend by the module's, and opens the device there. */
static ecornn_status open(struct ecornn_device *device, int argument)
{
    pthread_once(&once, load);
    if (loaded == NULL)
        return eco_fail(ECORNN_NO_DEVICE, "%s", why);
    device->backend = loaded;
    return loaded->open(device, argument);
}

static void about(struct eco_text *text)
{
    pthread_once(&once, load);
    if (loaded == NULL)
        eco_text_add(text, "CUDA: %s\n", why);
    else
        loaded->about(text);
}

const struct eco_backend eco_backend_cuda = {
    .name = "cuda", .count = count, .open = open, .about = about};
