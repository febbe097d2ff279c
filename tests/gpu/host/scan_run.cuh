/*
 * Runs of a scan's kernel on the host, compared with the same cell step by step. Included after the
 * text of a kernel (gpu/scan/source_text.c), which SCAN_BACK says whether it is backward.
 *
 *     PROGRAM SEED      a run drawn from the seed; prints what differs
 */
#include <stdio.h>
#include <vector>

#include "tests/gpu/host/block.cuh"

/* ---- a run ----------------------------------------------------------------------------------- */

static uint64_t drawn;
static int below(int n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (int)((drawn >> 33) % (uint64_t)n);
}
static double between(double low, double high)
{
    return low + (high - low) * below(1 << 20) / (1 << 20);
}

typedef std::vector<narrow> rows_of;
typedef std::vector<real> sums_of;

/* Arrays are [T,N,columns,H], and planes [N,H]. */
static struct run {
    int T, N, H, chunk;
    bool reversed, wide[SCAN_STATES], zero[SCAN_STATES];
    std::vector<int32_t> lengths;
    std::vector<uint8_t> resets;
    sums_of acc, vector, dsum[SCAN_STATES], carry[SCAN_STATES];
    rows_of start[SCAN_STATES], first[SCAN_STATES], after[SCAN_STATES], save, dy,
        given[SCAN_STATES];
} run;

static size_t at(int t, int n, int column, int columns, int u)
{
    return (((size_t)t * run.N + n) * columns + column) * run.H + u;
}
static bool is_live(int t, int n)
{
    return run.lengths.empty() || t < run.lengths[n];
}
/* Is row n reset before step t? */
static bool is_reset(int t, int n)
{
    const int told = t + run.reversed;
    return !run.resets.empty() && told < run.T && is_live(told, n) &&
           run.resets[(size_t)told * run.N + n];
}
static int step_number(int i)
{
    return run.reversed ? run.T - 1 - i : i;
}

static void fill_rows(rows_of &rows, size_t n, double size)
{
    rows.resize(n);
    for (narrow &each : rows)
        each = to_narrow((real)between(-size, size));
}
static void fill_sums(sums_of &sums, size_t n, double size)
{
    sums.resize(n);
    for (real &each : sums)
        each = (real)between(-size, size);
}

static void draw_run(int seed)
{
    drawn = (uint64_t)seed * 77 + 1;
    run.T = 1 + below(seed % 3 ? 40 : 300);
    run.N = 1 + below(3);
    run.H = seed % 4 ? 64 * (1 + below(2)) : 1 + below(130);
    run.chunk = below(2) ? run.T : 1 + below(run.T);
    run.reversed = below(2);
    const size_t plane = (size_t)run.N * run.H, all = plane * run.T;
    if (below(2))
        for (int n = 0; n < run.N; n++)
            run.lengths.push_back(below(run.T + 1));
    if (HAS_RESETS)
        for (int i = 0; i < run.T * run.N; i++)
            run.resets.push_back(below(100) < (seed % 5 ? 10 : 1));
    fill_sums(run.acc, all * SCAN_ACCS, 1);
    fill_sums(run.vector, (size_t)16 * run.H, 1);
    fill_rows(run.dy, all, 1);
    for (int s = 0; s < SCAN_STATES; s++) {
        run.wide[s] = sizeof(narrow) < sizeof(real) && !SCAN_BACK && below(2);
        run.zero[s] = below(3) == 0;
        fill_rows(run.start[s], below(3) ? plane : 0, 1);
        fill_rows(run.first[s], plane, 1);
        fill_rows(run.given[s], SCAN_GIVES && below(4) ? all : 0, 1);
        fill_sums(run.carry[s], plane, 1);
        run.after[s].resize(all);
        run.dsum[s].resize(below(4) ? plane : 0);
    }
    run.save.resize(all * SCAN_SAVES);
}

/* ---- step by step ---------------------------------------------------------------------------- */

static struct eco_scan_call own;    /* what single steps read */
#if defined(ECO_GPU_SCAN_APART_CUH) /* units never meet: each bit is that of single steps */
enum { APART = 1 };
#else
enum { APART = 0 };
#endif

static struct scan_step step_of(int t, int n, int u)
{
    struct scan_step step = {};
    step.call = &own;
    step.n = n;
    step.unit = u;
    step.t = t;
    for (int k = 0; k < SCAN_VECTORS; k++)
        step.vector[k] = vector_of(&step, k);
    return step;
}

static vec start_value(int s, int n, int u)
{
    return run.start[s].empty() ? (vec)0 : to_real(run.start[s][(size_t)n * run.H + u]);
}

