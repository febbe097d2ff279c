/*
 * NVIDIA's run-time compiler, opened when it is first needed, so that nothing links to it or needs
 * its header. NVRTC's manual documents the functions.
 */
#include "gpu/jit/compile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "config.h"

/* ---- headers --------------------------------------------------------------------------------- */

/* Our embedded headers, and the system headers that they include, because NVRTC finds no files. */
static const struct {
    const char *name, *text;
} headers[] = {
#include "gpu/jit/headers.inc"
    {"stdbool.h", ""},
    {"stddef.h", ""},
    {"stdint.h", "typedef signed char int8_t;\n"
                 "typedef unsigned char uint8_t;\n"
                 "typedef short int16_t;\n"
                 "typedef unsigned short uint16_t;\n"
                 "typedef int int32_t;\n"
                 "typedef unsigned uint32_t;\n"
                 "typedef long long int64_t;\n"
                 "typedef unsigned long long uint64_t;\n"
                 "typedef size_t uintptr_t;\n"},
};
enum { HEADERS = sizeof headers / sizeof *headers, MOST_OPTIONS = 16 };

/* SHA-256 of the embedded headers and of this file, by the build. */
static const char headers_sum[] =
#include "gpu/jit/headers.inc.sum"
    ;

/* The options of the module (gpu.am), for the same bits. Lambdas are device functions. */
static const char *const options[] = {"--std=c++17", "--fmad=false",
                                      "--device-as-default-execution-space"};
enum { OPTIONS = sizeof options / sizeof *options };

/* ---- the library ----------------------------------------------------------------------------- */

/* Written once, under `once`. Functions return 0 or an error. */
static struct {
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *text, const char *name, int count,
                  const char *const *texts, const char *const *names);
    int (*destroy)(void **program);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *text);
    int (*code_size)(void *program, size_t *bytes);
    int (*code)(void *program, char *data);
    const char *(*error)(int result);
    int major, minor;
} nvrtc;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool opened;
static char missing[256]; /* why there is none */

static bool find_functions(void *library)
{
    const struct {
        const char *name;
        void *function; /* C has no other way to convert an object pointer to a function pointer */
    } all[] = {
        {"nvrtcVersion", &nvrtc.version},
        {"nvrtcCreateProgram", &nvrtc.create},
        {"nvrtcDestroyProgram", &nvrtc.destroy},
        {"nvrtcCompileProgram", &nvrtc.compile},
        {"nvrtcGetProgramLogSize", &nvrtc.log_size},
        {"nvrtcGetProgramLog", &nvrtc.log},
        {"nvrtcGetCUBINSize", &nvrtc.code_size},
        {"nvrtcGetCUBIN", &nvrtc.code},
        {"nvrtcGetErrorString", &nvrtc.error},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *symbol = dlsym(library, all[i].name);
        if (symbol == NULL)
            return false;
        memcpy(all[i].function, &symbol, sizeof symbol);
    }
    return nvrtc.version(&nvrtc.major, &nvrtc.minor) == 0;
}

static bool open_library(const char *name, struct eco_text *why)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        eco_text_add(why, "%s", dlerror());
        return false;
    }
    if (find_functions(library))
        return true;
    eco_text_add(why, "%s is not NVRTC", name);
    dlclose(library);
    return false;
}

/* Tries the toolkit's own generation first, because the driver supports it if cuBLAS works. */
static void open_once(void)
{
    static const int generation[] = {CUDART_VERSION / 1000, 13, 12};
    const char *wanted = eco_environment("ECORNN_NVRTC");
    if (wanted != NULL && *wanted != '\0') {
        /* The program may have gone to another folder since it was started. */
        struct eco_text why = {missing, sizeof missing, 0};
        if (*wanted != '/' && strchr(wanted, '/') != NULL)
            eco_text_add(&why, "ECORNN_NVRTC must be an absolute path or a name without folder");
        else
            opened = open_library(wanted, &why);
        return;
    }
    for (size_t i = 0; i < sizeof generation / sizeof *generation && !opened; i++) {
        char name[32];
        eco_text_add(&(struct eco_text){name, sizeof name, 0}, "libnvrtc.so.%d", generation[i]);
        opened = open_library(name, &(struct eco_text){missing, sizeof missing, 0});
    }
}

