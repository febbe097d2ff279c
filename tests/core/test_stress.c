/*
 * Many threads use the library at the same time. They run one plan, each with its own blocks; make
 * and free devices, plans and cells; and make calls that fail, whose detail belongs to the thread.
 * ThreadSanitizer runs this test (quickstart sanitize thread).
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

enum { THREADS = 6, ROUNDS = 3 };

static struct net shared;
static struct buffers *alone; /* the results of the shared plan in one thread */
static _Atomic int wrong;

static bool same(const struct buffers *a, const struct buffers *b)
{
    return memcmp(a->y, b->y, sizeof a->y) == 0 && memcmp(a->dx, b->dx, sizeof a->dx) == 0 &&
           memcmp(a->dweights, b->dweights, shared.sizes.dweight_bytes) == 0;
}

/* Only the main thread may assert, so the other threads count failures. */
static void expect(bool right)
{
    wrong += !right;
}

static void *run_shared_plan(void *unused)
{
    (void)unused;
    struct buffers *b = buffers_open(&shared);
    memset(b->dweights, 0, shared.sizes.dweight_bytes);
    for (int k = 0; k < ROUNDS; k++) {
        memset(b->y, 0, sizeof b->y);
        expect(forward_all(shared.plan, &b->io) == ECORNN_OK);
        expect(backward_all(shared.plan, &b->io, &b->gradient) == ECORNN_OK);
        expect(same(b, alone));
    }
    buffers_close(&shared, b);
    return NULL;
}

static void *run_own_plan(void *number)
{
    static const char *const device[] = {"cpu:2", "cpu:3", "cpu:1"};
    for (int k = 0; k < ROUNDS; k++) {
        struct net net;
        net_open(&net, device[((int)(intptr_t)number + k) % 3], NET_PROBLEM);
        struct buffers *b = buffers_open(&net);
        net_train(&net, b);
        expect(same(b, alone));
        buffers_close(&net, b);
        net_close(&net);
    }
    return NULL;
}

static void *make_cells_and_fail(void *unused)
{
    (void)unused;
    for (int k = 0; k < 20 * ROUNDS; k++) {
        ecornn_cell *cell = NULL;
        ecornn_device *device = NULL;
        expect(ecornn_cell_parse(&cell, "cell m(h)\nz = sigmoid(W x + R h + b)\nh' = z * h\n") ==
               ECORNN_OK);
        ecornn_cell_free(cell);
        expect(ecornn_cell_parse(&cell, "cell m(h)\nh' = q\n") == ECORNN_BAD_CELL &&
               strstr(ecornn_error_detail(), "2:6"));
        expect(ecornn_device_open(&device, "cpu:5000") == ECORNN_BAD_ARGUMENT &&
               strstr(ecornn_error_detail(), "5000"));
        expect(ecornn_device_open(&device, "reference") == ECORNN_OK);
        ecornn_device_close(device);
        expect(builtin_cell("mgu") && ecornn_version());
    }
    return NULL;
}

START_TEST(many_threads_at_a_time)
{
    static void *(*const work[])(void *) = {run_shared_plan, run_own_plan, make_cells_and_fail};
    enum { KINDS = sizeof work / sizeof *work };
    pthread_t thread[THREADS];
    net_open(&shared, "cpu:2", NET_PROBLEM);
    alone = buffers_open(&shared);
    net_train(&shared, alone);
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(
            pthread_create(&thread[k], NULL, work[k % KINDS], (void *)(intptr_t)(k / KINDS)), 0);
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_join(thread[k], NULL), 0);
    ck_assert_int_eq(wrong, 0);
    buffers_close(&shared, alone);
    net_close(&shared);
}
END_TEST

TEST_MAIN("stress", {many_threads_at_a_time, 1})
