/*
 * Compiles text to machine code, or reads it from disk if it was compiled before.
 */
#include "gpu/jit/compile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

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

/* ---- several texts --------------------------------------------------------------------------- */

struct work {
    struct eco_compilation *all;
    int n;
    atomic_int taken;
    pthread_mutex_t lock; /* of the reasons */
};

static void compile_one(struct work *work, struct eco_compilation *one)
{
    char reason[256] = "";
    if (eco_compile(&one->source, &one->code, &(struct eco_text){reason, sizeof reason, 0}))
        return;
    pthread_mutex_lock(&work->lock);
    if (one->why->length == 0)
        eco_text_add(one->why, "%s", reason);
    pthread_mutex_unlock(&work->lock);
}

static void *compile_some(void *argument)
{
    struct work *work = argument;
    for (int i; (i = atomic_fetch_add(&work->taken, 1)) < work->n;)
        compile_one(work, &work->all[i]);
    return NULL;
}

void eco_compile_all(struct eco_compilation *all, int n)
{
    enum { MOST = 15 }; /* threads besides this one */
    struct work work = {.all = all, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[MOST];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int made = 0;
    while (made < MOST && made + 1 < n && made + 1 < processors &&
           pthread_create(&thread[made], NULL, compile_some, &work) == 0)
        made++;
    compile_some(&work);
    for (int i = 0; i < made; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&work.lock);
}
