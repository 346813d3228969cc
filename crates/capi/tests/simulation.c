/* Calls the functions of simulations with valid and invalid arguments: `simulation TRACE` in the format of DiskSim. */
#include <errno.h>
#include <sakiyomi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIES(member, at) _Static_assert(offsetof(sakiyomi_simulation_options, member) == at, #member)
_Static_assert(sizeof(sakiyomi_simulation_options) == SIMULATION_OPTIONS_SIZE, "simulation_options");
LIES(size, SIMULATION_OPTIONS_SIZE_AT);
LIES(settings, SIMULATION_OPTIONS_SETTINGS_AT);
LIES(setting_count, SIMULATION_OPTIONS_SETTING_COUNT_AT);
LIES(array, SIMULATION_OPTIONS_ARRAY_AT);
LIES(chunk, SIMULATION_OPTIONS_CHUNK_AT);
LIES(warm_up, SIMULATION_OPTIONS_WARM_UP_AT);
LIES(format, SIMULATION_OPTIONS_FORMAT_AT);
LIES(device, SIMULATION_OPTIONS_DEVICE_AT);
LIES(map, SIMULATION_OPTIONS_MAP_AT);
LIES(sort_window, SIMULATION_OPTIONS_SORT_WINDOW_AT);
LIES(action, SIMULATION_OPTIONS_ACTION_AT);
LIES(time_scale, SIMULATION_OPTIONS_TIME_SCALE_AT);
LIES(closed_loop, SIMULATION_OPTIONS_CLOSED_LOOP_AT);
LIES(outstanding, SIMULATION_OPTIONS_OUTSTANDING_AT);
LIES(host_queue, SIMULATION_OPTIONS_HOST_QUEUE_AT);
LIES(wrap, SIMULATION_OPTIONS_WRAP_AT);
LIES(progress, SIMULATION_OPTIONS_PROGRESS_AT);
LIES(context, SIMULATION_OPTIONS_CONTEXT_AT);

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, sakiyomi_last_error());
        exit(1);
    }
}
#define CHECK(holds) check((holds) != 0, #holds, __LINE__)

static const char DRIVE[] = "deskstar-7k250";

static sakiyomi_simulation_options disksim(void) {
    return (sakiyomi_simulation_options){.size = sizeof(sakiyomi_simulation_options), .format = "disksim"};
}

static char *simulated(const char *trace, const sakiyomi_simulation_options *options) {
    char *document, *notes;
    CHECK(sakiyomi_simulate(trace, DRIVE, options, &document, &notes) == 0 && document && notes && !*notes);
    CHECK(sakiyomi_text_free(notes) == 0);
    CHECK(strstr(document, "{\"schema\":\"sakiyomi.sim/") == document);
    return document;
}

/* Whether the result has this part. */
static int has(const char *trace, const sakiyomi_simulation_options *options, const char *part) {
    char *document = simulated(trace, options);
    int found = strstr(document, part) != NULL;
    if (!found)
        fprintf(stderr, "%.900s\n", document);
    sakiyomi_text_free(document);
    return found;
}

static void simulates(const char *trace) {
    sakiyomi_simulation_options options = disksim();
    char *one = simulated(trace, &options), *other = simulated(trace, &options);
    CHECK(strcmp(one, other) == 0 && strstr(one, "\"commands\":40000,") && strstr(one, "\"settings\":[]"));
    sakiyomi_text_free(one), sakiyomi_text_free(other);
    const char *settings[] = {"cache.read_ahead.max=1MiB", " cache.segments.count = 4 "};
    options.settings = settings;
    options.setting_count = 2;
    CHECK(has(trace, &options, "\"cache.read_ahead.max=1MiB\""));
    options = disksim();
    options.array = "raid5:4:64KiB";
    CHECK(has(trace, &options, "raid5"));
    options = disksim();
    options.chunk = "commands=10000";
    CHECK(has(trace, &options, "\"mode\":\"commands\",\"size\":10000"));
    options.warm_up = "100s";
    CHECK(has(trace, &options, "\"warm_up_ns\":100000000000"));
    options.sort_window = "2s";
    options.action = "C";
    options.device = "0";
    options.map = "concat";
    options.host_queue = 9;
    options.wrap = 1;
    options.time_scale = 2;
    CHECK(has(trace, &options, "\"replay\":[\"device 0\",\"devices concatenated\",\"times x 2\",\"wrapped\",\"host queue of 9\"]"));
    options = disksim();
    options.closed_loop = 1;
    options.outstanding = 8;
    CHECK(has(trace, &options, "\"closed loop, 8 outstanding\""));
    options.outstanding = 0;
    CHECK(has(trace, &options, "\"closed loop, 1 outstanding\""));
    options.closed_loop = -1;
    CHECK(has(trace, &options, "\"replay\":[]"));
    char *document;
    CHECK(sakiyomi_simulate(trace, DRIVE, &options, &document, NULL) == 0 && sakiyomi_text_free(document) == 0);
}

