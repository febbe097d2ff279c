/*
 * Cancels threads. If a request is pending when a thread calls a public function, it acts after the
 * call, and not at a cancellation point inside it. So no lock is held for ever, no file stays open,
 * and no file is left half written.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"
#include "tests/kit/wisdom.h"

static struct net net;
static struct buffers *buffers;

/* ---- calls ----------------------------------------------------------------------------------- */

static ecornn_status open_close(void)
{
    ecornn_device *device;
    const ecornn_status status = ecornn_device_open(&device, "cpu");
    ecornn_device_close(status == ECORNN_OK ? device : NULL);
    return count_devices("cuda") < 0 ? ECORNN_FAILED : status;
}

static ecornn_status plan(void)
{
    ecornn_desc desc;
    ecornn_plan *made;
    ecornn_status status = parse_desc(&desc, LSTM, NULL);
    if (status == ECORNN_OK)
        status = ecornn_plan_create_desc(&made, wisdom_device, &desc);
    if (status == ECORNN_OK)
        ecornn_plan_free(made);
    return status;
}

static ecornn_status load(void)
{
    return ecornn_wisdom_load(in_folder("saved"));
}

static ecornn_status save(void)
{
    return ecornn_wisdom_save(in_folder("saved"));
}

static ecornn_status text(void)
{
    ecornn_wisdom_forget();
    return ecornn_wisdom_to_text(NULL, 0) > 0 ? ecornn_wisdom_from_text(WISDOM_HEAD)
                                              : ECORNN_FAILED;
}

static ecornn_status info(void)
{
    return ecornn_info(NULL, 0) > 0 && *ecornn_version() != '\0' ? ECORNN_OK : ECORNN_FAILED;
}

static ecornn_status memory(void)
{
    char byte = 1;
    void *block = ecornn_alloc(wisdom_device, 1);
    ecornn_status status = ecornn_upload(wisdom_device, block, &byte, 1);
    if (status == ECORNN_OK)
        status = ecornn_download(wisdom_device, &byte, block, 1);
    ecornn_free(wisdom_device, block);
    return status == ECORNN_OK ? ecornn_wait(wisdom_device, NULL) : status;
}

static ecornn_status train(void)
{
    const ecornn_status status = forward_all(net.plan, &buffers->io);
    return status == ECORNN_OK ? backward_all(net.plan, &buffers->io, &buffers->gradient) : status;
}

static ecornn_status tune(void)
{
    const ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 0.02};
    ecornn_tuning tuned;
    ecornn_desc desc;
    const ecornn_status status = parse_desc(&desc, "gru/f32/infer/T2/N2/I3/H4", NULL);
    return status == ECORNN_OK ? tune_into(wisdom_device, &desc, &tuning, &tuned) : status;
}

static ecornn_status (*const calls[])(void) = {open_close, plan,   load,  save, text,
                                               info,       memory, train, tune};
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- threads --------------------------------------------------------------------------------- */

struct call {
    ecornn_status (*call)(void);
    bool returned;
    ecornn_status status;
};

static void *call_cancelled(void *own)
{
    struct call *call = own;
    pthread_cancel(pthread_self()); /* acts at the next cancellation point */
    call->status = call->call();
    call->returned = true;
    pthread_testcancel();
    return NULL;
}

/* The files in a folder; open: the descriptors of files and folders, not those of devices and
 * drivers. */
static int count_files(const char *folder, bool open)
{
    int count = 0;
    struct stat file;
    DIR *list = opendir(folder);
    ck_assert_ptr_nonnull(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += !open || (fstat(atoi(entry->d_name), &file) == 0 &&
                           (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)));
    closedir(list);
    return count;
}

START_TEST(acts_after_the_call)
{
    struct call call = {.call = calls[_i]};
    pthread_t thread;
    void *result;
    ck_assert_int_eq(setenv("ECORNN_RECORD", in_folder("recorded"), 1), 0);
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("saved"), 1),
                     0); /* which the first plan reads */
    write_file(in_folder("saved"), WISDOM_HEAD);
    write_file(in_folder("recorded"), "");
    if (call.call == train) {
        net_open(&net, "cpu:2", NET_PROBLEM);
        buffers = buffers_open(&net);
    }
    count_devices("cuda"); /* the driver opens its own files once */
    const int open = count_files("/proc/self/fd", true), files = count_files(wisdom_folder, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_cancelled, &call), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_msg(call.returned, "call %d did not return", _i);
    ck_assert_msg(call.status == ECORNN_OK, "call %d: %s", _i, ecornn_status_name(call.status));
    ck_assert_int_eq(count_files("/proc/self/fd", true), open);
    ck_assert_int_eq(count_files(wisdom_folder, false), files);
    if (call.call == train) {
        buffers_close(&net, buffers);
        net_close(&net);
    }
    check_ok(plan());
    const pid_t child = fork();
    if (child == 0)
        _exit(plan() != ECORNN_OK);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

TEST_MAIN_AROUND("cancel", make_folder, remove_folder, {acts_after_the_call, CALLS})
