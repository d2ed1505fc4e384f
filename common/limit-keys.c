/* Limits as keys of [limits], [caps], [profile NAME] and [caller NAME], in glovebox.conf and in the files of runtimes. */
#include "common/limit-keys.h"

#include <stdio.h>

static const char *const idle_keys[] = { "idle-evidence", "idle-grace", "idle-timeout" };

int limit_key_assign(struct Place *place, const struct LimitInfo *info, struct Limits *limits) {
        char bound[40];
        double value;
        int r;

        r = place_no_comment(place);
        if (r < 0)
                return r;
        r = parse_limit(info, place->value, &value);
        if (r == -EINVAL)
                return place_fail(place, "'%s' must be %s, not '%s'", place->key,
                                  info->kind == LIMIT_TIME    ? "a time such as 500ms, 30s, 5m or 1h"
                                  : info->kind == LIMIT_BYTES ? "a size such as 512M or 2G"
                                  : info->kind == LIMIT_CORES ? "a number of cores such as 0.5"
                                                              : "a whole number",
                                  place->value);
        if (r < 0 || value < info->minimum)
                return place_fail(place, "'%s' must be at least %s, not '%s'", place->key,
                                  limit_format(info, info->minimum, bound, sizeof(bound)), place->value);
        if (info->maximum > 0 && value > info->maximum)
                return place_fail(place, "'%s' must be at most %s, which is all that the kernel takes, not '%s'", place->key,
                                  limit_format(info, info->maximum, bound, sizeof(bound)), place->value);
        limit_set(limits, info, value);
        return 0;
}

static int assign_idle(struct Place *place, struct IdlePolicy *idle) {
        usec_t time;
        int r = place_no_comment(place);

        if (r < 0)
                return r;
        if (streq(place->key, "idle-evidence"))
                return parse_evidence(place->value, &idle->evidence) >= 0
                               ? 0
                               : place_fail(place, "'idle-evidence' must be output-and-cpu or output, not '%s'", place->value);
        if (parse_time(place->value, &time) < 0)
                return place_fail(place, "'%s' must be a time such as 10s, not '%s'", place->key, place->value);
        if (streq(place->key, "idle-grace")) {
                idle->grace = time;
                return 0;
        }
        if (time != 0 && time < 50 * USEC_PER_MSEC)
                return place_fail(place, "'idle-timeout' must be 0 (off) or at least 50 ms, not '%s'", place->value);
        idle->timeout = time;
        return 0;
}

int limit_keys_assign(struct Place *place, struct Limits *limits, struct IdlePolicy *idle) {
        char **known _cleanup_strv_ = NULL;
        int r;

        r = place_once(place);
        if (r < 0)
                return r;
        for (const struct LimitInfo *info = limit_table; info->field; info++) {
                if (streq(info->key, place->key))
                        return limit_key_assign(place, info, limits);
                if (strv_extend(&known, info->key) < 0)
                        return -ENOMEM;
        }
        for (size_t i = 0; idle && i < ELEMENTSOF(idle_keys); i++) {
                if (streq(idle_keys[i], place->key))
                        return assign_idle(place, idle);
                if (strv_extend(&known, idle_keys[i]) < 0)
                        return -ENOMEM;
        }
        return place_unknown(place, "key", place->key, known);
}

/* Words the operator chose must be within the caps; what nobody chose follows them. */
int limit_keys_check(struct Place *place, const char *section, struct Limits *limits, const struct Limits *caps) {
        char value[40], cap[40];

        for (const struct LimitInfo *info = limit_table; info->field; info++)
                if (limit_get(limits, info) > limit_get(caps, info))
                        return place_fail(place, "'%s' of [%s] is %s, above the cap of %s; lower it, or raise the cap in [caps]%s", info->key,
                                          section, limit_format(info, limit_get(limits, info), value, sizeof(value)),
                                          limit_format(info, limit_get(caps, info), cap, sizeof(cap)),
                                          streq(section, "caps") ? " of glovebox.conf" : "");
        return 0;
}