/* Sets what the steps leave, and the state before each; returns the last states. */
static void forward_unit(int n, int u, vec state[SCAN_STATES], rows_of &y, rows_of before[])
{
    for (int s = 0; s < SCAN_STATES; s++)
        state[s] = run.zero[s] ? (vec)0 : to_real(run.first[s][(size_t)n * run.H + u]);
    for (int i = 0; i < run.T; i++) {
        const int t = step_number(i);
        struct scan_step step = step_of(t, n, u);
        y[at(t, n, 0, 1, u)] = to_narrow(0);
        for (int s = 0; s < SCAN_STATES && APART; s++)
            state[s] = run.wide[s] ? state[s] : as_kept(state[s]);
        for (int s = 0; s < SCAN_STATES && is_reset(t, n) && is_live(t, n); s++)
            state[s] = start_value(s, n, u);
        for (int s = 0; s < SCAN_STATES; s++) {
            step.before[s] = step.next[s] = state[s];
            before[s][at(t, n, 0, 1, u)] = to_narrow(state[s]);
        }
        for (int a = 0; a < SCAN_ACCS; a++)
            step.acc[a] = run.acc[at(t, n, a, SCAN_ACCS, u)] +
                          (own.bias[a] < 0 ? 0 : vector_of(&step, own.bias[a]));
        if (is_live(t, n)) {
            SCAN_FORWARD(&step);
            y[at(t, n, 0, 1, u)] = to_narrow(step.next[0]);
        }
        for (int s = 0; s < SCAN_STATES; s++) {
            state[s] = step.next[s];
            run.after[s][at(t, n, 0, 1, u)] = to_narrow(state[s]);
        }
        for (int k = 0; k < SCAN_SAVES; k++)
            run.save[at(t, n, k, SCAN_SAVES, u)] =
                to_narrow(is_live(t, n) ? step.saved[k] : (vec)0);
    }
}

/* ---- comparison ------------------------------------------------------------------------------ */

static int wrong;
static double worst;

static void compare(const char *what, int t, int n, int u, double is, double should)
{
    const double tolerance = APART                 ? 0
                             : sizeof(real) == 8   ? 1e-11
                             : sizeof(narrow) == 4 ? 2e-4
                                                   : 2e-2;
    const double error = fabs(is - should) / (1 + fabs(should));
    worst = error > worst ? error : worst;
    if (!(error <= tolerance) && wrong++ < 8)
        printf("%s of step %d, row %d, unit %d: %.9g instead of %.9g\n", what, t, n, u, is, should);
}

static struct eco_scan_array array_of(const void *data, int columns)
{
    return {(void *)(uintptr_t)data, (int64_t)run.N * columns * run.H, (int64_t)columns * run.H};
}