bool eco_nvrtc_open(struct eco_text *why)
{
    const char *wanted = eco_environment("ECORNN_NVRTC");
    if (wanted != NULL && strcmp(wanted, "0") == 0) {
        eco_text_add(why, "ECORNN_NVRTC is 0");
        return false;
    }
    pthread_once(&once, open_once);
    if (!opened)
        eco_text_add(why, "no NVRTC: %s", missing);
    return opened;
}

void eco_nvrtc_version(struct eco_text *text)
{
    eco_text_add(text, "%d.%d", nvrtc.major, nvrtc.minor);
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Adds the first line of the log that reports an error. */
static void add_log(void *program, struct eco_text *why)
{
    size_t bytes = 0;
    char *log = nvrtc.log_size(program, &bytes) == 0 ? eco_alloc_zeroed(bytes + 1) : NULL;
    if (log != NULL && nvrtc.log(program, log) == 0) {
        const char *line = strstr(log, "error");
        while (line != NULL && line > log && line[-1] != '\n')
            line--;
        if (line != NULL)
            eco_text_add(why, ": %.*s", (int)strcspn(line, "\n"), line);
    }
    eco_free(log);
}

static bool fetch(void *program, struct eco_code *code, struct eco_text *why)
{
    int result = nvrtc.code_size(program, &code->bytes);
    if (result == 0 && code->bytes > 0) {
        code->data = eco_alloc(code->bytes);
        if (code->data != NULL)
            result = nvrtc.code(program, code->data);
    }
    if (result == 0 && code->data != NULL)
        return true;
    eco_text_add(why, "NVRTC returned no code: %s", result ? nvrtc.error(result) : "no memory");
    eco_free(code->data);
    code->data = NULL;
    return false;
}

static bool run(void *program, const struct eco_source *source, struct eco_code *code,
                struct eco_text *why)
{
    const char *list[OPTIONS + 1 + MOST_OPTIONS];
    char architecture[48];
    struct eco_text text = {architecture, sizeof architecture, 0};
    int n = OPTIONS;
    eco_text_add(&text, "--gpu-architecture=%s", source->architecture);
    memcpy(list, options, sizeof options);
    list[n++] = architecture;
    for (int i = 0; source->options != NULL && source->options[i] != NULL; i++) {
        if (i == MOST_OPTIONS) {
            eco_text_add(why, "more than %d compiler options", MOST_OPTIONS);
            return false;
        }
        list[n++] = source->options[i];
    }
    const int result = nvrtc.compile(program, n, list);
    if (result == 0)
        return fetch(program, code, why);
    eco_text_add(why, "NVRTC %d.%d for %s: %s", nvrtc.major, nvrtc.minor, source->architecture,
                 nvrtc.error(result));
    add_log(program, why);
    return false;
}

bool eco_nvrtc_compile(const struct eco_source *source, struct eco_code *code, struct eco_text *why)
{
    const char *names[HEADERS + 1], *texts[HEADERS + 1];
    void *program = NULL;
    *code = (struct eco_code){0};
    if (!eco_nvrtc_open(why))
        return false;
    for (int i = 0; i < HEADERS; i++) {
        names[i] = headers[i].name;
        texts[i] = headers[i].text;
    }
    names[HEADERS] =
        "gpu/cell/cells.inc"; /* the name by which the module's kernels include their cells */
    texts[HEADERS] = source->text;
    /* quoted headers are also searched next to the text: use a directory without files */
    static const char *const name = "/dev/null/ecornn";
    const int result = nvrtc.create(&program, source->text, name, HEADERS + 1, texts, names);
    if (result != 0) {
        eco_text_add(why, "NVRTC: %s", nvrtc.error(result));
        return false;
    }
    const bool ok = run(program, source, code, why);
    nvrtc.destroy(&program);
    return ok;
}

void eco_nvrtc_key(const struct eco_source *source, struct eco_text *key)
{
    eco_text_add(key, "ecornn %s, NVRTC %d.%d, %s", PACKAGE_VERSION, nvrtc.major, nvrtc.minor,
                 source->architecture);
    for (int i = 0; i < OPTIONS; i++)
        eco_text_add(key, "\n%s", options[i]);
    for (int i = 0; source->options != NULL && source->options[i] != NULL; i++)
        eco_text_add(key, "\n%s", source->options[i]);
    eco_text_add(key, "\nheaders %s\n%s", headers_sum, source->text);
}
