/*
 * Runs a kernel's blocks one by one on the host, and the threads of a block by turns: each runs
 * until it waits for the others. Threads take their turns in rising or in falling order, so that a
 * barrier that is missing gives two results.
 */
#ifndef ECO_TESTS_GPU_HOST_BLOCK_H
#define ECO_TESTS_GPU_HOST_BLOCK_H

#include <stdlib.h>
#include <ucontext.h>

#include "gpu/arch/device.cuh"

enum { HOST_STACK = 256 << 10, HOST_THREADS = 256 };

static struct host_thread {
    ucontext_t context;
    bool ended;
    char *stack;
} host_thread[HOST_THREADS];
static ucontext_t host_scheduler;
static int host_running;
static void (*host_kernel)(void);

void __syncthreads(void)
{
    swapcontext(&host_thread[host_running].context, &host_scheduler);
}

static void host_begin(void)
{
    host_kernel();
    host_thread[host_running].ended = true;
    swapcontext(&host_thread[host_running].context, &host_scheduler);
}

static void host_start(int k)
{
    struct host_thread *thread = &host_thread[k];
    if (thread->stack == NULL)
        thread->stack = (char *)malloc(HOST_STACK);
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = HOST_STACK;
    thread->context.uc_link = NULL;
    thread->ended = false;
    makecontext(&thread->context, host_begin, 0);
}

/* One block of `warps` warps. */
static void host_run_block(void (*kernel)(void), int warps, bool falling)
{
    host_kernel = kernel;
    for (int k = 0; k < 32 * warps; k++)
        host_start(k);
    for (bool some = true; some;) {
        some = false;
        for (int i = 0; i < 32 * warps; i++) {
            const int k = falling ? 32 * warps - 1 - i : i;
            if (host_thread[k].ended)
                continue;
            host_running = k;
            threadIdx.x = k % 32;
            threadIdx.y = k / 32;
            swapcontext(&host_scheduler, &host_thread[k].context);
            some = some || !host_thread[k].ended;
        }
    }
}

#endif /* ECO_TESTS_GPU_HOST_BLOCK_H */