struct seen {
    uint64_t calls, bytes, commands, end_at;
};

static int advance(uint64_t read_bytes, uint64_t commands, void *context) {
    struct seen *seen = context;
    CHECK(commands == seen->commands + 16384 && read_bytes >= seen->bytes);
    seen->calls++;
    seen->bytes = read_bytes;
    seen->commands = commands;
    return seen->calls == seen->end_at ? 42 : 0;
}

static void reports_progress(const char *trace) {
    sakiyomi_simulation_options options = disksim();
    struct seen seen = {0, 0, 0, 0};
    options.progress = advance;
    options.context = &seen;
    sakiyomi_text_free(simulated(trace, &options));
    CHECK(seen.calls == 2 && seen.bytes > 0);
    seen = (struct seen){0, 0, 0, 2};
    char *document = (char *)&seen, *notes = (char *)&seen;
    CHECK(sakiyomi_simulate(trace, DRIVE, &options, &document, &notes) == 42 && !document && !notes);
    CHECK(seen.calls == 2);
}

static void fails(const char *trace, const char *drive, const sakiyomi_simulation_options *options, int error,
                  const char *sentence) {
    char *document = (char *)trace, *notes = (char *)trace;
    CHECK(sakiyomi_simulate(trace, drive, options, &document, &notes) == error && !document && !notes);
    if (!strstr(sakiyomi_last_error(), sentence)) {
        fprintf(stderr, "%s: %s\n", sentence, sakiyomi_last_error());
        exit(1);
    }
}

static void refuses(const char *trace) {
    sakiyomi_simulation_options options = disksim();
    char *notes;
    fails(NULL, DRIVE, &options, -EINVAL, "trace is a null pointer");
    fails(trace, NULL, &options, -EINVAL, "drive is a null pointer");
    CHECK(sakiyomi_simulate(trace, DRIVE, &options, NULL, &notes) == -EINVAL && !notes);
    fails("/nowhere/at/all", DRIVE, &options, -ENOENT, "cannot open the trace /nowhere/at/all: ");
    fails("/", DRIVE, &options, -EISDIR, "/");
    fails(trace, "deskstar", &options, -EINVAL, "deskstar");
    fails(trace, "/nowhere.toml", &options, -EINVAL, "cannot read the drive /nowhere.toml");
    fails(trace, "\xff", &options, -EINVAL, "drive is not UTF-8");
    options.size--;
    fails(trace, DRIVE, &options, -EINVAL, "options.size is ");
#define FAILS(member, value, sentence) \
    options = disksim(); \
    options.member = value; \
    fails(trace, DRIVE, &options, -EINVAL, sentence)
    FAILS(array, "raid7", "options.array: ");
    FAILS(chunk, "1s", "options.chunk: write it like time=1s");
    FAILS(warm_up, "soon", "options.warm_up: ");
    FAILS(warm_up, "100000s", "no command completed after the warm-up");
    FAILS(format, "disksin", "options.format: ");
    FAILS(format, "\xff", "options.format is not UTF-8");
    FAILS(device, "", "options.device: ");
    FAILS(device, "sdx", "has no record of device sdx; it has records of 0");
    FAILS(map, "all", "options.map: `all` is not known");
    FAILS(sort_window, "-1s", "options.sort_window: ");
    FAILS(action, "QQ", "options.action: ");
    FAILS(time_scale, -1, "the time scale");
    FAILS(outstanding, 3, "options.outstanding is 3: only a closed loop has a number of outstanding requests; set ");
    FAILS(outstanding, 65537, "options.outstanding: it is 1 to 65536");
    FAILS(setting_count, 1, "options.settings is a null pointer");
    const char *settings[] = {"cache.sice=1", "cache.read_ahead.max", "cache.read_ahead.max=many", NULL};
    const char *sentences[] = {"cache.sice", "the setting `cache.read_ahead.max` has no value", "many",
                               "a setting is a null pointer"};
    for (size_t index = 0; index < 4; index++) {
        options = disksim();
        options.settings = settings + index;
        options.setting_count = 1;
        fails(trace, DRIVE, &options, -EINVAL, sentences[index]);
    }
    CHECK(sakiyomi_text_free(NULL) == 0);
}

int main(int count, char **names) {
    CHECK(count == 2);
    simulates(names[1]);
    reports_progress(names[1]);
    refuses(names[1]);
    return 0;
}
