/*
 * Models to and from files.  The head of a file is written by one function; a head that was read is
 * compared with what that function writes, so that there is no second list of what it must hold.
 */
#define _XOPEN_SOURCE 700
#include "charlm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char END[] = "end\n";

/* ---- the head -------------------------------------------------------------------------------- */

static void print_tensor(FILE *to, const char *name, int64_t rows, int64_t columns)
{
    fprintf(to, "tensor %s %lld %lld\n", name, (long long)rows, (long long)columns);
}

static void print_head(FILE *to, const struct file *file, const struct model *model)
{
    const uint16_t one = 1;
    const bool little = *(const unsigned char *)&one == 1;
    fprintf(to,
            "charlm 2, %s-endian f32\ncell %s\nhidden %ld\nlayers %ld\nembedding %ld\nstep %ld\n",
            little ? "little" : "big", file->cell_name, file->hidden, file->layers, file->embedding,
            file->step);
    fprintf(to, "alphabet ");
    for (int k = 0; k < file->alphabet.size; k++)
        fprintf(to, "%02x", file->alphabet.byte[k]);
    fprintf(to, "\ncell_bytes %zu\n%s", strlen(file->cell_text), file->cell_text);
    for (int k = 0; k < model->sizes.param_count; k++) {
        char name[80];
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(model->plan, k, &param));
        snprintf(name, sizeof name, "rnn.%s", param.name);
        print_tensor(to, name, param.rows, param.cols);
    }
    print_tensor(to, "embedding.weight", file->alphabet.size, file->embedding);
    print_tensor(to, "output.weight", file->alphabet.size, file->hidden);
    print_tensor(to, "output.bias", file->alphabet.size, 1);
    fputs(END, to);
}

