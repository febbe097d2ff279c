/*
 * Compiles text to machine code, or reads it from disk if it was compiled before.
 */
#include "gpu/jit/compile.h"

#include <string.h>

/* The key; the caller releases it by eco_free. NULL: no memory. */
static char *key_of(const struct eco_source *source)
{
    struct eco_text measured = {NULL, 0, 0};
    eco_nvrtc_key(source, &measured);
    char *key = eco_alloc(measured.length + 1);
    if (key != NULL)
        eco_nvrtc_key(source, &(struct eco_text){key, measured.length + 1, 0});
    return key;
}

bool eco_compile(const struct eco_source *source, struct eco_code *code, struct eco_text *why)
{
    struct eco_cache cache;
    char unused[1];
    *code = (struct eco_code){0};
    if (!eco_nvrtc_open(why)) /* the key includes its version */
        return false;
    if (!eco_cache_open(&cache, &(struct eco_text){unused, sizeof unused, 0}))
        return eco_nvrtc_compile(source, code, why);
    char *key = key_of(source);
    code->data = key != NULL ? eco_cache_get(&cache, key, &code->bytes) : NULL;
    code->kept = code->data != NULL;
    bool ok = code->kept;
    if (!ok) {
        ok = eco_nvrtc_compile(source, code, why);
        if (ok && key != NULL)
            eco_cache_put(&cache, key, code->data, code->bytes);
    }
    eco_free(key);
    eco_cache_close(&cache);
    return ok;
}
