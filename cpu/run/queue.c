/*
 * Calls and jobs of composite programs (common/compose/call.h) on a CPU: threads divide a call, or
 * each takes job after job.
 */
#include "cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

#include "common/compose/sequence.h"
#include "common/host.h"

/* ---- calls ----------------------------------------------------------------------------------- */

/* Calls that threads do without waiting for each other in between. */
struct list {
    const struct eco_call *call;
    int count;
};

static void pack_part(const struct eco_call *call, int id, int count)
{
    const struct eco_pack *const pack = &call->pack;
    const struct eco_cpu_plan *const own = pack->plan->context;
    eco_plan_pack(pack->plan, pack->params, pack->weights, own->isa->lanes,
                  (struct eco_slice){id, count});
}

static void unpack_part(const struct eco_call *call, int id, int count)
{
    const struct eco_unpack *const unpack = &call->unpack;
    eco_plan_unpack(unpack->plan, unpack->dweights, unpack->params, unpack->add,
                    (struct eco_slice){id, count});
}

static void do_part(void *own, int id, int count)
{
    const struct list *const list = own;
    for (int k = 0; k < list->count; k++) {
        const struct eco_call *const call = &list->call[k];
        (call->verb == ECO_CALL_PACK     ? pack_part
         : call->verb == ECO_CALL_UNPACK ? unpack_part
                                         : eco_host_call_part)(call, id, count);
    }
}

/* Roughly what a call moves; fills and lengths are not divided. */
static size_t bytes_of(const struct eco_call *call)
{
    const struct eco_rows_move *const rows = &call->move;
    const struct eco_join *const join = &call->join;
    const struct eco_compact *const compact = &call->compact;
    switch (call->verb) {
    case ECO_CALL_MOVE:
        return rows->rows * rows->width * eco_type_bytes(rows->type);
    case ECO_CALL_JOIN:
        return (size_t)join->T * (size_t)join->N * (size_t)join->width * eco_type_bytes(join->type);
    case ECO_CALL_BYTES:
        return (size_t)call->bytes.T * (size_t)call->bytes.N;
    case ECO_CALL_DROP:
        return (size_t)call->drop.T * (size_t)call->drop.N * (size_t)call->drop.width *
               eco_type_bytes(call->drop.type);
    case ECO_CALL_COMPACT:
        return (size_t)compact->run->T * (size_t)compact->run->N * (size_t)compact->move->lanes *
               (size_t)compact->move->width * eco_type_bytes(compact->move->type);
    case ECO_CALL_PACK:
        return call->pack.plan->sizes.weight_bytes;
    case ECO_CALL_UNPACK:
        return call->unpack.plan->sizes.dweight_bytes;
    default:
        return 0;
    }
}

static bool is_by_row(const struct eco_call *call)
{
    return call->verb == ECO_CALL_COUNT || call->verb == ECO_CALL_COMPACT;
}

/* The calls up to the next that must wait for all threads. */
static int length_of(const struct eco_call *calls, int count)
{
    int length = 1;
    while (length < count && is_by_row(&calls[0]) && is_by_row(&calls[length]))
        length++;
    return length;
}

ecornn_status eco_cpu_queue(struct ecornn_device *device, const struct eco_call *calls, int count,
                            void *stream)
{
    /* with fewer bytes for each thread, the work is done before they are awake */
    enum { BYTES_OF_A_THREAD = 1 << 20 };
    const struct eco_cpu *const cpu = device->context;
    (void)stream;
    for (int k = 0; k < count;) {
        struct list list = {&calls[k], length_of(&calls[k], count - k)};
        size_t worth = 1;
        for (int i = 0; i < list.count; i++)
            worth += bytes_of(&list.call[i]) / BYTES_OF_A_THREAD;
        eco_cpu_run_on_threads(cpu, worth < (size_t)cpu->threads ? (int)worth : cpu->threads,
                               do_part, &list);
        if (calls[k].verb == ECO_CALL_PACK && calls[k].pack.added != NULL)
            eco_plan_pack_add(calls[k].pack.plan, calls[k].pack.added, calls[k].pack.weights);
        k += list.count;
    }
    return ECORNN_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct team {
    const struct eco_jobs *jobs;
    void *stream;
    atomic_int next; /* the first job that no thread has taken */
    atomic_flag failed;
    ecornn_status status; /* of the first job that failed, and why */
    char detail[ECO_MAX_DETAIL];
};

/* Takes job after job, so that other threads do the work of a thread that starts late. */
static void take_jobs(void *own, int id, int count)
{
    struct team *const team = own;
    (void)count;
    for (int job; (job = atomic_fetch_add(&team->next, 1)) < team->jobs->jobs;) {
        const ecornn_status status = team->jobs->one(team->jobs->user_data, job, id, team->stream);
        if (status == ECORNN_OK || atomic_flag_test_and_set(&team->failed))
            continue;
        team->status = status;
        eco_fail_keep(team->detail);
    }
}

ecornn_status eco_cpu_fork(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream)
{
    const struct eco_cpu *const cpu = device->context;
    struct team team = {.jobs = jobs, .stream = stream, .failed = ATOMIC_FLAG_INIT};
    if (jobs->lanes == 1)
        return eco_host_fork(device, jobs, stream);
    eco_cpu_run_on_threads(cpu, cpu->threads, take_jobs, &team);
    return team.status != ECORNN_OK ? eco_fail(team.status, "%s", team.detail)
                                    : jobs->last(jobs->user_data, stream);
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct comparison {
    const char *a, *b;
    size_t bytes;
    atomic_bool differ;
};

static void compare_part(void *own, int id, int count)
{
    enum { PIECE = 1 << 15 };
    struct comparison *const of = own;
    const size_t pieces = (of->bytes + PIECE - 1) / PIECE,
                 end = pieces * ((size_t)id + 1) / (size_t)count;
    for (size_t p = pieces * (size_t)id / (size_t)count;
         p < end && !atomic_load_explicit(&of->differ, memory_order_relaxed); p++) {
        const size_t at = p * PIECE, left = of->bytes - at;
        if (memcmp(of->a + at, of->b + at, left < PIECE ? left : PIECE) != 0)
            atomic_store_explicit(&of->differ, true, memory_order_relaxed);
    }
}

bool eco_cpu_same(const struct ecornn_device *device, const void *a, const void *b, size_t bytes)
{
    enum { BYTES_OF_A_THREAD = 1 << 18 };
    const struct eco_cpu *const cpu = device->context;
    const size_t worth = bytes / BYTES_OF_A_THREAD + 1;
    struct comparison of = {.a = a, .b = b, .bytes = bytes};
    eco_cpu_run_on_threads(cpu, worth < (size_t)cpu->threads ? (int)worth : cpu->threads,
                           compare_part, &of);
    return !of.differ;
}