static struct eco_scan_array from_step(struct eco_scan_array array, int t, size_t bytes)
{
    if (array.data)
        array.data = (char *)array.data + (int64_t)t * array.step * (int64_t)bytes;
    return array;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static struct eco_scan_call call;
static void run_kernel(void)
{
    (SCAN_BACK ? SCAN_KERNEL : SCAN_KERNEL)(call);
}

static void launch(bool falling)
{
    const int groups = (run.H + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS * run.N,
              tile = SCAN_STEPS * SCAN_WARPS, tiles = (call.steps + tile - 1) / tile,
              blocks = APART ? (run.N * run.H - 1) / (32 * SCAN_WARPS) + 1 : groups * tiles;
    const size_t words =
        (size_t)groups * SCAN_STATES * ECO_SCAN_UNITS * sizeof(vec) / sizeof(uint32_t);
    static uint32_t ticket;
    std::vector<uint64_t> passed(2 * words);
    bool sums = false;
    for (int s = 0; s < SCAN_STATES; s++)
        sums = sums || call.dstart[s].data;
    ticket = 0;
    call.ticket = &ticket;
    call.passed = passed.data();
    call.summed = sums ? passed.data() + words : NULL;
    for (int k = 0; k < blocks; k++) {
        blockIdx.x = k;
        host_run_block(run_kernel, SCAN_WARPS, falling);
    }
}

static void set_up(void)
{
    own.vector = run.vector.data();
    own.hidden = run.H;
    for (int a = 0; a < SCAN_ACCS; a++)
        own.bias[a] = (int8_t)(below(3) - 1);
    call = own;
    call.rows = run.N;
    call.column = run.H;
    call.lengths = run.lengths.empty() ? NULL : run.lengths.data();
    call.resets = run.resets.empty() ? NULL : run.resets.data();
    call.resets_ahead = run.reversed;
    call.resets_end = run.T;
    call.pairs = run.H % 2 == 0;
    for (int s = 0; s < SCAN_STATES; s++)
        call.start[s] = array_of(run.start[s].empty() ? NULL : run.start[s].data(), 1);
}

/* The chunk of steps [t0, t0 + steps) that comes after `done` steps of the pass. */
static void set_chunk(int done, bool falls)
{
    call.steps = run.chunk < run.T - done ? run.chunk : run.T - done;
    call.t0 = falls ? run.T - done - call.steps : done;
    call.falls = falls;
}

#if !SCAN_BACK
static void check_forward(bool falling)
{
    const size_t plane = (size_t)run.N * run.H, all = plane * run.T;
    rows_of y(all), before[SCAN_STATES], kept[SCAN_STATES], save(all * SCAN_SAVES + 1), is_y(all);
    sums_of states[SCAN_STATES]; /* planes, as sums or as rows */
    std::vector<sums_of> shown(SCAN_STATES);
    for (int s = 0; s < SCAN_STATES; s++) {
        before[s].resize(all);
        kept[s].resize(all);
        states[s].resize(plane);
        shown[s].resize(s % 2 ? all : 0);
        for (size_t i = 0; i < plane; i++)
            if (run.wide[s])
                states[s][i] = run.zero[s] ? (real)NAN : to_real(run.first[s][i]);
            else
                ((narrow *)states[s].data())[i] =
                    run.zero[s] ? to_narrow((real)NAN) : run.first[s][i];
    }
    for (int done = 0; done < run.T; done += run.chunk) {
        set_chunk(done, run.reversed);
        call.acc = from_step(array_of(run.acc.data(), SCAN_ACCS), call.t0, sizeof(real));
        call.save = from_step(array_of(save.data(), SCAN_SAVES), call.t0, sizeof(narrow));
        call.y = from_step(array_of(is_y.data(), 1), call.t0, sizeof(narrow));
        call.zero_states = call.wide_states = 0;
        for (int s = 0; s < SCAN_STATES; s++) {
            call.first[s] = call.last[s] = array_of(states[s].data(), 1);
            call.first[s].step = call.last[s].step = 0;
            call.wide_states |= run.wide[s] << s;
            call.zero_states |= (done == 0 && run.zero[s]) << s;
            call.kept[s] = from_step(array_of(kept[s].data(), 1), call.t0, sizeof(narrow));
            call.next[s] = from_step(array_of(shown[s].empty() ? NULL : shown[s].data(), 1),
                                     call.t0, run.wide[s] ? sizeof(real) : sizeof(narrow));
        }
        launch(falling);
    }
    for (int n = 0; n < run.N; n++)
        for (int u = 0; u < run.H; u++) {
            vec state[SCAN_STATES];
            forward_unit(n, u, state, y, before);
            for (int s = 0; s < SCAN_STATES; s++)
                compare("the last state", run.T, n, u,
                        run.wide[s] ? states[s][(size_t)n * run.H + u]
                                    : to_real(((narrow *)states[s].data())[(size_t)n * run.H + u]),
                        run.wide[s] ? state[s] : as_kept(state[s]));
            for (int t = 0; t < run.T; t++) {
                compare("y", t, n, u, to_real(is_y[at(t, n, 0, 1, u)]),
                        to_real(y[at(t, n, 0, 1, u)]));
                for (int s = 1; s < SCAN_STATES; s++)
                    if (is_live(t, n))
                        compare("a state", t, n, u, to_real(kept[s][at(t, n, 0, 1, u)]),
                                to_real(run.after[s][at(t, n, 0, 1, u)]));
                for (int k = 0; k < SCAN_SAVES; k++)
                    compare("a saved value", t, n, u, to_real(save[at(t, n, k, SCAN_SAVES, u)]),
                            to_real(run.save[at(t, n, k, SCAN_SAVES, u)]));
            }
        }
}
#else
/* The gradients of a unit, from the last step to the first. */
static void backward_unit(int n, int u, rows_of before[], rows_of &dacc, sums_of dsum[],
                          sums_of carried[])
{
    vec carry[SCAN_STATES];
    bool any = false;
    const size_t place = (size_t)n * run.H + u;
    for (int s = 0; s < SCAN_STATES; s++)
        carry[s] = run.zero[s] ? (vec)0 : run.carry[s][place];
    for (int i = run.T - 1; i >= 0; i--) {
        const int t = step_number(i);
        struct scan_step step = step_of(t, n, u);
        for (int a = 0; a < SCAN_DACCS; a++)
            dacc[at(t, n, a, SCAN_DACCS, u)] = to_narrow(0);
        if (!is_live(t, n))
            continue;
        any = true;
        for (int s = 0; s < SCAN_STATES; s++) {
            step.before[s] = to_real(before[s][at(t, n, 0, 1, u)]);
            step.next[s] = to_real(run.after[s][at(t, n, 0, 1, u)]);
            step.dnext[s] = carry[s];
            if (!run.given[s].empty())
                step.dnext[s] += to_real(run.given[s][at(t, n, 0, 1, u)]);
            if (s == 0)
                step.dnext[s] += to_real(run.dy[at(t, n, 0, 1, u)]);
        }
        for (int k = 0; k < SCAN_SAVES; k++)
            step.saved[k] = to_real(run.save[at(t, n, k, SCAN_SAVES, u)]);
        SCAN_BACKWARD(&step);
        for (int a = 0; a < SCAN_DACCS; a++)
            dacc[at(t, n, a, SCAN_DACCS, u)] = to_narrow(step.dacc[a]);
        for (int s = 0; s < SCAN_STATES; s++) {
            carry[s] = step.dbefore[s];
            if (is_reset(t, n)) {
                dsum[s][place] += carry[s];
                carry[s] = 0;
            }
        }
    }
    (void)any;
    for (int s = 0; s < SCAN_STATES; s++)
        carried[s][place] = carry[s];
}

static void check_backward(bool falling)
{
    const size_t plane = (size_t)run.N * run.H, all = plane * run.T;
    rows_of y(all), before[SCAN_STATES], dacc(all * SCAN_DACCS), is_dacc(all * SCAN_DACCS);
    sums_of dsum[SCAN_STATES], is_dsum[SCAN_STATES], carried[SCAN_STATES], carry[SCAN_STATES];
    for (int s = 0; s < SCAN_STATES; s++) {
        before[s].resize(all);
        dsum[s].resize(plane);
        is_dsum[s].resize(run.dsum[s].size());
        carried[s].resize(plane);
        carry[s] = run.carry[s];
        if (run.zero[s]) /* is not read */
            for (real &each : carry[s])
                each = (real)NAN;
    }
    for (int n = 0; n < run.N; n++)
        for (int u = 0; u < run.H; u++) {
            vec state[SCAN_STATES];
            forward_unit(n, u, state, y, before);
        }
    for (int done = 0; done < run.T; done += run.chunk) {
        set_chunk(done, !run.reversed);
        call.acc = from_step(array_of(is_dacc.data(), SCAN_DACCS), call.t0, sizeof(narrow));
        call.save = from_step(array_of(run.save.data(), SCAN_SAVES), call.t0, sizeof(narrow));
        call.y = from_step(array_of(run.dy.data(), 1), call.t0, sizeof(narrow));
        call.zero_carry = call.begins = 0;
        call.begin = run.reversed ? run.T - 1 : 0;
        for (int s = 0; s < SCAN_STATES; s++) {
            const struct eco_scan_array states = array_of(run.after[s].data(), 1);
            call.next[s] = from_step(states, call.t0, sizeof(narrow));
            call.before[s] = from_step(states, call.t0 + (run.reversed ? 1 : -1), sizeof(narrow));
            call.initial[s] = array_of(run.zero[s] ? NULL : run.first[s].data(), 1);
            call.begins |= 1u << s;
            call.carry[s] = array_of(carry[s].data(), 1);
            call.zero_carry |= (done == 0 && run.zero[s]) << s;
            call.given[s] =
                from_step(array_of(run.given[s].empty() ? NULL : run.given[s].data(), 1), call.t0,
                          sizeof(narrow));
            call.dstart[s] = array_of(is_dsum[s].empty() ? NULL : is_dsum[s].data(), 1);
        }
        launch(falling);
    }
    for (int n = 0; n < run.N; n++)
        for (int u = 0; u < run.H; u++) {
            const size_t place = (size_t)n * run.H + u;
            backward_unit(n, u, before, dacc, dsum, carried);
            for (int s = 0; s < SCAN_STATES; s++) {
                compare("the carried gradient", 0, n, u, carry[s][place], carried[s][place]);
                if (HAS_RESETS && !is_dsum[s].empty())
                    compare("the gradient of a start", 0, n, u, is_dsum[s][place], dsum[s][place]);
            }
            for (int t = 0; t < run.T; t++)
                for (int a = 0; a < SCAN_DACCS; a++)
                    compare("dacc", t, n, u, to_real(is_dacc[at(t, n, a, SCAN_DACCS, u)]),
                            to_real(dacc[at(t, n, a, SCAN_DACCS, u)]));
        }
}
#endif

int main(int argc, char **argv)
{
    const int first = argc > 1 ? atoi(argv[1]) : 0, end = argc > 2 ? atoi(argv[2]) : first + 1;
    for (int seed = first; seed < end && !wrong; seed++) {
        run = {};
        own = {};
        draw_run(seed);
        set_up();
#if SCAN_BACK
        check_backward(seed % 2);
#else
        check_forward(seed % 2);
#endif
        if (wrong)
            printf("seed %d: T%d N%d H%d chunk %d%s%s\n", seed, run.T, run.N, run.H, run.chunk,
                   run.reversed ? " reversed" : "", run.lengths.empty() ? "" : " lengths");
    }
    printf("worst %.2g\n", worst);
    return wrong > 0;
}