/* The head as one string; the caller frees it. */
static char *make_head(const struct file *file, const struct model *model, size_t *bytes)
{
    char *head = NULL;
    FILE *to = open_memstream(&head, bytes);
    if (to)
        print_head(to, file, model);
    if (!to || fclose(to))
        die(1, "no memory for the head of a file");
    return head;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The value of the next line, "NAME VALUE"; the line's end becomes a zero. */
static char *next_value(char **at, const char *name)
{
    char *value = *at + strlen(name), *end = strchr(*at, '\n');
    if (!end || strncmp(*at, name, strlen(name)) != 0 || *value != ' ')
        die(1, "not a model of charlm: no line '%s'", name);
    *end = 0;
    *at = end + 1;
    return value + 1;
}

static long next_number(char **at, const char *name, long low, long high)
{
    const char *value = next_value(at, name);
    char *end = NULL;
    errno = 0;
    const long number = strtol(value, &end, 10);
    if (end == value || *end || errno || number < low || number > high)
        die(1, "the model's %s is %.60s, must be %ld to %ld", name, value, low, high);
    return number;
}

static struct alphabet next_alphabet(char **at)
{
    const char *digits = next_value(at, "alphabet");
    const size_t count = strlen(digits) / 2;
    unsigned char bytes[256];
    if (count && count <= sizeof bytes && strspn(digits, "0123456789abcdef") == 2 * count) {
        for (size_t k = 0; k < count; k++) {
            const char pair[3] = {digits[2 * k], digits[2 * k + 1], 0};
            bytes[k] = (unsigned char)strtoul(pair, NULL, 16);
        }
        const struct alphabet alphabet = alphabet_from(bytes, count);
        if (alphabet.size)
            return alphabet;
    }
    die(1, "the model's alphabet is '%.60s', must be 1 to 256 rising bytes in hexadecimal", digits);
}

void file_read(struct file *file, const char *path)
{
    file->content = file_load(path, &file->bytes);
    char *copy = allocate(file->bytes + 1, 1), *at = copy;
    memcpy(copy, file->content, file->bytes);
    next_value(&at, "charlm");
    const char *name = next_value(&at, "cell");
    if (strlen(name) >= sizeof file->cell_name)
        die(1, "the model's cell has a name of %zu bytes", strlen(name));
    strcpy(file->cell_name, name);
    file->hidden = next_number(&at, "hidden", 1, 1 << 16);
    file->layers = next_number(&at, "layers", 1, 1 << 10);
    file->embedding = next_number(&at, "embedding", 1, 1 << 16);
    file->step = next_number(&at, "step", 0, 1L << 40);
    file->alphabet = next_alphabet(&at);
    const size_t cell_bytes = (size_t)next_number(&at, "cell_bytes", 0, 1 << 20);
    if (cell_bytes > (size_t)(copy + file->bytes - at))
        die(1, "the model's file is cut");
    file->cell_text = allocate(cell_bytes + 1, 1);
    memcpy(file->cell_text, at, cell_bytes);
    free(copy);
}

void file_check(const struct file *file, const struct model *model)
{
    size_t bytes = 0;
    char *head = make_head(file, model, &bytes);
    if (bytes > file->bytes || memcmp(head, file->content, bytes) != 0)
        die(1, "the model's file has other tensors than its cell and sizes need");
    if (file->bytes - bytes != model->params * sizeof(float))
        die(1, "the model's file has %zu bytes of numbers, must have %zu", file->bytes - bytes,
            model->params * sizeof(float));
    free(head);
}

void file_load_theta(const struct file *file, struct model *model)
{
    const size_t bytes = model->params * sizeof(float);
    memcpy(model->theta, file->content + file->bytes - bytes, bytes);
    for (size_t k = 0; k < model->params; k++)
        if (!isfinite(model->theta[k]))
            die(1, "number %zu of the model is %g, must be finite", k, (double)model->theta[k]);
}

void file_free(struct file *file)
{
    free(file->content);
    free(file->cell_text);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A new file next to the one it will replace. */
struct replacement {
    char path[PATH_MAX], temporary[PATH_MAX + 8]; /* path: with symbolic links resolved */
    int descriptor;
};

static bool open_replacement(struct replacement *r, const char *path)
{
    struct stat old;
    if (!realpath(path, r->path) &&
        (errno != ENOENT || snprintf(r->path, sizeof r->path, "%s", path) >= (int)sizeof r->path))
        return false;
    const bool exists = !stat(r->path, &old);
    if (exists && !S_ISREG(old.st_mode)) {
        errno = EINVAL;
        return false;
    }
    if (exists && access(r->path, W_OK))
        return false;
    snprintf(r->temporary, sizeof r->temporary, "%s.XXXXXX", r->path);
    r->descriptor = mkstemp(r->temporary);
    if (r->descriptor < 0)
        return false;
    const mode_t mask = umask(0);
    umask(mask);
    if (!fchmod(r->descriptor, exists ? old.st_mode & 0777 : 0666 & ~mask))
        return true;
    unlink(r->temporary);
    close(r->descriptor);
    return false;
}

/* Writes all of it to the disk and gives it the old name.  Without theta only the space is taken;
 * errno is 0 if it is there, or if the file system cannot tell. */
static bool write_replacement(struct replacement *r, const struct file *file,
                              const struct model *model, const float *theta)
{
    FILE *to = fdopen(r->descriptor, "wb");
    bool good = to != NULL;
    if (good) {
        print_head(to, file, model);
        good = !fflush(to);
    }
    if (good && theta)
        good = fwrite(theta, sizeof(float), model->params, to) == model->params && !fflush(to) &&
               !fsync(r->descriptor);
    if (good && !theta) {
        const off_t bytes = (off_t)(model->params * sizeof(float));
        errno = posix_fallocate(r->descriptor, 0, ftello(to) + bytes);
        if (errno == EOPNOTSUPP || errno == EINVAL)
            errno = 0;
    }
    const int problem = errno;
    if (to ? fclose(to) : close(r->descriptor))
        return false;
    errno = problem;
    return good && theta && !rename(r->temporary, r->path);
}

const char *file_save(const struct file *file, const struct model *model, const float *theta,
                      const char *path)
{
    struct replacement r;
    if (!open_replacement(&r, path))
        return strerror(errno);
    if (write_replacement(&r, file, model, theta))
        return NULL;
    const char *reason = errno ? strerror(errno) : NULL;
    unlink(r.temporary);
    return reason;
}
