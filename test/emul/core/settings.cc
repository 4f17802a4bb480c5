/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "settings.h"

#include "futex.h"
#include "handler_bell.h"
#include "layout.h"
#include "message.h"
#include "node.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace emul {

namespace {

enum class form { word, number, bytes };

struct rule {
    const char *name;
    form        kind;
    const char *words;   /* of form::word, separated by '|' */
    const char *initial;
    int64_t     least;
    bool        fixed;   /* once the node exists */
};

constexpr int64_t unlimited = INT64_MAX;

const rule rules[setting_count] = {
    {"EMUL_GPUS", form::number, nullptr, "2", 0, true},
    {"EMUL_GPU_MEMORY", form::bytes, nullptr, "16g", 4096, false},
    {"EMUL_ADDRESS_REUSE", form::word, "default|force|forbid", "default", 0,
     false},
    {"EMUL_LATE_ATTACH", form::word, "error|block", "error", 0, false},
    {"EMUL_FREE", form::word, "block|deferred", "block", 0, false},
    {"EMUL_IPC_OWNER_VISIBLE", form::word, "n|y", "y", 0, false},
    {"EMUL_IPC_HANDLER", form::word, "accept|refuse", "accept", 0, false},
    {"EMUL_DESTROYED_HANDLER", form::word, "drop|call", "drop", 0, false},
    {"EMUL_HANDLER_WAKEUP", form::word, "prompt|late|lost", "prompt", 0,
     false},
    {"EMUL_COPY_BANDWIDTH", form::bytes, nullptr, "0", 0, false},
    {"EMUL_COPY_LATENCY", form::number, nullptr, "0", 0, false},
    {"EMUL_MAX_IPC_SIGNALS", form::number, nullptr, "inf", 0, false},
    {"EMUL_MAX_ATTACHES", form::number, nullptr, "inf", 0, false},
    {"EMUL_ERROR_SCOPE", form::word, "process|context", "process", 0, false},
};

bool parse_word(const char *words, const char *text, int64_t *value_p)
{
    size_t length = strlen(text);

    for (int64_t i = 0; words != nullptr; ++i) {
        const char *end = strchrnul(words, '|');

        if ((length == size_t(end - words)) && !memcmp(words, text, length)) {
            *value_p = i;
            return true;
        }
        words = (*end == '|') ? end + 1 : nullptr;
    }
    return false;
}

bool parse_number(const char *text, bool with_unit, int64_t *value_p)
{
    static const char units[] = "kmgt";
    char *end;
    long long value;

    if (!strcmp(text, "inf")) {
        *value_p = unlimited;
        return true;
    }

    errno = 0;
    value = strtoll(text, &end, 10);
    if ((end == text) || (errno != 0) || (value < 0)) {
        return false;
    }

    if (with_unit && (*end != '\0')) {
        const char *unit = strchr(units, *end | 0x20);
        int shift;

        if (unit == nullptr) {
            return false;
        }

        shift = 10 * int(unit - units + 1);
        if (value > (unlimited >> shift)) {
            return false;
        }

        value <<= shift;
        ++end;
    }

    *value_p = value;
    return *end == '\0';
}

bool parse(const rule &r, const char *text, int64_t *value_p)
{
    if (r.kind == form::word) {
        return parse_word(r.words, text, value_p);
    }

    return parse_number(text, r.kind == form::bytes, value_p) &&
           (*value_p >= r.least);
}

/* EMUL_GPUS is bounded by the tables of the node */
bool in_range(int which, int64_t value)
{
    return (which != setting_gpus) || (value <= int64_t(max_devices));
}

std::atomic<int64_t> &stored(int which)
{
    return node_shared()->settings[which];
}

} // namespace

int64_t setting_value(setting which)
{
    return stored(which).load(std::memory_order_relaxed);
}

int settings_set(const char *name, const char *value)
{
    int64_t parsed;

    for (int i = 0; i < setting_count; ++i) {
        if (strcmp(rules[i].name, name)) {
            continue;
        }

        if (!parse(rules[i], value, &parsed) || !in_range(i, parsed)) {
            return -EINVAL;
        }

        if (rules[i].fixed) {
            return -EPERM;
        }

        stored(i).store(parsed, std::memory_order_seq_cst);
        if (i == setting_handler_wakeup) {
            /* what went unnoticed under the old value is noticed now */
            bells_ring_all();
        }
        /* waits that a setting governs look at it again */
        futex_bump(node_shared()->memory_events);
        return 0;
    }

    return -EINVAL;
}

void settings_initialize()
{
    for (int i = 0; i < setting_count; ++i) {
        const char *text = getenv(rules[i].name);
        int64_t value    = 0;

        if ((text != nullptr) &&
            (!parse(rules[i], text, &value) || !in_range(i, value))) {
            message("%s=%s is not understood, using %s", rules[i].name, text,
                    rules[i].initial);
            text = nullptr;
        }

        if (text == nullptr) {
            parse(rules[i], rules[i].initial, &value);
        }
        stored(i).store(value, std::memory_order_relaxed);
    }
}

void settings_compare_environment()
{
    for (int i = 0; i < setting_count; ++i) {
        const char *text = getenv(rules[i].name);
        int64_t value;

        if ((text != nullptr) &&
            (!parse(rules[i], text, &value) || (stored(i).load() != value))) {
            message("%s=%s has no effect: the node existed already with "
                    "another value", rules[i].name, text);
        }
    }
}

} // namespace emul
