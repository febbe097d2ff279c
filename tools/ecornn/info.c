/*
 * ecornn info: prints what a bug report needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "command.h"
#include "json.h"

extern char **environ;

/* Do the library, OpenMP or CUDA read this variable? */
static bool matters(const char *variable)
{
    static const char *const heads[] = {
        "ECORNN_", "OMP_", "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=", "CUDA_VISIBLE_DEVICES="};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        if (strncmp(variable, heads[k], strlen(heads[k])) == 0)
            return true;
    return false;
}

/* ---- devices --------------------------------------------------------------------------------- */

static void print_device(struct json *json, bool as_json, const char *name)
{
    ecornn_device *device = NULL;
    ecornn_device_info info = {.size = sizeof info};
    const bool opened = ecornn_device_open(&device, name) == ECORNN_OK &&
                        ecornn_device_query(device, &info) == ECORNN_OK;
    if (as_json) {
        json_object(json, NULL);
        json_text(json, "device", name);
        json_text(json, "error", opened ? NULL : ecornn_error_detail());
        if (opened) {
            json_text(json, "name", info.name);
            json_text(json, "variant", info.variant);
            json_whole(json, "threads", info.threads);
            json_whole(json, "memory_bytes", (long long)info.memory_bytes);
            json_array(json, "algorithms");
            for (char *one = strtok(info.algorithms, " "); one != NULL; one = strtok(NULL, " "))
                json_text(json, NULL, one);
            json_end(json);
        }
        json_end(json);
    } else if (opened) {
        printf("device %s: %s, %s, %d %s, %.1f GiB, algorithms %s\n", name, info.name, info.variant,
               (int)info.threads, strncmp(name, "cuda", 4) == 0 ? "multiprocessors" : "threads",
               (double)info.memory_bytes * 0x1p-30, info.algorithms);
    } else {
        printf("device %s: %s\n", name, ecornn_error_detail());
    }
    ecornn_device_close(device);
}

static void print_devices(struct json *json, bool as_json)
{
    char name[32];
    print_device(json, as_json, "cpu");
    int gpus = 0;
    ecornn_device_count("cuda", &gpus);
    for (int k = 0; k < gpus; k++) {
        snprintf(name, sizeof name, "cuda:%d", k);
        print_device(json, as_json, name);
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Writes lines "word: value" as fields. */
static void print_fields(struct json *json, char *text)
{
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *colon = strstr(line, ": ");
        if (colon == NULL)
            continue;
        *colon = '\0';
        json_text(json, line, colon + 2);
    }
}

static void print_variables(struct json *json, bool as_json)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        if (matters(*variable) && as_json)
            json_text(json, NULL, *variable);
        else if (matters(*variable))
            printf("variable %s\n", *variable);
    }
}

static int run(const struct options *options)
{
    const int length = ecornn_info(NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 256);
    struct json json = {.depth = 0};
    if (text == NULL)
        return !say("no memory");
    ecornn_info(text, (size_t)length + 256);
    if (options->json) {
        json_object(&json, NULL);
        print_fields(&json, text);
        json_array(&json, "devices");
        print_devices(&json, true);
        json_end(&json);
        json_array(&json, "variables");
        print_variables(&json, true);
        json_end(&json);
        json_end(&json);
    } else {
        printf("%s", text);
        print_devices(&json, false);
        print_variables(&json, false);
    }
    free(text);
    return 0;
}

const struct command command_info = {
    .name = "info",
    .operands = "",
    .about = "Prints version, devices, instruction sets, driver, files and variables",
    .takes = TAKES_JSON,
    .run = run,
};
